//! The disk's heart: takes requests from the rings, lets the model say when each is done, and answers it then.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use vhost_user_backend::bitmap::BitmapMmapRegion;
use vhost_user_backend::{VringMutex, VringT};
use virtio_bindings::bindings::virtio_blk::{VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP};
use virtio_queue::QueueT;
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

use super::clock::{Alarm, Clock};
use super::execute::Target;
use super::priority::{Priority, schedule_as};
use super::request::{Command, Parsed, Refusal, Segment, pieces};
use super::stamping;
use crate::control::Statistics;
use nestor_disk::DiskError;
use nestor_disk::log::{Operation, Record, StampWriter, Writer};
use nestor_disk::model::{Completion, Model, ModelRequest, SECTOR_BYTES};

/// The guest's memory as the vhost-user library hands it over.
pub type Memory = GuestMemoryAtomic<GuestMemory>;
/// The same at one moment. It notes which pages the disk has written, for QEMU to move or keep a running machine.
pub type GuestMemory = GuestMemoryMmap<BitmapMmapRegion>;
/// A virtqueue of the guest.
pub type Vring = VringMutex<Memory>;

/// The alarm rings this much before a completion is due and the rest is spent looking at the clock: waking a thread
/// takes about as long. Longer would take CPU from the guests, which may share two cores with the disk.
const SPIN_NS: u64 = 50_000;
/// Without timing, how long to look for further requests before asking the guest for a notification.
const POLL_NS: u64 = 20_000;
/// A turn ends after this long so that a busy guest cannot keep the control socket waiting.
const TURN_NS: u64 = 2_000_000;
/// Without timing, the guest is told after so many completions, so that it goes on while the rest is served.
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
    /// Answered (or its guest is gone) before the model is through with it.
    Answered { at_ns: u64 },
}

/// A disk's state, whoever is connected.
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
    vrings: Vec<Vring>,
    memory: Option<Memory>,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    unexecuted: VecDeque<usize>,
    /// Queues with answers that the guest has not been told of, a bit each.
    to_notify: u64,
    completions: Vec<Completion>,
    parsed: Parsed,
    sequence: u64,
    pub(super) log: Option<Writer>,
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
    /// Where the first served sector lies on the medium.
    pub first_sector: u64,
    /// The medium's behaviour in time.
    pub model: Box<dyn Model>,
    /// The model is not the one that takes no time.
    pub model_takes_time: bool,
    /// Timing is on from the start.
    pub timing: bool,
    /// How the serving thread should be scheduled while timing is on.
    pub priority: Priority,
    /// The time it lives in.
    pub clock: Clock,
}

impl Core {
    /// A disk at rest.
    ///
    /// # Errors
    /// The kernel gives no timer.
    pub fn new(parts: CoreParts) -> Result<Self, DiskError> {
        let mut core = Self {
            sectors: parts.target.store.size() / SECTOR_BYTES,
            target: parts.target,
            first_sector: parts.first_sector,
            profile: parts.profile,
            model: parts.model,
            model_takes_time: parts.model_takes_time,
            timing: parts.timing,
            holders: 0,
            vrings: Vec::new(),
            memory: None,
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

    /// The guest's memory has changed.
    pub fn set_memory(&mut self, memory: Memory) {
        self.memory = Some(memory);
    }

    /// The guest's queues, of a new connection or as before.
    pub fn set_vrings(&mut self, vrings: &[Vring]) {
        if self.vrings.len() != vrings.len() {
            self.vrings = vrings.to_vec();
        }
    }

    /// The guest is gone: nobody is left to be answered, but the medium goes on with what it has.
    pub fn disconnect(&mut self) {
        let at_ns = self.clock.now_ns();
        self.unexecuted.clear();
        for request in self.in_flight.iter_mut().flatten() {
            request.progress = Progress::Answered { at_ns };
        }
        self.vrings.clear();
        self.memory = None;
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

    /// The machine says what time it is there: does what is due, takes what has arrived, and returns when something will
    /// happen next. Only for a clock that is told.
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
        !self.vrings.is_empty() && self.memory.is_some()
    }

    /// Answers all that has arrived now and forgets what the model had planned. Its data has been moved when it arrived, so
    /// that nothing is lost. Only for a clock that is told: while it stands, no request would ever be done.
    pub(super) fn come_to_rest(&mut self) {
        let now_ns = self.clock.now_ns();
        for slot in 0..self.in_flight.len() {
            self.answer(slot, now_ns);
            if let Some(request) = self.in_flight[slot].take() {
                self.free.push(slot);
                if let Some(log) = &mut self.log {
                    log.push(Record { complete_ns: now_ns, model_complete_ns: now_ns, ..request.record });
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

    /// Asks the guest to tell of further requests; true if there are some already.
    fn ask_for_notification(&mut self) -> bool {
        if self.is_held() {
            return false;
        }
        let mut more = false;
        for vring in &self.vrings {
            let mut state = vring.get_mut();
            if state.is_enabled() && state.get_queue().ready() {
                more |= state.enable_notification().unwrap_or(false);
            }
        }
        more
    }

    /// Takes what lies in the rings; true if there was anything.
    fn take_requests(&mut self) -> bool {
        let Some(memory) = self.memory.clone() else { return false };
        if self.is_held() {
            return false;
        }
        let memory = memory.memory();
        let mut arrived = false;
        for queue in 0..self.vrings.len() {
            arrived |= if self.timed() {
                self.take_timed(queue, &memory)
            } else {
                self.serve_untimed(queue, &memory)
            };
        }
        while let Some(slot) = self.unexecuted.pop_front() {
            self.execute(slot);
            self.advance();
        }
        arrived
    }

    /// Serves the requests of a queue one after the other, with no other order or delay than the work takes.
    fn serve_untimed(&mut self, queue: usize, memory: &GuestMemory) -> bool {
        let vring = self.vrings[queue].clone();
        let mut state = vring.get_mut();
        if !state.is_enabled() {
            return false;
        }
        let mut since_notified = 0;
        let mut any = false;
        while let Some(chain) = state.get_queue_mut().pop_descriptor_chain(memory) {
            any = true;
            let head = chain.head_index();
            let arrival_ns = if self.notes_requests() { self.clock.now_ns() } else { 0 };
            let parsed = self.parsed.parse(pieces(chain), memory, self.sectors);
            let done =
                parsed.map(|command| (command, self.target.execute(&command, &self.parsed.data, memory)));
            if let (Ok((command, Ok(_))), Some(stamps)) = (&done, &mut self.stamps) {
                // Before the answer: after it the guest uses the memory for other things. The record made below has
                // this sequence.
                stamping::note(stamps, self.sequence, command, &self.parsed.data, memory);
            }
            let (filled, status) = outcome(done.as_ref().map(|(_, result)| result).map_err(|e| *e));
            let used = write_status(memory, self.parsed.status, filled, status);
            // Before the guest can see the answer, or the disk would seem to be done later than the guest was told.
            let complete_ns = if self.notes_requests() { self.clock.now_ns() } else { 0 };
            let _ = state.add_used(head, used);
            if let Ok((command, _)) = done {
                self.count(&command, status);
                self.log_untimed(queue, &command, arrival_ns..complete_ns, status);
            } else {
                self.statistics.refused += 1;
            }
            since_notified += 1;
            if since_notified == NOTIFY_EVERY {
                since_notified = 0;
                if state.needs_notification().unwrap_or(true) {
                    let _ = state.signal_used_queue();
                }
            }
        }
        if since_notified > 0 && state.needs_notification().unwrap_or(true) {
            let _ = state.signal_used_queue();
        }
        any
    }

    /// Takes all requests of a queue and gives them to the model; their data is moved afterwards, so that the last
    /// of them does not seem to arrive only when the data of the first has been moved.
    fn take_timed(&mut self, queue: usize, memory: &GuestMemory) -> bool {
        let vring = self.vrings[queue].clone();
        let mut state = vring.get_mut();
        if !state.is_enabled() {
            return false;
        }
        let mut any = false;
        while let Some(chain) = state.get_queue_mut().pop_descriptor_chain(memory) {
            any = true;
            let head = chain.head_index();
            match self.parsed.parse(pieces(chain), memory, self.sectors) {
                // The name is known to the interface; the medium is not asked.
                Ok(Command::GetId) => {
                    let result = self.target.execute(&Command::GetId, &self.parsed.data, memory);
                    let (filled, status) = outcome(Ok(&result));
                    let _ = state.add_used(head, write_status(memory, self.parsed.status, filled, status));
                    let _ = state.signal_used_queue();
                }
                Ok(command) => self.submit(queue, head, command),
                Err(refusal) => {
                    let (_, status) = outcome(Err(refusal));
                    let _ = state.add_used(head, write_status(memory, self.parsed.status, 0, status));
                    let _ = state.signal_used_queue();
                    self.statistics.refused += 1;
                }
            }
        }
        any
    }

    fn submit(&mut self, queue: usize, head: u16, command: Command) {
        let arrival_ns = self.clock.now_ns();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() - 1
        });
        let (operation, sector, sectors) =
            describe(&command).expect("commands without a medium do not come here");
        let record = self.new_record(queue, operation, sector, sectors, arrival_ns);
        self.in_flight[slot] = Some(InFlight {
            queue,
            head,
            command,
            data: self.parsed.data.clone(),
            status: self.parsed.status,
            record,
            progress: Progress::Arrived,
        });
        self.unexecuted.push_back(slot);
        let request =
            ModelRequest { id: slot as u64, operation, sector: sector + self.first_sector, sectors };
        self.model.submit(request, arrival_ns);
    }

    fn new_record(
        &mut self,
        queue: usize,
        operation: Operation,
        sector: u64,
        sectors: u32,
        arrival_ns: u64,
    ) -> Record {
        let sequence = self.sequence;
        self.sequence += 1;
        Record {
            sequence,
            operation,
            sector,
            sectors,
            queue: queue as u16,
            queue_depth: self.in_flight().clamp(1, u64::from(u16::MAX)) as u16,
            arrival_ns,
            service_start_ns: arrival_ns,
            complete_ns: arrival_ns,
            model_complete_ns: arrival_ns,
            seek_ns: 0,
            rotation_ns: 0,
            transfer_ns: 0,
            overhead_ns: 0,
            cache_hit: false,
            timed: self.timed(),
            failed: false,
        }
    }

    /// Moves a request's data.
    fn execute(&mut self, slot: usize) {
        let Some(memory) = &self.memory else { return };
        let Some(request) = self.in_flight.get_mut(slot).and_then(Option::as_mut) else { return };
        if request.progress == Progress::Arrived {
            let result = self.target.execute(&request.command, &request.data, &memory.memory());
            if let Some(stamps) = self.stamps.as_mut().filter(|_| result.is_ok()) {
                let memory = memory.memory();
                stamping::note(stamps, request.record.sequence, &request.command, &request.data, &memory);
            }
            let (filled, status) = outcome(Ok(&result));
            request.progress = Progress::Executed { filled, status };
        }
    }

    /// Lets the model come to the present and answers what it has completed.
    pub fn advance(&mut self) {
        if self.model.next_event_ns().is_none_or(|next| next > self.clock.now_ns()) {
            return;
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.model.advance(self.clock.now_ns(), &mut completions);
        for completion in completions.drain(..) {
            self.complete(&completion);
        }
        self.completions = completions;
        self.notify();
    }

    fn complete(&mut self, completion: &Completion) {
        let slot = completion.id as usize;
        if let Some(request) = self.in_flight.get_mut(slot).and_then(Option::as_mut) {
            let record = &mut request.record;
            record.service_start_ns = completion.service_start_ns;
            record.model_complete_ns = completion.complete_ns;
            record.seek_ns = completion.parts.seek_ns;
            record.rotation_ns = completion.parts.rotation_ns;
            record.transfer_ns = completion.parts.transfer_ns;
            record.overhead_ns = completion.parts.overhead_ns;
            record.cache_hit = completion.cache_hit;
        }
        self.answer(slot, self.clock.now_ns());
        let Some(request) = self.in_flight.get_mut(slot).and_then(Option::take) else { return };
        self.free.push(slot);
        if let Progress::Answered { at_ns } = request.progress {
            let record = Record { complete_ns: at_ns, ..request.record };
            let lag = at_ns.saturating_sub(record.model_complete_ns);
            self.statistics.lag_max_ns = self.statistics.lag_max_ns.max(lag);
            self.statistics.lag_total_ns += lag;
            self.statistics.timed_requests += 1;
            self.statistics.cache_hits += u64::from(record.cache_hit);
            if let Some(log) = &mut self.log {
                log.push(record);
            }
        }
    }

    /// Puts a request's answer into its ring, unless that has been done.
    fn answer(&mut self, slot: usize, at_ns: u64) {
        self.execute(slot);
        let Some(memory) = &self.memory else { return };
        let Some(request) = self.in_flight.get_mut(slot).and_then(Option::as_mut) else { return };
        let Progress::Executed { filled, status } = request.progress else { return };
        let used = write_status(&memory.memory(), request.status, filled, status);
        if let Some(vring) = self.vrings.get(request.queue) {
            let _ = vring.add_used(request.head, used);
            self.to_notify |= 1 << request.queue;
        }
        request.record.failed = u32::from(status) != VIRTIO_BLK_S_OK;
        request.progress = Progress::Answered { at_ns };
        let command = request.command;
        self.count(&command, status);
    }

    /// Tells the guest of what was put into its rings.
    fn notify(&mut self) {
        for (queue, vring) in self.vrings.iter().enumerate() {
            if self.to_notify & (1 << queue) != 0 {
                let mut state = vring.get_mut();
                if state.needs_notification().unwrap_or(true) {
                    let _ = state.signal_used_queue();
                }
            }
        }
        self.to_notify = 0;
    }

    fn count(&mut self, command: &Command, status: u8) {
        if u32::from(status) != VIRTIO_BLK_S_OK {
            self.statistics.failed += 1;
        }
        let counter = match command {
            Command::Read { .. } => &mut self.statistics.read,
            Command::Write { .. } => &mut self.statistics.write,
            Command::Discard { .. } => &mut self.statistics.discard,
            Command::WriteZeroes { .. } => &mut self.statistics.write_zeroes,
            Command::Flush => {
                self.statistics.flushes += 1;
                return;
            }
            Command::GetId => return,
        };
        let sectors = describe(command).map_or(0, |(_, _, sectors)| sectors);
        counter.requests += 1;
        counter.bytes += u64::from(sectors) * SECTOR_BYTES;
    }

    /// Whether anybody wants to know when requests came and were done; asking for the time costs some.
    fn notes_requests(&self) -> bool {
        self.log.is_some() || self.stamps.is_some()
    }

    /// Notes a request that no model timed: from its arrival to its completion, in nanoseconds.
    fn log_untimed(&mut self, queue: usize, command: &Command, times_ns: Range<u64>, status: u8) {
        if !self.notes_requests() {
            return;
        }
        let Some((operation, sector, sectors)) = describe(command) else { return };
        let mut record = self.new_record(queue, operation, sector, sectors, times_ns.start);
        record.complete_ns = times_ns.end;
        record.model_complete_ns = times_ns.end;
        record.overhead_ns = times_ns.end - times_ns.start;
        record.failed = u32::from(status) != VIRTIO_BLK_S_OK;
        if let Some(log) = &mut self.log {
            log.push(record);
        }
    }
}

/// A request as the log and the model name it; `None` if no medium is involved.
fn describe(command: &Command) -> Option<(Operation, u64, u32)> {
    Some(match *command {
        Command::Read { sector, sectors } => (Operation::Read, sector, sectors),
        Command::Write { sector, sectors } => (Operation::Write, sector, sectors),
        Command::Flush => (Operation::Flush, 0, 0),
        Command::Discard { sector, sectors } => (Operation::Discard, sector, sectors),
        Command::WriteZeroes { sector, sectors, .. } => (Operation::WriteZeroes, sector, sectors),
        Command::GetId => return None,
    })
}

/// Bytes filled, and the status byte, of a request that was carried out or refused.
fn outcome(result: Result<&io::Result<u32>, Refusal>) -> (u32, u8) {
    match result {
        Ok(Ok(filled)) => (*filled, VIRTIO_BLK_S_OK as u8),
        Ok(Err(_)) | Err(Refusal::Invalid) => (0, VIRTIO_BLK_S_IOERR as u8),
        Err(Refusal::Unsupported) => (0, VIRTIO_BLK_S_UNSUPP as u8),
    }
}

/// Writes the status byte and returns how many bytes of the guest's memory were written in all.
fn write_status(memory: &GuestMemory, at: Option<GuestAddress>, filled: u32, status: u8) -> u32 {
    match at {
        Some(address) if memory.write_obj(status, address).is_ok() => filled.saturating_add(1),
        _ => filled,
    }
}
