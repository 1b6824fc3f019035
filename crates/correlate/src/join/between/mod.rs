//! What lies between two levels: which requests above wait for which below, and what explains the others.

mod origin;

use std::collections::VecDeque;

use nestor_layout::Class;
use nestor_trace::Operation;
use nestor_trace::event::Flags;

use super::active::{Active, Actives, Ancestry, Timed};
use super::choose::Choice;
use super::clusters::Clusters;
use super::ranges::{RangeIndex, Streams, Writer, Written};
use super::tally::Tally;
use crate::input::{Absorption, CacheBetween};
use crate::space::SpaceMap;
use crate::tree::{Origin, Unmatched};

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
    /// The level below has flushes at all.
    pub flushes_below: bool,
    /// The level below flushes only what it has to: a client of NFS commits nothing that the server wrote through (RFC 1813, section 3.3.21).
    pub flushes_if_needed: bool,
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
            flushes_if_needed: false,
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
        for (start, _) in &parts {
            self.above[request.operation as usize].remove(*start, slot);
        }
        let why = self.why_unmatched(upper, &parts);
        let outside = upper.timed.issued < self.spans[1].0.saturating_sub(self.tolerance)
            || upper.timed.completed > self.spans[1].1.saturating_add(self.tolerance);
        let ends_here = match request.operation {
            Operation::Flush => !self.flushes_below || self.flushes_if_needed,
            Operation::Discard => !self.discards_below,
            Operation::Read | Operation::Write => false,
        };
        if request.operation == Operation::Write {
            self.remember(upper, &parts, outside);
        }
        self.tally.end_above(upper, lowers, self.cache, outside, ends_here, why);
    }

    /// Why a request above has no child, if it has none.
    fn why_unmatched(&self, upper: &Active, parts: &[(u64, u64)]) -> Unmatched {
        match upper.timed.request.operation {
            Operation::Flush => Unmatched::NotFlushed,
            _ if upper.timed.request.bytes > 0 && parts.is_empty() => Unmatched::NotMapped,
            _ => Unmatched::NothingBelow,
        }
    }

    /// What no request below has carried of a write that is over may appear below later. Where nothing can keep it, only
    /// all of it together does: an answer before its time.
    fn remember(&mut self, upper: &Active, parts: &[(u64, u64)], outside: bool) {
        if self.cache.writes == Absorption::Never && !upper.children.is_empty() {
            return;
        }
        let promised = upper.ancestry.answered.unwrap_or(upper.timed.completed);
        let writer = Writer { id: upper.timed.request.id, ancestry: upper.ancestry, promised };
        let counts = upper.children.is_empty() && upper.appeared.is_none() && !outside;
        let mut unserved = Vec::new();
        for (start, bytes) in parts {
            upper.unserved(*start, start.saturating_add(*bytes), |from, to| unserved.push((from, to)));
        }
        self.written.push(unserved, writer, counts);
    }

    /// A request below is over.
    pub fn end_below(&mut self, slot: u32, lowers: &Actives) {
        let request = &lowers[slot].timed.request;
        if request.operation == Operation::Read && self.cache.reads != Absorption::Never {
            self.reads_below.remove(request.offset, slot);
        }
    }

    /// A request below begins: finds out where it comes from and joins it with its parents, which are returned with what
    /// else was found.
    ///
    /// `asked` is what is known of a flush two levels above that may have asked for it.
    pub fn begin_below(
        &mut self,
        slot: u32,
        lowers: &mut Actives,
        uppers: &mut Actives,
        asked: Option<Ancestry>,
    ) -> &Choice {
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
        let extra =
            if origin == Origin::Parent { self.extra(&timed, uppers, &mut choice) } else { Vec::new() };
        let waits =
            request.operation == Operation::Flush && self.momentary_flushes && choice.parents.is_empty();
        if waits {
            self.set_aside(slot, lowers);
        } else {
            let why = self.why_unasked(&timed, &choice);
            self.tally.begin_below(&lowers[slot], &extra, outside, choice.repeated, why);
        }
        if request.operation == Operation::Read {
            self.streams_below.push(request.offset, timed.end());
            if self.cache.reads != Absorption::Never {
                self.reads_below.insert(request.offset, request.bytes, slot);
            }
        }
        self.last_class_below = request.class;
        self.choice = choice;
        &self.choice
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
                self.tally.begin_below(&lowers[lower], &[], false, false, Unmatched::FlushUnasked);
            } else {
                self.unasked.push_back(lower);
            }
        }
    }

    /// No request above asked for the flush below.
    fn settle(&mut self, slot: u32, lowers: &mut Actives) {
        let timed = &lowers[slot].timed;
        let outside = timed.queued < self.spans[0].0 || timed.completed > self.spans[0].1;
        self.tally.begin_below(&lowers[slot], &[], outside, false, Unmatched::FlushUnasked);
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
