//! Divides the time of requests among the levels ([`Passage`]) while they end.

use super::Active;
use crate::passage::{Passage, Passed, TimeAtLevel};
use crate::tree::LevelIndex;

/// Builds a [`Passage`].
#[derive(Debug)]
pub(crate) struct Passing {
    levels: usize,
    passage: Passage,
    /// Requests of one level that the request caused.
    slots: Vec<u32>,
    /// Times during which something was under way at a level or below, sorted, without overlap.
    covered: Vec<(i64, i64)>,
    /// For each level from the topmost divided one: when requests waited in its queue, and when they were issued.
    times: Vec<[Vec<(i64, i64)>; 2]>,
}

impl Passing {
    /// Divides the requests of `level` among it and those below, of so many levels together.
    pub fn new(level: LevelIndex, levels: usize) -> Self {
        let divided = levels.saturating_sub(level.position());
        Self {
            levels: divided,
            passage: Passage { level, ..Passage::default() },
            slots: Vec::new(),
            covered: Vec::new(),
            times: vec![[Vec::new(), Vec::new()]; divided],
        }
    }

    /// The level whose requests are divided.
    pub fn level(&self) -> LevelIndex {
        self.passage.level
    }

    /// A request of the level is over; what it caused is still known.
    pub fn push<'s>(&mut self, slot: u32, active: &impl Fn(LevelIndex, u32) -> &'s Active) {
        let root = active(self.passage.level, slot).timed;
        let (from, to) = (root.queued, root.completed.max(root.queued));
        self.collect(slot, (from, to), active);
        let caused_lowest = self.times.last().is_some_and(|[_, issued]| !issued.is_empty());
        let mut parts = vec![TimeAtLevel::default(); self.levels];
        self.covered.clear();
        let mut below = 0;
        for (part, [queued, issued]) in parts.iter_mut().zip(&mut self.times).rev() {
            let with_issued = cover(&mut self.covered, issued);
            let with_queued = cover(&mut self.covered, queued);
            (part.issued_ns, part.queued_ns) = (with_issued - below, with_queued - with_issued);
            below = with_queued;
        }
        let one = Passed {
            requests: 1,
            without_lowest: u64::from(!caused_lowest),
            whole_ns: to.abs_diff(from),
            levels: parts,
        };
        self.passage.operations.entry(root.request.operation).or_default().add(&one);
    }

    /// Finds when what the request caused was under way at each level, within the request's own time.
    fn collect<'s>(
        &mut self,
        slot: u32,
        (from, to): (i64, i64),
        active: &impl Fn(LevelIndex, u32) -> &'s Active,
    ) {
        let within = |start: i64, end: i64| {
            let start = start.clamp(from, to);
            (start, end.clamp(start, to))
        };
        self.slots.clear();
        self.slots.push(slot);
        let mut level = self.passage.level;
        for [queued, issued] in &mut self.times {
            queued.clear();
            issued.clear();
            let mut caused = Vec::new();
            for slot in &self.slots {
                let one = active(level, *slot);
                // What began only after the request was over belongs to others that wait for it.
                if one.timed.queued > to || one.timed.completed < from {
                    continue;
                }
                queued.push(within(one.timed.queued, one.timed.issued));
                issued.push(within(one.timed.issued, one.timed.completed));
                caused.extend_from_slice(&one.children);
            }
            // Several requests may share one below.
            caused.sort_unstable();
            caused.dedup();
            self.slots = caused;
            level = level.below();
        }
    }

    /// The whole.
    pub fn finish(self) -> Passage {
        self.passage
    }
}

/// Adds times to those covered, and gives how long these are together, ns.
fn cover(covered: &mut Vec<(i64, i64)>, more: &mut Vec<(i64, i64)>) -> u64 {
    covered.append(more);
    covered.sort_unstable();
    let mut kept = 0;
    for at in 0..covered.len() {
        let (start, end) = covered[at];
        if kept > 0 && covered[kept - 1].1 >= start {
            covered[kept - 1].1 = covered[kept - 1].1.max(end);
        } else {
            covered[kept] = (start, end);
            kept += 1;
        }
    }
    covered.truncate(kept);
    covered.iter().map(|(start, end)| end.abs_diff(*start)).sum()
}

#[cfg(test)]
mod tests {
    use nestor_trace::Operation;
    use proptest::prelude::*;

    use super::*;
    use crate::join::{Actives, Timed};
    use crate::played::request;

    /// Levels of requests as queued, issued and completed, with the positions of the children at the next level.
    type Played = Vec<Vec<([u64; 3], Vec<u32>)>>;

    fn divided(played: &Played) -> Passed {
        let mut lanes: Vec<Actives> = Vec::new();
        for level in played {
            let mut actives = Actives::default();
            for (times, children) in level {
                let request = request(Operation::Write, 0, 4096, *times);
                let [queued, issued, completed] = times.map(|time| time as i64);
                let slot = actives.insert(Timed { request, queued, issued, completed });
                actives[slot].children.clone_from(children);
            }
            lanes.push(actives);
        }
        let mut passing = Passing::new(LevelIndex::TOP, lanes.len());
        for slot in 0..played[0].len() {
            passing.push(slot as u32, &|level, slot| &lanes[level.position()][slot]);
        }
        passing.finish().operations.remove(&Operation::Write).unwrap()
    }

    #[test]
    fn every_moment_of_a_request_belongs_to_the_lowest_level_that_works_on_it() {
        // Two requests below at once, one of which goes on to the medium.
        let played = vec![
            vec![([0, 10, 100], vec![0, 1])],
            vec![([20, 25, 90], vec![0]), ([22, 22, 95], vec![])],
            vec![([40, 50, 80], vec![])],
        ];
        let passed = divided(&played);
        let at = |queued_ns, issued_ns| TimeAtLevel { queued_ns, issued_ns };
        // At the top: 10 in its queue, then 10 to 20 and 95 to 100. Between: 2 in the queue until the second one is issued,
        // then 22 to 40 and 80 to 95. The medium: 40 to 50 in its queue, 50 to 80 served.
        assert_eq!(passed.levels, [at(10, 15), at(2, 33), at(10, 30)]);
        assert_eq!((passed.requests, passed.without_lowest, passed.whole_ns), (1, 0, 100));
    }

    #[test]
    fn what_a_cache_answers_has_nothing_at_the_lowest_level() {
        let played = vec![vec![([0, 10, 100], vec![0])], vec![([20, 25, 90], vec![])], vec![]];
        let passed = divided(&played);
        assert_eq!((passed.without_lowest, passed.levels[2]), (1, TimeAtLevel::default()));
        assert_eq!(passed.levels[1].ns(), 70);
    }

    fn any_times() -> impl Strategy<Value = [u64; 3]> {
        [0..500_u64, 0..500_u64, 0..500_u64].prop_map(|mut times| {
            times.sort_unstable();
            times
        })
    }

    fn any_level(below: u32) -> impl Strategy<Value = Vec<([u64; 3], Vec<u32>)>> {
        let children = prop::collection::vec(0..below.max(1), 0..if below == 0 { 1 } else { 6 });
        prop::collection::vec((any_times(), children), 5)
    }

    proptest! {
        #[test]
        fn the_parts_of_a_request_add_up_to_it(
            levels in (any_level(5), any_level(5), any_level(5), any_level(0)),
        ) {
            let passed = divided(&vec![levels.0, levels.1, levels.2, levels.3]);
            prop_assert_eq!(passed.levels.iter().map(|part| part.ns()).sum::<u64>(), passed.whole_ns);
        }
    }
}
