//! Why a request below is there: who waits for it, or what else explains it.

use nestor_layout::Class;
use nestor_trace::Operation;
use nestor_trace::event::Flags;

use super::super::active::Timed;
use super::super::active::{Active, Actives, Ancestry};
use super::super::choose::Choice;
use super::super::ranges::{Kept, cut};
use super::{Between, FLUSHED, waits};
use crate::input::Absorption;
use crate::space::SpaceMap;
use crate::tree::{Origin, Unmatched};

impl Between<'_> {
    /// Why parts of a request were carried although no request waits for them, and their bytes.
    pub(super) fn extra(
        &mut self,
        lower: &Timed,
        uppers: &mut Actives,
        choice: &mut Choice,
    ) -> Vec<(Origin, u64)> {
        let parts = std::mem::take(&mut choice.extra);
        let origins = parts.iter().map(|(from, to)| {
            let origin = match lower.request.operation {
                Operation::Read => Origin::ReadAhead,
                Operation::Write if self.appear((*from, *to), lower, uppers, choice).is_some() => {
                    Origin::WriteBack
                }
                Operation::Write => Origin::ReadModifyWrite,
                Operation::Flush | Operation::Discard => Origin::Unknown,
            };
            (origin, to - from)
        });
        let origins = origins.collect();
        choice.extra = parts;
        origins
    }

    /// A range is written below: who wrote it above and did not wait for that, the latest of them. What a cache promises of
    /// them is counted.
    fn appear(
        &mut self,
        (from, to): (u64, u64),
        lower: &Timed,
        uppers: &mut Actives,
        choice: &mut Choice,
    ) -> Option<Ancestry> {
        let mut open = match &self.clusters {
            Some(clusters) => clusters.above(from, to)?,
            None => vec![(from, to)],
        };
        let at = lower.begun();
        // Those that were met last are not among the written ranges yet.
        choice.late.sort_by_key(|(slot, ..)| std::cmp::Reverse(uppers[*slot].timed.completed));
        let late = std::mem::take(&mut choice.late);
        let (over, under_way): (Vec<_>, Vec<_>) =
            late.iter().copied().partition(|(slot, ..)| uppers[*slot].timed.completed <= at);
        let mut latest = None;
        for range in over {
            latest = latest.or(appear_late(range, &mut open, at, uppers, choice));
        }
        latest = latest.or_else(|| open.iter().find_map(|(from, to)| self.written.find(*from, *to)));
        let mut rest = open.clone();
        for (from, to) in open {
            let (tally, writes) = (&mut self.tally, self.cache.writes);
            self.written.appear(from, to, at, |(start, end), id, kept| {
                cut(&mut rest, start, end);
                if !choice.writers.contains(&id) {
                    choice.writers.push(id);
                }
                tally.appeared(kept, writes);
            });
        }
        // One that was not over when this began can only have given what nothing else has.
        for range in under_way {
            latest = latest.or(appear_late(range, &mut rest, at, uppers, choice));
        }
        choice.late = late;
        latest
    }

    /// Whether it moves data of an image file that no place of the virtual disk has: the tables of its format, where its requests on the file
    /// are not recorded.
    fn is_of_tables(&self, lower: &Timed) -> bool {
        let SpaceMap::Extents(map) = self.map else { return false };
        lower.request.class == Class::ImageData && map.above(lower.request.offset).is_none()
    }

    /// Why nothing explains a request below, if nothing does.
    pub(super) fn why_unasked(&self, lower: &Timed, choice: &Choice) -> Unmatched {
        let outside =
            matches!(self.map, SpaceMap::Extents(_)) && self.map.above(lower.request.offset).is_none();
        match lower.request.operation {
            Operation::Flush => Unmatched::FlushUnasked,
            _ if !choice.late.is_empty() => Unmatched::AskedEarlier,
            _ if outside => Unmatched::OutsideImage,
            _ => Unmatched::Unasked,
        }
    }

    pub(super) fn origin_of(
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
            Operation::Discard if !choice.late.is_empty() => (Origin::WriteBack, Ancestry::NONE),
            // What a new cluster has beside the data that is written is made to read as zeros.
            Operation::Discard if self.is_image_file => {
                self.link_to_waiting(lower, uppers, choice);
                (Origin::Metadata, Ancestry::NONE)
            }
            Operation::Discard | Operation::Flush => (Origin::Unknown, Ancestry::NONE),
        }
    }

    /// Finds those that wait for the same range.
    pub(super) fn choose(&mut self, lower: &Active, uppers: &mut Actives, choice: &mut Choice) {
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
        &mut self,
        lower: &Active,
        uppers: &mut Actives,
        choice: &mut Choice,
    ) -> (Origin, Ancestry) {
        let (from, to) = (lower.timed.request.offset, lower.timed.end());
        if let Some(ancestry) = self.appear((from, to), &lower.timed, uppers, choice) {
            self.link_to_flush(lower, uppers, choice);
            let origin = if choice.parents.is_empty() { Origin::WriteBack } else { Origin::FlushOfParent };
            return (origin, ancestry);
        }
        let of_image = matches!(self.map, SpaceMap::Extents(_)) && self.map.above(from).is_some();
        if of_image && self.written.forgot {
            return (Origin::WriteBack, Ancestry::NONE);
        }
        if self.clusters.is_some() || self.is_image_file || self.is_of_tables(&lower.timed) {
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
        if flagged || cached && (!choice.late.is_empty() || near && self.clusters.is_none()) {
            return (Origin::ReadAhead, Ancestry::NONE);
        }
        if self.clusters.is_some() || self.is_image_file || self.is_of_tables(&lower.timed) {
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
}

/// A range that a request above wrote without waiting for it appears below, as far as it is open.
fn appear_late(
    (slot, start, end): (u32, u64, u64),
    open: &mut Vec<(u64, u64)>,
    at: i64,
    uppers: &mut Actives,
    choice: &mut Choice,
) -> Option<Ancestry> {
    if !open.iter().any(|(from, to)| start < *to && *from < end) {
        return None;
    }
    cut(open, start, end);
    let upper = &mut uppers[slot];
    let promised = upper.ancestry.answered.unwrap_or(upper.timed.completed);
    upper.appeared.get_or_insert(if at <= promised { Kept::InTime } else { Kept::Late });
    if !choice.writers.contains(&upper.timed.request.id) {
        choice.writers.push(upper.timed.request.id);
    }
    Some(upper.ancestry)
}
