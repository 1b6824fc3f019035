//! `nestor explain`

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_explain::{
    Equations, Evidence, Explanation, equations, equations_text, explain, explanation_text,
};
use nestor_results::{CellRecord, RunFilter, Store, StoredRun};

use crate::arguments::Subject;
use crate::named_studies::run_number;
use crate::output::{columns, print_json, say};
use crate::results_file::{self, Access};

/// Arguments of `nestor explain`.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// Number of a run; other runs of the same stack and workload in the same study are taken with it. The name of a study lists its
    /// cells with a run of each, or stands for its only one
    #[arg(value_name = "RUN|STUDY")]
    pub run: Subject,
    /// Number of a run of the stack to compare with, or name of a study with one cell [default: the study's baseline, if it has one]
    #[arg(long, value_name = "RUN|STUDY")]
    pub against: Option<Subject>,
    /// Say instead what the run's time consists of: the workload's by what the file system did, a request's by front end, back end
    /// and disk, and what of it was executing and what waiting
    #[arg(long, conflicts_with = "against")]
    pub equations: bool,
    /// Compare runs of different workloads
    #[arg(long, requires = "against")]
    pub force: bool,
    /// The results file [default: nestor/results.sqlite in your data directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<std::path::PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Says what made a cell slower or faster than its baseline.
///
/// # Errors
/// When there is no such run, or it has no numbers.
pub fn run(arguments: &ExplainArguments) -> Result<()> {
    let store = results_file::open(arguments.store.as_ref(), Access::Reads)?;
    let run = run_number(&store, &arguments.run, "explain")?;
    if arguments.equations {
        return say_equations(&store, run, arguments);
    }
    let against = arguments.against.as_ref();
    let against =
        against.map(|one| run_number(&store, one, &format!("explain {run} --against"))).transpose()?;
    if let Some(against) = against {
        let (here, there) = (store.run(run)?, store.run(against)?);
        another_cell(&here, &there)?;
        if !arguments.force {
            same_workload(&here, &there)?;
        }
    }
    let explanation = explanation(&store, run, against)?;
    if arguments.json {
        return print_json(&explanation);
    }
    say(&explanation_text(&explanation));
    Ok(())
}

fn say_equations(store: &Store, run: i64, arguments: &ExplainArguments) -> Result<()> {
    let runs = alike(store, &store.run(run)?)?;
    let equations: Equations = equations(&numbered(&runs)).context("the run has no numbers to take apart")?;
    if arguments.json {
        return print_json(&equations);
    }
    out!("{}", equations_text(&equations, columns()));
    Ok(())
}

/// Runs of one cell are taken together, so between two of them nothing is left to explain.
fn another_cell(run: &StoredRun, against: &StoredRun) -> Result<()> {
    let (here, there) = (&run.record, &against.record);
    if here.stack != there.stack || here.workload != there.workload || here.study_hash != there.study_hash {
        return Ok(());
    }
    bail!(
        "runs {} and {} are both of {} under {}: there is no difference to explain\n  name a run of another stack, or \
         omit --against for the baseline of its study; nestor compare --against NAME compares with runs that were saved before",
        run.number,
        against.number,
        here.stack,
        here.workload
    )
}

/// Requests of different workloads differ because different things were asked for, which no mechanism below explains.
fn same_workload(run: &StoredRun, against: &StoredRun) -> Result<()> {
    let (here, there) = (&run.record.workload, &against.record.workload);
    if here == there {
        return Ok(());
    }
    bail!(
        "run {} is of `{here}` and run {} of `{there}`: what differs between them may be the workload's; name a run of \
         `{here}`, or add --force",
        run.number,
        against.number
    )
}

/// Explains a run of a store, against the given run or the baseline of its study.
///
/// # Errors
/// When there is no such run, or it has no numbers.
pub fn explanation(store: &Store, run: i64, against: Option<i64>) -> Result<Explanation> {
    let chosen = store.run(run)?;
    let baseline = match against {
        Some(number) => Some(store.run(number)?),
        None => baseline_of(store, &chosen)?,
    };
    let here = evidence(store, &chosen)?;
    let before = baseline.map(|run| evidence(store, &run)).transpose()?;
    Ok(explain(&here, before.as_ref()))
}

/// A run of the baseline that the run's study names for its stack; none for a cell that it compares with nothing.
fn baseline_of(store: &Store, run: &StoredRun) -> Result<Option<StoredRun>> {
    let Some(hash) = &run.record.study_hash else { return Ok(None) };
    let Some(study) = store.study(hash)? else { return Ok(None) };
    if study.study.is_apart(&run.record.stack, &run.record.workload) {
        return Ok(None);
    }
    let Some(stack) = study.study.baselines.get(&run.record.stack).filter(|b| **b != run.record.stack) else {
        return Ok(None);
    };
    let filter = RunFilter {
        study_hash: Some(hash.clone()),
        stack: Some(stack.clone()),
        workload: Some(run.record.workload.clone()),
        latest_only: true,
        ..RunFilter::default()
    };
    Ok(store.runs(&filter)?.into_iter().find(|run| run.record.measured().is_some()))
}

/// What all runs of the same cell show.
fn evidence(store: &Store, chosen: &StoredRun) -> Result<Evidence> {
    let runs = alike(store, chosen)?;
    Evidence::of(&numbered(&runs)).context("the run has no numbers to explain")
}

fn numbered(runs: &[StoredRun]) -> Vec<(i64, &CellRecord)> {
    runs.iter().map(|run| (run.number, &run.record)).collect()
}

/// All runs of the same cell.
fn alike(store: &Store, chosen: &StoredRun) -> Result<Vec<StoredRun>> {
    if let Some(reason) = chosen.record.failure() {
        bail!("run {} has no numbers to explain: {reason}", chosen.number);
    }
    let filter = RunFilter {
        stack: Some(chosen.record.stack.clone()),
        workload: Some(chosen.record.workload.clone()),
        ground: Some(chosen.record.environment.ground.clone()),
        latest_only: true,
        ..RunFilter::default()
    };
    let is_alike = |run: &StoredRun| {
        run.record.study_hash == chosen.record.study_hash
            && run.record.trace == chosen.record.trace
            && run.record.untraced_twin == chosen.record.untraced_twin
    };
    let mut runs: Vec<StoredRun> = store.runs(&filter)?.into_iter().filter(is_alike).collect();
    // The run that was asked for stands for itself, also where a later one repeats it.
    let dependencies = &chosen.record.environment.depends_on;
    let repeats_it =
        |run: &&mut StoredRun| dependencies.is_some() && run.record.environment.depends_on == *dependencies;
    if let Some(repeated) = runs.iter_mut().find(repeats_it) {
        *repeated = chosen.clone();
    }
    Ok(runs)
}
