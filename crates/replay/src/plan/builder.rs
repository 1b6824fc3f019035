//! From events of the block layer to a plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nestor_trace::Operation;
use nestor_trace::event::{Action, BlockEvent, Device, Direction, Flags, SECTOR_BYTES};

use super::in_flight::InFlight;
use super::requests::in_order;
use super::sources::{Found, choice_needed};
use super::{
    Fitted, LONGEST_DATA_BYTES, LeftOut, PlanOptions, PlannedRequest, ReplayPlan, SourceDevice, Stage,
};
use crate::error::ReplayError;

/// Takes the events of a trace one by one. Memory is that of the plan: about 50 bytes for each request of one device.
#[derive(Debug)]
pub struct PlanBuilder {
    options: PlanOptions,
    /// The device that is followed: the one that was asked for, else the first with requests.
    followed: Option<Device>,
    /// Whether requests of more than one were met, so that one has to be named.
    ambiguous: bool,
    stage: Stage,
    /// Whether `stage` is only what was seen so far.
    undecided: bool,
    requests: Vec<PlannedRequest>,
    in_flight: InFlight,
    /// Requests that the driver gave back, by (first sector, sectors).
    given_back: HashMap<(u64, u64), usize>,
    /// First sector of the rest of a bio that was split, by thread.
    split: HashMap<u32, u64>,
    counts: BTreeMap<Device, [u64; 2]>,
    remapped: BTreeSet<(Device, Device)>,
    left_out: LeftOut,
    events: u64,
}

impl PlanBuilder {
    /// Nothing is known yet.
    pub fn new(options: PlanOptions) -> Self {
        let followed = match &options.device {
            Some(SourceDevice::Number(device)) => Some(*device),
            _ => None,
        };
        Self {
            stage: options.from.unwrap_or(Stage::Issued),
            undecided: options.from.is_none(),
            followed,
            ambiguous: false,
            options,
            requests: Vec::new(),
            in_flight: InFlight::default(),
            given_back: HashMap::new(),
            split: HashMap::new(),
            counts: BTreeMap::new(),
            remapped: BTreeSet::new(),
            left_out: LeftOut::default(),
            events: 0,
        }
    }

    /// Takes the next event, in the order of time.
    pub fn push(&mut self, event: &BlockEvent) {
        self.events += 1;
        match event.action {
            // Not a request of its own: the Q that follows it on the device below is the request.
            Action::Remap { from, .. } => {
                if self.remapped.len() < 64 {
                    self.remapped.insert((from, event.device));
                }
                return;
            }
            Action::Queue | Action::Issue => {
                let counts = self.counts.entry(event.device).or_default();
                counts[usize::from(event.action == Action::Issue)] += 1;
                if *self.followed.get_or_insert(event.device) != event.device {
                    self.meet_another();
                    return;
                }
            }
            _ if self.followed != Some(event.device) => return,
            _ => {}
        }
        if !self.ambiguous {
            self.follow(event);
        }
    }

    /// Where no device was named, more than one has to end in an error: keep no more than counts.
    fn meet_another(&mut self) {
        if self.options.device.is_none() && !self.ambiguous {
            self.ambiguous = true;
            (self.requests, self.in_flight) = (Vec::new(), InFlight::default());
        }
    }

    fn follow(&mut self, event: &BlockEvent) {
        match (event.action, self.stage) {
            (Action::Queue, Stage::Issued) if self.undecided => {
                self.decide_for_queued();
                self.begin(event);
            }
            (Action::Queue, Stage::Queued) => self.queued(event),
            (Action::Issue, Stage::Issued) => self.issued(event),
            // In the life of a bio: the flush that it waits for is sent.
            (Action::Issue, Stage::Queued) if event.is_empty_flush() => self.in_flight.flush_sent(),
            (Action::Split { new_sector }, Stage::Queued) => {
                if self.split.len() > 4096 {
                    self.split.clear();
                }
                self.split.insert(event.pid, new_sector);
            }
            (Action::Requeue, Stage::Issued) => {
                if let Some(request) = self.in_flight.find(event) {
                    self.given_back.insert((event.sector, event.bytes), request);
                }
            }
            (Action::Complete, _) => self.in_flight.complete(event, &mut self.requests),
            _ => {}
        }
    }

    /// The first Q: what was taken from D before it was of requests that were queued before the recording.
    fn decide_for_queued(&mut self) {
        self.undecided = false;
        self.stage = Stage::Queued;
        self.requests.clear();
        (self.in_flight, self.left_out) = (InFlight::default(), LeftOut::default());
    }

    fn queued(&mut self, event: &BlockEvent) {
        if let Some(rest) = self.split.remove(&event.pid)
            && rest == event.sector
            && self.in_flight_holds(event)
        {
            self.left_out.split_rests += 1;
            return;
        }
        self.begin(event);
    }

    /// Whether the newest request ends where `event` does and begins before it: `event` is then its rest.
    fn in_flight_holds(&self, event: &BlockEvent) -> bool {
        self.requests.iter().rev().take(64).any(|whole| {
            whole.completed_ns.is_none()
                && whole.sector < event.sector
                && whole.end_sector() == event.end_sector()
                && operation(event) == Some(whole.operation)
        })
    }

    fn issued(&mut self, event: &BlockEvent) {
        if let Some(request) = self.given_back.remove(&(event.sector, event.bytes)) {
            self.left_out.requeued += 1;
            self.requests[request].time_ns = event.time_ns;
            return;
        }
        self.begin(event);
    }

    fn begin(&mut self, event: &BlockEvent) {
        if event.flags.contains(Flags::PASSTHROUGH) {
            self.left_out.passthrough += 1;
            return;
        }
        let Some(operation) = operation(event) else { return };
        if operation == Operation::Discard && !self.options.discards {
            self.left_out.discards += 1;
            self.left_out.discard_bytes = self.left_out.discard_bytes.saturating_add(event.bytes);
            return;
        }
        let Some(sectors) = sectors(operation, event.sector, event.bytes) else {
            self.left_out.impossible += 1;
            return;
        };
        let number = self.requests.len();
        if operation == Operation::Flush {
            self.in_flight.flush_asked(number);
            if self.stage == Stage::Issued {
                self.in_flight.flush_sent();
            }
        } else {
            self.in_flight.begin(event, number);
        }
        self.requests.push(PlannedRequest {
            time_ns: event.time_ns,
            completed_ns: None,
            sector: if operation == Operation::Flush { 0 } else { event.sector },
            sectors,
            operation,
            flags: event.flags,
        });
    }

    /// How many events were taken.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The plan; `trace` is what to call the trace.
    ///
    /// # Errors
    /// Requests of several devices and none is named; no request of the device; none of the stage.
    pub fn finish(mut self, trace: &str) -> Result<ReplayPlan, ReplayError> {
        let found = || Found::of_counts(&self.counts, &self.remapped);
        if self.ambiguous || matches!(self.options.device, Some(SourceDevice::Name(_))) {
            return Err(choice_needed(trace, self.options.device.as_ref(), &found()));
        }
        let device = self.followed.filter(|device| self.counts.contains_key(device));
        let Some(device) = device else {
            return Err(match &self.options.device {
                Some(_) if !self.counts.is_empty() => {
                    choice_needed(trace, self.options.device.as_ref(), &found())
                }
                _ => ReplayError::NothingToReplay {
                    trace: trace.to_owned(),
                    why: format!("none of its {} events queues (Q) or issues (D) a request", self.events),
                },
            });
        };
        let [queued, issued] = self.counts[&device];
        if self.requests.is_empty() {
            return Err(self.nothing(trace, device, queued, issued));
        }
        let mut remarks = Vec::new();
        if self.options.from.is_none() && self.stage == Stage::Issued {
            remarks.push(format!("replayed from its {issued} D events, because it has no Q events"));
        }
        in_order(&mut self.requests);
        Ok(ReplayPlan {
            trace: trace.to_owned(),
            device: device.to_string(),
            stage: self.stage,
            requests: self.requests,
            timed: true,
            left_out: self.left_out,
            fitted: Fitted::default(),
            remarks,
        })
    }

    fn nothing(&self, trace: &str, device: Device, queued: u64, issued: u64) -> ReplayError {
        let why = match (self.stage, queued, issued) {
            (Stage::Queued, 0, _) => {
                format!("it has no Q events of {device}; `--stage d` uses its {issued} D events")
            }
            (Stage::Issued, _, 0) => {
                format!("it has no D events of {device}; `--stage q` uses its {queued} Q events")
            }
            _ if self.left_out.discards > 0 => format!(
                "all {} requests of {device} are discards or writes of zeroes; `--discard` replays them",
                self.left_out.discards
            ),
            _ => format!("no event of {device} is a request with a valid offset and size"),
        };
        ReplayError::NothingToReplay { trace: trace.to_owned(), why }
    }
}

/// What an event asks for, if it asks for something.
fn operation(event: &BlockEvent) -> Option<Operation> {
    match event.direction {
        _ if event.is_empty_flush() => Some(Operation::Flush),
        _ if event.bytes == 0 => None,
        Direction::Read => Some(Operation::Read),
        Direction::Write => Some(Operation::Write),
        Direction::Discard => Some(Operation::Discard),
        Direction::None => None,
    }
}

/// The sectors of a request, if there can be such a one.
pub(super) fn sectors(operation: Operation, sector: u64, bytes: u64) -> Option<u32> {
    let sectors = u32::try_from(bytes / SECTOR_BYTES).ok()?;
    // Offsets are signed 64-bit bytes (`loff_t`).
    let end = sector.checked_add(u64::from(sectors))?.checked_mul(SECTOR_BYTES)?;
    let possible = match operation {
        Operation::Flush => true,
        Operation::Discard => sectors > 0,
        Operation::Read | Operation::Write => sectors > 0 && bytes <= LONGEST_DATA_BYTES,
    };
    (possible && i64::try_from(end).is_ok()).then_some(sectors)
}
