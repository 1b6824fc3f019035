//! The account of a difference: whole nanoseconds of one operation of the application, each given to exactly one part of
//! the time and to exactly one mechanism, so that both add up to the difference.
//!
//! The time of one operation is the wall clock's for all operations, divided by their number. Every moment of it belongs
//! to one [`Part`]: to the request of the lowest level that ends first of those being served there, or, while none is, to
//! what the layers above do meanwhile. Requests that overlap therefore never count twice.

use std::collections::BTreeMap;

use nestor_results::Executor;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Part};
use crate::finding::MechanismName;

/// Who answers for nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// A mechanism that was recognised, however small its effect.
    Mechanism(MechanismName),
    /// No mechanism.
    NotExplained,
}

impl Holder {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mechanism(mechanism) => mechanism.name(),
            Self::NotExplained => "not explained",
        }
    }
}

/// What one holder answers for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Who.
    pub holder: Holder,
    /// Nanoseconds for each operation, negative where they are saved.
    pub effect_ns: i64,
    /// The parts of the time that they are of; they add up to `effect_ns`.
    pub parts: BTreeMap<Part, i64>,
    /// Of a longer or shorter path: the processor's time by who executes. They add up to `effect_ns`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub executors: BTreeMap<Executor, i64>,
}

/// One part of the time, here and in the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartRow {
    /// Which.
    pub part: Part,
    /// Nanoseconds for each operation.
    pub here_ns: i64,
    /// The same of the baseline, 0 without one.
    pub baseline_ns: i64,
    /// Requests of the lowest level for each operation; each is in one part. `None` where none can be.
    pub requests: Option<f64>,
    /// The same of the baseline.
    pub baseline_requests: Option<f64>,
    /// Who answers for these requests: the mechanism that makes them, else the one with most of the part's time. `None`
    /// where the part has none, or nothing of it differs.
    pub holder: Option<Holder>,
}

/// Where a difference, or without a baseline the whole time, comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Nanoseconds for each operation more than in the baseline.
    pub whole_ns: i64,
    /// They add up to `whole_ns`, the largest effect first.
    pub lines: Vec<Line>,
    /// They add up to the times for each operation, and their differences to `whole_ns`.
    pub parts: Vec<PartRow>,
}

impl Account {
    /// A line's effect as a share of the difference, signed: the shares of all lines add up to 1. `None` without a difference.
    pub fn share(&self, line: &Line) -> Option<f64> {
        (self.whole_ns != 0).then(|| line.effect_ns as f64 / self.whole_ns as f64)
    }

    /// Who answers for a line, in words. Mechanisms that overlap explain more than there is: then the rest is below nothing, and says so.
    pub fn holder_words(&self, line: &Line, compared: bool) -> &'static str {
        let is_against = self.share(line).is_some_and(|share| share < 0.0);
        match (line.holder, is_against, compared) {
            (Holder::NotExplained, true, true) => "against these, not explained",
            (Holder::NotExplained, true, false) => "explained more than once",
            (holder, ..) => holder.name(),
        }
    }

    /// What is to be known to read shares of which some make up for others; `None` where there are none.
    pub fn made_up_for(&self, compared: bool) -> Option<&'static str> {
        let is_more_than_all = |line| self.share(line).is_some_and(|share| share > 1.0);
        let words = match compared {
            true => {
                "A share above 100 % is more than the whole difference: those below 0 work against it, and together they are the difference."
            }
            false => {
                "Mechanisms overlap in time, so that their shares are more than all of it: what is explained more than once is taken off, and \
                 together they are the time."
            }
        };
        self.lines.iter().any(is_more_than_all).then_some(words)
    }

    pub(crate) fn new(
        here: &Evidence,
        baseline: Option<&Evidence>,
        mut lines: Vec<Line>,
        makers: &BTreeMap<Part, MechanismName>,
    ) -> Self {
        lines.retain(|line| line.effect_ns != 0 || line.parts.values().any(|ns| *ns != 0));
        lines.sort_by_key(|line| std::cmp::Reverse(line.effect_ns.unsigned_abs()));
        let (now, before) = (part_times(here), baseline.map(part_times).unwrap_or_default());
        let ns = |times: &BTreeMap<Part, i64>, part: Part| times.get(&part).copied().unwrap_or(0);
        let rows = Part::ALL.into_iter().map(|part| {
            let requests_here = requests(here, part);
            let maker = makers.get(&part).copied().map(Holder::Mechanism);
            PartRow {
                part,
                here_ns: ns(&now, part),
                baseline_ns: ns(&before, part),
                requests: requests_here,
                baseline_requests: baseline.and_then(|b| requests(b, part)),
                holder: requests_here.and(maker.or_else(|| most_of(&lines, part))),
            }
        });
        let parts: Vec<PartRow> = rows.filter(|row| row.here_ns != 0 || row.baseline_ns != 0).collect();
        let whole_ns = parts.iter().map(|row| row.here_ns - row.baseline_ns).sum();
        Self { whole_ns, lines, parts }
    }
}

/// Who holds most of a part's time.
fn most_of(lines: &[Line], part: Part) -> Option<Holder> {
    let held = lines.iter().filter_map(|line| Some((line.parts.get(&part)?.unsigned_abs(), line.holder)));
    held.max().map(|(_, holder)| holder)
}

/// Requests of the lowest level that are in a part, for each operation.
fn requests(e: &Evidence, part: Part) -> Option<f64> {
    let of_part = match part {
        Part::Idle | Part::Outside => return None,
        Part::DataReadForWrite => e.reads_for_writes().reads,
        Part::Data => e.spent_on(part).requests - e.reads_for_writes().reads,
        part => e.spent_on(part).requests,
    };
    Some(e.per_operation(of_part as f64))
}

/// The time of an operation in whole nanoseconds, by its parts.
pub(crate) fn part_times(e: &Evidence) -> BTreeMap<Part, i64> {
    let exact = Part::ALL.map(|part| e.part_ns(part));
    let whole = e.time_per_operation_ns().round() as i64;
    Part::ALL.into_iter().zip(apportion(&exact, whole)).collect()
}

/// Parts in whole numbers that add up to the whole: each is rounded down, and what is missing goes to those that lost most
/// (the method of largest remainders, Hamilton 1792).
pub(crate) fn apportion(exact: &[f64], whole: i64) -> Vec<i64> {
    let mut parts: Vec<i64> = exact.iter().map(|part| part.floor() as i64).collect();
    if parts.is_empty() {
        return parts;
    }
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| (exact[*b] - exact[*b].floor()).total_cmp(&(exact[*a] - exact[*a].floor())));
    let missing = parts.iter().fold(whole, |rest, part| rest.wrapping_sub(*part));
    let (each, more) = (missing.div_euclid(parts.len() as i64), missing.rem_euclid(parts.len() as i64));
    for (rank, at) in order.into_iter().enumerate() {
        let gets = each.wrapping_add(i64::from((rank as i64) < more));
        parts[at] = parts[at].wrapping_add(gets);
    }
    parts
}

/// The processor's time of a longer or shorter path, by who executes.
pub(crate) fn by_executor(
    here: &Evidence,
    baseline: Option<&Evidence>,
    effect_ns: i64,
) -> BTreeMap<Executor, i64> {
    let more = Executor::ALL.map(|executor| {
        here.instructions_of(executor) - baseline.map_or(0.0, |b| b.instructions_of(executor))
    });
    let all: f64 = more.iter().sum();
    if all == 0.0 {
        return BTreeMap::new();
    }
    let exact = more.map(|more| more * effect_ns as f64 / all);
    let shares = Executor::ALL.into_iter().zip(apportion(&exact, effect_ns));
    shares.filter(|(_, ns)| *ns != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_above_the_whole_difference_is_put_in_words() {
        let line = |effect_ns| Line {
            holder: Holder::NotExplained,
            effect_ns,
            parts: BTreeMap::new(),
            executors: BTreeMap::new(),
        };
        let account = |effects: &[i64]| Account {
            whole_ns: effects.iter().sum(),
            lines: effects.iter().copied().map(line).collect(),
            parts: Vec::new(),
        };
        for compared in [true, false] {
            assert_eq!(account(&[60, 40]).made_up_for(compared), None);
            assert_eq!(account(&[]).made_up_for(compared), None);
            assert!(account(&[174, -74]).made_up_for(compared).is_some());
            assert!(account(&[-174, 74]).made_up_for(compared).is_some());
        }
        let words = |effects: &[i64], compared| {
            let account = account(effects);
            account.lines.iter().map(|line| account.holder_words(line, compared)).collect::<Vec<_>>()
        };
        assert_eq!(words(&[60, 40], false), ["not explained"; 2]);
        assert_eq!(words(&[178, -78], false), ["not explained", "explained more than once"]);
        assert_eq!(words(&[178, -78], true), ["not explained", "against these, not explained"]);
    }

    #[test]
    fn what_rounding_takes_goes_to_those_that_lost_most() {
        assert_eq!(apportion(&[1.6, 1.3, 0.1], 3), [2, 1, 0]);
        assert_eq!(apportion(&[-1.5, 2.5], 1), [-1, 2]);
        assert_eq!(apportion(&[0.0, 0.0, 0.0], 7), [3, 2, 2]);
        assert_eq!(apportion(&[], 7), [0; 0]);
        assert_eq!(apportion(&[f64::NAN, f64::INFINITY], 5).iter().fold(0_i64, |a, b| a.wrapping_add(*b)), 5);
    }
}
