//! What requests below an image are for, judged from outside: by the layout of the file system in the image's file, without its guest.
//!
//! A server sees requests on its disk, knows where the image's file lies there, and can read the structures of the file system in it. It does
//! not know which requests its guest has marked as metadata, nor which thread made them. How often its judgement is right is told by the
//! joins: each request belongs to requests of the guest, which were classified in the guest.

use std::collections::BTreeMap;

use nestor_layout::{Class, Layout};
use nestor_statistics::Interval;
use nestor_statistics::student::two_sided_factor;
use nestor_statistics::summary::{CONFIDENCE, mean};
use nestor_trace::event::Flags;
use nestor_trace::{Attribution, Operation, Request};
use serde::Serialize;

use crate::engine::{CorrelateOptions, correlate_observed};
use crate::error::CorrelateError;
use crate::input::LevelInput;
use crate::join::Joined;
use crate::kind::LevelKind;
use crate::space::SpaceMap;
use crate::tree::LevelIndex;

/// Parts of a recording whose shares give the interval: requests that follow one another are alike, so they are no samples of their own.
const PARTS: usize = 20;

/// Who judges by the layout of the file system in an image.
#[derive(Clone, Debug)]
pub struct OutsideView {
    attribution: Attribution,
    map: SpaceMap,
}

impl OutsideView {
    /// By the layout in an image, whose place on a device a map says.
    pub fn new(layout: Layout, map: SpaceMap) -> Self {
        Self { attribution: Attribution::new(layout, &[]), map }
    }

    /// What a range of the device is for: the class with most of its bytes; `None` if none of it belongs to the image. Discards are for free
    /// space.
    pub fn class_of(&self, operation: Operation, offset: u64, bytes: u64) -> Option<Class> {
        let mut found: BTreeMap<Class, u64> = BTreeMap::new();
        self.map.for_each_piece_above(offset, bytes, |upper, bytes| {
            // No guest tells which of its requests are metadata.
            let attributed = self.attribution.class_of(operation, Flags::default(), upper, bytes, None);
            for (class, bytes) in attributed.parts() {
                *found.entry(class).or_default() += bytes;
            }
        });
        // Of classes with as many bytes, the first.
        found.into_iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(class, _)| class)
    }
}

/// Requests of which one thing is true and another was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Confused {
    /// The class in the guest.
    pub truth: Class,
    /// The class from outside.
    pub judged: Class,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A share (0 to 1) with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The share.
    pub value: f64,
    /// `None` for too few requests.
    pub interval: Option<Interval>,
}

/// How often judgement from outside is right.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The layer whose device the requests were seen on.
    pub layer: String,
    /// The file system in the image, as its structures say.
    pub file_system: String,
    /// The layer in the guest whose requests are the truth.
    pub truth_layer: String,
    /// Requests that were judged and whose truth is known.
    pub requests: u64,
    /// Those of them that were judged right.
    pub right: u64,
    /// Their share.
    pub share: Option<Share>,
    /// The share of the bytes that were judged right.
    pub share_of_bytes: Option<f64>,
    /// The same of whether it is the contents of files or anything of the file system's own.
    pub share_data_or_metadata: Option<Share>,
    /// Each pair of classes, the most frequent first.
    pub classes: Vec<Confused>,
    /// Requests to the image that belong to no request of the guest.
    pub without_truth: u64,
    /// Requests to other places: the holder's own structures.
    pub outside_image: u64,
    /// Flushes, which move no data.
    pub flushes: u64,
    /// What makes it less certain than it seems.
    pub remarks: Vec<String>,
}

/// Judges the requests of a level by the layout in the image above it, and holds that against the guest's own classes.
///
/// # Errors
/// The levels cannot be joined, or there is no level of the guest's above.
pub fn judge_from_outside(
    levels: &[LevelInput<'_>],
    seen: LevelIndex,
    layout: Layout,
) -> Result<Judged, CorrelateError> {
    let above =
        levels.iter().take(seen.position()).rposition(|level| matches!(level.kind(), LevelKind::Block(_)));
    let (Some(level), Some(truth)) = (levels.get(seen.position()), above) else {
        return Err(CorrelateError::NoGuest);
    };
    let of_layout =
        |remark: &String| format!("the layout in the image, which its guest had in use: {remark}");
    let mut remarks: Vec<String> = layout.remarks.iter().map(of_layout).collect();
    let file_system = layout.file_system.clone();
    let view = OutsideView::new(layout, level.map.clone());
    let mut ancestors = Ancestors::of(&levels[truth], LevelIndex::at(truth))?;
    let mut tally = Tally::default();
    let correlation = correlate_observed(levels, &CorrelateOptions::default(), &mut |joined| {
        if joined.level.position() <= truth || joined.level > seen {
            return;
        }
        let known = ancestors.add(joined);
        if joined.level == seen {
            tally.add(joined.request, &view, known.map(|part| part.class));
        }
    })?;
    remarks.extend(correlation.remarks);
    Ok(tally.judged(&level.header.layer, &levels[truth].header.layer, file_system, remarks))
}

/// What a request is for in the guest, and its length.
#[derive(Clone, Copy, Debug)]
struct Part {
    class: Class,
    bytes: u64,
}

/// What the requests of the guest's level, and of those below it, are for in the guest; by their numbers.
struct Ancestors {
    first: LevelIndex,
    levels: Vec<Vec<Option<Part>>>,
}

impl Ancestors {
    fn of(level: &LevelInput<'_>, at: LevelIndex) -> Result<Self, CorrelateError> {
        let failed =
            |source| CorrelateError::Requests { level: at, layer: level.header.layer.clone(), source };
        let mut own = Vec::new();
        for request in level.source.open().map_err(failed)? {
            let request = request.map_err(failed)?;
            let known = request.operation != Operation::Flush && request.class != Class::Unknown;
            put(&mut own, request.id, known.then_some(Part { class: request.class, bytes: request.bytes }));
        }
        Ok(Self { first: at, levels: vec![own] })
    }

    /// Takes a join; what its request is for: of several requests above, what most of their bytes are for.
    fn add(&mut self, joined: &Joined<'_>) -> Option<Part> {
        let depth = joined.level.position() - self.first.position();
        let mut found: BTreeMap<Class, u64> = BTreeMap::new();
        let above = self.levels.get(depth - 1)?;
        for id in joined.parents.iter().chain(joined.writers) {
            let part = usize::try_from(*id).ok().and_then(|id| *above.get(id)?);
            if let Some(part) = part {
                *found.entry(part.class).or_default() += part.bytes;
            }
        }
        let class = found.into_iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(class, _)| class);
        let part = class.map(|class| Part { class, bytes: joined.request.bytes });
        if self.levels.len() == depth {
            self.levels.push(Vec::new());
        }
        put(&mut self.levels[depth], joined.request.id, part);
        part
    }
}

/// Numbers are dense: they count the requests of a level.
fn put(parts: &mut Vec<Option<Part>>, id: u64, part: Option<Part>) {
    let Ok(id) = usize::try_from(id) else { return };
    if parts.len() <= id {
        parts.resize(id + 1, None);
    }
    parts[id] = part;
}

/// Counts judgements, in the order in which requests began.
#[derive(Default)]
struct Tally {
    classes: BTreeMap<(Class, Class), (u64, u64)>,
    right: Vec<bool>,
    right_by_kind: Vec<bool>,
    without_truth: u64,
    outside_image: u64,
    flushes: u64,
}

impl Tally {
    fn add(&mut self, request: &Request, view: &OutsideView, truth: Option<Class>) {
        if request.operation == Operation::Flush || request.bytes == 0 {
            self.flushes += 1;
            return;
        }
        let Some(judged) = view.class_of(request.operation, request.offset, request.bytes) else {
            self.outside_image += 1;
            return;
        };
        let Some(truth) = truth else {
            self.without_truth += 1;
            return;
        };
        let (requests, bytes) = self.classes.entry((truth, judged)).or_default();
        (*requests, *bytes) = (*requests + 1, *bytes + request.bytes);
        self.right.push(truth == judged);
        self.right_by_kind.push(truth.is_data() == judged.is_data());
    }

    fn judged(self, layer: &str, truth_layer: &str, file_system: String, remarks: Vec<String>) -> Judged {
        let mut classes: Vec<Confused> = self
            .classes
            .iter()
            .map(|(&(truth, judged), &(requests, bytes))| Confused { truth, judged, requests, bytes })
            .collect();
        classes.sort_by_key(|one| (std::cmp::Reverse(one.requests), one.truth, one.judged));
        let bytes = |wanted: fn(&Confused) -> bool| -> u64 {
            classes.iter().filter(|one| wanted(one)).map(|one| one.bytes).sum()
        };
        let (right_bytes, all_bytes) = (bytes(|one| one.truth == one.judged), bytes(|_| true));
        Judged {
            layer: layer.to_owned(),
            file_system,
            truth_layer: truth_layer.to_owned(),
            requests: self.right.len() as u64,
            right: self.right.iter().filter(|right| **right).count() as u64,
            share: share(&self.right),
            share_of_bytes: (all_bytes > 0).then(|| right_bytes as f64 / all_bytes as f64),
            share_data_or_metadata: share(&self.right_by_kind),
            classes,
            without_truth: self.without_truth,
            outside_image: self.outside_image,
            flushes: self.flushes,
            remarks,
        }
    }
}

/// The share of what is right, with the wider end of two intervals on each side: that of the shares of equally many requests that follow one
/// another, and that of as many independent answers (the score interval of Wilson, JASA 22, 1927), which does not shrink to nothing where all
/// are right.
fn share(right: &[bool]) -> Option<Share> {
    let n = right.len();
    let count = |answers: &[bool]| answers.iter().filter(|right| **right).count() as f64;
    let value = (n > 0).then(|| count(right) / n as f64)?;
    let by_parts = (n >= PARTS).then(|| {
        let shares = right.chunks_exact(n / PARTS).map(|part| count(part) / part.len() as f64);
        mean(&shares.collect::<Vec<_>>())?.interval
    });
    let by_parts = by_parts.flatten();
    let interval = wilson(value, n as f64).map(|score| Interval {
        low: by_parts.map_or(score.low, |parts| parts.low.min(score.low)).max(0.0),
        high: by_parts.map_or(score.high, |parts| parts.high.max(score.high)).min(1.0),
    });
    Some(Share { value, interval })
}

fn wilson(share: f64, n: f64) -> Option<Interval> {
    let z = two_sided_factor(CONFIDENCE, n - 1.0)?;
    let (weight, square) = (1.0 + z * z / n, z * z / n);
    let middle = (share + square / 2.0) / weight;
    let half = (share * (1.0 - share) * square + square * square / 4.0).sqrt() / weight;
    Some(Interval { low: middle - half, high: middle + half })
}

#[cfg(test)]
mod tests;
