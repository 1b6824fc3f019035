//! The real run after the prediction.

use anyhow::{Result, bail};
use nestor_predict::{Answer, Question};
use nestor_study::{Store, StoredRun};
use serde::Serialize;

use super::question::Load;
use crate::cli::LabArguments;
use crate::commands::advise::mechanism;
use crate::commands::run::{one_off, set_tracing, traced};
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
    /// Where an operation's time went there, layer by layer, and where it ran before.
    pub layers: Vec<LayerTime>,
    /// What makes the difference between the two, in a sentence, if the requests tell.
    pub mechanism: Option<String>,
}

/// Time of a request at a layer's lower edge, without that of the layers below it.
#[derive(Clone, Debug, Serialize)]
pub struct LayerTime {
    /// Which layer.
    pub layer: String,
    /// In which machine.
    pub machine: String,
    /// Milliseconds of each operation of the load on the target.
    pub found_ms: f64,
    /// The same where it ran before, of the first and the last layer, which both stacks have.
    pub before_ms: Option<f64>,
}

/// Runs the load on the target.
///
/// # Errors
/// When it cannot be run there.
pub fn run(
    question: &Question,
    answer: &Answer,
    load: &Load,
    arguments: &LabArguments,
    store: &mut Store,
) -> Result<Verified> {
    let mut study = one_off(&[&question.to], &load.workload, REPLICATIONS, 1)?;
    set_tracing(&mut study, arguments)?;
    let end = session::run(&study, arguments, false, store)?;
    let runs = end.runs.iter().map(|run| store.run(*run)).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<&StoredRun> = traced(&runs).filter(|run| run.record.measured().is_some()).collect();
    let rates: Vec<f64> = runs.iter().filter_map(|run| rate(run, load)).collect();
    let Some(found) = nestor_model::geometric_mean(&rates) else {
        bail!("the load could not be measured on {}; `nestor report` lists the runs and why", question.to);
    };
    let reference = reference_runs(store, question, load)?;
    let pass_ms = |rate: f64| {
        let requests_per_s = question.reference.requests_per_s * rate / question.reference.rate;
        f64::from(question.shape.customers()) / requests_per_s * 1e3
    };
    Ok(Verified {
        found,
        runs: runs.iter().map(|run| run.number).collect(),
        error: answer.rate.map(|rate| rate / found - 1.0),
        within: answer.interval.map(|interval| interval.contains(found)),
        found_ms: pass_ms(found),
        residual_ms: answer.rate.map(|rate| pass_ms(rate) - pass_ms(found)),
        layers: runs.first().map(|run| layers(run, reference.first())).unwrap_or_default(),
        mechanism: mechanism(&reference.iter().collect::<Vec<_>>(), &runs),
    })
}

fn rate(run: &StoredRun, load: &Load) -> Option<f64> {
    let result = &run.record.measured()?.load;
    Some(match load.unit {
        nestor_advise::Unit::BytesPerSecond => result.bytes_per_second(),
        nestor_advise::Unit::OperationsPerSecond => result.operations_per_second(),
    })
}

/// The runs that the prediction began from.
fn reference_runs(store: &Store, question: &Question, load: &Load) -> Result<Vec<StoredRun>> {
    let known = store.known()?;
    let cell = known.cells.iter().find(|cell| cell.stack == question.from && cell.workload == load.workload);
    let numbers = cell.map(|cell| cell.runs.clone()).unwrap_or_default();
    Ok(numbers
        .iter()
        .rev()
        .take(REPLICATIONS as usize)
        .map(|run| store.run(*run))
        .collect::<Result<_, _>>()?)
}

/// Both, layer by layer.
fn layers(found: &StoredRun, before: Option<&StoredRun>) -> Vec<LayerTime> {
    let before = before.map(layer_times).unwrap_or_default();
    let all = layer_times(found);
    let last = all.len().saturating_sub(1);
    let of = |(i, (layer, machine, found_ms)): (usize, (String, String, f64))| {
        let same = match i {
            0 => before.first(),
            i if i == last => before.last(),
            _ => None,
        };
        LayerTime { layer, machine, found_ms, before_ms: same.map(|(.., ms)| *ms) }
    };
    all.into_iter().enumerate().map(of).collect()
}

/// Time of each operation at every traced layer, with its machine: the requests' time there, spread over the operations, less that
/// below.
fn layer_times(run: &StoredRun) -> Vec<(String, String, f64)> {
    let Some(measured) = run.record.measured() else { return Vec::new() };
    let operations: u64 = measured.load.operations.values().map(|done| done.operations).sum();
    let of = |index: usize| {
        let layer = &measured.layers[index];
        let metrics = layer.metrics.as_ref()?;
        let times = metrics.q2c.as_ref().or(metrics.d2c.as_ref())?.summary()?;
        Some((layer, times.mean_ns * times.count as f64 / operations.max(1) as f64 / 1e6))
    };
    let all: Vec<_> = (0..measured.layers.len()).filter_map(of).collect();
    let below = |i: usize| all.get(i + 1).map_or(0.0, |(_, ms)| *ms);
    let each = all.iter().enumerate();
    each.map(|(i, (layer, ms))| (layer.layer.clone(), layer.machine.clone(), ms - below(i))).collect()
}
