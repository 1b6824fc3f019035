//! One run: its threads from their start to their end, and what they did.

use std::cell::Cell;
use std::sync::{Arc, RwLock};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nestor_wml::{QuitMode, Run, RunTime};
use nestor_workload::flow_report::{Ended, FlowopReport, PaceReport, RunReport};

use crate::aio::AsyncWrites;
use crate::cpu::CpuTime;
use crate::ending::{End, Ending};
use crate::error::FlowError;
use crate::listener::{LOOK, Listener};
use crate::memory::{Aligned, WriteData};
use crate::options::FlowOptions;
use crate::pace::{Limit, Pace};
use crate::points::Points;
use crate::program::{Program, ThreadPlan};
use crate::random::Stream;
use crate::recorder::Recorder;
use crate::sets::{Home, Set};
use crate::signals::WaitingPoint;
use crate::source::Source;
use crate::worker::{Own, Shared, Totals, Worker};

/// Recorders are shared by threads; so many shards for each processor.
pub(crate) const SHARDS_PER_PROCESSOR: usize = 2;

/// Stack of a thread: what it uses is counted in pages, so this is only address space.
const STACK_BYTES: usize = 256 << 10;
/// A timed run without a time: `TIMED_RUNTIME_DEFAULT` of Filebench.
const DEFAULT_TIME_S: f64 = 60.0;

/// A run that is about to be measured.
pub(crate) struct Measured<'r, 'p> {
    pub(crate) run: &'p Run,
    pub(crate) source: Source<'r>,
    pub(crate) options: &'r FlowOptions,
    pub(crate) listener: &'r dyn Listener,
    pub(crate) program: &'p Program<'p>,
    pub(crate) sets: &'p [Set<'p>],
    pub(crate) data: &'p WriteData,
}

impl Measured<'_, '_> {
    pub(crate) fn measure(&self, ending: &Ending) -> Result<RunReport, FlowError> {
        require_space(self.program.thread_count())?;
        let points = Points::new(self.program);
        let say = |line: &str| self.listener.say(line);
        let shared = &self.shared(ending, &points, &say);
        // Held until all threads are there; each takes it for a moment before it begins.
        let go = RwLock::new(());
        std::thread::scope(|scope| {
            let hold = go.write().expect("no other thread has the lock yet");
            let ready = self.start(scope, shared, &points, &go).and_then(|workers| {
                self.listener.wait_for_others().map_err(FlowError::Together)?;
                Ok(workers)
            });
            let workers = match ready {
                Ok(workers) => workers,
                Err(error) => {
                    ending.end(End::Interrupted);
                    drop(hold);
                    return Err(error);
                }
            };
            let begin = Instant::now();
            shared.events.iter().chain(&shared.starts).for_each(|pace| pace.begin(begin));
            let cpu = CpuTime::now();
            drop(hold);
            let by_second = self.watch(shared, begin, &workers);
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
            Ok(self.report(shared, end, at.saturating_duration_since(begin), used, &by_second))
        })
    }

    /// What the threads will share.
    fn shared<'s>(
        &'s self,
        ending: &'s Ending,
        points: &'s Points,
        say: &'s (dyn Fn(&str) + Sync),
    ) -> Shared<'s> {
        let program = self.program;
        Shared {
            program,
            sets: self.sets,
            data: self.data,
            ending,
            events: self.run.events_per_second.map(Pace::of_events),
            starts: self.options.passes_per_second.map(Pace::of_starts),
            waiting_points: &points.by_name,
            limits: program.rows.iter().map(|_| Limit::default()).collect(),
            totals: Totals::default(),
            most_operations: self.options.operations,
            quit_when_one_is_done: self.run.quit == QuitMode::FirstDone,
            goes_on_without: self.run.quit == QuitMode::AllDone,
            growth_limit_bytes: self.options.growth_limit_bytes,
            passes: program.threads.iter().map(|_| Recorder::new(SHARDS_PER_PROCESSOR)).collect(),
            source: &self.source,
            new_writes: self.new_writes(),
            say,
        }
    }

    /// Starts all threads; each begins its work when it gets `go`.
    fn start<'scope, 's: 'scope>(
        &'s self,
        scope: &'scope Scope<'scope, '_>,
        shared: &'s Shared<'s>,
        points: &Points,
        go: &'s RwLock<()>,
    ) -> Result<Vec<ScopedJoinHandle<'scope, ()>>, FlowError> {
        let mut workers = Vec::new();
        for plan in &shared.program.threads {
            for instance in 0..plan.instances() {
                let number = workers.len();
                let points = points.of(plan, instance);
                let seed = self.options.seed;
                let thread = Builder::new().name(plan.thread.name.clone()).stack_size(STACK_BYTES);
                let started = thread.spawn_scoped(scope, move || {
                    let mut worker = worker(shared, plan, number, instance, points, seed);
                    own_descriptors();
                    set_priorities(plan);
                    drop(go.read());
                    worker.work();
                    worker.drain();
                });
                workers.push(started.map_err(|source| FlowError::Threads {
                    started: number,
                    wanted: shared.program.thread_count(),
                    source,
                })?);
            }
        }
        Ok(workers)
    }

    #[cfg(not(test))]
    fn new_writes(&self) -> fn() -> std::io::Result<AsyncWrites> {
        AsyncWrites::new
    }

    #[cfg(test)]
    fn new_writes(&self) -> fn() -> std::io::Result<AsyncWrites> {
        if self.options.lazy_writes { AsyncWrites::lazy } else { AsyncWrites::new }
    }

    /// When the run's time is over; `None` where no clock ends it.
    fn end_by_clock(&self, begin: Instant) -> Option<Instant> {
        let time_s = match (self.options.time_s, self.run.time, self.run.quit) {
            (Some(seconds), _, _) | (None, RunTime::Seconds(seconds), _) => Some(seconds),
            (None, RunTime::NotGiven, QuitMode::Timeout) if self.options.operations.is_none() => {
                Some(DEFAULT_TIME_S)
            }
            _ => None,
        };
        time_s.and_then(|s| Duration::try_from_secs_f64(s).ok()).and_then(|time| begin.checked_add(time))
    }

    /// Waits for the end of the run, and notes what was moved in each second.
    fn watch(
        &self,
        shared: &Shared<'_>,
        begin: Instant,
        workers: &[ScopedJoinHandle<'_, ()>],
    ) -> Vec<Vec<u64>> {
        let ending = shared.ending;
        let end = self.end_by_clock(begin);
        let mut moved = Moved::new(begin, shared.program.rows.len());
        let period = self.run.report_every_s.map(|s| Duration::from_secs_f64(s.max(0.001)));
        let mut next_report = period.map(|period| begin + period);
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                ending.end(End::Time);
            }
            if self.listener.is_interrupted() {
                ending.end(End::Interrupted);
            }
            moved.note(now, shared);
            if let (Some(at), Some(period)) = (next_report, period)
                && now >= at
                && !ending.is_over()
            {
                next_report = Some(at + period);
                let cpu = CpuTime::default();
                self.listener.report(&self.report(shared, End::Time, now - begin, cpu, &moved.by_second));
            }
            if ending.is_over() {
                return moved.by_second;
            }
            if workers.iter().all(ScopedJoinHandle::is_finished) {
                ending.end(End::Done);
                return moved.by_second;
            }
            self.listener.progress("running", end.map_or(0.0, |end| share(begin, now, end)));
            let soonest = [end, Some(moved.next_second), next_report].into_iter().flatten().min();
            ending.sleep_until(soonest.unwrap_or(moved.next_second).min(now + LOOK));
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
        let threads = shared.program.threads.iter().zip(&shared.passes);
        let passes = threads
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
            End::Failed(why) if why.is_full() => Ended::Full(why.to_string()),
            End::Failed(why) if why.is_stale() => Ended::Stale(why.to_string()),
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

/// What each row of the program has moved in each second.
struct Moved {
    by_second: Vec<Vec<u64>>,
    /// Bytes of each row at the last full second.
    before: Vec<u64>,
    next_second: Instant,
}

impl Moved {
    fn new(begin: Instant, rows: usize) -> Self {
        Self {
            by_second: vec![Vec::new(); rows],
            before: vec![0; rows],
            next_second: begin + Duration::from_secs(1),
        }
    }

    /// Notes the seconds that are full by now.
    fn note(&mut self, now: Instant, shared: &Shared<'_>) {
        while now >= self.next_second && !shared.ending.is_over() {
            let noted = self.by_second.iter_mut().zip(&mut self.before);
            for (row, (series, before)) in shared.program.rows.iter().zip(noted) {
                let bytes = row.recorder.bytes();
                series.push(bytes - std::mem::replace(before, bytes));
            }
            self.next_second += Duration::from_secs(1);
        }
    }
}

/// Address space of a thread besides its stack: its stack for signals, guards, what it remembers.
const BESIDE_STACK_BYTES: usize = 128 << 10;
/// Address space of an arena of the C library's allocator, of which there are up to eight for each processor.
const ARENA_BYTES: usize = 64 << 20;
const ARENAS_PER_PROCESSOR: usize = 8;

/// Where the address space is limited (`ulimit -v`), a thread that has begun and gets none ends the whole program; so it is asked for
/// before any begins.
fn require_space(threads: usize) -> Result<(), FlowError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = threads.min(ARENAS_PER_PROCESSOR * processors);
    let bytes = threads * (STACK_BYTES + BESIDE_STACK_BYTES) + arenas * ARENA_BYTES;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let space = unsafe { libc::mmap(std::ptr::null_mut(), bytes.max(1), libc::PROT_NONE, flags, -1, 0) };
    if space == libc::MAP_FAILED {
        let source = std::io::Error::last_os_error();
        return Err(FlowError::Threads { started: 0, wanted: threads, source });
    }
    // SAFETY: the mapping made above, which nothing uses.
    unsafe { libc::munmap(space, bytes.max(1)) };
    Ok(())
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
        writes: None,
        slots: Vec::new(),
        rotor: 0,
        own_turns: shared.sets.iter().map(|_| Cell::new(0)).collect(),
        buffer: Aligned::new(0),
        path: Vec::new(),
        own: vec![Own::default(); plan.step_count],
        waiting_points,
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
