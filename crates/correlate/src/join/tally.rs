//! What is counted of a join.

use nestor_trace::Operation;

use super::active::{Active, Actives};
use crate::input::{Absorption, CacheBetween};
use crate::tree::{Join, Origin};

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
    /// Writes answered by a cache that promises to be written through.
    early: u64,
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
        if outside {
            self.join.outside_above += 1;
        } else if ends_here || matches!(absorption, Absorption::Possible | Absorption::Promised) {
            self.early += u64::from(absorption == Absorption::Promised && !ends_here);
            self.join.absorbed += 1;
        } else if absorption == Absorption::Unknown && side < 2 {
            self.without[side] += 1;
        } else {
            self.join.unmatched_above += 1;
        }
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
    pub fn begin_below(&mut self, lower: &Active, extra: &[(Origin, u64)], outside: bool, repeated: bool) {
        let join = &mut self.join;
        if lower.origin == Origin::Unknown && outside {
            join.outside_below += 1;
            return;
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
                    "{names}: {:.1} % of the {what} have no request below; a cache between presumably \
                     answered them",
                    100.0 * share
                ));
            } else {
                self.join.unmatched_above += without;
            }
        }
        if self.early > 0 {
            remarks.push(format!(
                "{names}: {} of {} writes completed before any part of them appeared below, although the \
                 cache between is write-through",
                self.early,
                self.could[Operation::Write as usize]
            ));
        }
        self.join
    }
}
