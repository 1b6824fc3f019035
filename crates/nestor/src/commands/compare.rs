//! `nestor compare`

use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_report::{CompareView, compare_text};
use nestor_results::{StoredRun, TraceCost, trace_costs};

use crate::arguments::CompareArguments;
use crate::commands::run::{one_off, open_store, set_tracing, traced};
use crate::output::{print_json, style};
use crate::session;

/// Measures a workload on two stacks in pairs of random order and says how they differ.
///
/// # Errors
/// What is wrong with the stacks or the workload, or why there is nothing to compare.
pub fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let stacks = [arguments.baseline.as_str(), arguments.candidate.as_str()];
    let mut study = one_off(&stacks, &arguments.workload, arguments.replications, arguments.seed)?;
    set_tracing(&mut study, &arguments.lab)?;
    let [baseline, candidate] = study.stacks.as_slice() else {
        bail!("compare needs two different stacks; these expand to {}", study.stacks.len());
    };
    let [workload] = study.workloads.as_slice() else {
        bail!("compare needs one workload; `{}` expands to {}", arguments.workload, study.workloads.len());
    };
    let mut store = open_store(&arguments.lab)?;
    let runs = session::run(&study, &arguments.lab, false, &mut store)?.runs;
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    let runs_of = |stack: &str| -> Vec<&StoredRun> {
        traced(&runs).filter(|r| r.record.stack == stack && r.record.workload == *workload).collect()
    };
    let view = CompareView::of(&runs_of(baseline), &runs_of(candidate)).map(CompareView::in_random_order);
    let Some(view) = view else {
        bail!("nothing was measured, so there is nothing to compare");
    };
    if arguments.lab.json {
        let mut json = serde_json::to_value(&view)?;
        if !costs.is_empty() {
            json["trace_costs"] = serde_json::to_value(&costs)?;
        }
        print_json(&json)?;
    } else {
        out!("{}", compare_text(&view, style()));
        print_costs(&costs);
    }
    let both = !view.baseline.summary.samples.is_empty() && !view.candidate.summary.samples.is_empty();
    Ok(if both { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What tracing cost in each cell that was also run untraced, and in all together.
pub fn print_costs(costs: &[TraceCost]) {
    for cost in costs {
        match (&cost.stack, &cost.workload) {
            (Some(stack), Some(workload)) => outln!("{stack} {workload}: {}", cost.in_words()),
            _ => outln!("all cells: {}", cost.in_words()),
        }
    }
}
