//! The real run after the prediction.

use anyhow::{Result, bail};
use nestor_advise::evidence::mechanism;
use nestor_predict::{Evidence, Load, RatedRun, Verification};
use nestor_results::{Known, Store, StoredRun, WrittenStack};
use serde::Serialize;

use super::Predicted;
use crate::arguments::LabArguments;
use crate::commands::run::{one_off_of, set_tracing, traced};
use crate::session;

/// Blocks of the real run: an interval needs two at least.
const REPLICATIONS: u32 = 3;

/// What was found, and where.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// What was found beside what was predicted.
    #[serde(flatten)]
    pub verification: Verification,
    /// The stack whose layers the prediction's time is spread like; none where nothing like it was traced.
    pub spread_like: Option<WrittenStack>,
    /// What makes the difference to the stack where it ran before, in a sentence, if the requests tell.
    pub mechanism: Option<String>,
    /// Where it ran, if that is not what was predicted for: the same place with other processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_place: Option<String>,
}

/// Runs the load on the target.
///
/// # Errors
/// When it cannot be run there.
pub fn run(
    predicted: &Predicted,
    load: &Load,
    arguments: &LabArguments,
    store: &mut Store,
) -> Result<Verified> {
    let Predicted { question, answer, .. } = predicted;
    let mut study = one_off_of(vec![question.to.clone()], vec![load.workload.clone()], REPLICATIONS, 1)?;
    set_tracing(&mut study, arguments)?;
    let runs = session::run(&study, arguments, false, store)?.runs;
    let counts = |run: &&StoredRun| run.record.measured().is_some() && !run.record.violates_an_identity();
    let runs: Vec<&StoredRun> = traced(&runs).filter(counts).collect();
    let known = store.known(&arguments.place()?.place.to_string())?;
    let of_stack = |stack: &WrittenStack| latest_runs(store, &known, stack, load);
    let reference = of_stack(&question.from)?;
    let alike = Evidence::of(&known, None).most_alike(&load.workload, &question.to).cloned();
    let like = alike.as_ref().map(of_stack).transpose()?.unwrap_or_default();
    let (found, like) = (rated(runs.iter().copied(), load), rated(&like, load));
    let Some(verification) = Verification::of(question, answer, &found, &like) else {
        bail!("the load could not be measured on {}; `nestor report` lists the runs and why", question.to);
    };
    Ok(Verified {
        spread_like: alike.filter(|_| verification.is_spread),
        verification,
        mechanism: mechanism(&reference.iter().collect::<Vec<_>>(), &runs),
        // Where nothing was measured before, its processors are not known.
        other_place: (predicted.place.processors.is_some() && !known.place.is_like(&predicted.place))
            .then(|| known.place.in_words()),
    })
}

/// The latest runs of the load on a stack.
fn latest_runs(store: &Store, known: &Known, stack: &WrittenStack, load: &Load) -> Result<Vec<StoredRun>> {
    let cell = known.cells.iter().find(|cell| cell.stack == *stack && cell.workload == load.workload);
    let latest = cell.into_iter().flat_map(|cell| cell.runs.iter().rev().take(REPLICATIONS as usize));
    Ok(latest.map(|run| store.run(*run)).collect::<Result<_, _>>()?)
}

/// The runs that were measured, with what each reached in the unit of the answer.
fn rated<'a>(runs: impl IntoIterator<Item = &'a StoredRun>, load: &Load) -> Vec<RatedRun<'a>> {
    let rate = |run: &StoredRun| Some(load.rate(&run.record.measured()?.load));
    runs.into_iter().filter_map(|run| Some((run, rate(run)?))).collect()
}
