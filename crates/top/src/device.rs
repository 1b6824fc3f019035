//! Requests of one block device, followed through its events.

use std::collections::VecDeque;

use nestor_trace::Operation;
use nestor_trace::event::{Action, BlockEvent, Device, Flags};
use nestor_trace::layer::pairing::{BioLife, Observer, Pairing, RequestLife};
use nestor_trace::layer::request_of;

use crate::ended::{Ended, Side};
use crate::layers::BlockLayer;

/// Flushes that are followed at once; a device mapper's may be many, a queue has two.
const MOST_FLUSHES: usize = 4096;

/// What is under way at a device.
pub(crate) struct DeviceState {
    device: Device,
    partitions: Vec<Device>,
    has_requests: bool,
    pairing: Pairing,
    /// Requests with data that the driver has.
    issued: usize,
    /// When flushes were issued, or handed over where there are no requests.
    flushes: VecDeque<u64>,
}

impl DeviceState {
    pub fn of(layer: &BlockLayer) -> Self {
        Self {
            device: layer.device,
            partitions: layer.partitions.clone(),
            has_requests: layer.has_requests,
            pairing: Pairing::new(),
            issued: 0,
            flushes: VecDeque::new(),
        }
    }

    /// Whether an event is of this device.
    pub fn is_of(&self, device: Device) -> bool {
        self.device == device || self.partitions.contains(&device)
    }

    /// Requests that the device has been handed and has not finished.
    pub fn handed(&self) -> u64 {
        (self.pairing.in_flight() + self.flushes.len()) as u64
    }

    /// Requests that are with the driver.
    pub fn with_driver(&self) -> u64 {
        if self.has_requests { (self.issued + self.flushes.len()) as u64 } else { self.handed() }
    }

    /// Takes an event of this device and says what has ended by it.
    pub fn push(&mut self, event: &BlockEvent, ended: &mut Vec<Ended>) {
        if event.flags.contains(Flags::PASSTHROUGH) {
            return;
        }
        let event = BlockEvent { device: self.device, ..*event };
        let first = ended.len();
        self.pairing.push(&event, &mut Told(ended));
        if event.is_empty_flush() {
            self.flush(&event, ended);
        } else if event.bytes > 0 {
            let finished =
                ended[first..].iter().filter(|one| matches!(one, Ended::Bytes { side: Side::Own, .. }));
            match event.action {
                Action::Issue => self.issued += 1,
                Action::Requeue => self.issued = self.issued.saturating_sub(1),
                _ => self.issued = self.issued.saturating_sub(finished.count()),
            }
            // What was given up, or sent again without being given back, does not stay.
            self.issued = self.issued.min(self.pairing.in_flight());
        }
    }

    fn flush(&mut self, event: &BlockEvent, ended: &mut Vec<Ended>) {
        match (event.action, self.has_requests) {
            (Action::Issue, true) | (Action::Queue, false) => {
                if self.flushes.len() == MOST_FLUSHES {
                    self.flushes.pop_front();
                }
                self.flushes.push_back(event.time_ns);
            }
            (Action::Requeue, true) => {
                self.flushes.pop_back();
            }
            (Action::Complete, _) => {
                let Some(since_ns) = self.flushes.pop_front().filter(|_| !self.has_requests) else { return };
                // Nobody issues it, so its end is not among those of the pairing.
                let latency_ns = event.time_ns.saturating_sub(since_ns);
                ended.extend([Side::Above, Side::Own].map(|side| Ended::Request {
                    side,
                    operation: Operation::Flush,
                    latency_ns,
                    thread: event.pid,
                }));
            }
            _ => {}
        }
    }
}

/// Notes lives that ended.
struct Told<'a>(&'a mut Vec<Ended>);

impl Observer for Told<'_> {
    fn request_ended(&mut self, life: &RequestLife) {
        let request = request_of(life);
        let (operation, bytes) = (request.operation, request.bytes);
        let latency_ns = request.completed_ns.saturating_sub(request.issued_ns);
        self.0.push(Ended::Request { side: Side::Own, operation, latency_ns, thread: request.pid });
        self.0.push(Ended::Bytes { side: Side::Own, operation, bytes });
        self.0.push(Ended::Bytes { side: Side::Above, operation, bytes });
    }

    fn bio_ended(&mut self, life: &BioLife) {
        let latency_ns = life.completed_ns.saturating_sub(life.queued_ns);
        let operation = Operation::of_data(life.direction);
        self.0.push(Ended::Request { side: Side::Above, operation, latency_ns, thread: 0 });
    }

    fn flush_ended(&mut self, life: &RequestLife) {
        let request = request_of(life);
        let took = |since: u64| request.completed_ns.saturating_sub(since);
        let operation = Operation::Flush;
        let (latency_ns, thread) = (took(request.issued_ns), request.pid);
        self.0.push(Ended::Request { side: Side::Own, operation, latency_ns, thread });
        // One that the block layer sends after data that had to be on the medium is nobody's above.
        if let Some(queued_ns) = life.first_bio_ns {
            let latency_ns = took(queued_ns);
            self.0.push(Ended::Request { side: Side::Above, operation, latency_ns, thread });
        }
    }
}
