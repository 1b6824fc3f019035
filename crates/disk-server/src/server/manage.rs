//! What the control socket does to a disk.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::core::Core;
use crate::control::Statistics;
use nestor_disk::DiskError;
use nestor_disk::log::{Header, LogSummary, StampWriter, Writer};
use nestor_disk::model::MediumWork;
use nestor_log::{Behind, Limits};
use nestor_stop::StopHandle;

/// How often to look whether a disk has come to rest, if its model does not say when.
const LOOK_EVERY_NS: u64 = 2_000_000;

/// How often to look whether the server is to end while a front end's queues are waited for.
const CONNECTION_LOOK: Duration = Duration::from_millis(100);

/// A disk that the guest's thread and the control socket's threads share.
pub struct Shared {
    core: Mutex<Core>,
    /// Told when a front end's queues have become known.
    connected: Condvar,
    /// Threads of the control socket that want the disk: the guest's thread lets them go first.
    waiting: AtomicU32,
    stop: StopHandle,
}

impl Shared {
    /// Shares a disk.
    pub fn new(core: Core, stop: StopHandle) -> Self {
        Self { core: Mutex::new(core), connected: Condvar::new(), waiting: AtomicU32::new(0), stop }
    }

    /// The disk, for the thread that serves the guest.
    pub fn serve(&self) -> MutexGuard<'_, Core> {
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.lock()
    }

    /// The disk, for all other threads.
    pub fn manage(&self) -> MutexGuard<'_, Core> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let core = self.lock();
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        core
    }

    /// The front end's queues have become known.
    pub fn note_connected(&self) {
        self.connected.notify_all();
    }

    /// Sets the time that the machine sent; returns the time of the next event. The machine's first notification may arrive
    /// here before the vhost-user library knows the queues; then this waits for the queues.
    pub fn run_until(&self, now_ns: u64) -> Option<u64> {
        let mut core = self.manage();
        while !core.is_connected() && !self.stop.is_stopped() {
            let waited = self.connected.wait_timeout(core, CONNECTION_LOOK);
            core = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        core.run_until(now_ns)
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        // At worst, a thread that panicked has left a request half done; the disk stays usable.
        nestor_stop::lock(&self.core)
    }

    /// Switches timing once all requests in flight and the write cache are finished under the old setting.
    pub fn switch_timing(&self, on: bool) {
        self.at_rest(true, |core| core.timing = on);
    }

    /// Drops all data and forgets the medium's caches and position, once what is in flight is done.
    ///
    /// # Errors
    /// The data file cannot be emptied.
    pub fn reset(&self) -> Result<(), DiskError> {
        self.at_rest(false, |core| {
            let size = core.target.store.size();
            core.model.reset(core.clock.now_ns());
            core.target.store.punch(0, size).map_err(DiskError::system("empty the data file"))
        })
        .unwrap_or(Ok(()))
    }

    /// Keeps requests in the rings until the disk is at rest (with or without its cache), acts, and lets them continue.
    /// Returns `None` without acting if the server is to end meanwhile.
    fn at_rest<T>(&self, settled: bool, act: impl FnOnce(&mut Core) -> T) -> Option<T> {
        {
            let mut core = self.manage();
            if core.clock.is_told() {
                core.come_to_rest();
                return Some(act(&mut core));
            }
            core.hold();
        }
        let rested = loop {
            let mut core = self.manage();
            core.advance();
            if settled && core.is_idle() {
                let now_ns = core.clock.now_ns();
                core.model.settle(now_ns);
            }
            if core.is_idle() && (!settled || core.model.is_settled()) {
                break Some(core);
            }
            let now = core.clock.now_ns();
            let next = core.model.next_event_ns().map_or(now + LOOK_EVERY_NS, |n| n.min(now + LOOK_EVERY_NS));
            drop(core);
            if self.stop.is_stopped() {
                break None;
            }
            std::thread::sleep(Duration::from_nanos(next.saturating_sub(now).max(20_000)));
        };
        let acted = rested.map(|mut core| act(&mut core));
        self.manage().release();
        acted
    }
}

impl Core {
    fn hold(&mut self) {
        self.holders += 1;
    }

    fn release(&mut self) {
        self.holders -= 1;
        // The guest's thread looks at the rings when the alarm rings, which is at once.
        self.alarm().set(Some(1));
    }

    fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// Starts a request log; one that is open already is closed.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start_log(&mut self, path: &Path) -> Result<(), DiskError> {
        self.log = None;
        let header = Header {
            disk: self.profile.clone(),
            opened_ns: self.clock.now_ns(),
            sectors: self.sectors,
            first_sector: self.first_sector,
            records: 0,
            dropped: 0,
        };
        // What is logged in virtual time must not depend on how fast the file system is in real time.
        let behind = if self.clock.is_told() { Behind::Wait } else { Behind::Drop };
        let writer = Writer::limited(path, header, Limits { behind, ..Limits::default() })?;
        self.log = Some(OpenLog { writer, before: self.model.work() });
        Ok(())
    }

    /// Takes the request log out; the caller closes it, which may take a while.
    pub fn take_log(&mut self) -> Option<TakenLog> {
        let OpenLog { writer, before } = self.log.take()?;
        Some(TakenLog { writer, work: self.model.work().since(&before) })
    }

    /// Starts to note the stamps in the data.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start_stamps(&mut self, path: &Path) -> Result<(), DiskError> {
        self.stamps = Some(StampWriter::create(path)?);
        Ok(())
    }

    /// Takes the file of stamps out; the caller closes it.
    pub fn take_stamps(&mut self) -> Option<StampWriter> {
        self.stamps.take()
    }

    /// What the disk has done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            timing: self.timing && self.model_takes_time,
            in_flight: self.in_flight(),
            write_cache: self.model.write_cache(),
            settled: self.is_idle() && self.model.is_settled(),
            allocated_bytes: self.target.store.allocated().unwrap_or(0),
            work: self.model.work(),
            ..self.statistics.clone()
        }
    }
}

/// A request log that is being written.
pub struct OpenLog {
    /// Writes it.
    pub writer: Writer,
    /// What the medium had done when the log was opened.
    before: MediumWork,
}

/// A request log that nothing is added to any more.
pub struct TakenLog {
    writer: Writer,
    /// What the medium has done while it was open.
    work: MediumWork,
}

/// Closes a log that may not be there.
pub fn close_log(log: Option<TakenLog>) -> Result<LogSummary, DiskError> {
    let Some(TakenLog { writer, work }) = log else { return Ok(LogSummary::default()) };
    let nestor_log::LogSummary { records, dropped } = writer.finish()?;
    Ok(LogSummary { records, dropped, work })
}

/// Closes a file of stamps that may not be there; returns how many runs it has.
pub fn close_stamps(stamps: Option<StampWriter>) -> Result<u64, DiskError> {
    stamps.map_or(Ok(0), StampWriter::finish)
}
