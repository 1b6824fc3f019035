//! A script from its first command to its last.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nestor_wml::{Action, FileSet, FlowopKind, QuitMode, Run, RunTime, Script, Span, Value};

use crate::ending::{End, Ending};
use crate::error::FlowError;
use crate::memory::{Aligned, WriteData};
use crate::options::FlowOptions;
use crate::pace::{Limit, Pace};
use crate::program::{Program, ThreadPlan};
use crate::random::Stream;
use crate::recorder::Recorder;
use crate::sets::{Home, Maker, Set, remove_set};
use crate::signals::{WaitingPoint, WaitingPoints};
use crate::tree::Tree;
use crate::worker::{Own, Shared, Totals, Worker};
use nestor_load::flow_report::{Ended, FileSetReport, FlowReport, FlowopReport, PaceReport, RunReport};

/// The text of a script, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// What it is called.
    pub name: &'s str,
    /// The text.
    pub text: &'s str,
}

impl Source<'_> {
    /// The line of a place, counted from 1.
    pub(crate) fn line_of(&self, span: &Span) -> usize {
        1 + self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count()
    }
}

/// Who is told what happens, and who may stop it.
pub trait Listener: Sync {
    /// A line of the script's own (`echo`, `print`, `list`), or of what is being done.
    fn say(&self, line: &str);

    /// How far something that takes long has come, from 0 to 1.
    fn progress(&self, what: &str, share: f64);

    /// Results so far (`psrun`).
    fn report(&self, so_far: &RunReport);

    /// Whether to stop.
    fn is_interrupted(&self) -> bool;

    /// All threads are ready and wait for this to return: several machines begin at once.
    ///
    /// # Errors
    /// When the machines cannot be kept together.
    fn wait_for_others(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Stack of a thread: what it uses is counted in pages, so this is only address space.
const STACK_BYTES: usize = 256 << 10;
/// A timed run without a time: `TIMED_RUNTIME_DEFAULT` of Filebench.
const DEFAULT_TIME_S: f64 = 60.0;
/// How often the end of a run and the user's wish to stop are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Recorders are shared by threads; so many shards for each processor.
const SHARDS_PER_PROCESSOR: usize = 2;

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
            // The run makes them: they are the same whoever makes them.
            Action::CreateFiles(_) if script_runs_later(script, action) => {}
            Action::CreateFiles(sets) => {
                let ending = Ending::default();
                let data = WriteData::new(options.data_seed, 0);
                let begin = Instant::now();
                let ready = prepare(sets, options, &data, &ending, listener)?;
                report.prepare_s += begin.elapsed().as_secs_f64();
                report.file_sets = ready.iter().map(describe).collect();
                if options.remove && !options.only_prepare {
                    ready.iter().try_for_each(remove_set)?;
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

fn obey(command: &str, listener: &dyn Listener) -> Result<(), FlowError> {
    listener.say(&format!("system: {command}"));
    // The language's own command is a shell's line; the user named the file it is in.
    let status = Command::new("/bin/sh").arg("-c").arg(command).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            listener.say(&format!("system {command:?} ended with {status}"));
            Ok(())
        }
        Err(source) => Err(FlowError::System { command: command.to_owned(), source }),
    }
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
    let maker = Maker { options, data, ending, progress: &progress };
    let mut ready = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let tree = Tree::plan(plan, options.data_seed, number as u64)?;
        ready.push(maker.ready(plan, tree)?);
    }
    Ok(ready)
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
    let program = Program::new(&run.processes, shards);
    let ending = Ending::default();
    let data = WriteData::new(options.data_seed, largest_write(&program));
    let begin = Instant::now();
    let mut sets = prepare(&run.file_sets, options, &data, &ending, listener)?;
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
            sets.iter().try_for_each(remove_set)?;
        }
    }
    Ok(())
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
    for (set, _) in sets.iter_mut().zip(changes).filter(|(_, changes)| !changes) {
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

/// A run that is about to be measured.
struct Measured<'r, 'p> {
    run: &'p Run,
    source: Source<'r>,
    options: &'r FlowOptions,
    listener: &'r dyn Listener,
    program: &'p Program<'p>,
    sets: &'p [Set<'p>],
    data: &'p WriteData,
}

impl Measured<'_, '_> {
    fn measure(&self, ending: &Ending) -> Result<RunReport, FlowError> {
        let program = self.program;
        let threads = program.thread_count();
        let points = waiting_points(program);
        let say = |line: &str| self.listener.say(line);
        let shards = program.rows.first().map_or(1, |_| SHARDS_PER_PROCESSOR);
        let shared = Shared {
            program,
            sets: self.sets,
            data: self.data,
            ending,
            events: self.run.events_per_second.map(Pace::of_events),
            starts: self.options.passes_per_second.map(Pace::of_starts),
            waiting_points: &points.by_name,
            limits: program.rows.iter().map(|_| Limit::default()).collect(),
            totals: Totals::default(),
            counts_totals: program.counts_totals,
            most_operations: self.options.operations,
            quit_when_one_is_done: self.run.quit == QuitMode::FirstDone,
            goes_on_without: self.run.quit == QuitMode::AllDone,
            growth_limit_bytes: self.options.growth_limit_bytes,
            passes: program.threads.iter().map(|_| Recorder::new(shards)).collect(),
            source: &self.source,
            say: &say,
            buffer_hint: 64 << 10,
        };
        // Held until all threads are there; each takes it for a moment before it begins.
        let go = std::sync::RwLock::new(());
        std::thread::scope(|scope| {
            let hold = go.write().expect("nobody else has the lock yet");
            let shared_cell = &shared;
            let mut workers = Vec::new();
            let mut number = 0;
            let mut failed = None;
            'starting: for plan in &program.threads {
                for instance in 0..plan.process.instances * plan.thread.instances {
                    let points = points.of(plan, instance);
                    let (go, options) = (&go, self.options);
                    let thread =
                        std::thread::Builder::new().name(plan.thread.name.clone()).stack_size(STACK_BYTES);
                    let started = thread.spawn_scoped(scope, move || {
                        let mut worker = worker(shared_cell, plan, number, instance, points, options.seed);
                        own_descriptors();
                        set_priorities(plan);
                        drop(go.read());
                        worker.work();
                        worker.drain();
                    });
                    match started {
                        Ok(handle) => workers.push(handle),
                        Err(source) => {
                            failed =
                                Some(FlowError::Threads { started: workers.len(), wanted: threads, source });
                            break 'starting;
                        }
                    }
                    number += 1;
                }
            }
            if let Some(error) = failed {
                ending.end(End::Interrupted);
                drop(hold);
                return Err(error);
            }
            if let Err(why) = self.listener.wait_for_others() {
                ending.end(End::Interrupted);
                drop(hold);
                return Err(FlowError::Together(why));
            }
            let begin = Instant::now();
            shared_cell.events.iter().chain(&shared_cell.starts).for_each(|pace| pace.begin(begin));
            let cpu = CpuTime::now();
            drop(hold);
            let by_second = self.watch(shared_cell, begin, &workers);
            let (end, at) = ending.take().unwrap_or((End::Done, Instant::now()));
            let used = CpuTime::now().since(&cpu);
            for handle in workers {
                if handle.join().is_err() {
                    return Err(FlowError::Together(
                        "a thread of the workload panicked: this is a bug".to_owned(),
                    ));
                }
            }
            let at = if matches!(end, End::Done) { Instant::now() } else { at };
            Ok(self.report(shared_cell, end, at.saturating_duration_since(begin), used, &by_second))
        })
    }

    /// Waits for the end of the run, and notes what was moved in each second.
    fn watch(
        &self,
        shared: &Shared<'_>,
        begin: Instant,
        workers: &[std::thread::ScopedJoinHandle<'_, ()>],
    ) -> Vec<Vec<u64>> {
        let time_s = match (self.options.time_s, self.run.time, self.run.quit) {
            (Some(seconds), _, _) | (None, RunTime::Seconds(seconds), _) => Some(seconds),
            (None, RunTime::NotGiven, QuitMode::Timeout) if self.options.operations.is_none() => {
                Some(DEFAULT_TIME_S)
            }
            _ => None,
        };
        let end =
            time_s.and_then(|s| Duration::try_from_secs_f64(s).ok()).and_then(|time| begin.checked_add(time));
        let rows = &shared.program.rows;
        let mut by_second: Vec<Vec<u64>> = vec![Vec::new(); rows.len()];
        let mut before: Vec<u64> = vec![0; rows.len()];
        let mut next_second = begin + Duration::from_secs(1);
        let mut next_report = self.run.report_every_s.map(|s| begin + Duration::from_secs_f64(s.max(0.001)));
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                shared.ending.end(End::Time);
            }
            if self.listener.is_interrupted() {
                shared.ending.end(End::Interrupted);
            }
            while now >= next_second && !shared.ending.is_over() {
                for (row, (series, before)) in rows.iter().zip(by_second.iter_mut().zip(&mut before)) {
                    let bytes = row.recorder.bytes();
                    series.push(bytes - std::mem::replace(before, bytes));
                }
                next_second += Duration::from_secs(1);
            }
            if let (Some(at), Some(every)) = (next_report, self.run.report_every_s)
                && now >= at
                && !shared.ending.is_over()
            {
                next_report = Some(at + Duration::from_secs_f64(every.max(0.001)));
                self.listener.report(&self.report(
                    shared,
                    End::Time,
                    now - begin,
                    CpuTime::default(),
                    &by_second,
                ));
            }
            if shared.ending.is_over() {
                return by_second;
            }
            if workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                shared.ending.end(End::Done);
                return by_second;
            }
            self.listener.progress("running", end.map_or(0.0, |end| share(begin, now, end)));
            let until =
                [end, Some(next_second), next_report].into_iter().flatten().min().unwrap_or(next_second);
            shared.ending.sleep_until(until.min(now + LOOK));
        }
    }

    fn report(
        &self,
        shared: &Shared<'_>,
        end: End,
        elapsed: Duration,
        cpu: CpuTime,
        by_second: &[Vec<u64>],
    ) -> RunReport {
        let rows = shared.program.rows.iter().zip(by_second);
        let flowops = rows
            .map(|(row, seconds)| {
                let seconds =
                    if seconds.iter().any(|bytes| *bytes > 0) { seconds.clone() } else { Vec::new() };
                row_report(&row.name, row.kind, row.group.is_io(), &row.recorder, seconds)
            })
            .collect();
        let passes = shared
            .program
            .threads
            .iter()
            .zip(&shared.passes)
            .map(|(plan, recorder)| row_report(&plan.thread.name, "pass", false, recorder, Vec::new()))
            .collect();
        let pace = |of: &str, pace: &Pace| {
            let (offered, begun) = pace.offered_and_taken(elapsed);
            PaceReport { of: of.to_owned(), asked_per_second: pace.per_second(), offered, begun }
        };
        let ended = match end {
            End::Time => Ended::Time,
            End::Operations => Ended::Operations,
            End::Done => Ended::Done,
            End::Starved(why) => Ended::Starved(why.to_string()),
            End::Failed(why) => Ended::Failed(why.to_string()),
            End::Interrupted => Ended::Interrupted,
        };
        RunReport {
            ended,
            elapsed_ns: elapsed.as_nanos() as u64,
            threads: shared.program.thread_count() as u64,
            cpu_user_s: cpu.user_s,
            cpu_system_s: cpu.system_s,
            flowops,
            passes,
            pace: match (&shared.starts, &shared.events) {
                (Some(starts), _) => Some(pace("passes", starts)),
                (None, Some(events)) => Some(pace("events", events)),
                _ => None,
            },
            remarks: self.remarks(),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.sets.iter().any(|set| matches!(set.home, Home::Device { .. })) {
            remarks
                .push("a file is a block device: its pages may still be in this machine's cache".to_owned());
        }
        if self.options.growth_limit_bytes.is_some() {
            remarks.push(
                "file sets are tiny: this shows that the workload runs, not how fast the storage is"
                    .to_owned(),
            );
        }
        remarks
    }
}

fn share(begin: Instant, now: Instant, end: Instant) -> f64 {
    (now - begin).as_secs_f64() / (end - begin).as_secs_f64().max(1e-9)
}

fn row_report(name: &str, kind: &str, is_io: bool, recorder: &Recorder, seconds: Vec<u64>) -> FlowopReport {
    let latency = recorder.histogram();
    let operations = latency.count();
    FlowopReport {
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_io,
        operations,
        bytes: recorder.bytes(),
        mean_ns: if operations > 0 { recorder.total_ns() as f64 / operations as f64 } else { 0.0 },
        latency: latency.compacted(),
        bytes_by_second: seconds,
    }
}

/// Where each thread waits at each of its flowops that others wake.
struct Points {
    by_name: WaitingPoints,
    /// By plan, instance and step.
    by_thread: BTreeMap<(usize, u64), Vec<Option<Arc<WaitingPoint>>>>,
    plans: Vec<*const ()>,
}

impl Points {
    fn of(&self, plan: &ThreadPlan<'_>, instance: u64) -> Vec<Option<Arc<WaitingPoint>>> {
        let plan = std::ptr::from_ref(plan).cast();
        let number = self.plans.iter().position(|other| *other == plan).expect("a plan of this program");
        self.by_thread[&(number, instance)].clone()
    }
}

fn waiting_points(program: &Program<'_>) -> Points {
    let mut points = Points {
        by_name: BTreeMap::new(),
        by_thread: BTreeMap::new(),
        plans: program.threads.iter().map(|plan| std::ptr::from_ref(plan).cast()).collect(),
    };
    for (number, plan) in program.threads.iter().enumerate() {
        for instance in 0..plan.process.instances * plan.thread.instances {
            points.by_thread.insert((number, instance), vec![None; plan.step_count]);
        }
    }
    program.each(&mut |plan, step| {
        let kind = &step.flowop.kind;
        if !matches!(kind, FlowopKind::Block | FlowopKind::SemaphoreBlock) {
            return;
        }
        let number =
            program.threads.iter().position(|other| std::ptr::eq(other, plan)).expect("it is one of them");
        for instance in 0..plan.process.instances * plan.thread.instances {
            let room = if *kind == FlowopKind::SemaphoreBlock { step.flowop.high_water } else { 0 };
            let point = Arc::new(WaitingPoint::with_room(room));
            points.by_name.entry(step.flowop.name.clone()).or_default().push(Arc::clone(&point));
            points.by_thread.get_mut(&(number, instance)).expect("made above")[step.number] = Some(point);
        }
    });
    points
}

fn worker<'r, 'p>(
    shared: &'r Shared<'p>,
    plan: &'r ThreadPlan<'p>,
    number: usize,
    instance: u64,
    waiting_points: Vec<Option<Arc<WaitingPoint>>>,
    seed: u64,
) -> Worker<'r, 'p> {
    Worker {
        shared,
        plan,
        number,
        name: format!("{}.{} {}", plan.process.name, plan.thread.name, instance + 1),
        random: Stream::new(seed, number as u64),
        slots: Vec::new(),
        rotor: 0,
        own_turns: shared.sets.iter().map(|_| Cell::new(0)).collect(),
        buffer: Aligned::new(0),
        path: Vec::new(),
        own: vec![Own::default(); plan.step_count],
        waiting_points,
        writes: None,
        last_end: None,
    }
}

/// Gives this thread a table of file descriptors of its own: threads do not wait for each other to open files, the limit
/// of open files is each thread's, and the kernel need not count who uses a file.
fn own_descriptors() {
    // SAFETY: no pointers. What the thread has opened so far it keeps; what it opens from now on only it uses. A sandbox may
    // refuse, and then the table stays common.
    unsafe { libc::unshare(libc::CLONE_FILES) };
}

/// `nice` and `ioprio`, which on Linux belong to the thread.
fn set_priorities(plan: &ThreadPlan<'_>) {
    if plan.process.nice != 0 {
        // SAFETY: a plain system call without pointers; a refusal (no right to a negative value) changes nothing.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, plan.process.nice) };
    }
    if let Some(priority) = plan.thread.io_priority {
        // `ioprio_set` (include/uapi/linux/ioprio.h): this thread, best-effort class.
        const WHO_PROCESS: libc::c_int = 1;
        const CLASS_BEST_EFFORT: libc::c_int = 2;
        const CLASS_SHIFT: libc::c_int = 13;
        let value = CLASS_BEST_EFFORT << CLASS_SHIFT | libc::c_int::from(priority);
        // SAFETY: a plain system call without pointers.
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    }
}

/// CPU time of this process.
#[derive(Clone, Copy, Default)]
struct CpuTime {
    user_s: f64,
    system_s: f64,
}

impl CpuTime {
    fn now() -> Self {
        // SAFETY: all zeros is a value of this structure of numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a structure of the type the call fills.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) }
    }

    fn since(self, before: &Self) -> Self {
        Self { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s }
    }
}
