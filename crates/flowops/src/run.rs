//! A script from its first command to its last.

use std::time::{Duration, Instant};

use nestor_wml::{Action, FileSet, FlowopKind, Run, Script, Value};
use nestor_workload::flow_report::{FileSetReport, FlowReport};

use crate::ending::{End, Ending};
use crate::error::FlowError;
use crate::listener::{LOOK, Listener};
use crate::measured::{Measured, SHARDS_PER_PROCESSOR};
use crate::memory::WriteData;
use crate::options::FlowOptions;
use crate::program::Program;
use crate::sets::{Maker, Set, remove_set};
use crate::source::Source;
use crate::system::obey;
use crate::tree::Tree;

/// Runs a script.
///
/// # Errors
/// When it cannot be begun. What goes wrong while a run is measured is in its report, with what was measured until then.
pub fn run_script(
    script: &Script,
    source: Source<'_>,
    options: &FlowOptions,
    listener: &dyn Listener,
) -> Result<FlowReport, FlowError> {
    crate::flowops::raise_file_limit();
    let mut report = FlowReport::default();
    for action in &script.actions {
        if listener.is_interrupted() {
            return Err(FlowError::Interrupted);
        }
        match action {
            Action::Echo(line) => listener.say(line),
            Action::System(command) if options.no_system || options.only_prepare => {
                listener.say(&format!("not run: system {command:?}"));
            }
            Action::System(command) => obey(command, listener)?,
            Action::Sleep(seconds) => sleep(*seconds, listener),
            Action::ListFileSets(sets) => list(sets, listener),
            Action::EnableMulti(_) | Action::MultiSync(_) => {
                listener.wait_for_others().map_err(FlowError::Together)?
            }
            // The run makes them: the result does not depend on who makes them.
            Action::CreateFiles(_) if script_runs_later(script, action) => {}
            Action::CreateFiles(sets) => {
                let ending = Ending::default();
                let data = WriteData::new(options.data_seed, 0);
                let begin = Instant::now();
                let ready = prepare(sets, source, options, &data, &ending, listener)?;
                report.prepare_s += begin.elapsed().as_secs_f64();
                report.file_sets = ready.iter().map(describe).collect();
                if options.remove && !options.only_prepare {
                    remove_sets(&ready, listener)?;
                }
            }
            Action::Run(run) => {
                one_run(run, source, options, listener, &mut report)?;
                if report.runs.last().is_some_and(|run| !run.ended.is_well()) {
                    break;
                }
            }
        }
    }
    Ok(report)
}

/// Whether `create files` comes before a run, which makes the sets itself.
fn script_runs_later(script: &Script, action: &Action) -> bool {
    let mut later = script.actions.iter().skip_while(|other| !std::ptr::eq(*other, action));
    later.any(|action| matches!(action, Action::Run(_)))
}

fn sleep(seconds: f64, listener: &dyn Listener) {
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds && !listener.is_interrupted() {
        let left = Duration::from_secs_f64((seconds - begin.elapsed().as_secs_f64()).clamp(0.0, 1.0));
        std::thread::sleep(left.min(LOOK));
    }
}

fn list(sets: &[FileSet], listener: &dyn Listener) {
    for set in sets {
        let what = crate::tree::kind_of(set);
        listener.say(&format!("{what} {}/{}: {} entries", set.path, set.name, set.entries));
    }
}

/// Plans and makes all file sets.
fn prepare<'p>(
    plans: &'p [FileSet],
    source: Source<'_>,
    options: &FlowOptions,
    data: &WriteData,
    ending: &Ending,
    listener: &dyn Listener,
) -> Result<Vec<Set<'p>>, FlowError> {
    let progress = |what: &str, share: f64| {
        listener.progress(what, share);
        if listener.is_interrupted() {
            ending.end(End::Interrupted);
        }
    };
    let maker = Maker { options, source, data, ending, progress: &progress };
    let mut ready = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let tree = Tree::plan(plan, options.data_seed, number as u64)?;
        ready.push(maker.ready(plan, tree)?);
    }
    Ok(ready)
}

/// Removes what was made for these sets; says what stays.
fn remove_sets(sets: &[Set<'_>], listener: &dyn Listener) -> Result<(), FlowError> {
    for set in sets {
        if remove_set(set)? {
            listener.say(&format!("not removed: {} existed before", set.path().display()));
        }
    }
    Ok(())
}

fn describe(set: &Set<'_>) -> FileSetReport {
    let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count() as u64;
    FileSetReport {
        name: set.plan.name.clone(),
        path: set.path().display().to_string(),
        files: set.tree.files.len() as u64,
        preallocated: count(&set.tree.preallocated),
        // Without the set's own, which holds only directories.
        directories: set.tree.directories.len().saturating_sub(1) as u64,
        leaf_directories: set.tree.leaf_directories.len() as u64,
        bytes: set.bytes(),
    }
}

fn one_run(
    run: &Run,
    source: Source<'_>,
    options: &FlowOptions,
    listener: &dyn Listener,
    report: &mut FlowReport,
) -> Result<(), FlowError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads: u64 =
        run.processes.iter().map(|p| p.instances * p.threads.iter().map(|t| t.instances).sum::<u64>()).sum();
    let shards = (SHARDS_PER_PROCESSOR * processors).min(threads.max(1) as usize);
    let program = Program::new(&run.processes, shards.min((MOST_SHARDS / counted(run)).max(1)));
    let ending = Ending::default();
    let data = WriteData::new(options.data_seed, largest_write(&program));
    let begin = Instant::now();
    let mut sets = prepare(&run.file_sets, source, options, &data, &ending, listener)?;
    fix_what_stays(&program, &mut sets);
    report.prepare_s += begin.elapsed().as_secs_f64();
    report.file_sets = sets.iter().map(describe).collect();
    if !options.only_prepare {
        if program.thread_count() == 0 {
            listener.say("there is nothing to run: the script defines no process");
        } else {
            let measured =
                Measured { run, source, options, listener, program: &program, sets: &sets, data: &data };
            report.runs.push(measured.measure(&ending)?);
        }
        if options.remove {
            remove_sets(&sets, listener)?;
        }
    }
    Ok(())
}

/// Shards of all recorders of a run: each is a memory mapping, of which Linux gives a process 65 530 (`vm.max_map_count`).
const MOST_SHARDS: usize = 16_384;

/// An upper bound of the flowops that are counted apart; at least 1.
fn counted(run: &Run) -> usize {
    fn of(flowops: &[nestor_wml::Flowop]) -> usize {
        let inner = |flowop: &nestor_wml::Flowop| match &flowop.kind {
            FlowopKind::Composite(inner) => of(inner),
            _ => 1,
        };
        flowops.iter().map(inner).sum()
    }
    let threads = run.processes.iter().flat_map(|process| &process.threads);
    threads.map(|thread| of(&thread.flowops)).sum::<usize>().clamp(1, nestor_wml::limits::MOST_COUNTED)
}

/// Sets in which no flowop makes or removes anything.
fn fix_what_stays(program: &Program<'_>, sets: &mut [Set<'_>]) {
    let mut changes = vec![false; sets.len()];
    program.each(&mut |_, step| {
        use FlowopKind::{CreateFile, DeleteFile, MakeDirectory, RemoveDirectory};
        if matches!(step.flowop.kind, CreateFile | DeleteFile | MakeDirectory | RemoveDirectory) {
            match step.flowop.file_set {
                Some(set) => changes[set] = true,
                // The file that a descriptor had, of whatever set.
                None => changes.fill(true),
            }
        }
    });
    for (set, changes) in sets.iter_mut().zip(changes) {
        // A file that was not made before comes into being when it is first used.
        if changes || !set.tree.preallocated.iter().any(|made| *made) {
            continue;
        }
        set.files.fix();
        set.leaf_directories.fix();
    }
}

/// Larger pieces than this are written in several calls.
const LARGEST_WRITE: u64 = 16 << 20;
/// Appends of a random size and drawn sizes are seldom larger.
const USUAL_WRITE: u64 = 1 << 20;

fn largest_write(program: &Program<'_>) -> usize {
    let mut largest = USUAL_WRITE;
    program.each(&mut |_, step| {
        if let Value::Fixed(bytes) = step.flowop.io_bytes {
            largest = largest.max(bytes);
        }
    });
    largest.min(LARGEST_WRITE) as usize
}
