//! The real run after the prediction.

use anyhow::{Result, bail};
use nestor_advise::evidence::mechanism;
use nestor_predict::residual::{self, LayerResidual, Times};
use nestor_predict::{Evidence, Question};
use nestor_results::{Known, Store, StoredRun, WrittenStack};
use serde::Serialize;

use super::Predicted;
use super::question::Load;
use crate::arguments::LabArguments;
use crate::commands::run::{one_off_of, set_tracing, traced};
use crate::session;

/// Blocks of the real run: an interval needs two at least.
const REPLICATIONS: u32 = 3;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// What it reached, geometric mean of the runs, in the unit of the answer.
    pub found: f64,
    /// The runs, by number.
    pub runs: Vec<i64>,
    /// Predicted over found, less 1; none where nothing was predicted.
    pub error: Option<f64>,
    /// Whether it is within the 90 % interval.
    pub within: Option<bool>,
    /// Milliseconds that a worker's operation took there.
    pub found_ms: f64,
    /// Milliseconds that were predicted, less those found; none where nothing was predicted.
    pub residual_ms: Option<f64>,
    /// Where a request's time went there beside where it was predicted to go; the differences add up to the residual.
    pub layers: Vec<LayerResidual>,
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
    let rates: Vec<f64> = runs.iter().filter_map(|run| rate(run, load)).collect();
    let Some(found) = nestor_statistics::geometric_mean(&rates) else {
        bail!("the load could not be measured on {}; `nestor report` lists the runs and why", question.to);
    };
    let known = store.known(&arguments.place()?.place.to_string())?;
    let of_stack = |stack: &WrittenStack| latest_runs(store, &known, stack, load);
    let reference = of_stack(&question.from)?;
    let alike = Evidence::of(&known, None).most_alike(&load.workload, &question.to).cloned();
    let donor = alike.as_ref().map(of_stack).transpose()?.unwrap_or_default();
    let pass_ms = |rate: f64| pass_ms(question, rate);
    let found_times = times(&runs, question, load).map(|times| residual::adding_up_to(times, pass_ms(found)));
    let donor_times = times(&donor.iter().collect::<Vec<_>>(), question, load);
    let layers = match (&found_times, answer.rate) {
        (Some(found), rate) => residual::by_layer(found, donor_times.as_ref().zip(rate.map(pass_ms))),
        (None, _) => Vec::new(),
    };
    Ok(Verified {
        found,
        runs: runs.iter().map(|run| run.number).collect(),
        error: answer.rate.map(|rate| rate / found - 1.0),
        within: answer.interval.map(|interval| interval.contains(found)),
        found_ms: pass_ms(found),
        residual_ms: answer.rate.map(|rate| pass_ms(rate) - pass_ms(found)),
        spread_like: donor_times.and(alike).filter(|_| answer.rate.is_some()),
        layers,
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

/// Milliseconds that a worker's operation takes at a rate.
fn pass_ms(question: &Question, rate: f64) -> f64 {
    let requests_per_s = question.reference.requests_per_s * rate / question.reference.rate;
    f64::from(question.shape.customers()) / requests_per_s * 1e3
}

/// Where the time of the load's requests went, as many for each operation as where it ran before.
fn times(runs: &[&StoredRun], question: &Question, load: &Load) -> Option<Times> {
    let reference = &question.reference;
    residual::mean_times(runs, |run| {
        let rate = rate(run, load)?;
        let seconds = run.record.measured()?.load.elapsed_ns as f64 / 1e9;
        Some((rate * seconds * reference.requests_per_s / reference.rate, pass_ms(question, rate)))
    })
}

fn rate(run: &StoredRun, load: &Load) -> Option<f64> {
    let result = &run.record.measured()?.load;
    Some(match load.unit {
        nestor_advise::Unit::BytesPerSecond => result.bytes_per_second(),
        nestor_advise::Unit::OperationsPerSecond => result.operations_per_second() * load.of_an_operation(),
    })
}
