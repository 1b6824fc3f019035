//! The state of a disk: it takes requests from the rings, and answers each at the time that the model computes.

mod answer;
mod take;

use std::collections::VecDeque;

use nestor_serving::{Alarm, Clock, Guest, ServingError};
use vm_memory::GuestAddress;

use super::execute::Target;
use super::manage::OpenLog;
use super::request::{Command, Parsed, Segment};
use crate::control::Statistics;
use crate::priority::{Priority, schedule_as};
use nestor_disk::log::{Record, StampWriter};
use nestor_disk::model::{Completion, Model, SECTOR_BYTES};

/// The alarm rings this long before a completion is due; then the thread polls the clock: waking a thread
/// takes about as long. Longer would take CPU from the guests, which may share two cores with the disk.
const SPIN_NS: u64 = 50_000;
/// Without timing, how long to look for further requests before asking the guest for a notification.
const POLL_NS: u64 = 20_000;
/// A turn ends after this long so that a busy guest cannot keep the control socket waiting.
const TURN_NS: u64 = 2_000_000;
/// Without timing, the guest is notified after this many completions, so that it continues while the rest is served.
const NOTIFY_EVERY: u32 = 16;

/// A request that the model has not completed, or that waits to be answered.
#[derive(Debug)]
struct InFlight {
    queue: usize,
    head: u16,
    command: Command,
    data: Vec<Segment>,
    status: Option<GuestAddress>,
    record: Record,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The data has not been moved.
    Arrived,
    /// The data has been moved; this many bytes were written to the guest, and this is the status.
    Executed { filled: u32, status: u8 },
    /// Answered (or its guest is gone) before the model has completed it.
    Answered { at_ns: u64 },
}

/// A disk's state, which outlives connections.
pub struct Core {
    pub(super) target: Target,
    pub(super) sectors: u64,
    pub(super) first_sector: u64,
    pub(super) profile: String,
    pub(super) model: Box<dyn Model>,
    pub(super) model_takes_time: bool,
    pub(super) timing: bool,
    /// Threads of the control socket that wait for the disk to come to rest; meanwhile requests stay in the rings.
    pub(super) holders: u32,
    /// The guest that is connected.
    pub(super) guest: Guest,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    unexecuted: VecDeque<usize>,
    /// Queues with answers of which the guest was not notified, a bit each.
    to_notify: u64,
    completions: Vec<Completion>,
    parsed: Parsed,
    sequence: u64,
    pub(super) log: Option<OpenLog>,
    pub(super) stamps: Option<StampWriter>,
    pub(super) statistics: Statistics,
    pub(super) clock: Clock,
    alarm: Alarm,
    wanted_priority: Priority,
}

/// What a disk is made of.
pub struct CoreParts {
    /// The data.
    pub target: Target,
    /// Name of the profile.
    pub profile: String,
    /// Position of the first served sector on the medium.
    pub first_sector: u64,
    /// The medium's behaviour in time.
    pub model: Box<dyn Model>,
    /// The model is not the one that takes no time.
    pub model_takes_time: bool,
    /// Timing is on from the start.
    pub timing: bool,
    /// How the serving thread should be scheduled while timing is on.
    pub priority: Priority,
    /// Its clock.
    pub clock: Clock,
}

impl Core {
    /// A disk at rest.
    ///
    /// # Errors
    /// The kernel cannot create a timer.
    pub fn new(parts: CoreParts) -> Result<Self, ServingError> {
        let mut core = Self {
            sectors: parts.target.store.size() / SECTOR_BYTES,
            target: parts.target,
            first_sector: parts.first_sector,
            profile: parts.profile,
            model: parts.model,
            model_takes_time: parts.model_takes_time,
            timing: parts.timing,
            holders: 0,
            guest: Guest::default(),
            in_flight: Vec::new(),
            free: Vec::new(),
            unexecuted: VecDeque::new(),
            to_notify: 0,
            completions: Vec::new(),
            parsed: Parsed::default(),
            sequence: 0,
            log: None,
            stamps: None,
            statistics: Statistics::default(),
            clock: parts.clock,
            alarm: Alarm::new()?,
            wanted_priority: parts.priority,
        };
        core.model.reset(core.clock.now_ns());
        Ok(core)
    }

    /// Sectors that the guest sees.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Whether the guest may only read.
    pub fn is_read_only(&self) -> bool {
        self.target.store.is_read_only()
    }

    /// The alarm that wants [`Core::run`] to be called when it rings.
    pub fn alarm(&mut self) -> &mut Alarm {
        &mut self.alarm
    }

    /// Whether writes are reported complete before they are on the modelled medium.
    pub fn write_cache(&self) -> bool {
        self.model.write_cache()
    }

    /// Switches the modelled medium's write cache.
    pub fn set_write_cache(&mut self, on: bool) {
        self.advance();
        self.model.set_write_cache(on);
        self.set_alarm();
    }

    /// The guest is gone: no request is answered any more, but the medium finishes those that it has.
    pub fn disconnect(&mut self) {
        let at_ns = self.clock.now_ns();
        self.unexecuted.clear();
        for request in self.in_flight.iter_mut().flatten() {
            request.progress = Progress::Answered { at_ns };
        }
        self.guest = Guest::default();
    }

    /// Answers everything of a queue that is about to be taken away; the guest must find it empty.
    pub fn finish_queue(&mut self, queue: usize) {
        for slot in 0..self.in_flight.len() {
            let open = self.in_flight[slot]
                .as_ref()
                .is_some_and(|r| r.queue == queue && !matches!(r.progress, Progress::Answered { .. }));
            if open {
                self.answer(slot, self.clock.now_ns());
            }
        }
        self.notify();
    }

    /// Gives the calling thread, which serves the guest and is scheduled as `present`, the priority that the disk's
    /// timing takes. Returns how it is scheduled then.
    pub fn prioritise(&mut self, present: Option<Priority>) -> Option<Priority> {
        let wanted = if self.timed() { self.wanted_priority } else { Priority::Ordinary };
        if present != Some(wanted) {
            self.statistics.priority = schedule_as(wanted);
        }
        Some(wanted)
    }

    /// Advances the clock to the machine's time: does what is due, takes what has arrived, and returns the time of the
    /// next event. Only for a clock that advances on demand.
    pub fn run_until(&mut self, now_ns: u64) -> Option<u64> {
        self.clock.tell(now_ns);
        loop {
            self.advance();
            let next_ns = self.model.next_event_ns();
            let is_due = next_ns.is_some_and(|next| next <= self.clock.now_ns());
            if !self.take_requests() && !self.ask_for_notification() && !is_due {
                return next_ns;
            }
        }
    }

    /// Whether requests can be taken: the guest's queues and memory are known.
    pub fn is_connected(&self) -> bool {
        self.guest.has_come()
    }

    /// Answers all that has arrived now and forgets what the model had planned. Its data has been moved when it arrived, so
    /// that nothing is lost. Only for a clock that advances on demand: while it is stopped, no request would ever complete.
    pub(super) fn come_to_rest(&mut self) {
        let now_ns = self.clock.now_ns();
        for slot in 0..self.in_flight.len() {
            self.answer(slot, now_ns);
            if let Some(request) = self.in_flight[slot].take() {
                self.free.push(slot);
                if let Some(log) = &mut self.log {
                    log.writer.push(Record {
                        complete_ns: now_ns,
                        model_complete_ns: now_ns,
                        ..request.record
                    });
                }
            }
        }
        self.unexecuted.clear();
        self.model.reset(now_ns);
        self.notify();
    }

    /// One turn: answers what is due, takes what has arrived, and sets the alarm for the next time.
    pub fn run(&mut self) {
        let end_ns = self.clock.now_ns() + TURN_NS;
        let mut last_arrival_ns = 0;
        loop {
            self.advance();
            let arrived = self.take_requests();
            let now = self.clock.now_ns();
            if arrived {
                last_arrival_ns = now;
            }
            if now > end_ns {
                // Ring at once: there may be more, but others wait for their turn.
                self.alarm.set(Some(now));
                return;
            }
            let next = self.model.next_event_ns();
            let spins = next.is_some_and(|next| next < now + SPIN_NS);
            let polls = !self.timed() && !self.is_held() && now < last_arrival_ns + POLL_NS;
            if !arrived && !spins && !polls && !self.ask_for_notification() {
                self.set_alarm();
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn set_alarm(&mut self) {
        if self.clock.is_told() {
            return;
        }
        let next = self.model.next_event_ns();
        self.alarm.set(next.map(|next| next.saturating_sub(SPIN_NS).max(1)));
    }

    /// Requests that have arrived and that the model has not completed.
    pub(super) fn in_flight(&self) -> u64 {
        (self.in_flight.len() - self.free.len()) as u64
    }

    fn is_held(&self) -> bool {
        self.holders > 0
    }

    fn timed(&self) -> bool {
        self.timing && self.model_takes_time
    }
}
