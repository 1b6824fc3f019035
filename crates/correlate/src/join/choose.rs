//! Which requests above a request below belongs to.
//!
//! The range alone decides nothing: several requests for it can be in flight, one can be split or several merged,
//! and caches read ahead and write later. A request above is waiting for one below only if it was issued before and
//! ended after. Among those that are, one with exactly the same range comes first, then one with more bytes that
//! nobody carried yet, then the one whose time encloses it most tightly; each byte above is carried once. Of several with exactly the same
//! range, such as two writes to one place at once, the one that was issued first is served first.

use super::active::{Active, Actives};
use super::ranges::{RangeIndex, cut};

/// Candidates for one request below; more are not looked at.
const MOST_CANDIDATES: usize = 1024;

/// A request above that overlaps one below.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    slot: u32,
    /// The part of the range below that is also above.
    from: u64,
    to: u64,
    exact: bool,
    issued: i64,
    /// From its issue to its completion.
    span: i64,
}

impl Candidate {
    /// The larger, the better it fits, of those with as many bytes.
    fn fit(&self) -> i64 {
        if self.exact { -self.issued } else { -self.span }
    }
}

/// What was found for a request below.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Those that wait for it.
    pub parents: Vec<u32>,
    /// Bytes that it carries for them.
    pub carried: u64,
    /// Parts of its range that no request waits for.
    pub extra: Vec<(u64, u64)>,
    /// All it carries had been carried before.
    pub repeated: bool,
    /// Requests that asked for some of it and did not wait for it, each with what it asked for.
    pub late: Vec<(u32, u64, u64)>,
    /// Numbers of the requests above whose data it carries although they were over before it was, the latest first.
    pub writers: Vec<u64>,
    candidates: Vec<Candidate>,
}

impl Choice {
    /// Finds the parents of `child`, whose range where the levels meet is `from..to`.
    pub fn find(
        &mut self,
        child: &Active,
        (from, to): (u64, u64),
        index: &RangeIndex,
        uppers: &mut Actives,
        tolerance: i64,
    ) {
        self.extra.clear();
        self.candidates.clear();
        let begun = child.timed.begun().saturating_add(tolerance);
        let completed = child.timed.completed.saturating_sub(tolerance);
        let (candidates, late) = (&mut self.candidates, &mut self.late);
        index.overlapping(from, to, |slot, start, end| {
            let upper = &uppers[slot].timed;
            if upper.issued > begun || candidates.len() == MOST_CANDIDATES {
                return;
            }
            if upper.completed < completed {
                if late.len() < MOST_CANDIDATES {
                    late.push((slot, start, end));
                }
                return;
            }
            candidates.push(Candidate {
                slot,
                from: start.max(from),
                to: end.min(to),
                exact: start == from && end == to,
                issued: upper.issued,
                span: upper.completed - upper.issued,
            });
        });
        self.assign(from, to, uppers);
    }

    /// Forgets what was found for another request.
    pub fn clear(&mut self) {
        self.parents.clear();
        self.carried = 0;
        self.extra.clear();
        self.repeated = false;
        self.late.clear();
        self.writers.clear();
    }

    /// Gives each byte of the range to the best of the candidates.
    fn assign(&mut self, from: u64, to: u64, uppers: &mut Actives) {
        self.extra.push((from, to));
        while !self.extra.is_empty() {
            let best = self
                .candidates
                .iter()
                .enumerate()
                .map(|(at, candidate)| {
                    (at, fresh(candidate, &self.extra, &uppers[candidate.slot]), candidate)
                })
                .filter(|(_, fresh, _)| *fresh > 0)
                .max_by_key(|(_, fresh, candidate)| (candidate.exact, *fresh, candidate.fit()));
            let Some((at, fresh, _)) = best else { break };
            let candidate = self.candidates.swap_remove(at);
            self.carried += fresh;
            self.take(&candidate, uppers);
        }
        if self.extra.is_empty() || self.candidates.is_empty() {
            return;
        }
        // The rest was carried before: it is a retry.
        let again = self
            .candidates
            .iter()
            .filter(|candidate| {
                self.extra.iter().any(|(from, to)| candidate.from < *to && *from < candidate.to)
            })
            .max_by_key(|candidate| (candidate.exact, candidate.to - candidate.from, candidate.fit()));
        if let Some(candidate) = again.copied() {
            self.repeated = true;
            self.carried += overlap(&self.extra, candidate.from, candidate.to);
            self.take(&candidate, uppers);
        }
    }

    /// The candidate is a parent: what it has of the range is carried for it.
    fn take(&mut self, candidate: &Candidate, uppers: &mut Actives) {
        uppers[candidate.slot].serve(candidate.from, candidate.to);
        if !self.parents.contains(&candidate.slot) {
            self.parents.push(candidate.slot);
        }
        cut(&mut self.extra, candidate.from, candidate.to);
    }
}

/// Bytes of a candidate that are still to be assigned and that no request carried for it.
fn fresh(candidate: &Candidate, open: &[(u64, u64)], upper: &Active) -> u64 {
    open.iter()
        .map(|(from, to)| (candidate.from.max(*from), candidate.to.min(*to)))
        .filter(|(from, to)| from < to)
        .map(|(from, to)| upper.unserved_bytes(from, to))
        .sum()
}

/// Bytes of `from..to` that are in the ranges.
fn overlap(ranges: &[(u64, u64)], from: u64, to: u64) -> u64 {
    ranges.iter().map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_also_elsewhere_are_counted() {
        assert_eq!(overlap(&[(0, 2), (3, 5), (25, 30)], 1, 26), 1 + 2 + 1);
    }
}
