//! Where the time of the lowest level went, by what asked for it.
//!
//! The lowest level (the medium, or the block device nearest to it) is what all layers share. Every moment of it is
//! given to one request, and every request to a *cause*: the classes it has at each attributed level, topmost first. The
//! topmost is the first file system's, or, where the stack has none there, the program that uses the device.
//! `journal>image-data` is the guest's journal in the image file; `->journal` the host's own journal, which no guest
//! request asked for. So the parts add up to the whole, and two stacks can be compared part by part.

use std::collections::{BTreeMap, VecDeque};

use nestor_layout::Class;
use nestor_trace::{Operation, Request};
use serde::{Deserialize, Serialize};

/// Different causes that are told apart: all pairs of classes at two levels.
const MOST_CAUSES: usize = 256;

/// The classes of a request at every attributed level, topmost first; `None` where it has no ancestor there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Cause(pub Vec<Option<Class>>);

/// What one cause took of the lowest level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Requests.
    pub requests: u64,
    /// Those of them that read.
    pub reads: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time during which the level worked on them. No moment counts twice: while several are under way it belongs to
    /// the one that ends first.
    pub busy_ns: u64,
    /// The part of [`Self::busy_ns`] of requests that read.
    pub read_busy_ns: u64,
    /// Requests that did not start where the one before had ended.
    pub jumps: u64,
    /// Sum of the distances of those jumps.
    pub jump_bytes: u64,
    /// The part of [`Self::busy_ns`] of requests after a jump.
    pub jump_busy_ns: u64,
    /// Jumps although their topmost ancestors lie one behind the other: a layer between has scattered them.
    pub scattered: u64,
    /// The part of [`Self::busy_ns`] of those.
    pub scattered_busy_ns: u64,
}

/// Going from the requests of one cause to those of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The request before.
    pub from: Cause,
    /// The request after.
    pub to: Cause,
    /// How often there was a jump between.
    pub jumps: u64,
    /// Sum of the distances.
    pub jump_bytes: u64,
    /// Time spent on the requests after the jump.
    pub busy_ns: u64,
}

/// The time of the lowest level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// From the first request's arrival to the last one's end.
    pub span_ns: u64,
    /// Time with at least one request being served.
    pub busy_ns: u64,
    /// Time with at least one request waiting or being served.
    pub occupied_ns: u64,
    /// Its parts.
    pub causes: BTreeMap<Cause, Spent>,
    /// Jumps from one cause to another (not within one), longest time first, at most 32.
    pub transitions: Vec<Transition>,
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        let name = |class: &Option<Class>| match class {
            Some(class) => class.name(),
            None => "-",
        };
        cause.0.iter().map(name).collect::<Vec<_>>().join(">")
    }
}

impl TryFrom<String> for Cause {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let class = |name: &str| match name {
            "-" => Ok(None),
            name => Class::from_name(name)
                .map(Some)
                .ok_or_else(|| format!("`{name}` in the cause `{text}` is not a class of requests")),
        };
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split('>').map(class).collect::<Result<_, _>>().map(Self)
    }
}

impl Cause {
    /// The class at the topmost attributed level.
    pub fn top(&self) -> Option<Class> {
        self.0.first().copied().flatten()
    }

    /// The class at the lowest attributed level.
    pub fn bottom(&self) -> Option<Class> {
        self.0.last().copied().flatten()
    }

    /// Whether no request of the topmost attributed level asked for it.
    pub fn is_own(&self) -> bool {
        self.0.len() > 1 && self.top().is_none()
    }
}

/// Busy times that are remembered apart from one another. A request that was under way in longer ago gaps than those
/// would have had to be there for as many idle times of all others.
const MOST_APART: usize = 4096;

/// Moments that belong to requests, in the order in which requests end.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// Without overlap, the earliest first.
    times: VecDeque<(u64, u64)>,
}

impl Taken {
    /// Takes the moments from `from` to `to` that no request before has; gives how many these are.
    fn take(&mut self, from: u64, to: u64) -> u64 {
        let (mut start, mut end) = (from, to.max(from));
        let mut free = end - from;
        while let Some((known_start, known_end)) = self.times.back().copied().filter(|(_, end)| *end >= start)
        {
            // Of disorder only: one that begins after this one has ended.
            free -= known_end.min(to.max(from)).saturating_sub(known_start.max(from)).min(free);
            (start, end) = (start.min(known_start), end.max(known_end));
            self.times.pop_back();
        }
        self.times.push_back((start, end));
        if self.times.len() > MOST_APART {
            self.times.pop_front();
        }
        free
    }
}

/// Builds a [`Blame`] from the requests of the lowest level, in the order of completion.
#[derive(Clone, Debug, Default)]
pub struct BlameBuilder {
    first_queued_ns: Option<u64>,
    last_completed_ns: u64,
    busy: Taken,
    occupied: Taken,
    last_end: Option<u64>,
    last_cause: Option<Cause>,
    last_top_end: Option<u64>,
    blame: Blame,
    transitions: BTreeMap<(Cause, Cause), (u64, u64, u64)>,
}

impl BlameBuilder {
    /// Takes the next request.
    ///
    /// `top` is the range of its topmost ancestor, offset and bytes.
    pub fn push(&mut self, request: &Request, mut cause: Cause, top: Option<(u64, u64)>) {
        if request.operation == Operation::Flush {
            // Also where no layout says what blocks are for.
            cause.0.pop();
            cause.0.push(Some(Class::Flush));
        }
        let queued_ns = request.queued_ns;
        let first = *self.first_queued_ns.get_or_insert(queued_ns);
        self.first_queued_ns = Some(first.min(queued_ns));
        self.last_completed_ns = self.last_completed_ns.max(request.completed_ns);
        let busy_ns = self.busy.take(request.issued_ns, request.completed_ns);
        self.blame.occupied_ns += self.occupied.take(queued_ns, request.completed_ns);
        self.blame.busy_ns += busy_ns;
        let known = self.blame.causes.contains_key(&cause) || self.blame.causes.len() < MOST_CAUSES;
        let cause = if known { cause } else { Cause::default() };
        let spent = self.blame.causes.entry(cause.clone()).or_default();
        spent.requests += 1;
        spent.reads += u64::from(request.operation == Operation::Read);
        spent.bytes = spent.bytes.saturating_add(request.bytes);
        spent.busy_ns += busy_ns;
        spent.read_busy_ns += if request.operation == Operation::Read { busy_ns } else { 0 };
        if request.bytes == 0 {
            // A flush does not move the arm by itself.
            return;
        }
        let jump = self.last_end.map(|end| end.abs_diff(request.offset)).filter(|distance| *distance > 0);
        if let Some(distance) = jump {
            spent.jumps += 1;
            spent.jump_bytes = spent.jump_bytes.saturating_add(distance);
            spent.jump_busy_ns += busy_ns;
            if top.is_some() && self.last_top_end == top.map(|(offset, _)| offset) {
                spent.scattered += 1;
                spent.scattered_busy_ns += busy_ns;
            }
            if let Some(last) = self.last_cause.take().filter(|last| *last != cause) {
                let sums = self.transitions.entry((last, cause.clone())).or_default();
                *sums = (sums.0 + 1, sums.1.saturating_add(distance), sums.2 + busy_ns);
            }
        }
        self.last_end = Some(request.offset.saturating_add(request.bytes));
        self.last_top_end = top.map(|(offset, bytes)| offset.saturating_add(bytes));
        self.last_cause = Some(cause);
    }

    /// The whole.
    pub fn finish(mut self) -> Blame {
        self.blame.span_ns = self.last_completed_ns.saturating_sub(self.first_queued_ns.unwrap_or_default());
        let all = self.transitions.into_iter();
        self.blame.transitions = all
            .map(|((from, to), (jumps, jump_bytes, busy_ns))| Transition {
                from,
                to,
                jumps,
                jump_bytes,
                busy_ns,
            })
            .collect();
        self.blame.transitions.sort_by_key(|t| std::cmp::Reverse(t.busy_ns));
        self.blame.transitions.truncate(32);
        self.blame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::request;

    fn cause(text: &str) -> Cause {
        Cause::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn every_moment_belongs_to_one_cause() {
        let mut builder = BlameBuilder::default();
        let (data, journal) = (cause("file-data>image-data"), cause("->journal"));
        builder.push(&request(Operation::Write, 0, 4096, [0, 10, 100]), data.clone(), Some((0, 4096)));
        // Overlaps the first by 60.
        builder.push(&request(Operation::Write, 4096, 4096, [5, 40, 160]), data.clone(), Some((4096, 4096)));
        builder.push(&request(Operation::Write, 1 << 20, 4096, [200, 200, 300]), journal.clone(), None);
        builder.push(
            &request(Operation::Write, 8192, 4096, [300, 310, 400]),
            data.clone(),
            Some((8192, 4096)),
        );
        builder.push(&request(Operation::Flush, 0, 0, [400, 400, 450]), cause("flush>flush"), None);
        let blame = builder.finish();
        assert_eq!(
            (blame.span_ns, blame.busy_ns, blame.occupied_ns),
            (450, 90 + 60 + 100 + 90 + 50, 160 + 250)
        );
        assert_eq!(blame.busy_ns, blame.causes.values().map(|s| s.busy_ns).sum::<u64>());
        let spent = blame.causes[&data];
        assert_eq!((spent.requests, spent.busy_ns, spent.jumps, spent.scattered), (3, 240, 1, 0));
        assert_eq!(blame.transitions.len(), 2);
        assert_eq!((&blame.transitions[0].from, &blame.transitions[0].to), (&data, &journal));
        let text = serde_json::to_string(&blame).unwrap();
        assert_eq!(serde_json::from_str::<Blame>(&text).unwrap(), blame);
    }

    #[test]
    fn a_moment_before_the_first_to_end_belongs_to_the_one_that_is_served_then() {
        let mut taken = Taken::default();
        // The third is served alone from 0 to 50, between 100 and 120, and from 160 on.
        assert_eq!([taken.take(50, 100), taken.take(120, 160), taken.take(0, 200)], [50, 40, 50 + 20 + 40]);
        assert_eq!([taken.take(200, 250), taken.take(300, 310), taken.take(5, 5)], [50, 10, 0]);
    }

    #[test]
    fn what_a_layer_scattered_is_told_from_what_was_asked_for() {
        let mut builder = BlameBuilder::default();
        let data = cause("file-data>image-data");
        for (index, place) in [0_u64, 1 << 20, 5 << 20].into_iter().enumerate() {
            let at = index as u64;
            let times = [at * 100, at * 100, at * 100 + 50];
            builder.push(
                &request(Operation::Read, place, 4096, times),
                data.clone(),
                Some((at * 4096, 4096)),
            );
        }
        let spent = builder.finish().causes[&data];
        assert_eq!((spent.jumps, spent.scattered, spent.scattered_busy_ns), (2, 2, 100));
    }
}
