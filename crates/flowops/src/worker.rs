//! A thread of a run: what it has open, and how it goes through its flowops.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nestor_wml::{Flowop, FlowopKind};

use crate::aio::AsyncWrites;
use crate::ending::{End, Ending};
use crate::error::FlowError;
use crate::memory::{Aligned, WriteData};
use crate::pace::{Limit, Pace};
use crate::pool::Starved;
use crate::program::{Program, Step, ThreadPlan};
use crate::random::Stream;
use crate::recorder::Recorder;
use crate::sets::Set;
use crate::signals::{WaitingPoint, WaitingPoints};

/// What all threads of a run share.
pub(crate) struct Shared<'p> {
    pub(crate) program: &'p Program<'p>,
    pub(crate) sets: &'p [Set<'p>],
    pub(crate) data: &'p WriteData,
    pub(crate) ending: &'p Ending,
    pub(crate) events: Option<Pace>,
    pub(crate) starts: Option<Pace>,
    pub(crate) waiting_points: &'p WaitingPoints,
    /// Of each row, what was paid of limits of all threads together.
    pub(crate) limits: Vec<Limit>,
    pub(crate) totals: Totals,
    pub(crate) most_operations: Option<u64>,
    pub(crate) quit_when_one_is_done: bool,
    pub(crate) goes_on_without: bool,
    pub(crate) growth_limit_bytes: Option<u64>,
    /// Latencies of whole passes through a thread's flowops.
    pub(crate) passes: Vec<Recorder>,
    pub(crate) source: &'p crate::source::Source<'p>,
    /// How a thread gets its asynchronous writes.
    pub(crate) new_writes: fn() -> std::io::Result<AsyncWrites>,
    pub(crate) say: &'p (dyn Fn(&str) + Sync),
}

/// What all threads together have done.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) operations: AtomicU64,
    pub(crate) reads_and_writes: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Operations that were counted against the number asked for.
    pub(crate) admitted: AtomicU64,
}

/// What a thread itself has done at one of its steps.
#[derive(Clone, Copy, Default)]
pub(crate) struct Own {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// What of its target it has paid for.
    pub(crate) paid: u64,
    /// The working set of this thread at this step, once drawn.
    pub(crate) working_set: Option<u64>,
    /// `testrandvar`: sum and sum of squares of what was drawn.
    pub(crate) drawn: (f64, f64),
}

/// One of a thread's files. It is closed, or replaced, only after [`Worker::settle`].
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) file: Option<OwnedFd>,
    /// Which file it is, or was before it was closed: file set and number. A device has none.
    pub(crate) entry: Option<(usize, u32)>,
    /// Where the next operation in order goes.
    pub(crate) position: u64,
}

/// What comes after a step.
#[derive(Debug)]
pub(crate) enum Next {
    /// The next step.
    Step,
    /// Nothing: the thread has reached what it was to do, or no file is left.
    Done(Option<FlowError>),
    /// Nothing: the run is over.
    Over,
}

/// Files of a thread that are opened in turn (`opennext`): Filebench's `THREADFLOW_MAXFD`.
pub(crate) const ROTATING_SLOTS: u32 = 128;

/// Buffers for reading begin with this size, so that they seldom have to grow.
const SMALLEST_BUFFER: usize = 64 << 10;

/// A thread.
pub(crate) struct Worker<'r, 'p> {
    pub(crate) shared: &'r Shared<'p>,
    pub(crate) plan: &'r ThreadPlan<'p>,
    /// Number among all threads of the run.
    pub(crate) number: usize,
    /// Which of the threads of the same plan: for messages.
    pub(crate) name: String,
    pub(crate) random: Stream,
    /// Before the slots, so that it goes first: what is under way is waited for while its files are open.
    pub(crate) writes: Option<AsyncWrites>,
    pub(crate) slots: Vec<Slot>,
    /// The slot that was opened in turn last.
    pub(crate) rotor: u32,
    /// Of each file set, the file that this thread opens next with `opennext`.
    pub(crate) own_turns: Vec<Cell<u32>>,
    pub(crate) buffer: Aligned,
    pub(crate) path: Vec<u8>,
    pub(crate) own: Vec<Own>,
    pub(crate) waiting_points: Vec<Option<Arc<WaitingPoint>>>,
    /// When the last operation ended: also the end of a pass, and the beginning of the next.
    pub(crate) last_end: Option<Instant>,
}

impl<'p> Worker<'_, 'p> {
    /// Goes through the flowops until the run is over or there is nothing left to do.
    pub(crate) fn work(&mut self) {
        let passes = &self.shared.passes[self.plan.number];
        loop {
            let begin = match &self.shared.starts {
                Some(starts) => match starts.take(1, self.shared.ending) {
                    Some(intended) => intended,
                    None => return,
                },
                None => self.last_end.unwrap_or_else(Instant::now),
            };
            let steps = &self.plan.steps;
            match self.steps(steps) {
                Ok(Next::Step) => {
                    if !self.shared.ending.is_over() {
                        let end = self.last_end.unwrap_or_else(Instant::now);
                        passes.record(self.number, elapsed_ns(begin, end), 0);
                    }
                }
                Ok(Next::Over) => return,
                Ok(Next::Done(why)) => return self.done(why),
                Err(error) => return self.shared.ending.end(End::Failed(error)),
            }
            if self.shared.ending.is_over() {
                return;
            }
        }
    }

    /// This thread has nothing left to do: what that means for the others.
    fn done(&self, why: Option<FlowError>) {
        match why {
            // Reached what it was to reach.
            None if !self.shared.goes_on_without => self.shared.ending.end(End::Done),
            _ if self.shared.quit_when_one_is_done => self.shared.ending.end(End::Done),
            _ if self.shared.goes_on_without => {}
            Some(starved) => self.shared.ending.end(End::Starved(starved)),
            None => {}
        }
    }

    fn steps(&mut self, steps: &[Step<'p>]) -> Result<Next, FlowError> {
        for step in steps {
            let times = self.random.value(&step.flowop.iterations);
            for _ in 0..times {
                match self.step(step)? {
                    Next::Step => {}
                    other => return Ok(other),
                }
                if self.shared.ending.is_over() {
                    return Ok(Next::Over);
                }
            }
        }
        Ok(Next::Step)
    }

    fn step(&mut self, step: &Step<'p>) -> Result<Next, FlowError> {
        match &step.flowop.kind {
            FlowopKind::Composite(_) => self.steps(&step.inner),
            FlowopKind::Read => self.read(step),
            FlowopKind::Write => self.write(step),
            FlowopKind::ReadWholeFile => self.read_whole_file(step),
            FlowopKind::WriteWholeFile => self.write_whole_file(step),
            FlowopKind::AppendFile => self.append_file(step, false),
            FlowopKind::AppendFileRandom => self.append_file(step, true),
            FlowopKind::AioWrite => self.aio_write(step),
            FlowopKind::AioWait => self.aio_wait(step),
            FlowopKind::OpenFile => self.open_file(step),
            FlowopKind::CreateFile => self.create_file(step),
            FlowopKind::CloseFile => self.close_file(step),
            FlowopKind::DeleteFile => self.delete_file(step),
            FlowopKind::StatFile => self.stat_file(step),
            FlowopKind::Fsync => self.fsync(step),
            FlowopKind::FsyncSet => self.fsync_set(step),
            FlowopKind::MakeDirectory => self.make_directory(step),
            FlowopKind::RemoveDirectory => self.remove_directory(step),
            FlowopKind::ListDirectory => self.list_directory(step),
            FlowopKind::Block => Ok(self.block(step)),
            FlowopKind::WakeUp => Ok(self.wake_up(step)),
            FlowopKind::SemaphoreBlock => Ok(self.semaphore_block(step)),
            FlowopKind::SemaphorePost => Ok(self.semaphore_post(step)),
            FlowopKind::Hog => Ok(self.hog(step)),
            FlowopKind::Delay => Ok(self.delay(step)),
            FlowopKind::EventLimit => Ok(self.event_limit(step)),
            FlowopKind::BandwidthLimit | FlowopKind::IopsLimit | FlowopKind::OpsLimit => Ok(self.limit(step)),
            FlowopKind::FinishOnCount | FlowopKind::FinishOnBytes => Ok(self.finish_on(step)),
            FlowopKind::Print => Ok(self.print(step)),
            FlowopKind::TestRandomVariable => Ok(self.test_random_variable(step)),
        }
    }

    /// Counts one operation that has just ended.
    #[inline]
    pub(crate) fn record(&mut self, step: &Step<'_>, begin: Instant, bytes: u64) {
        let end = Instant::now();
        self.last_end = Some(end);
        self.record_from_to(step.row, step.number, begin, end, bytes);
    }

    pub(crate) fn record_from_to(
        &mut self,
        row: usize,
        number: usize,
        begin: Instant,
        end: Instant,
        bytes: u64,
    ) {
        let shared = self.shared;
        if !shared.ending.counts() {
            return;
        }
        let group = shared.program.rows[row].group;
        if group.is_io() {
            if let Some(most) = shared.most_operations {
                let admitted = shared.totals.admitted.fetch_add(1, Ordering::Relaxed) + 1;
                if admitted > most {
                    return;
                }
                self.count(row, begin, end, bytes);
                if admitted == most {
                    shared.ending.end(End::Operations);
                }
            } else {
                self.count(row, begin, end, bytes);
            }
            if shared.program.counts_totals {
                shared.totals.operations.fetch_add(1, Ordering::Relaxed);
                shared.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
                if group.moves_data() {
                    shared.totals.reads_and_writes.fetch_add(1, Ordering::Relaxed);
                }
            }
        } else {
            self.count(row, begin, end, bytes);
        }
        let own = &mut self.own[number];
        own.operations += 1;
        own.bytes += bytes;
    }

    #[inline]
    pub(crate) fn count(&self, row: usize, begin: Instant, end: Instant, bytes: u64) {
        self.shared.program.rows[row].recorder.record(self.number, elapsed_ns(begin, end), bytes);
    }

    /// The set a flowop works on.
    pub(crate) fn set_of(&self, step: &Step<'_>) -> Result<(usize, &'p Set<'p>), FlowError> {
        match step.flowop.file_set {
            Some(index) => Ok((index, &self.shared.sets[index])),
            None => {
                Err(self.wrong(step.flowop, "needs a file set: give it filesetname= or filename=".to_owned()))
            }
        }
    }

    /// A flowop that cannot be obeyed.
    pub(crate) fn wrong(&self, flowop: &Flowop, problem: String) -> FlowError {
        FlowError::Flowop {
            flowop: flowop.name.clone(),
            line: self.shared.source.line_of(&flowop.span),
            problem,
        }
    }

    /// A thread that gets no file.
    pub(crate) fn starved(&self, step: &Step<'_>, set: &Set<'_>, wanted: &str, starved: Starved) -> Next {
        let Starved { existing, entries } = starved;
        let flowop = step.flowop;
        Next::Done(Some(self.wrong(
            flowop,
            format!(
                "found no {wanted} in {}, where {existing} of {entries} entries exist: give the set more \
                 entries=, run for less \
                 time, or end with `set mode quit firstdone`",
                set.plan.name
            ),
        )))
    }

    /// Which of the thread's files a flowop works on.
    pub(crate) fn slot_of(&mut self, flowop: &Flowop) -> usize {
        let slot = if flowop.fd > 0 || !flowop.rotate {
            flowop.fd
        } else {
            if self.rotor == 0 {
                self.rotor = ROTATING_SLOTS;
            }
            self.rotor -= 1;
            self.rotor
        } as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        slot
    }

    /// Makes memory for reading so many bytes.
    pub(crate) fn make_room(&mut self, flowop: &Flowop, bytes: usize) -> Result<(), FlowError> {
        if self.buffer.len() < bytes {
            // The old one first: not both at once.
            self.buffer = Aligned::new(0);
            let room = Aligned::try_new(bytes.max(SMALLEST_BUFFER));
            self.buffer = room.ok_or_else(|| FlowError::Memory {
                flowop: flowop.name.clone(),
                line: self.shared.source.line_of(&flowop.span),
                bytes,
            })?;
        }
        Ok(())
    }
}

#[inline]
pub(crate) fn elapsed_ns(begin: Instant, end: Instant) -> u64 {
    end.saturating_duration_since(begin).as_nanos() as u64
}
