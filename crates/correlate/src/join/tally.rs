//! What is counted of a join.

use std::collections::BTreeMap;

use nestor_text::units;
use nestor_trace::Operation;

use super::active::{Active, Actives};
use super::ranges::Kept;
use crate::input::{Absorption, CacheBetween};
use crate::tree::{Join, Origin, Unmatched};

/// Share of requests without one below that makes a cache likely where nothing is known: traces that are complete lose
/// far less, and a cache that answers less does not matter.
const SHARE_OF_A_CACHE: f64 = 0.02;

/// Counts of one join.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    join: Join,
    /// Reads and writes above that could have a request below, and those without, where caches are not known.
    could: [u64; 2],
    without: [u64; 2],
    /// Why those without would be unmatched.
    without_why: [BTreeMap<Unmatched, u64>; 2],
    /// Writes answered by a cache that promises to be written through, less those whose data appeared below in time.
    early: u64,
    /// Writes that appeared below after they were answered, although nothing between can keep them.
    late: u64,
    scratch: Vec<(i64, i64)>,
}

impl Tally {
    /// A request above is over.
    pub fn end_above(
        &mut self,
        upper: &Active,
        lowers: &Actives,
        cache: CacheBetween,
        outside: bool,
        ends_here: bool,
        why: Unmatched,
    ) {
        let operation = upper.timed.request.operation;
        let side = operation as usize;
        if side < 2 && !outside {
            self.could[side] += 1;
        }
        if !upper.children.is_empty() {
            self.join.split += u64::from(upper.children.len() > 1);
            self.add_time(upper, lowers);
            return;
        }
        let absorption = if operation == Operation::Read { cache.reads } else { cache.writes };
        if let Some(kept) = upper.appeared {
            self.join.absorbed += 1;
            self.join.by_content += 1;
            self.early += u64::from(kept == Kept::Late && absorption == Absorption::Promised);
            self.late += u64::from(kept == Kept::Late && absorption == Absorption::Never);
        } else if outside {
            self.join.outside_above += 1;
        } else if ends_here || matches!(absorption, Absorption::Possible | Absorption::Promised) {
            let promised = absorption == Absorption::Promised && operation == Operation::Write;
            self.early += u64::from(promised && !ends_here);
            self.join.absorbed += 1;
        } else if absorption == Absorption::Unknown && side < 2 {
            self.without[side] += 1;
            *self.without_why[side].entry(why).or_default() += 1;
        } else {
            self.join.unmatched_above += 1;
            *self.join.unmatched.entry(why).or_default() += 1;
        }
    }

    /// Data appears below of a write that is over; `kept` for the first of it, by when it should have appeared.
    pub fn appeared(&mut self, kept: Option<Kept>, writes: Absorption) {
        let Some(kept) = kept else { return };
        self.join.by_content += 1;
        match writes {
            Absorption::Promised if kept == Kept::InTime => self.early = self.early.saturating_sub(1),
            Absorption::Never => self.found_late(),
            _ => {}
        }
    }

    /// A write that was counted as unmatched appears below after all.
    fn found_late(&mut self) {
        let Some(unmatched) = self.join.unmatched.get_mut(&Unmatched::NothingBelow).filter(|n| **n > 0)
        else {
            // It was outside of what was recorded below.
            return;
        };
        *unmatched -= 1;
        self.join.unmatched_above -= 1;
        self.join.absorbed += 1;
        self.late += 1;
    }

    /// What the layers between added to a request that waited for others below.
    fn add_time(&mut self, upper: &Active, lowers: &Actives) {
        let (from, to) = (upper.timed.issued, upper.timed.completed);
        let below = match upper.children.as_slice() {
            [only] => {
                let lower = &lowers[*only].timed;
                (lower.completed.min(to) - lower.queued.max(from)).max(0)
            }
            children => {
                let interval = |slot: &u32| (lowers[*slot].timed.queued, lowers[*slot].timed.completed);
                self.scratch.clear();
                self.scratch.extend(children.iter().map(interval));
                self.scratch.sort_unstable();
                let mut covered = 0;
                let mut at = from;
                for (start, end) in &self.scratch {
                    covered += ((*end).min(to) - (*start).max(at)).max(0);
                    at = at.max((*end).min(to));
                }
                covered
            }
        };
        let added_ns = (to - from - below).max(0) as u64;
        self.join.added.record_ns(added_ns);
        self.join.added_by.entry(upper.timed.request.operation).or_default().record_ns(added_ns);
    }

    /// A request below begins; `extra` are parts of it that no request waits for.
    pub fn begin_below(
        &mut self,
        lower: &Active,
        extra: &[(Origin, u64)],
        outside: bool,
        repeated: bool,
        why: Unmatched,
    ) {
        let join = &mut self.join;
        if lower.origin == Origin::Unknown {
            if outside {
                join.outside_below += 1;
                return;
            }
            *join.unmatched.entry(why).or_default() += 1;
        }
        let beside: u64 = extra.iter().map(|(_, bytes)| bytes).sum();
        *join.origins.entry(lower.origin).or_default() += 1;
        let own = [(lower.origin, lower.timed.request.bytes - beside)];
        for (origin, bytes) in own.iter().chain(extra) {
            let sum = join.origin_bytes.entry(*origin).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        join.merged += u64::from(lower.parents > 1);
        join.repeated += u64::from(repeated);
    }

    /// The join, without what is known of the clocks. Says what was inferred.
    pub fn finish(mut self, names: &str, remarks: &mut Vec<String>) -> Join {
        let late = self.join.origins.get(&Origin::WriteBack).copied().unwrap_or(0);
        for (side, what) in ["reads", "writes"].into_iter().enumerate() {
            let without = self.without[side];
            if without == 0 {
                continue;
            }
            let share = without as f64 / self.could[side] as f64;
            if share > SHARE_OF_A_CACHE || side == 1 && late > 0 {
                self.join.absorbed += without;
                remarks.push(format!(
                    "{names}: {} of the {what} have no request below; a cache between presumably \
                     answered them",
                    units::share(share)
                ));
            } else {
                self.join.unmatched_above += without;
                for (why, requests) in std::mem::take(&mut self.without_why[side]) {
                    *self.join.unmatched.entry(why).or_default() += requests;
                }
            }
        }
        self.join.unmatched.retain(|_, requests| *requests > 0);
        if self.late > 0 {
            remarks.push(format!(
                "{names}: {} of {} writes were answered before any part of them appeared below, although \
                 nothing between keeps data; they were joined by place and order",
                self.late,
                self.could[Operation::Write as usize]
            ));
        }
        if self.early > 0 {
            remarks.push(format!(
                "{names}: {} of {} writes of the guest completed before any part of them appeared below, \
                 although the cache between is write-through",
                self.early,
                self.could[Operation::Write as usize]
            ));
        }
        self.join
    }
}
