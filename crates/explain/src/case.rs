//! The input of a mechanism: the cell, its baseline, and the part of the difference that no mechanism has claimed yet.

use std::collections::{BTreeMap, BTreeSet};

use nestor_stack::Stack;

use crate::account::part_times;
use crate::evidence::{Evidence, Part};
use crate::finding::{Finding, MechanismName, Number};

/// A cell and what it is compared with.
pub struct Case<'a> {
    /// The cell.
    pub here: &'a Evidence,
    /// Its baseline.
    pub baseline: Option<&'a Evidence>,
}

impl Case<'_> {
    /// A quantity here and in the baseline.
    pub fn both(&self, quantity: impl Fn(&Evidence) -> f64) -> (f64, Option<f64>) {
        (quantity(self.here), self.baseline.map(quantity))
    }

    /// How much more of a quantity there is here than in the baseline, which without one is 0.
    pub fn more(&self, quantity: impl Fn(&Evidence) -> f64) -> f64 {
        let (here, baseline) = self.both(quantity);
        here - baseline.unwrap_or(0.0)
    }

    /// A quantity as a number of a finding.
    pub fn number(&self, what: &str, unit: &str, quantity: impl Fn(&Evidence) -> f64) -> Number {
        let (here, baseline) = self.both(quantity);
        Number { what: what.to_owned(), here, baseline, unit: unit.to_owned() }
    }

    /// What so many more requests for each operation take outside the medium: on the way through the layers each takes as
    /// long as the baseline's do, and they come one after the other, as commits and what waits for them do.
    pub fn on_the_way_ns(&self, more_requests: f64) -> f64 {
        let Some(baseline) = self.baseline else { return 0.0 };
        let all = baseline.per_operation(baseline.spent(|_| true).requests as f64);
        if all <= 0.0 { 0.0 } else { more_requests.max(0.0) * baseline.part_ns(Part::Idle) / all }
    }

    /// Whether something holds for the stack or for the baseline's; a stack that is not known may be any.
    pub(crate) fn may_be_in(&self, holds: fn(&Stack) -> bool) -> bool {
        let stacks = std::iter::once(self.here).chain(self.baseline).map(|e| e.stack.value());
        stacks.into_iter().any(|stack| stack.is_none_or(holds))
    }

    /// The whole that shares are taken of: the difference in time per operation, or without a baseline the time.
    pub fn whole_ns(&self) -> f64 {
        self.more(Evidence::time_per_operation_ns)
    }
}

/// What is left to explain of each part, time per operation in whole nanoseconds; negative where the cell is faster.
#[derive(Clone, Debug, Default)]
pub struct Left {
    parts: BTreeMap<Part, i64>,
    /// What the mechanism that looks now has claimed.
    claimed: BTreeMap<Part, i64>,
    /// Parts whose requests a mechanism before answers for, and those that the one that looks now takes.
    given: BTreeSet<Part>,
    taken: BTreeSet<Part>,
}

impl Left {
    /// Nothing has been claimed.
    pub fn of(case: &Case<'_>) -> Self {
        let mut parts = part_times(case.here);
        for (part, before) in case.baseline.map(part_times).unwrap_or_default() {
            *parts.entry(part).or_default() -= before;
        }
        Self { parts, ..Self::default() }
    }

    /// What is left of a part.
    pub fn part(&self, part: Part) -> f64 {
        self.parts.get(&part).copied().unwrap_or(0) as f64
    }

    /// Claims up to `wanted_ns` of a part, of the same sign; gives what there was.
    pub fn claim(&mut self, part: Part, wanted_ns: f64) -> f64 {
        let left = self.parts.entry(part).or_default();
        if *left as f64 * wanted_ns <= 0.0 {
            return 0.0;
        }
        let claimed =
            if wanted_ns.abs() < left.unsigned_abs() as f64 { wanted_ns.round() as i64 } else { *left };
        *left -= claimed;
        *self.claimed.entry(part).or_default() += claimed;
        claimed as f64
    }

    /// Claims up to `wanted_ns` of parts together, of the same sign, one part after the other; gives what there was.
    pub fn claim_of(&mut self, parts: &[Part], wanted_ns: f64) -> f64 {
        parts.iter().fold(0.0, |claimed, part| claimed + self.claim(*part, wanted_ns - claimed))
    }

    /// Takes the requests of parts: from then on no other mechanism answers for what they cause. False if one does already.
    pub fn take_requests(&mut self, parts: &[Part]) -> bool {
        if parts.iter().any(|part| self.given.contains(part)) {
            return false;
        }
        self.taken.extend(parts);
        true
    }

    /// The parts whose requests one mechanism took.
    pub(crate) fn take_given(&mut self) -> BTreeSet<Part> {
        let taken = std::mem::take(&mut self.taken);
        self.given.extend(&taken);
        taken
    }

    /// What was claimed since this was asked last: by one mechanism.
    pub(crate) fn take_claimed(&mut self) -> BTreeMap<Part, i64> {
        let mut claimed = std::mem::take(&mut self.claimed);
        claimed.retain(|_, ns| *ns != 0);
        claimed
    }

    /// Takes back what a mechanism has claimed that then turned out not to be at work.
    pub(crate) fn give_back(&mut self) {
        self.taken.clear();
        for (part, ns) in self.take_claimed() {
            *self.parts.entry(part).or_default() += ns;
        }
    }

    /// What no mechanism claimed, by part.
    pub(crate) fn into_rest(mut self) -> BTreeMap<Part, i64> {
        self.parts.retain(|_, ns| *ns != 0);
        self.parts
    }

    /// Claims all of a part.
    pub fn claim_all(&mut self, part: Part) -> f64 {
        self.claim(part, self.part(part))
    }

    /// Claims the time that parts take less than in the baseline. What the layers did while the medium worked is seen now
    /// that it works less: as far as idle time only grew by that, it belongs to it.
    pub fn claim_saved(&mut self, parts: &[Part]) -> f64 {
        let saved: f64 = parts.iter().map(|part| self.claim(*part, self.part(*part).min(0.0))).sum();
        saved + self.claim(Part::Idle, self.part(Part::Idle).max(0.0).min(-saved))
    }

    /// The part that no mechanism claimed.
    pub fn rest(&self) -> f64 {
        self.parts.values().sum::<i64>() as f64
    }
}

/// A finding without proofs and share, which are added to all alike.
pub fn finding(mechanism: MechanismName, layer: &str, effect_ns: f64, words: String) -> Finding {
    Finding {
        mechanism,
        layer: layer.to_owned(),
        words,
        effect_ns,
        share: 0.0,
        numbers: Vec::new(),
        proofs: Vec::new(),
        advice: None,
    }
}
