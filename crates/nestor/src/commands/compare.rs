//! `nestor compare`

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use nestor_report::{CompareView, compare_text, gate_text};
use nestor_results::gate::{check_rules, judge, worst};
use nestor_results::{Doubt, GateAnswer, StoredRun, Study, TraceCost, WrittenStack, trace_costs};

use crate::arguments::CompareArguments;
use crate::commands::run::{one_off, set_tracing, traced};
use crate::expected;
use crate::gate;
use crate::json::json_text;
use crate::order::require_order;
use crate::output::{columns, fitted, style};
use crate::results_file::{Access, open_for};
use crate::session;

/// What was compared: the runs of the baseline and those of each candidate.
struct Sides<'a> {
    baseline: Vec<&'a StoredRun>,
    candidates: Vec<Vec<&'a StoredRun>>,
}

/// Measures a workload on stacks in pairs of random order and says how each differs from the first, or from a saved baseline.
///
/// # Errors
/// What is wrong with the stacks or the workload, or why there is nothing to compare.
pub fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let (stacks, workload) = arguments.stacks_and_workload().map_err(anyhow::Error::msg)?;
    let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
    let in_order = [&stacks[..], &[workload]].concat();
    require_order(&in_order, stacks.len(), "the stacks come first, then the workload")?;
    let mut study = one_off(&stacks, workload, arguments.replications, arguments.seed)?;
    set_tracing(&mut study, &arguments.lab)?;
    candidates(&study, &stacks, arguments)?;
    let [workload] = study.workloads.as_slice() else {
        bail!("compare needs one workload; `{workload}` expands to {}", study.workloads.len());
    };
    check_rules(&arguments.fail_if, workload)?;
    session::check_study(&study, &arguments.lab)?;
    // A name that is not there leaves no file behind.
    let saved_as = |name: &str| {
        let store = open_for(&arguments.lab, Access::Reads);
        gate::saved(name, workload, &store.with_context(|| format!("there is no baseline `{name}`"))?)
    };
    let saved = arguments.against.as_deref().map(saved_as).transpose()?;
    study.against =
        arguments.against.as_deref().zip(saved.as_deref()).map(|(name, runs)| gate::noted(name, runs));
    let candidates = candidates(&study, &stacks, arguments)?;
    let workload = &study.workloads[0];
    let mut store = open_for(&arguments.lab, Access::Adds)?;
    expected::say(&study, &arguments.lab, &store)?;
    let runs = session::run(&study, &arguments.lab, false, &mut store)?.runs;
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    let runs_of = |stack: &WrittenStack| -> Vec<&StoredRun> {
        traced(&runs).filter(|r| r.record.stack == *stack && r.record.workload == *workload).collect()
    };
    let sides = Sides {
        baseline: saved.as_ref().map_or_else(|| runs_of(&study.stacks[0]), |saved| saved.iter().collect()),
        candidates: candidates.iter().map(runs_of).collect(),
    };
    let doubt =
        arguments.against.as_deref().zip(saved.as_deref()).map(|(name, runs)| gate::doubt(name, runs));
    let views = views(&sides, doubt);
    if views.is_empty() {
        bail!("nothing was measured, so there is nothing to compare");
    }
    let answers = answers(&sides, arguments)?;
    let text = if arguments.lab.json {
        json_text(&in_json(&views, &answers, &costs)?)? + "\n"
    } else {
        in_text(&views, &answers) + &fitted(&costs_in_text(&costs), columns())
    };
    if let Some(worst) = worst(answers.iter().flatten()) {
        gate::print(&text)?;
        return Ok(gate::exit_code(worst));
    }
    out!("{text}");
    let has_numbers = |view: &CompareView| {
        !view.baseline.summary.samples.is_empty() && !view.candidate.summary.samples.is_empty()
    };
    let all = views.len() == candidates.len() && views.iter().all(has_numbers);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The stacks that are judged.
fn candidates<'a>(
    study: &'a Study,
    stacks: &[&str],
    arguments: &CompareArguments,
) -> Result<&'a [WrittenStack]> {
    match study.stacks.as_slice() {
        candidates if arguments.against.is_some() => Ok(candidates),
        [_, candidates @ ..] if !candidates.is_empty() => Ok(candidates),
        _ => bail!("{}", one_stack(stacks)),
    }
}

/// Each candidate beside the baseline; `doubt`: of a saved one.
fn views(sides: &Sides<'_>, doubt: Option<Doubt>) -> Vec<CompareView> {
    let view = |candidate: &Vec<&StoredRun>| {
        let view = CompareView::of(&sides.baseline, candidate)?;
        Some(match &doubt {
            None => view.in_random_order(),
            Some(doubt) => {
                let mut view = view;
                view.comparison.doubts.push(doubt.clone());
                view
            }
        })
    };
    sides.candidates.iter().filter_map(view).collect()
}

/// What the rules say of each candidate; nothing of any without rules.
fn answers(sides: &Sides<'_>, arguments: &CompareArguments) -> Result<Vec<Vec<GateAnswer>>> {
    let rules = &arguments.fail_if;
    let limits = rules.len() * sides.candidates.len();
    let each = sides.candidates.iter().map(|candidate| judge(rules, &sides.baseline, candidate, limits));
    if rules.is_empty() { Ok(Vec::new()) } else { Ok(each.collect::<Result<_, _>>()?) }
}

/// Why one stack is not enough.
fn one_stack(stacks: &[&str]) -> String {
    let stack = stacks.first().copied().unwrap_or_default();
    let are = if stacks.len() > 1 { "these are one and the same" } else { "this is one" };
    format!(
        "nestor compare needs different stacks, and {are}: `{stack}`\n  \
         name another stack before the workload, or several in braces, such as 'ext3/kvm/{{raw,qcow2}}/xfs/hdd'"
    )
}

/// One comparison after the other, each with what the gate says of it.
fn in_text(views: &[CompareView], answers: &[Vec<GateAnswer>]) -> String {
    let gates = answers.iter().map(|answers| format!("\n{}", gate_text(answers, style())));
    let gates = gates.map(Some).chain(std::iter::repeat_with(|| None));
    let texts =
        views.iter().zip(gates).map(|(view, gate)| compare_text(view, style()) + &gate.unwrap_or_default());
    texts.collect::<Vec<_>>().join("\n")
}

/// One comparison as an object, several as a list of such; what tracing cost is in the first, because it is of all runs.
fn in_json(
    views: &[CompareView],
    answers: &[Vec<GateAnswer>],
    costs: &[TraceCost],
) -> Result<serde_json::Value> {
    let mut json = views.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    for (view, answers) in json.iter_mut().zip(answers) {
        view["gate"] = serde_json::to_value(answers)?;
    }
    if let (Some(first), false) = (json.first_mut(), costs.is_empty()) {
        first["trace_costs"] = serde_json::to_value(costs)?;
    }
    Ok(if json.len() == 1 { json.remove(0) } else { json.into() })
}

/// What tracing cost in each cell that was also run untraced, and in all together, a line each.
pub fn costs_in_text(costs: &[TraceCost]) -> String {
    let line = |cost: &TraceCost| match (&cost.stack, &cost.workload) {
        (Some(stack), Some(workload)) => format!("{stack} {workload}: {}\n", cost.in_words()),
        _ => format!("all cells: {}\n", cost.in_words()),
    };
    costs.iter().map(line).collect()
}
