//! A disk with platters, an arm, a buffer and a command queue.
//!
//! A command is taken into the drive's queue (up to its depth; the rest waits at the host), which costs the command
//! overhead. Reads that the buffer holds are answered from it. Everything else waits for the arm, which always takes
//! what it can begin soonest, with a credit for age so that nothing starves. With the write cache on, writes are
//! answered when they are in the buffer, and brought to the platters when nothing else is to be done, or when the
//! buffer fills, or when a flush waits for them.

mod arm;
mod command;
mod figures;
mod geometry;
mod read_ahead;
mod read_cache;
mod seek;
#[cfg(test)]
mod tests;
mod write_buffer;

use std::collections::{BTreeMap, VecDeque};

use self::arm::Arm;
use self::command::{Access, Candidate, Flush, Queued};
use self::geometry::Geometry;
use self::read_ahead::ReadAhead;
use self::read_cache::ReadCache;
use self::write_buffer::{Dirty, WriteBuffer};
use super::{ArmWork, Completion, FiguresError, MediumWork, Model, ModelRequest, SECTOR_BYTES, ServiceParts};
use crate::log::Operation;

pub use self::figures::HddFigures;
pub use self::geometry::GeometryFigures;
pub use self::seek::SeekCurve;

/// A request's age counts this much less than time saved: one that has waited for 32 positionings goes first. The
/// aged form of shortest-access-time-first (Jacobson and Wilkes, "Disk scheduling algorithms based on rotational
/// position", HPL-CSP-91-7, 1991).
const AGE_DIVISOR: i64 = 32;
/// The same for data that waits in the write buffer, whose host does not wait for it. There are many of them, so they
/// grow old; a greater weight would bring them to the platters in the order in which they came.
const DESTAGE_AGE_DIVISOR: i64 = 512;
/// How long written data rests in the buffer before an idle drive brings it to the platters: neighbours may come.
/// No manufacturer publishes it.
const DESTAGE_DELAY_NS: u64 = 10_000_000;

/// The model of a hard disk.
#[derive(Clone, Debug)]
pub struct HddModel {
    figures: HddFigures,
    clock_ns: u64,
    arm: Arm,
    ahead: Option<ReadAhead>,
    cache: ReadCache,
    buffer: WriteBuffer,
    write_cache: bool,
    /// Written data is brought to the platters without waiting for company.
    settling: bool,
    /// At the host.
    incoming: VecDeque<ModelRequest>,
    in_drive: u32,
    queue: Vec<Queued>,
    /// Writes that wait for room in the buffer.
    blocked: VecDeque<(ModelRequest, u64)>,
    flushes: Vec<Flush>,
    current: Option<Access>,
    arm_free_ns: u64,
    interface_free_ns: u64,
    /// By time, then in the order in which they were decided.
    completions: BTreeMap<(u64, u64), Completion>,
    decided: u64,
    /// Completions that the caller has not taken yet.
    untold: Vec<Completion>,
    writes: u64,
    work: ArmWork,
    /// When the arm can begin something next; kept because it is asked for much more often than it changes.
    next_dispatch_ns: Option<u64>,
}

impl HddModel {
    /// A drive at rest.
    ///
    /// # Errors
    /// The figures contradict each other.
    pub fn new(figures: HddFigures) -> Result<Self, FiguresError> {
        let geometry = Geometry::new(&figures.geometry)?;
        let longest = u32::try_from(geometry.cylinders() - 1).map_err(|_| FiguresError::TooManyCylinders)?;
        let phase_ns = figures.turned.ns(figures.geometry.revolution_ns);
        let seek =
            SeekCurve::fit(figures.single_seek_ms, figures.average_seek_ms, figures.full_seek_ms, longest)?;
        Ok(Self {
            figures,
            clock_ns: 0,
            arm: Arm::new(geometry, seek, figures.write_seek_factor, phase_ns),
            ahead: None,
            cache: ReadCache::new(figures.read_cache_sectors, figures.read_segments),
            buffer: WriteBuffer::new(figures.write_buffer_sectors, figures.write_runs as usize),
            write_cache: figures.write_cache,
            settling: false,
            incoming: VecDeque::new(),
            in_drive: 0,
            queue: Vec::new(),
            blocked: VecDeque::new(),
            flushes: Vec::new(),
            current: None,
            arm_free_ns: 0,
            interface_free_ns: 0,
            completions: BTreeMap::new(),
            decided: 0,
            untold: Vec::new(),
            writes: 0,
            work: ArmWork::default(),
            next_dispatch_ns: None,
        })
    }

    /// The layout and the arm, to look at.
    pub fn cylinders(&self) -> u64 {
        self.arm.geometry().cylinders()
    }

    /// The seek between two cylinders, in nanoseconds.
    pub fn seek_between_ns(&self, from: u64, to: u64) -> u64 {
        let mut arm = self.arm.clone();
        arm.park();
        let place = |cylinder| geometry::Place { cylinder, head: 0, sector: 0, sectors_per_track: 1 };
        arm.seek_ns(&place(from.abs_diff(to)), false)
    }

    fn complete(&mut self, id: u64, start_ns: u64, parts: ServiceParts, cache_hit: bool) {
        let complete_ns = start_ns + parts.total_ns();
        self.decided += 1;
        self.completions.insert(
            (complete_ns, self.decided),
            Completion { id, service_start_ns: start_ns, complete_ns, parts, cache_hit },
        );
    }

    /// The time after which the interface has moved this much, beginning no earlier than `from_ns`.
    fn interface_ns(&mut self, from_ns: u64, sectors: u64) -> u64 {
        let bytes = (sectors * SECTOR_BYTES) as f64;
        let ns = (bytes / self.figures.interface_bytes_per_s * 1e9) as u64;
        self.interface_free_ns = self.interface_free_ns.max(from_ns) + ns;
        self.interface_free_ns
    }

    /// Answers a command without the arm, at `done_ns`.
    fn complete_electronically(&mut self, id: u64, now_ns: u64, done_ns: u64, cache_hit: bool) {
        let parts = ServiceParts { overhead_ns: done_ns - now_ns, ..ServiceParts::default() };
        self.complete(id, now_ns, parts, cache_hit);
    }

    /// Takes commands from the host into the drive.
    fn admit(&mut self, now_ns: u64) {
        while let Some(request) = self.incoming.front().copied() {
            let alone = self.figures.flush_alone;
            let flush = request.operation == Operation::Flush;
            let waits = self.in_drive >= self.figures.queue_depth
                || (alone && !self.flushes.is_empty())
                || (alone && flush && self.in_drive > 0);
            if waits {
                return;
            }
            self.incoming.pop_front();
            self.in_drive += 1;
            let ready_ns = now_ns + self.figures.command_overhead_ns;
            match request.operation {
                Operation::Read => self.admit_read(request, now_ns, ready_ns),
                Operation::Write => self.admit_write(request, now_ns, ready_ns),
                Operation::Flush => self.admit_flush(request.id, now_ns, ready_ns),
                Operation::Discard => {
                    self.forget(request.sector, request.sector + u64::from(request.sectors), now_ns);
                    self.complete_electronically(request.id, now_ns, ready_ns, false);
                }
                Operation::WriteZeroes => {
                    self.forget(request.sector, request.sector + u64::from(request.sectors), now_ns);
                    self.queue.push(Queued { request, admitted_ns: now_ns, ready_ns });
                }
            }
        }
    }

    fn admit_read(&mut self, request: ModelRequest, now_ns: u64, ready_ns: u64) {
        let (start, end) = (request.sector, request.sector + u64::from(request.sectors));
        let ahead_holds = self.ahead.is_some_and(|ahead| {
            let (from, to) = ahead.held(&self.arm, now_ns);
            from <= start && end <= to
        });
        if ahead_holds {
            // The host takes data away, so there is room to read on.
            self.ahead = self.ahead.map(|ahead| ahead.resumed(end, &self.arm, now_ns).0);
        }
        if ahead_holds || self.cache.hit(start, end) || self.buffer.holds(start, end) {
            let done_ns = self.interface_ns(ready_ns, end - start);
            self.complete_electronically(request.id, now_ns, done_ns, true);
        } else {
            self.queue.push(Queued { request, admitted_ns: now_ns, ready_ns });
        }
    }

    fn admit_write(&mut self, request: ModelRequest, now_ns: u64, ready_ns: u64) {
        let sectors = u64::from(request.sectors);
        if !self.write_cache || !self.buffer.could_take(sectors) {
            self.forget(request.sector, request.sector + sectors, now_ns);
            let ready_ns = self.interface_ns(ready_ns, sectors);
            self.queue.push(Queued { request, admitted_ns: now_ns, ready_ns });
        } else if self.blocked.is_empty() && self.buffer.has_room(sectors) {
            self.take_into_buffer(request, now_ns, ready_ns);
        } else {
            self.blocked.push_back((request, ready_ns));
        }
    }

    fn take_into_buffer(&mut self, request: ModelRequest, now_ns: u64, ready_ns: u64) {
        let (start, end) = (request.sector, request.sector + u64::from(request.sectors));
        let done_ns = self.interface_ns(ready_ns.max(now_ns), end - start);
        self.forget_read(start, end, now_ns);
        self.writes += 1;
        self.buffer.insert(start, end, self.writes, done_ns);
        self.complete_electronically(request.id, now_ns, done_ns, true);
    }

    fn admit_flush(&mut self, id: u64, now_ns: u64, ready_ns: u64) {
        let nothing_waits = self.buffer.is_empty() && self.current.is_none_or(|a| a.destages.is_none());
        if nothing_waits {
            self.complete_electronically(id, now_ns, ready_ns, false);
        } else {
            let sequence = self.writes;
            self.flushes.push(Flush { id, sequence, start_ns: now_ns, parts: ServiceParts::default() });
        }
    }

    /// Sectors of this range will be replaced: forgets what the buffer holds of them.
    fn forget(&mut self, start: u64, end: u64, now_ns: u64) {
        self.buffer.remove(start, end);
        self.forget_read(start, end, now_ns);
    }

    fn forget_read(&mut self, start: u64, end: u64, now_ns: u64) {
        if self.ahead.is_some_and(|ahead| ahead.touches(start, end)) {
            self.stop_reading_ahead(now_ns);
        }
        self.cache.invalidate(start, end);
    }

    /// The heads stop where they are, and the segment keeps what was read.
    fn stop_reading_ahead(&mut self, now_ns: u64) {
        if let Some(ahead) = self.ahead.take() {
            let (start, end) = ahead.held(&self.arm, now_ns);
            self.cache.insert(start, end);
            self.arm.follow(end.saturating_sub(1));
        }
    }

    /// Written data must reach the platters even if reads wait.
    fn is_urgent(&self) -> bool {
        self.settling || !self.flushes.is_empty() || !self.blocked.is_empty() || self.buffer.is_pressed()
    }

    fn destage_from_ns(run: &Dirty, urgent: bool) -> u64 {
        if urgent { run.ready_ns } else { run.ready_ns.max(run.since_ns + DESTAGE_DELAY_NS) }
    }

    fn find_next_dispatch(&self) -> Option<u64> {
        if self.current.is_some() {
            return None;
        }
        let urgent = self.is_urgent();
        let command = self.queue.iter().map(|q| q.ready_ns).min();
        let destage = || self.buffer.runs().map(|run| Self::destage_from_ns(run, urgent)).min();
        let next = match command {
            Some(command) if urgent => destage().map_or(Some(command), |d| Some(d.min(command))),
            Some(command) => Some(command),
            None => destage(),
        };
        next.map(|ns| ns.max(self.clock_ns))
    }

    /// What the arm should do now.
    fn choose(&self, now_ns: u64) -> Option<Candidate> {
        let urgent = self.is_urgent();
        let mut arm = self.arm.clone();
        if let Some(ahead) = self.ahead {
            arm.follow(ahead.reached(&self.arm, now_ns).saturating_sub(1));
        }
        let cost = |sector, writes, since_ns: u64, divisor: i64| {
            let parts = arm.position(sector, now_ns, writes);
            let age_ns = now_ns.saturating_sub(since_ns) as i64;
            (parts.seek_ns + parts.rotation_ns) as i64 - age_ns / divisor
        };
        let commands = self.queue.iter().enumerate().filter(|(_, q)| q.ready_ns <= now_ns).map(|(i, q)| {
            let goes_on = q.reads()
                && self.ahead.is_some_and(|ahead| ahead.leads_to(q.request.sector, &self.arm, now_ns));
            let cost = if goes_on {
                let (read_ns, _) =
                    self.ahead.expect("it leads there").when_read(q.request.sector, &self.arm, now_ns);
                let age_ns = now_ns.saturating_sub(q.admitted_ns) as i64;
                (read_ns - now_ns) as i64 - age_ns / AGE_DIVISOR
            } else {
                cost(q.request.sector, !q.reads(), q.admitted_ns, AGE_DIVISOR)
            };
            (cost, Candidate::Command(i))
        });
        let destages = self
            .buffer
            .runs()
            .filter(|run| (urgent || self.queue.is_empty()) && Self::destage_from_ns(run, urgent) <= now_ns)
            .map(|run| {
                (cost(run.start, true, run.since_ns, DESTAGE_AGE_DIVISOR), Candidate::Destage(run.start))
            });
        commands.chain(destages).min_by_key(|(cost, _)| *cost).map(|(_, candidate)| candidate)
    }

    /// The arm begins its next access.
    fn dispatch(&mut self, now_ns: u64) {
        match self.choose(now_ns) {
            Some(Candidate::Command(index)) => {
                let queued = self.queue.swap_remove(index);
                self.serve(queued, now_ns);
            }
            Some(Candidate::Destage(start)) => {
                self.stop_reading_ahead(now_ns);
                let Some(run) = self.buffer.begin_destage(start) else { return };
                let parts = self.arm.access(run.start, run.end - run.start, now_ns, true);
                self.occupy(now_ns, parts, Some(run));
            }
            None => {}
        }
    }

    fn occupy(&mut self, start_ns: u64, parts: ServiceParts, destages: Option<Dirty>) {
        let end_ns = start_ns + parts.total_ns();
        self.work.count(&parts, destages.is_some());
        self.current = Some(Access { start_ns, end_ns, parts, destages });
    }

    /// The arm serves a command; it is complete when the arm is done with it.
    fn serve(&mut self, queued: Queued, now_ns: u64) {
        let request = queued.request;
        let (start, end) = (request.sector, request.sector + u64::from(request.sectors));
        let goes_on = self.ahead.filter(|a| queued.reads() && a.leads_to(start, &self.arm, now_ns));
        let (parts, hit) = if let Some(ahead) = goes_on {
            let hit = end <= ahead.reached(&self.arm, now_ns);
            let (read_ns, rotation_ns) = ahead.when_read(end, &self.arm, now_ns);
            self.ahead = Some(ahead.resumed(end, &self.arm, now_ns).0);
            let rotation_ns = rotation_ns.min(read_ns - now_ns);
            let transfer_ns = read_ns - now_ns - rotation_ns;
            (ServiceParts { rotation_ns, transfer_ns, ..ServiceParts::default() }, hit)
        } else {
            self.stop_reading_ahead(now_ns);
            // Read on its way from another track, it may be in the buffer by now.
            let hit = queued.reads() && self.cache.hit(start, end);
            if hit {
                (ServiceParts::default(), true)
            } else {
                let parts = self.arm.access(start, end - start, now_ns, !queued.reads());
                if queued.reads() {
                    let since_ns = now_ns + parts.total_ns();
                    let (segment, disk) = (self.cache.segment_sectors(), self.figures.geometry.sectors);
                    self.ahead = Some(ReadAhead::after(start, end, since_ns, segment, disk));
                }
                (parts, false)
            }
        };
        self.occupy(now_ns, parts, None);
        // An arm that was idle while the command was understood was in its service already.
        let start_ns = queued.admitted_ns.max(self.arm_free_ns).min(now_ns);
        let parts = ServiceParts { overhead_ns: now_ns - start_ns, ..parts };
        self.complete(request.id, start_ns, parts, hit);
    }

    /// The arm is done with its access.
    fn finish_access(&mut self, access: Access) {
        self.arm_free_ns = access.end_ns;
        if let Some(run) = access.destages {
            self.buffer.destaged(&run);
            for flush in self.flushes.iter_mut().filter(|f| f.start_ns <= access.start_ns) {
                flush.parts.seek_ns += access.parts.seek_ns;
                flush.parts.rotation_ns += access.parts.rotation_ns;
                flush.parts.transfer_ns += access.parts.transfer_ns;
            }
            self.let_blocked_in(access.end_ns);
            self.finish_flushes(access.end_ns);
            self.settling &= !self.buffer.is_empty();
        }
    }

    fn let_blocked_in(&mut self, now_ns: u64) {
        while let Some((request, ready_ns)) = self.blocked.front().copied() {
            if !self.buffer.has_room(u64::from(request.sectors)) {
                return;
            }
            self.blocked.pop_front();
            self.take_into_buffer(request, now_ns, ready_ns);
        }
    }

    fn finish_flushes(&mut self, now_ns: u64) {
        let destaging = self.current.and_then(|access| access.destages);
        let oldest = self.buffer.runs().chain(&destaging).map(|run| run.sequence).min().unwrap_or(u64::MAX);
        let done: Vec<Flush> = self.flushes.extract_if(.., |flush| flush.sequence < oldest).collect();
        for flush in done {
            let mut parts = flush.parts;
            parts.overhead_ns = (now_ns - flush.start_ns) - parts.total_ns();
            self.complete(flush.id, flush.start_ns, parts, false);
        }
    }
}

impl HddModel {
    fn next_work_ns(&self) -> Option<u64> {
        let completion = self.completions.first_key_value().map(|((ns, _), _)| *ns);
        let access = self.current.map(|access| access.end_ns);
        [completion, access, self.next_dispatch_ns].into_iter().flatten().min()
    }

    /// Does all work that is due until then, so that a new request finds the drive in its state at that time: earlier work
    /// is not done after it.
    fn work_until(&mut self, now_ns: u64) {
        while let Some(next_ns) = self.next_work_ns().filter(|next| *next <= now_ns) {
            self.clock_ns = self.clock_ns.max(next_ns);
            let completes = self.completions.first_key_value().is_some_and(|((ns, _), _)| *ns <= next_ns);
            if completes {
                self.untold.extend(self.completions.pop_first().map(|(_, completion)| completion));
                self.in_drive -= 1;
                self.admit(next_ns);
            } else if let Some(access) = self.current.take_if(|access| access.end_ns <= next_ns) {
                self.finish_access(access);
            } else {
                self.dispatch(next_ns);
            }
            self.next_dispatch_ns = self.find_next_dispatch();
        }
        self.clock_ns = self.clock_ns.max(now_ns);
    }
}

impl Model for HddModel {
    fn submit(&mut self, request: ModelRequest, now_ns: u64) {
        self.work_until(now_ns);
        self.incoming.push_back(request);
        self.admit(self.clock_ns);
        // What a flush waits for may have been discarded.
        self.finish_flushes(self.clock_ns);
        self.next_dispatch_ns = self.find_next_dispatch();
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.untold.first().map(|completion| completion.complete_ns).or_else(|| self.next_work_ns())
    }

    fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        self.work_until(now_ns);
        completions.append(&mut self.untold);
    }

    fn work(&self) -> MediumWork {
        MediumWork { arms: Some(self.work), ..MediumWork::default() }
    }

    fn is_settled(&self) -> bool {
        self.untold.is_empty()
            && self.incoming.is_empty()
            && self.in_drive == 0
            && self.buffer.is_empty()
            && self.current.is_none()
    }

    fn settle(&mut self, now_ns: u64) {
        self.work_until(now_ns);
        self.settling = !self.buffer.is_empty();
        self.next_dispatch_ns = self.find_next_dispatch();
    }

    fn write_cache(&self) -> bool {
        self.write_cache
    }

    fn set_write_cache(&mut self, on: bool) {
        self.write_cache = on;
    }

    fn reset(&mut self, now_ns: u64) {
        let write_cache = self.write_cache;
        if let Ok(fresh) = Self::new(self.figures) {
            *self = Self { work: self.work, ..fresh };
        }
        self.write_cache = write_cache;
        self.clock_ns = now_ns;
        self.arm_free_ns = now_ns;
    }
}
