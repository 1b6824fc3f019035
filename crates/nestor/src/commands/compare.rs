//! `nestor compare`

use std::process::ExitCode;

use anyhow::{Result, bail};
use nestor_report::{CompareView, compare_text};
use nestor_results::{StoredRun, TraceCost, WrittenStack, trace_costs};

use crate::arguments::CompareArguments;
use crate::commands::run::{one_off, set_tracing, traced};
use crate::output::{print_json, style};
use crate::results_file::{Access, open_for};
use crate::session;

/// Measures a workload on stacks in pairs of random order and says how each differs from the first.
///
/// # Errors
/// What is wrong with the stacks or the workload, or why there is nothing to compare.
pub fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let stacks: Vec<&str> = arguments.stacks.iter().map(String::as_str).collect();
    let mut study = one_off(&stacks, &arguments.workload, arguments.replications, arguments.seed)?;
    set_tracing(&mut study, &arguments.lab)?;
    let (baseline, candidates) = match study.stacks.as_slice() {
        [baseline, candidates @ ..] if !candidates.is_empty() => (baseline, candidates),
        _ => bail!("{}", one_stack(&arguments.stacks)),
    };
    let [workload] = study.workloads.as_slice() else {
        bail!("compare needs one workload; `{}` expands to {}", arguments.workload, study.workloads.len());
    };
    session::check_study(&study, &arguments.lab)?;
    let mut store = open_for(&arguments.lab, Access::Adds)?;
    let runs = session::run(&study, &arguments.lab, false, &mut store)?.runs;
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    let runs_of = |stack: &str| -> Vec<&StoredRun> {
        traced(&runs).filter(|r| r.record.stack == stack && r.record.workload == *workload).collect()
    };
    let of_baseline = runs_of(baseline);
    let view = |candidate: &WrittenStack| CompareView::of(&of_baseline, &runs_of(candidate));
    let views: Vec<CompareView> =
        candidates.iter().filter_map(view).map(CompareView::in_random_order).collect();
    if views.is_empty() {
        bail!("nothing was measured, so there is nothing to compare");
    }
    if arguments.lab.json {
        print_json(&in_json(&views, &costs)?)?;
    } else {
        out!("{}", in_text(&views));
        print_costs(&costs);
    }
    let has_numbers = |view: &CompareView| {
        !view.baseline.summary.samples.is_empty() && !view.candidate.summary.samples.is_empty()
    };
    let all = views.len() == candidates.len() && views.iter().all(has_numbers);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Why one stack is not enough.
fn one_stack(stacks: &[String]) -> String {
    let stack = stacks.first().map_or("", String::as_str);
    let are = if stacks.len() > 1 { "these are one and the same" } else { "this is one" };
    format!(
        "nestor compare needs different stacks, and {are}: `{stack}`\n  \
         name another stack before the workload, or several in braces, such as 'ext3/kvm/{{raw,qcow2}}/xfs/hdd'"
    )
}

/// One comparison after the other.
fn in_text(views: &[CompareView]) -> String {
    views.iter().map(|view| compare_text(view, style())).collect::<Vec<_>>().join("\n")
}

/// One comparison as an object, several as a list of such; what tracing cost is in the first, because it is of all runs.
fn in_json(views: &[CompareView], costs: &[TraceCost]) -> Result<serde_json::Value> {
    let mut json = views.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    if let (Some(first), false) = (json.first_mut(), costs.is_empty()) {
        first["trace_costs"] = serde_json::to_value(costs)?;
    }
    Ok(if json.len() == 1 { json.remove(0) } else { json.into() })
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
