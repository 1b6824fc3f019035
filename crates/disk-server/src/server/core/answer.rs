//! Carrying out requests and answering them when the model has completed them.

use std::io;
use std::ops::Range;

use vhost_user_backend::VringT;
use virtio_bindings::bindings::virtio_blk::{VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace};

use super::{Core, Progress};
use crate::server::request::{Command, Refusal};
use crate::server::stamping;
use nestor_disk::log::{Operation, Record};
use nestor_disk::model::{Completion, SECTOR_BYTES};
use nestor_serving::GuestMemory;

impl Core {
    /// Moves a request's data.
    pub(super) fn execute(&mut self, slot: usize) {
        let Some(memory) = &self.guest.memory else { return };
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

    /// Advances the model to the present and answers the requests that it has completed.
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
                log.writer.push(record);
            }
        }
    }

    /// Puts a request's answer into its ring, unless it is already there.
    pub(super) fn answer(&mut self, slot: usize, at_ns: u64) {
        self.execute(slot);
        let Some(memory) = &self.guest.memory else { return };
        let Some(request) = self.in_flight.get_mut(slot).and_then(Option::as_mut) else { return };
        let Progress::Executed { filled, status } = request.progress else { return };
        let used = write_status(&memory.memory(), request.status, filled, status);
        if let Some(vring) = self.guest.vrings.get(request.queue) {
            let _ = vring.add_used(request.head, used);
            self.to_notify |= 1 << request.queue;
        }
        request.record.failed = u32::from(status) != VIRTIO_BLK_S_OK;
        request.progress = Progress::Answered { at_ns };
        let command = request.command;
        self.count(&command, status);
    }

    /// Notifies the guest of the answers in its rings.
    pub(super) fn notify(&mut self) {
        for (queue, vring) in self.guest.vrings.iter().enumerate() {
            if self.to_notify & (1 << queue) != 0 {
                let mut state = vring.get_mut();
                if state.needs_notification().unwrap_or(true) {
                    let _ = state.signal_used_queue();
                }
            }
        }
        self.to_notify = 0;
    }

    pub(super) fn count(&mut self, command: &Command, status: u8) {
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

    /// Whether a log or stamps need the times of requests; reading the clock costs time.
    pub(super) fn notes_requests(&self) -> bool {
        self.log.is_some() || self.stamps.is_some()
    }

    /// Notes a request that no model timed: from its arrival to its completion, in nanoseconds.
    pub(super) fn log_untimed(&mut self, queue: usize, command: &Command, times_ns: Range<u64>, status: u8) {
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
            log.writer.push(record);
        }
    }
}

/// A request as the log and the model name it; `None` if no medium is involved.
pub(super) fn describe(command: &Command) -> Option<(Operation, u64, u32)> {
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
pub(super) fn outcome(result: Result<&io::Result<u32>, Refusal>) -> (u32, u8) {
    match result {
        Ok(Ok(filled)) => (*filled, VIRTIO_BLK_S_OK as u8),
        Ok(Err(_)) | Err(Refusal::Invalid) => (0, VIRTIO_BLK_S_IOERR as u8),
        Err(Refusal::Unsupported) => (0, VIRTIO_BLK_S_UNSUPP as u8),
    }
}

/// Writes the status byte and returns how many bytes of the guest's memory were written in all.
pub(super) fn write_status(memory: &GuestMemory, at: Option<GuestAddress>, filled: u32, status: u8) -> u32 {
    match at {
        Some(address) if memory.write_obj(status, address).is_ok() => filled.saturating_add(1),
        _ => filled,
    }
}
