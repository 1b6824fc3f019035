//! Taking requests from the rings.

use vhost_user_backend::VringT;
use virtio_queue::QueueT;

use super::answer::{describe, outcome, write_status};
use super::{Core, InFlight, NOTIFY_EVERY, Progress};
use crate::server::request::{Command, pieces};
use crate::server::stamping;
use nestor_disk::log::{Operation, Record};
use nestor_disk::model::ModelRequest;
use nestor_serving::GuestMemory;
use vm_memory::GuestAddressSpace;

impl Core {
    /// Asks the guest to notify the disk of further requests; true if some are there already.
    pub(super) fn ask_for_notification(&mut self) -> bool {
        if self.is_held() {
            return false;
        }
        let mut more = false;
        for vring in &self.guest.vrings {
            let mut state = vring.get_mut();
            if state.is_enabled() && state.get_queue().ready() {
                more |= state.enable_notification().unwrap_or(false);
            }
        }
        more
    }

    /// Takes all requests from the rings; true if there were any.
    pub(super) fn take_requests(&mut self) -> bool {
        let Some(memory) = self.guest.memory.clone() else { return false };
        if self.is_held() {
            return false;
        }
        let memory = memory.memory();
        let mut arrived = false;
        for queue in 0..self.guest.vrings.len() {
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

    /// Serves the requests of a queue one after the other, as fast as possible.
    fn serve_untimed(&mut self, queue: usize, memory: &GuestMemory) -> bool {
        let vring = self.guest.vrings[queue].clone();
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
            // Before the guest can see the answer: otherwise the disk would seem to complete requests after the guest saw them complete.
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
        let vring = self.guest.vrings[queue].clone();
        let mut state = vring.get_mut();
        if !state.is_enabled() {
            return false;
        }
        let mut any = false;
        while let Some(chain) = state.get_queue_mut().pop_descriptor_chain(memory) {
            any = true;
            let head = chain.head_index();
            match self.parsed.parse(pieces(chain), memory, self.sectors) {
                // The interface knows the name; the medium is not involved.
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

    pub(super) fn new_record(
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
}
