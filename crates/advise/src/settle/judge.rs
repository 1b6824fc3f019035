//! Who is right, as far as runs and traces tell.

use std::collections::BTreeMap;

use nestor_results::{WrittenStack, WrittenWorkload};
use nestor_statistics::{Ratio, paired_ratio, unpaired_ratio};
use serde::Serialize;

use super::{Dispute, LabelledStack, SAME_UP_TO, SLOWER_BELOW, What};
use nestor_text::units::{bytes, digits};

use crate::numbers::change;
use crate::observation::Observation;
use crate::price::{FlushTrace, Reach};
use crate::ranking::pairs;

/// A run without numbers.
#[derive(Clone, Debug)]
pub struct FailedRun {
    /// Whether it says that the stack cannot be made, and not that something happened to the laboratory on the way.
    pub says_not_possible: bool,
    /// The error message.
    pub message: String,
}

impl FailedRun {
    fn first_line(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

/// What was measured for a dispute.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What is compared, as it was built.
    pub stacks: BTreeMap<LabelledStack, WrittenStack>,
    /// Runs with numbers, by workload.
    pub observations: BTreeMap<WrittenWorkload, Vec<Observation>>,
    /// What traces showed of flushes.
    pub traces: Vec<FlushTrace>,
    /// Why a stack has no numbers, by stack and workload.
    pub failures: BTreeMap<(WrittenStack, WrittenWorkload), FailedRun>,
    /// What makes the second stack slower or faster than the first, by these two and the workload.
    pub mechanisms: BTreeMap<(WrittenStack, WrittenStack, WrittenWorkload), String>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It does not hold here.
    DoesNotHold,
    /// It was not tested.
    NotTested,
    /// The runs do not tell.
    NotTold,
    /// It holds here.
    Holds,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds here",
            Self::DoesNotHold => "does not hold here",
            Self::NotTold => "not told apart",
            Self::NotTested => "not tested",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimVerdict {
    /// What is claimed.
    pub words: String,
    /// The workload.
    pub workload: WrittenWorkload,
    /// What became of it.
    pub outcome: Outcome,
    /// What was seen.
    pub seen: String,
    /// The ratio, for claims about speed.
    pub ratio: Option<Ratio>,
    /// What makes the difference: from joined requests, else from what the layers counted.
    pub mechanism: Option<String>,
}

/// A side with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideVerdict {
    /// Who.
    pub who: String,
    /// What they say.
    pub says: String,
    /// What became of it: the least of its claims.
    pub outcome: Outcome,
    /// Its claims.
    pub claims: Vec<ClaimVerdict>,
}

/// What was seen of flushes on a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Semantics {
    /// The stack; in JSON its label.
    pub label: LabelledStack,
    /// What showed it.
    pub trace: FlushTrace,
    /// Flushes at the disk for each of the guest's.
    pub per_flush: Option<f64>,
    /// Flushes at the disk for each write of the guest.
    pub per_write: Option<f64>,
    /// How far they reach.
    pub reach: Reach,
}

/// A dispute with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settlement {
    /// Its id.
    pub id: String,
    /// The question.
    pub question: String,
    /// Why it cannot be settled here at all.
    pub cannot: Option<String>,
    /// What is compared, as it was built.
    pub stacks: BTreeMap<LabelledStack, WrittenStack>,
    /// The sides.
    pub sides: Vec<SideVerdict>,
    /// What was seen of flushes.
    pub semantics: Vec<Semantics>,
    /// What belongs to the question and was not tested.
    pub not_tested: Vec<String>,
    /// The runs it rests on.
    pub runs: Vec<i64>,
}

/// Holds every side's words against what was measured.
pub fn judge(dispute: &Dispute, evidence: &Evidence) -> Settlement {
    let workloads = dispute.workloads();
    let sides = dispute.sides.iter().map(|side| {
        let claims: Vec<ClaimVerdict> = side
            .claims
            .iter()
            .flat_map(|claim| {
                let concerned = workloads.iter().filter(|w| claim.on.is_none_or(|on| **w == on));
                concerned.map(|workload| evidence.verdict(claim.what, workload))
            })
            .collect();
        SideVerdict {
            who: side.who.to_owned(),
            says: side.says.to_owned(),
            outcome: claims.iter().map(|claim| claim.outcome).min().unwrap_or(Outcome::NotTested),
            claims,
        }
    });
    let mut runs: Vec<i64> = evidence.observations.values().flatten().map(|seen| seen.run).collect();
    runs.extend(evidence.traces.iter().map(|trace| trace.run));
    runs.sort_unstable();
    runs.dedup();
    Settlement {
        id: dispute.id.to_owned(),
        question: dispute.question.to_owned(),
        cannot: dispute.cannot.map(str::to_owned),
        stacks: evidence.stacks.clone(),
        sides: sides.collect(),
        semantics: evidence.semantics(dispute),
        not_tested: dispute.untested.iter().map(|text| (*text).to_owned()).collect(),
        runs,
    }
}

impl Evidence {
    fn verdict(&self, what: What, workload: &WrittenWorkload) -> ClaimVerdict {
        let (outcome, seen, ratio) =
            if what.is_speed() { self.speed(what, workload) } else { self.flushes(what, workload) };
        let mechanism = match what.stacks().as_slice() {
            &[a, b] => self.mechanism(a, b, workload),
            _ => None,
        };
        ClaimVerdict { words: what.words(), workload: workload.clone(), outcome, seen, ratio, mechanism }
    }

    fn mechanism(&self, a: LabelledStack, b: LabelledStack, workload: &WrittenWorkload) -> Option<String> {
        let found = |from: LabelledStack, to: LabelledStack| {
            let key = (self.stacks.get(&from)?.clone(), self.stacks.get(&to)?.clone(), workload.clone());
            Some(format!("{to} against {from}: {}", self.mechanisms.get(&key)?))
        };
        found(b, a).or_else(|| found(a, b))
    }

    fn of(&self, labelled: LabelledStack, workload: &WrittenWorkload) -> Vec<&Observation> {
        let (Some(stack), Some(seen)) = (self.stacks.get(&labelled), self.observations.get(workload)) else {
            return Vec::new();
        };
        seen.iter().filter(|seen| seen.stack == *stack).collect()
    }

    fn failure(&self, labelled: LabelledStack, workload: &WrittenWorkload) -> Option<&str> {
        let key = (self.stacks.get(&labelled)?.clone(), workload.clone());
        self.failures.get(&key).map(FailedRun::first_line)
    }

    /// The second stack over the first, in pairs where there are any.
    fn ratio(
        &self,
        baseline: LabelledStack,
        candidate: LabelledStack,
        workload: &WrittenWorkload,
    ) -> Option<Ratio> {
        let (from, to) = (self.of(baseline, workload), self.of(candidate, workload));
        let rates = |seen: &[&Observation]| seen.iter().map(|seen| seen.rate).collect::<Vec<_>>();
        match pairs(&from, &to) {
            none if none.is_empty() => unpaired_ratio(&rates(&from), &rates(&to)),
            pairs => paired_ratio(&pairs),
        }
    }

    fn speed(&self, what: What, workload: &WrittenWorkload) -> (Outcome, String, Option<Ratio>) {
        let stacks = what.stacks();
        let (a, b) = (stacks[0], stacks[1]);
        let Some(ratio) = self.ratio(b, a, workload) else {
            let failed = [a, b].into_iter().find_map(|side| Some((side, self.failure(side, workload)?)));
            let why =
                failed.map_or_else(|| "no runs".to_owned(), |(side, why)| format!("{side} failed: {why}"));
            return (Outcome::NotTested, why, None);
        };
        let pairs = nestor_text::units::plural(ratio.pairs, "pair");
        let seen = format!("{}, {pairs}", change(&ratio));
        (Self::outcome(what, &ratio), seen, Some(ratio))
    }

    fn outcome(what: What, ratio: &Ratio) -> Outcome {
        let Some(interval) = ratio.interval else { return Outcome::NotTold };
        let (holds, does_not) = match what {
            What::Faster(_, _, bound) => (interval.low > bound, interval.high < bound),
            What::Slower(_, _, bound) => (interval.high < bound, interval.low > bound),
            What::NotSlower(..) => (interval.low >= SLOWER_BELOW, interval.high < SLOWER_BELOW),
            What::Same(..) => (
                interval.low >= 1.0 / SAME_UP_TO && interval.high <= SAME_UP_TO,
                interval.high < 1.0 / SAME_UP_TO || interval.low > SAME_UP_TO,
            ),
            _ => (false, false),
        };
        match (holds, does_not) {
            (true, _) => Outcome::Holds,
            (_, true) => Outcome::DoesNotHold,
            _ => Outcome::NotTold,
        }
    }

    fn traces_of(
        &self,
        labelled: LabelledStack,
        workload: &WrittenWorkload,
    ) -> impl Iterator<Item = &FlushTrace> {
        let stack = self.stacks.get(&labelled);
        self.traces.iter().filter(move |trace| Some(&trace.stack) == stack && trace.workload == *workload)
    }

    /// Every run of a stack has to show it; one that shows the contrary is enough to the contrary.
    fn flushes(&self, what: What, workload: &WrittenWorkload) -> (Outcome, String, Option<Ratio>) {
        let labelled = what.stacks()[0];
        if let What::CannotRun(_) = what {
            return self.cannot_run(labelled, workload);
        }
        let verdicts: Vec<(Outcome, String)> =
            self.traces_of(labelled, workload).map(|trace| flush_verdict(what, trace)).collect();
        let least = verdicts.into_iter().min_by_key(|(outcome, _)| *outcome);
        let (outcome, seen) = least.unwrap_or_else(|| {
            let why = self
                .failure(labelled, workload)
                .map_or_else(|| "no traced run".to_owned(), |e| format!("failed: {e}"));
            (Outcome::NotTested, why)
        });
        (outcome, seen, None)
    }

    fn cannot_run(
        &self,
        labelled: LabelledStack,
        workload: &WrittenWorkload,
    ) -> (Outcome, String, Option<Ratio>) {
        if !self.of(labelled, workload).is_empty() {
            return (Outcome::DoesNotHold, "it ran".to_owned(), None);
        }
        let key = self.stacks.get(&labelled).map(|stack| (stack.clone(), workload.clone()));
        let Some(failed) = key.and_then(|key| self.failures.get(&key)) else {
            return (Outcome::NotTested, "no runs".to_owned(), None);
        };
        let why = failed.first_line();
        match failed.says_not_possible {
            true => (Outcome::Holds, why.to_owned(), None),
            false => (Outcome::NotTested, format!("it failed for another reason: {why}"), None),
        }
    }

    fn semantics(&self, dispute: &Dispute) -> Vec<Semantics> {
        if dispute.decides == super::Decides::Speed {
            return Vec::new();
        }
        let workloads = dispute.workloads();
        let mut rows = Vec::new();
        for &labelled in dispute.stacks {
            for workload in &workloads {
                // One row says it; the claims look at all of them.
                rows.extend(self.traces_of(labelled, workload).next().map(|trace| Semantics {
                    label: labelled,
                    trace: trace.clone(),
                    per_flush: trace.per_flush(),
                    per_write: trace.per_write(),
                    reach: trace.reach(),
                }));
            }
        }
        rows
    }
}

fn flush_verdict(what: What, trace: &FlushTrace) -> (Outcome, String) {
    let reach = trace.reach();
    let is = |yes: bool| if yes { Outcome::Holds } else { Outcome::DoesNotHold };
    if let What::HoldsBack(_) = what {
        let seen = format!(
            "{} at the disk when the run ended, {} written by the guest",
            bytes(trace.medium_write_bytes),
            bytes(trace.guest_write_bytes)
        );
        return (is(trace.held_bytes().is_some()), seen);
    }
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    let seen = format!(
        "{} disk flushes per guest flush, {} per guest write",
        number(trace.per_flush()),
        number(trace.per_write())
    );
    let outcome = match (what, reach) {
        (_, Reach::NeverAsked) => Outcome::NotTold,
        (What::FlushesReach(_), Reach::Partly(_)) => Outcome::NotTold,
        (What::FlushesReach(_), reach) => is(matches!(reach, Reach::PerFlush(_) | Reach::PerWrite(_))),
        (What::EveryWriteFlushed(_), reach) => is(matches!(reach, Reach::PerWrite(_))),
        (What::OnlyWhenAsked(_), reach) => is(matches!(reach, Reach::PerFlush(_) | Reach::Partly(_))),
        (What::FlushesLost(_), reach) => is(reach == Reach::Lost),
        _ => Outcome::NotTested,
    };
    (outcome, seen)
}
