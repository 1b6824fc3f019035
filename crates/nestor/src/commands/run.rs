//! `nestor run`

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use nestor_report::{RunView, run_text};
use nestor_results::{Store, StoredRun, Study, TraceCost, TraceMode, trace_costs};

use crate::arguments::{LabArguments, RunArguments};
use crate::commands::study::check_profiles;
use crate::expected;
use crate::named::workloads_named;
use crate::order::require_order;
use crate::output::{print_json, say, style};
use crate::results_file::{Access, open_for};
use crate::session;
use crate::whole_file::require_directory;
use nestor_results::{WrittenStack, WrittenWorkload, written_stacks};

/// Measures one workload on one or several stacks and shows what each layer did.
///
/// # Errors
/// What is wrong with the stack or the workload, or why nothing could be measured.
pub fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let lab = &arguments.lab();
    require_order(&[&arguments.stack, &arguments.workload], 1, "the stack comes first, then the workload")?;
    let mut study =
        one_off(&[&arguments.stack], &arguments.workload, arguments.replications, arguments.seed)?;
    set_tracing(&mut study, lab)?;
    if arguments.save.is_some() && study.stacks.len() * study.workloads.len() > 1 {
        bail!("a saved baseline is of one stack and one workload; save each under a name of its own");
    }
    session::check_study(&study, lab)?;
    let mut store = open_for(lab, Access::Adds)?;
    if arguments.verify {
        require_virtual_time(lab)?;
    }
    expected::say(&study, lab, &store)?;
    let runs = session::run(&study, lab, false, &mut store)?.runs;
    let costs = trace_costs(&runs.iter().collect::<Vec<_>>());
    let mut views = Vec::new();
    for stack in &study.stacks {
        for workload in &study.workloads {
            let of_cell: Vec<_> = traced(&runs)
                .filter(|r| r.record.stack == *stack && r.record.workload == *workload)
                .collect();
            views.extend(RunView::of(&of_cell));
        }
    }
    if lab.json {
        print_json(&with_costs(&views, &costs)?)?;
    } else {
        for view in &views {
            outln!("{}", run_text(view, style()));
            let of_view = |c: &&TraceCost| {
                c.stack.as_ref() == Some(&view.summary.stack)
                    && c.workload.as_ref() == Some(&view.summary.workload)
            };
            costs.iter().filter(of_view).for_each(|cost| say(&format!("{}\n", cost.in_words())));
        }
    }
    if arguments.verify {
        verify(&study, &runs, lab, &mut store)?;
    }
    if let Some(name) = &arguments.save {
        crate::gate::save(name, &traced(&runs).collect::<Vec<_>>(), &mut store)?;
    }
    Ok(exit_code(&views))
}

/// Elsewhere numbers do not repeat, and that is no defect.
fn require_virtual_time(lab: &LabArguments) -> Result<()> {
    let place = &lab.place()?.place;
    if !place.is_in_virtual_time() {
        bail!(
            "with `--on {}`, no two runs are the same, so there is nothing to verify\n  --on \
             emulated:time=virtual repeats to the last bit",
            lab.on
        );
    }
    Ok(())
}

/// Most differences that are named.
const DIFFERENCES: usize = 5;

/// Measures everything once more, in new machines, and compares.
fn verify(study: &Study, runs: &[StoredRun], lab: &LabArguments, store: &mut Store) -> Result<()> {
    let anew = LabArguments { again: true, ..lab.clone() };
    let repeated = session::run(study, &anew, false, store)?.runs;
    let (mut different, mut failed) = (0, 0);
    for run in runs {
        if run.record.failure().is_some() {
            failed += 1;
            errln!("not verified: run {} failed, so there is nothing to repeat", run.number);
            continue;
        }
        // Side by side, cells end in no certain order.
        let Some(again) = repeated.iter().find(|again| again.record.key() == run.record.key()) else {
            bail!("run {} was not repeated", run.number);
        };
        let found = run.record.differences_from(&again.record, DIFFERENCES)?;
        let digests = [run.record.outcome_digest()?, again.record.outcome_digest()?];
        let digests = digests.each_ref().map(|digest| &digest[..SHORT_DIGEST]);
        if found.is_empty() {
            errln!(
                "verified: run {} repeats run {} to the last bit ({})",
                again.number,
                run.number,
                digests[0]
            );
        } else {
            different += 1;
            let command = repeating_command(study, run, lab);
            errln!("{}", not_repeated([run.number, again.number], digests, &found, &command));
        }
    }
    if different > 0 {
        bail!(
            "{different} of {} runs do not repeat, which is a defect of Nestor\n  please report it with the command above, the \
             results file, {}, and the output of `nestor doctor --json`",
            runs.len(),
            store.path().display()
        );
    }
    if failed > 0 {
        bail!("{failed} of {} runs failed, so that they could not be verified", runs.len());
    }
    Ok(())
}

/// Characters of a digest that tell outcomes apart.
const SHORT_DIGEST: usize = 16;

/// The command that measures one run of a study, and the same once more.
fn repeating_command(study: &Study, run: &StoredRun, lab: &LabArguments) -> String {
    let (stack, workload) = (run.record.stack.as_str(), run.record.workload.as_str());
    let place = lab.settled.get().map_or_else(|| lab.on.to_string(), |settled| settled.place.to_string());
    format!(
        "nestor run '{stack}' '{workload}' -n {} --seed {} --trace {} --again --verify --on {place}",
        run.record.block + 1,
        study.seed,
        run.record.trace
    )
}

/// What differed first between a run and its repetition, and how to see it again.
fn not_repeated(runs: [i64; 2], digests: [&str; 2], found: &[String], command: &str) -> String {
    format!(
        "run {} ({}) does not repeat run {} ({}); the first differences in the order of their records:\n    {}\n  to measure \
         both once more: {command}",
        runs[1],
        digests[1],
        runs[0],
        digests[0],
        found.join("\n    ")
    )
}

/// The runs whose numbers count: all but the untraced repeats of traced cells.
pub fn traced(runs: &[StoredRun]) -> impl Iterator<Item = &StoredRun> {
    runs.iter().filter(|r| !r.record.untraced_twin)
}

/// The views as they are printed, each with what tracing cost there, if that was measured.
fn with_costs(views: &[RunView], costs: &[TraceCost]) -> Result<serde_json::Value> {
    let mut json = serde_json::to_value(views)?;
    for (view, printed) in views.iter().zip(json.as_array_mut().into_iter().flatten()) {
        let of_view = |c: &&TraceCost| {
            c.stack.as_ref() == Some(&view.summary.stack)
                && c.workload.as_ref() == Some(&view.summary.workload)
        };
        if let Some(cost) = costs.iter().find(of_view) {
            printed["trace_cost"] = serde_json::to_value(cost)?;
        }
    }
    Ok(json)
}

/// What the command line says of tracing goes into the study.
///
/// # Errors
/// What does not go together; requests cannot be kept where they are to be.
pub fn set_tracing(study: &mut Study, arguments: &LabArguments) -> Result<()> {
    study.trace = arguments.trace_mode(study.trace);
    study.trace_cost |= arguments.trace_cost;
    if study.trace_cost && !study.trace.records() {
        bail!("nothing is traced, so tracing has no cost; omit `--trace none` or `--trace-cost`");
    }
    if arguments.trace_to.is_some() && study.trace != TraceMode::Full {
        bail!("only `--trace full` keeps requests; omit `--trace` or `--trace-to`");
    }
    if let Some(directory) = &arguments.trace_to {
        require_directory(directory)
            .with_context(|| format!("cannot use --trace-to {}", directory.display()))?;
    }
    Ok(())
}

/// Failure if any cell has no numbers at all.
fn exit_code(views: &[RunView]) -> ExitCode {
    let all_measured = !views.is_empty() && views.iter().all(|v| !v.summary.samples.is_empty());
    if all_measured { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A study of one command: the first stack is the baseline of the others.
pub fn one_off(stacks: &[&str], workload: &str, replications: u32, seed: u64) -> Result<Study> {
    let mut expanded: Vec<WrittenStack> = Vec::new();
    for stack in stacks {
        for stack in written_stacks(stack)? {
            if !expanded.contains(&stack) {
                expanded.push(stack);
            }
        }
    }
    let workloads = workloads_named(workload)?.into_iter().map(Into::into).collect();
    one_off_of(expanded, workloads, replications, seed)
}

/// The same of stacks and workloads that were read before.
pub fn one_off_of(
    stacks: Vec<WrittenStack>,
    workloads: Vec<WrittenWorkload>,
    replications: u32,
    seed: u64,
) -> Result<Study> {
    let study = Study { replications, seed, ..Study::new("one-off", "", stacks, workloads) };
    check_profiles(&study)?;
    Ok(study)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_repeat_is_told_with_both_digests_and_the_command() {
        let found = ["load.elapsed_ns: 5 and 6".to_owned(), "layers.0: 1 and 2".to_owned()];
        let said = not_repeated([3, 4], ["aa", "bb"], &found, "nestor run 'ext4/hdd' 'fio:seq-read' -n 1");
        insta::assert_snapshot!(said, @r"
        run 4 (bb) does not repeat run 3 (aa); the first differences in the order of their records:
            load.elapsed_ns: 5 and 6
            layers.0: 1 and 2
          to measure both once more: nestor run 'ext4/hdd' 'fio:seq-read' -n 1
        ");
    }
}
