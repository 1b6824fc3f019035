//! What lies between two levels: which requests above wait for which below, and what explains the others.

use std::collections::VecDeque;

use nestor_layout::Class;
use nestor_trace::Operation;
use nestor_trace::event::Flags;

use super::active::{Active, Actives, Ancestry, Timed};
use super::choose::Choice;
use super::clusters::Clusters;
use super::ranges::{RangeIndex, Streams, Written};
use super::tally::Tally;
use crate::input::{Absorption, CacheBetween};
use crate::space::SpaceMap;
use crate::tree::Origin;

/// Stands among the ranges of a request above for the flush that it got: no data lies there.
const FLUSHED: (u64, u64) = (u64::MAX - 1, u64::MAX);

/// Flushes below that wait for a momentary one above: as many as a journal writes during the longest of them.
const MOST_UNASKED: usize = 256;

/// What two neighbouring levels have under way.
pub(crate) struct Between<'a> {
    map: &'a SpaceMap,
    cache: CacheBetween,
    /// How much later than it should a moment below can seem.
    pub tolerance: i64,
    /// Requests above that are under way, by the range they need below (by their own range where that is not known
    /// beforehand), for each operation.
    above: [RangeIndex; 4],
    /// Those that flush.
    flushes: Vec<u32>,
    /// All of them, where places below are not known.
    all: Vec<u32>,
    /// Reads below that are under way.
    reads_below: RangeIndex,
    written: Written,
    streams_above: Streams,
    streams_below: Streams,
    clusters: Option<Clusters>,
    /// When the levels above and below were recorded.
    pub spans: [(i64, i64); 2],
    /// The level below has flushes at all; discards.
    pub flushes_below: bool,
    /// The level below has discards at all.
    pub discards_below: bool,
    pub tally: Tally,
    /// Flushes below that no request waits for, while the level above has flushes of which only a moment is known: one of
    /// those may turn out to have asked. They are counted when that is settled.
    unasked: VecDeque<u32>,
    /// The level above has such flushes.
    pub momentary_flushes: bool,
    choice: Choice,
    last_class_below: Class,
    under_way: usize,
    /// The level below is an image file: what no part of the virtual disk lies at are the format's tables.
    pub is_image_file: bool,
}

impl<'a> Between<'a> {
    pub fn new(map: &'a SpaceMap, cache: CacheBetween, tolerance: i64, spans: [(i64, i64); 2]) -> Self {
        let clusters = match map {
            SpaceMap::Clusters { bytes } => Some(Clusters::new(*bytes)),
            _ => None,
        };
        Self {
            map,
            cache,
            tolerance,
            above: Default::default(),
            flushes: Vec::new(),
            all: Vec::new(),
            reads_below: RangeIndex::default(),
            written: Written::default(),
            streams_above: Streams::default(),
            streams_below: Streams::default(),
            clusters,
            spans,
            flushes_below: true,
            discards_below: true,
            tally: Tally::default(),
            unasked: VecDeque::new(),
            momentary_flushes: false,
            choice: Choice::default(),
            last_class_below: Class::Unknown,
            under_way: 0,
            is_image_file: false,
        }
    }

    /// Calls `act` with the parts of a request above where the levels meet.
    fn for_each_part(&self, upper: &Active, act: impl FnMut(u64, u64)) {
        let request = &upper.timed.request;
        if self.clusters.is_some() {
            SpaceMap::Identity.for_each_piece(request.offset, request.bytes, act);
        } else {
            self.map.for_each_piece(request.offset, request.bytes, act);
        }
    }

    /// A request above begins. `lowers` are those below that are under way: it may wait for one that was read ahead.
    pub fn begin_above(&mut self, slot: u32, uppers: &mut Actives, lowers: &mut Actives) {
        let upper = &uppers[slot];
        let timed = upper.timed;
        let operation = timed.request.operation;
        self.under_way += 1;
        if operation == Operation::Flush || is_barrier(timed.request.flags) {
            self.flushes.push(slot);
        }
        if self.clusters.is_some() {
            self.all.push(slot);
        }
        let mut parts = Vec::new();
        self.for_each_part(upper, |start, bytes| parts.push((start, bytes)));
        for (start, bytes) in &parts {
            self.above[operation as usize].insert(*start, *bytes, slot);
        }
        if operation == Operation::Flush {
            self.adopt(slot, uppers, lowers);
        }
        if operation != Operation::Read {
            return;
        }
        self.streams_above.push(timed.request.offset, timed.end());
        if self.cache.reads == Absorption::Never {
            return;
        }
        let mut ahead = Vec::new();
        for (start, bytes) in parts {
            self.reads_below.overlapping(start, start.saturating_add(bytes), |lower, _, _| ahead.push(lower));
        }
        for lower in ahead {
            let below = &lowers[lower].timed;
            let waits = below.completed > timed.issued && below.completed <= timed.completed + self.tolerance;
            if waits && !uppers[slot].children.contains(&lower) {
                uppers[slot].children.push(lower);
                lowers.hold(lower);
            }
        }
    }

    /// A request above is over.
    pub fn end_above(&mut self, slot: u32, uppers: &Actives, lowers: &Actives) {
        let upper = &uppers[slot];
        let request = &upper.timed.request;
        self.under_way -= 1;
        if request.operation == Operation::Flush || is_barrier(request.flags) {
            self.flushes.retain(|other| *other != slot);
        }
        if self.clusters.is_some() {
            self.all.retain(|other| *other != slot);
        }
        let mut parts = Vec::new();
        self.for_each_part(upper, |start, bytes| parts.push((start, bytes)));
        let cached = request.operation == Operation::Write && self.cache.writes != Absorption::Never;
        for (start, bytes) in parts {
            self.above[request.operation as usize].remove(start, slot);
            if cached {
                let (written, ancestry) = (&mut self.written, upper.ancestry);
                upper.unserved(start, start.saturating_add(bytes), |from, to| {
                    written.push(from, to - from, ancestry);
                });
            }
        }
        let outside = upper.timed.issued < self.spans[1].0.saturating_sub(self.tolerance)
            || upper.timed.completed > self.spans[1].1.saturating_add(self.tolerance);
        let ends_here = match request.operation {
            Operation::Flush => !self.flushes_below,
            Operation::Discard => !self.discards_below,
            Operation::Read | Operation::Write => false,
        };
        self.tally.end_above(upper, lowers, self.cache, outside, ends_here);
    }

    /// A request below is over.
    pub fn end_below(&mut self, slot: u32, lowers: &Actives) {
        let request = &lowers[slot].timed.request;
        if request.operation == Operation::Read && self.cache.reads != Absorption::Never {
            self.reads_below.remove(request.offset, slot);
        }
    }

    /// A request below begins: finds out where it comes from and joins it with its parents, which are returned.
    ///
    /// `asked` is what is known of a flush two levels above that may have asked for it.
    pub fn begin_below(
        &mut self,
        slot: u32,
        lowers: &mut Actives,
        uppers: &mut Actives,
        asked: Option<Ancestry>,
    ) -> &[u32] {
        let mut choice = std::mem::take(&mut self.choice);
        choice.clear();
        let (origin, ancestry) = self.origin_of(&lowers[slot], uppers, asked, &mut choice);
        for parent in &choice.parents {
            uppers[*parent].children.push(slot);
            lowers.hold(slot);
        }
        let lower = &mut lowers[slot];
        lower.origin = origin;
        lower.ancestry = ancestry;
        if let Some(parent) = choice.parents.first() {
            lower.timed = extended(lower.timed, &uppers[*parent].timed);
        }
        let timed = lower.timed;
        let request = &timed.request;
        let outside = timed.queued < self.spans[0].0.saturating_sub(self.tolerance)
            || timed.completed > self.spans[0].1.saturating_add(self.tolerance);
        let extra: Vec<(Origin, u64)> = if origin == Origin::Parent {
            choice
                .extra
                .iter()
                .map(|(from, to)| (self.extra_origin(request.operation, *from, *to), to - from))
                .collect()
        } else {
            Vec::new()
        };
        let waits =
            request.operation == Operation::Flush && self.momentary_flushes && choice.parents.is_empty();
        if waits {
            self.set_aside(slot, lowers);
        } else {
            self.tally.begin_below(&lowers[slot], &extra, outside, choice.repeated);
        }
        if request.operation == Operation::Read {
            self.streams_below.push(request.offset, timed.end());
            if self.cache.reads != Absorption::Never {
                self.reads_below.insert(request.offset, request.bytes, slot);
            }
        }
        self.last_class_below = request.class;
        self.choice = choice;
        &self.choice.parents
    }

    /// What a flush comes from that was under way all the time that one two levels below was.
    pub fn waiting_flush(&self, lower: &Timed, uppers: &Actives) -> Option<Ancestry> {
        let covers = |slot: &&u32| {
            let upper = &uppers[**slot].timed;
            upper.issued <= lower.queued && lower.completed <= upper.completed
        };
        self.flushes.iter().find(covers).map(|slot| uppers[*slot].ancestry)
    }

    /// A flush below waits until it is known whether a momentary one above has asked for it.
    fn set_aside(&mut self, slot: u32, lowers: &mut Actives) {
        lowers.keep(slot);
        self.unasked.push_back(slot);
        if self.unasked.len() > MOST_UNASKED
            && let Some(oldest) = self.unasked.pop_front()
        {
            self.settle(oldest, lowers);
        }
    }

    /// A flush above of which only a moment was known has begun: it takes those below that happened meanwhile.
    fn adopt(&mut self, slot: u32, uppers: &mut Actives, lowers: &mut Actives) {
        let timed = uppers[slot].timed;
        let ancestry = uppers[slot].ancestry;
        for lower in std::mem::take(&mut self.unasked) {
            let below = &lowers[lower].timed;
            let inside = below.queued >= timed.issued.saturating_sub(self.tolerance)
                && below.completed <= timed.completed.saturating_add(self.tolerance);
            if inside {
                uppers[slot].serve(FLUSHED.0, FLUSHED.1);
                uppers[slot].children.push(lower);
                lowers.adopt(lower);
                lowers[lower].origin = Origin::Parent;
                lowers[lower].ancestry = ancestry;
                self.tally.begin_below(&lowers[lower], &[], false, false);
            } else {
                self.unasked.push_back(lower);
            }
        }
    }

    /// No request above asked for the flush below.
    fn settle(&mut self, slot: u32, lowers: &mut Actives) {
        let timed = &lowers[slot].timed;
        let outside = timed.queued < self.spans[0].0 || timed.completed > self.spans[0].1;
        self.tally.begin_below(&lowers[slot], &[], outside, false);
        if lowers.release(slot) {
            lowers.remove(slot);
        }
    }

    /// Everything is over: whatever still waits was not asked for.
    pub fn settle_all(&mut self, lowers: &mut Actives) {
        for slot in std::mem::take(&mut self.unasked) {
            self.settle(slot, lowers);
        }
    }

    /// Why a part of a request was carried although no request waits for it.
    fn extra_origin(&self, operation: Operation, from: u64, to: u64) -> Origin {
        match operation {
            Operation::Read => Origin::ReadAhead,
            Operation::Write if self.written.find(from, to).is_some() => Origin::WriteBack,
            Operation::Write => Origin::ReadModifyWrite,
            Operation::Flush | Operation::Discard => Origin::Unknown,
        }
    }

    fn origin_of(
        &mut self,
        lower: &Active,
        uppers: &mut Actives,
        asked: Option<Ancestry>,
        choice: &mut Choice,
    ) -> (Origin, Ancestry) {
        let operation = lower.timed.request.operation;
        if operation == Operation::Flush {
            return self.origin_of_flush(lower, uppers, asked, choice);
        }
        self.choose(lower, uppers, choice);
        if let Some(first) = choice.parents.first() {
            return (Origin::Parent, uppers[*first].ancestry);
        }
        let class = lower.timed.request.class;
        if class == Class::Journal || class.is_metadata() {
            let origin = if class == Class::Journal { Origin::Journal } else { Origin::Metadata };
            self.link_to_waiting(lower, uppers, choice);
            return (origin, Ancestry::NONE);
        }
        match operation {
            Operation::Write => self.origin_of_write(lower, uppers, choice),
            Operation::Read => self.origin_of_read(lower, uppers, choice),
            Operation::Discard if choice.late.is_some() => (Origin::WriteBack, Ancestry::NONE),
            // What a new cluster has beside the data that is written is made to read as zeros.
            Operation::Discard if self.is_image_file => {
                self.link_to_waiting(lower, uppers, choice);
                (Origin::Metadata, Ancestry::NONE)
            }
            Operation::Discard | Operation::Flush => (Origin::Unknown, Ancestry::NONE),
        }
    }

    /// Finds those that wait for the same range.
    fn choose(&mut self, lower: &Active, uppers: &mut Actives, choice: &mut Choice) {
        let request = &lower.timed.request;
        let (from, to) = (request.offset, lower.timed.end());
        let index = &self.above[request.operation as usize];
        let Some(clusters) = &mut self.clusters else {
            choice.find(lower, (from, to), index, uppers, self.tolerance);
            return;
        };
        if let Some(parts) = clusters.above(from, to) {
            for part in parts {
                choice.find(lower, part, index, uppers, self.tolerance);
            }
            return;
        }
        let waiting = |upper: &Active| waits(upper, lower, self.tolerance);
        let mut found: Vec<(u32, u64)> = Vec::new();
        for slot in &self.all {
            let upper = &uppers[*slot];
            if upper.timed.request.operation != request.operation || !waiting(upper) {
                continue;
            }
            let place = clusters.candidate(from, to, upper.timed.request.offset, upper.timed.end());
            let fresh = place.filter(|place| upper.unserved_bytes(*place, place + (to - from)) == to - from);
            found.extend(fresh.map(|place| (*slot, place)));
        }
        let key = |(slot, _): &(u32, u64)| {
            let timed = &uppers[*slot].timed;
            (timed.request.bytes != to - from, timed.completed - timed.issued)
        };
        let Some((slot, place)) = found.iter().copied().min_by_key(key) else { return };
        // Only what cannot be otherwise is learnt.
        if found.len() == 1 {
            clusters.learn(from, to, place);
        }
        uppers[slot].serve(place, place + (to - from));
        choice.parents.push(slot);
        choice.carried = to - from;
    }

    fn origin_of_flush(
        &self,
        lower: &Active,
        uppers: &mut Actives,
        asked: Option<Ancestry>,
        choice: &mut Choice,
    ) -> (Origin, Ancestry) {
        let waiting =
            self.flushes.iter().copied().filter(|slot| waits(&uppers[*slot], lower, self.tolerance));
        let mut waiting: Vec<u32> = waiting.collect();
        // A write that has to be flushed needs one of its own only where nothing but writes asks for it.
        let is_flush = |slot: &u32| uppers[*slot].timed.request.operation == Operation::Flush;
        if waiting.iter().any(is_flush) {
            waiting.retain(is_flush);
        }
        // One flush below serves all that wait and have none yet; one that has is served again only if no other is.
        let flushed = |slot: u32| uppers[slot].unserved_bytes(FLUSHED.0, FLUSHED.1) == 0;
        let unserved: Vec<u32> = waiting.iter().copied().filter(|slot| !flushed(*slot)).collect();
        choice.parents = if unserved.is_empty() { waiting } else { unserved };
        for slot in &choice.parents {
            uppers[*slot].serve(FLUSHED.0, FLUSHED.1);
        }
        if let Some(first) = choice.parents.first() {
            let only_flush = uppers[*first].timed.request.operation == Operation::Flush;
            let origin = if only_flush { Origin::Parent } else { Origin::FlushOfParent };
            return (origin, uppers[*first].ancestry);
        }
        if let Some(ancestry) = asked {
            // Its parent will be known later.
            return (Origin::Unknown, ancestry);
        }
        // A cache that is written through flushes after every write.
        let mut writes = Vec::new();
        self.above[Operation::Write as usize].overlapping(0, u64::MAX, |slot, _, _| writes.push(slot));
        let written = writes.into_iter().filter(|slot| {
            let upper = &uppers[*slot];
            waits(upper, lower, self.tolerance) && !upper.children.is_empty()
        });
        if let Some(slot) = written.min_by_key(|slot| uppers[*slot].timed.completed) {
            choice.parents.push(slot);
            return (Origin::FlushOfParent, uppers[slot].ancestry);
        }
        let own = self.last_class_below == Class::Journal || self.last_class_below.is_metadata();
        (if own { Origin::Journal } else { Origin::Unknown }, Ancestry::NONE)
    }

    fn origin_of_write(
        &self,
        lower: &Active,
        uppers: &mut Actives,
        choice: &mut Choice,
    ) -> (Origin, Ancestry) {
        let (from, to) = (lower.timed.request.offset, lower.timed.end());
        let late = choice.late.filter(|_| self.cache.writes != Absorption::Never);
        let writer = match late {
            Some(slot) => Some(uppers[slot].ancestry),
            None => self.written.find(from, to),
        };
        if let Some(ancestry) = writer {
            self.link_to_flush(lower, uppers, choice);
            let origin = if choice.parents.is_empty() { Origin::WriteBack } else { Origin::FlushOfParent };
            return (origin, ancestry);
        }
        let of_image = matches!(self.map, SpaceMap::Extents(_)) && self.map.above(from).is_some();
        if of_image && self.written.forgot {
            return (Origin::WriteBack, Ancestry::NONE);
        }
        if self.clusters.is_some() || self.is_image_file {
            self.link_to_waiting(lower, uppers, choice);
            return (Origin::Metadata, Ancestry::NONE);
        }
        (Origin::Unknown, Ancestry::NONE)
    }

    fn origin_of_read(
        &self,
        lower: &Active,
        uppers: &mut Actives,
        choice: &mut Choice,
    ) -> (Origin, Ancestry) {
        let (from, to) = (lower.timed.request.offset, lower.timed.end());
        // To write a part of a block the whole of it is read; the read touches or holds what is written.
        let mut writer = None;
        if self.clusters.is_none() {
            let (before, after) = (from.saturating_sub(1), to.saturating_add(1));
            self.above[Operation::Write as usize].overlapping(before, after, |slot, start, end| {
                let whole = start <= from && to <= end;
                if !whole && waits(&uppers[slot], lower, self.tolerance) {
                    writer = Some(slot);
                }
            });
        }
        if let Some(slot) = writer {
            choice.parents.push(slot);
            return (Origin::ReadModifyWrite, uppers[slot].ancestry);
        }
        let cached = self.cache.reads != Absorption::Never;
        let near = self.map.above(from).is_some_and(|above| self.streams_above.is_near(above))
            || self.streams_below.is_near(from);
        let flagged = lower.timed.request.flags.contains(Flags::AHEAD);
        if flagged || cached && (choice.late.is_some() || near && self.clusters.is_none()) {
            return (Origin::ReadAhead, Ancestry::NONE);
        }
        if self.clusters.is_some() || self.is_image_file {
            self.link_to_waiting(lower, uppers, choice);
            return (Origin::Metadata, Ancestry::NONE);
        }
        (Origin::Unknown, Ancestry::NONE)
    }

    /// The latest flush that waits is what made a cache be written out: an older one has sent its writes by then.
    fn link_to_flush(&self, lower: &Active, uppers: &Actives, choice: &mut Choice) {
        let waiting =
            self.flushes.iter().copied().filter(|slot| waits(&uppers[*slot], lower, self.tolerance));
        choice.parents.extend(waiting.max_by_key(|slot| uppers[*slot].timed.issued));
    }

    /// A request of the layers' own belongs to a flush that waits, or to the only request that is under way.
    fn link_to_waiting(&self, lower: &Active, uppers: &Actives, choice: &mut Choice) {
        self.link_to_flush(lower, uppers, choice);
        if !choice.parents.is_empty() || self.under_way != 1 {
            return;
        }
        let mut only = self.all.first().copied();
        for index in &self.above {
            index.overlapping(0, u64::MAX, |slot, _, _| only = Some(slot));
        }
        choice.parents.extend(only.filter(|slot| waits(&uppers[*slot], lower, self.tolerance)));
    }

    /// Data was forgotten that may still have been in a cache.
    pub fn forgot(&self) -> bool {
        self.written.forgot
    }
}

/// Whether a request above was under way all the time that one below was.
fn waits(upper: &Active, lower: &Active, tolerance: i64) -> bool {
    upper.timed.issued <= lower.timed.begun().saturating_add(tolerance)
        && upper.timed.completed >= lower.timed.completed.saturating_sub(tolerance)
}

/// A flush of which only one moment is known, as long as it can have been: the moment nearer to its parent's end is
/// taken for its own end, and one nearer to its beginning for its own beginning.
fn extended(lower: Timed, parent: &Timed) -> Timed {
    if lower.request.operation != Operation::Flush || lower.completed > lower.queued {
        return lower;
    }
    let at = lower.completed;
    if at - parent.issued < parent.completed - at {
        return Timed { completed: parent.completed.max(at), ..lower };
    }
    let begun = parent.issued.min(at);
    Timed { queued: begun, issued: begun, ..lower }
}

fn is_barrier(flags: Flags) -> bool {
    flags.contains(Flags::FLUSH) || flags.contains(Flags::FUA)
}
