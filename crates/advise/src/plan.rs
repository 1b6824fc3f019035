//! What to measure within a budget: a screening design, and pairs to test the best with.

use std::fmt;
use std::time::Duration;

use nestor_results::WrittenStack;
use nestor_statistics::design::{d_optimal, parameters};
use nestor_statistics::{AdditiveModel, AdditiveRun, GivenRun, NoDesign};
use serde::Serialize;

use crate::factors::HeldFixed;
use crate::observation::Observation;
use crate::space::Space;

/// Runs beyond the unknowns of the model: with four, t is 2.8 and not 12.7, so that intervals mean something.
const SPARE_RUNS: usize = 4;
/// Pairs that test the best recommendation.
const PAIRS: u32 = 6;
/// Fewer pairs are not worth their time: with two, t is 12.7.
const FEWEST_PAIRS: u32 = 3;

/// Where effects cannot be told apart, so many stacks are all measured.
const MEASURED_ALL: usize = 24;

/// What is to be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScreeningPlan {
    /// The stacks, yours first; none if what is known suffices.
    pub stacks: Vec<WrittenStack>,
    /// Stacks that may be chosen.
    pub possible: usize,
    /// Unknowns of the model.
    pub parameters: usize,
    /// Runs of these stacks that are known already.
    pub known: usize,
    /// Pairs that test the best.
    pub pairs: u32,
    /// Short runs that trace flushes, at most: one for each cache mode of which no trace shows what becomes of them.
    pub probes: usize,
    /// Seconds that a cell usually takes here, if that is known.
    pub cell_s: Option<f64>,
    /// Seconds until the first cell of a laboratory that is opened.
    pub opening_s: f64,
    /// What all stacks have in common, and how to ask for more.
    pub held_fixed: Vec<HeldFixed>,
}

/// The time that there is, and what takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// All of it; `None`: as long as it takes.
    pub budget: Option<Duration>,
    /// Seconds that a cell usually takes here, if that is known.
    pub cell_s: Option<f64>,
    /// Seconds until the first cell of a laboratory that is opened, which is once for the screening and once for the test.
    pub opening_s: f64,
    /// Runs that trace flushes, which are wanted besides and left out where the time does not hold them.
    pub probes: usize,
}

impl Time {
    /// How many cells fit.
    fn holds(self) -> usize {
        match (self.budget, self.cell_s) {
            (Some(budget), Some(cell)) if cell > 0.0 => {
                ((budget.as_secs_f64() - 2.0 * self.opening_s).max(0.0) / cell) as usize
            }
            _ => usize::MAX,
        }
    }
}

/// Why nothing can be planned.
#[derive(Clone, Debug, PartialEq)]
pub enum NoPlan {
    /// The budget does not hold the fewest cells.
    Budget {
        /// Cells that it holds.
        holds: usize,
        /// Cells that are needed.
        needed: usize,
    },
    /// No design tells all effects: some levels come only together.
    NotEstimable,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget { holds, needed } => write!(
                f,
                "the budget allows {holds} cells, but these levels and a test of the best stack need \
                 {needed}\n  raise --budget, or leave out levels"
            ),
            Self::NotEstimable => f.write_str(
                "some of these levels occur only together, so their effects cannot be separated\n  leave \
                 out the levels that occur with only one other",
            ),
        }
    }
}

impl std::error::Error for NoPlan {}

/// Plans a screening of a space: as many runs as the model has unknowns and four more, less what is known, in one block with
/// `yours`.
///
/// # Errors
/// Why there is no plan.
pub fn plan(
    space: &Space,
    yours: &WrittenStack,
    known: &[Observation],
    time: Time,
    seed: u64,
) -> Result<ScreeningPlan, NoPlan> {
    let mut plan = screening(space, yours, known, time, seed)?;
    plan.probes = time.probes.min(time.holds().saturating_sub(plan.cells()));
    Ok(plan)
}

fn screening(
    space: &Space,
    yours: &WrittenStack,
    known: &[Observation],
    time: Time,
    seed: u64,
) -> Result<ScreeningPlan, NoPlan> {
    let given = space.given(known.iter().map(|seen| (&seen.stack, seen.block.as_str())));
    let possible = space.possible();
    let unknowns = parameters(&space.level_counts());
    let holds = time.holds();
    let mut plan = ScreeningPlan {
        stacks: Vec::new(),
        possible: possible.len(),
        parameters: unknowns,
        known: given.len(),
        pairs: PAIRS,
        probes: 0,
        cell_s: time.cell_s,
        opening_s: time.opening_s,
        held_fixed: space.held_fixed(),
    };
    let tells_all = |runs: usize| d_optimal(&space.level_counts(), &possible, runs, &given, seed);
    let wanted = (unknowns + SPARE_RUNS).min(possible.len());
    if given.len() >= unknowns + SPARE_RUNS && already_tell_all(space, &given) {
        plan.pairs = affordable_pairs(0, holds)?;
        return Ok(plan);
    }
    let fewest = match fewest_runs(unknowns.min(possible.len()), &possible, given.len(), tells_all) {
        Ok(fewest) => fewest,
        // Without a model there is nothing to predict, but a few stacks can all be measured.
        Err(NoPlan::NotEstimable) if possible.len() <= MEASURED_ALL => {
            plan.pairs = affordable_pairs(possible.len() + 1, holds)?;
            plan.stacks = with_yours(yours, space.stacks());
            return Ok(plan);
        }
        Err(error) => return Err(error),
    };
    let wanted = wanted.saturating_sub(given.len()).max(fewest);
    // Yours may have to be measured beside them.
    let cells = |runs: usize| runs + 1;
    let runs = (fewest..=wanted)
        .rev()
        .find(|runs| affordable_pairs(cells(*runs), holds).is_ok())
        .ok_or(NoPlan::Budget { holds, needed: cells(fewest) + 2 * FEWEST_PAIRS as usize })?;
    plan.pairs = affordable_pairs(cells(runs), holds)?;
    let design = tells_all(runs).map_err(|_| NoPlan::NotEstimable)?;
    plan.stacks = with_yours(yours, design.runs.iter().filter_map(|levels| space.stack(levels)));
    Ok(plan)
}

fn with_yours<'a>(
    yours: &'a WrittenStack,
    stacks: impl Iterator<Item = &'a WrittenStack>,
) -> Vec<WrittenStack> {
    std::iter::once(yours).chain(stacks.filter(|stack| *stack != yours)).cloned().collect()
}

/// Whether runs that were made tell every effect.
fn already_tell_all(space: &Space, given: &[GivenRun]) -> bool {
    let counts = space.level_counts();
    let runs =
        given.iter().map(|run| AdditiveRun { levels: run.levels.clone(), block: run.block, rate: 1.0 });
    let told = AdditiveModel::fit(&counts, &runs.collect::<Vec<_>>()).map(|model| model.effects().len());
    told == Some(counts.iter().filter(|count| **count > 1).sum())
}

/// The fewest new runs with which every effect can be told.
fn fewest_runs(
    unknowns: usize,
    possible: &[Vec<usize>],
    known: usize,
    tells_all: impl Fn(usize) -> Result<nestor_statistics::Design, NoDesign>,
) -> Result<usize, NoPlan> {
    let from = if known == 0 { unknowns } else { 1 };
    (from..=possible.len()).find(|runs| tells_all(*runs).is_ok()).ok_or(NoPlan::NotEstimable)
}

fn affordable_pairs(cells: usize, holds: usize) -> Result<u32, NoPlan> {
    let needed = |pairs: u32| cells + 2 * pairs as usize;
    (FEWEST_PAIRS..=PAIRS)
        .rev()
        .find(|pairs| needed(*pairs) <= holds)
        .ok_or(NoPlan::Budget { holds, needed: needed(FEWEST_PAIRS) })
}

impl ScreeningPlan {
    /// Cells in all.
    pub fn cells(&self) -> usize {
        self.stacks.len() + 2 * self.pairs as usize + self.probes
    }

    /// Seconds that all of it usually takes here, if that is known.
    pub fn expected_s(&self) -> Option<f64> {
        let openings = if self.stacks.is_empty() { 1.0 } else { 2.0 };
        self.cell_s.map(|cell| cell * self.cells() as f64 + openings * self.opening_s)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use nestor_stack::Layer;

    use super::*;
    use crate::factors::FactorName;
    use crate::local::machine_with;

    const YOURS: &str = "ext4/kvm/raw/ext4/hdd";

    fn space() -> Space {
        Space::new(&BTreeMap::new(), Layer::parse("hdd").unwrap(), &machine_with("").unwrap()).unwrap()
    }

    fn planned(known: &[Observation], minutes: u64, cell_s: Option<f64>) -> Result<ScreeningPlan, NoPlan> {
        let time = Time { budget: Some(Duration::from_secs(60 * minutes)), cell_s, ..Time::default() };
        plan(&space(), &YOURS.into(), known, time, 1)
    }

    fn seen(stack: &str, block: &str) -> Observation {
        Observation { stack: stack.into(), run: 1, block: block.to_owned(), rate: 1.0, trusted: true }
    }

    #[test]
    fn a_few_of_many_are_measured_beside_yours() {
        let plan = planned(&[], 60, Some(60.0)).unwrap();
        assert_eq!((plan.possible, plan.parameters, plan.pairs), (12, 5, 6));
        assert!((9..=10).contains(&plan.stacks.len()), "{plan:?}");
        assert_eq!(plan.stacks[0], YOURS);
        let different: BTreeSet<&WrittenStack> = plan.stacks.iter().collect();
        assert_eq!(different.len(), plan.stacks.len());
        assert_eq!(plan.expected_s(), Some(60.0 * plan.cells() as f64));
        let slow_start = Time {
            budget: Some(Duration::from_secs(3_600)),
            cell_s: Some(60.0),
            opening_s: 1_000.0,
            probes: 30,
        };
        let slow_start = super::plan(&space(), &YOURS.into(), &[], slow_start, 1).unwrap();
        assert!(slow_start.cells() <= 26 && slow_start.expected_s().unwrap() <= 3_600.0, "{slow_start:?}");
    }

    #[test]
    fn runs_that_trace_flushes_are_counted_as_far_as_they_fit() {
        let probed = |minutes: u64| {
            let budget = Some(Duration::from_secs(60 * minutes));
            let time = Time { budget, cell_s: Some(60.0), probes: 3, ..Time::default() };
            super::plan(&space(), &YOURS.into(), &[], time, 1).unwrap()
        };
        let (without, with) = (planned(&[], 60, Some(60.0)).unwrap(), probed(60));
        assert_eq!((with.probes, with.cells()), (3, without.cells() + 3));
        assert_eq!(with.expected_s().unwrap(), without.expected_s().unwrap() + 180.0);
        let short = probed(13);
        assert!(short.cells() <= 13 && short.pairs == planned(&[], 13, Some(60.0)).unwrap().pairs);
    }

    #[test]
    fn a_short_budget_takes_pairs_first_then_runs_then_gives_up() {
        let cells = |minutes| {
            let plan = planned(&[], minutes, Some(60.0)).unwrap();
            (plan.stacks.len(), plan.pairs)
        };
        assert!(cells(20).1 < 6);
        assert!(cells(13).0 <= 7 && cells(13).1 == 3);
        assert_eq!(planned(&[], 5, Some(60.0)), Err(NoPlan::Budget { holds: 5, needed: 12 }));
        // How long a cell takes is not known: the campaign itself keeps to the budget.
        assert!(planned(&[], 5, None).is_ok());
    }

    #[test]
    fn levels_that_come_only_together_are_all_measured() {
        // Native AIO goes with cache modes that bypass the page cache only; here it is an option of one level.
        let levels = BTreeMap::from([
            (FactorName::Cache, vec!["none:aio=native".to_owned(), "directsync".to_owned()]),
            (FactorName::Format, vec!["raw".to_owned(), "vmdk:subformat=monolithicFlat".to_owned()]),
            (FactorName::HostFs, vec!["xfs".to_owned()]),
        ]);
        let space = Space::new(&levels, Layer::parse("hdd").unwrap(), &machine_with("").unwrap()).unwrap();
        assert_eq!(space.stacks().count(), 3);
        let plan = super::plan(&space, &"ext4/kvm/raw/xfs/hdd".into(), &[], Time::default(), 1).unwrap();
        assert_eq!(plan.stacks.len(), 4, "{plan:?}");
    }

    #[test]
    fn what_is_known_is_not_measured_again() {
        let space = space();
        let all: Vec<Observation> = space.stacks().map(|stack| seen(stack, "1")).collect();
        let plan = planned(&all, 60, Some(60.0)).unwrap();
        assert_eq!((plan.stacks.len(), plan.known, plan.cells()), (0, 12, 12));
        let some: Vec<Observation> = all.iter().step_by(2).cloned().collect();
        let plan = planned(&some, 60, Some(60.0)).unwrap();
        assert!(plan.stacks.len() < 9, "{plan:?}");
        // Runs that nothing ties together tell nothing.
        let loose: Vec<Observation> =
            all.iter().zip(0..).map(|(o, i)| seen(&o.stack, &format!("{i}"))).collect();
        assert!(planned(&loose, 60, Some(60.0)).unwrap().stacks.len() >= 5);
    }
}
