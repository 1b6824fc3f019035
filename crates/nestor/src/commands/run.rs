//! `nestor run`

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use nestor_report::{RunView, run_text};
use nestor_study::{Store, Study};

use crate::cli::{LabArguments, RunArguments};
use crate::commands::study::check_profiles;
use crate::notation::LabNotation;
use crate::output::{print_json, style};
use crate::{paths, session};
use nestor_study::Notation;

/// Measures one workload on one or several stacks and shows what each layer did.
///
/// # Errors
/// What is wrong with the stack or the workload, or why nothing could be measured.
pub fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let study = one_off(&[&arguments.stack], &arguments.workload, arguments.replications, arguments.seed)?;
    let mut store = open_store(&arguments.lab)?;
    let end = session::run(&study, &arguments.lab, false, &mut store)?;
    let mut views = Vec::new();
    for stack in &study.stacks {
        for workload in &study.workloads {
            let runs = end.runs.iter().map(|&run| store.run(run)).collect::<Result<Vec<_>, _>>()?;
            let of_cell: Vec<_> =
                runs.iter().filter(|r| r.record.stack == *stack && r.record.workload == *workload).collect();
            views.extend(RunView::of(&of_cell));
        }
    }
    if arguments.lab.json {
        print_json(&views)?;
    } else {
        views.iter().for_each(|view| outln!("{}", run_text(view, style())));
    }
    Ok(exit_code(&views))
}

/// Failure if any cell has no numbers at all.
fn exit_code(views: &[RunView]) -> ExitCode {
    let all_measured = !views.is_empty() && views.iter().all(|v| !v.summary.samples.is_empty());
    if all_measured { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The results' file that the arguments name.
pub fn open_store(arguments: &LabArguments) -> Result<Store> {
    let path = arguments.store.clone().unwrap_or_else(paths::default_store);
    Ok(Store::open(&path)?)
}

/// A study of one command: the first stack is the baseline of the others.
pub fn one_off(stacks: &[&str], workload: &str, replications: u32, seed: u64) -> Result<Study> {
    let mut expanded: Vec<String> = Vec::new();
    for stack in stacks {
        for stack in LabNotation.stacks(stack).map_err(|e| anyhow!("{e}"))? {
            if !expanded.contains(&stack) {
                expanded.push(stack);
            }
        }
    }
    let baseline = expanded.first().cloned().unwrap_or_default();
    let study = Study {
        name: "one-off".into(),
        title: String::new(),
        baselines: expanded.iter().map(|stack| (stack.clone(), baseline.clone())).collect(),
        stacks: expanded,
        workloads: LabNotation.workloads(workload).map_err(|e| anyhow!("{e}"))?,
        replications,
        seed,
        budget: None,
        sentinels: Some(false),
    };
    check_profiles(&study)?;
    Ok(study)
}
