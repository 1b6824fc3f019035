//! From events to what each layer did in each interval.
//!
//! Events wait until their time is over for all CPUs, are put in order, and are taken one by one. Between two of them the layers that
//! have requests under way stay the same, so the time between is added to each of these, and to the lowest of them as the one that the
//! others wait for. A request counts in the interval in which it ends; what is under way at a boundary stays so.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use nestor_trace::decode::file_io::FileIoEvent;
use nestor_trace::event::BlockEvent;

use crate::calls::{Calls, Machine};
use crate::device::DeviceState;
use crate::ended::{Ended, Side};
use crate::interval::{Interval, LayerCounts};
use crate::layers::{LayerKind, Layers};

/// Something that happened in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// In the block layer.
    Block(BlockEvent),
    /// Between a process and its files.
    FileIo(FileIoEvent),
}

impl Happened {
    fn time_ns(&self) -> u64 {
        match self {
            Self::Block(event) => event.time_ns,
            Self::FileIo(event) => event.time_ns,
        }
    }
}

/// An event whose time is not over; by time, then by arrival.
struct Waiting {
    key: Reverse<(u64, u64)>,
    happened: Happened,
}

impl Waiting {
    fn time_ns(&self) -> u64 {
        self.key.0.0
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Follows the layers.
pub struct Fold {
    layers: Layers,
    waiting: BinaryHeap<Waiting>,
    arrivals: u64,
    calls: Calls,
    /// Devices, each with the position of its layer and of the file system above.
    devices: Vec<(usize, Option<usize>, DeviceState)>,
    /// Where the hypervisor is.
    hypervisor: Option<usize>,
    /// Requests under way, by layer.
    under_way: Vec<u64>,
    interval: Interval,
    /// Until when time is counted.
    now_ns: u64,
    ended: Vec<Ended>,
}

impl Fold {
    /// Nothing is under way; time is counted from `from_ns` on.
    pub fn new(layers: Layers, from_ns: u64) -> Self {
        let devices = layers.all().iter().enumerate().filter_map(|(position, layer)| match &layer.kind {
            LayerKind::Device(block) => {
                Some((position, layers.file_system_above(layer.level), DeviceState::of(block)))
            }
            _ => None,
        });
        let devices = devices.collect();
        let hypervisor = layers.all().iter().position(|layer| layer.kind == LayerKind::Hypervisor);
        let mut fold = Self {
            waiting: BinaryHeap::new(),
            arrivals: 0,
            calls: Calls::default(),
            devices,
            hypervisor,
            under_way: vec![0; layers.all().len()],
            interval: Interval::default(),
            now_ns: from_ns,
            ended: Vec::new(),
            layers,
        };
        fold.interval = fold.empty(from_ns);
        fold
    }

    /// The layers.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Whose threads and files count from now on.
    pub fn set_machine(&mut self, machine: Machine) {
        self.calls.set_machine(machine);
        if let Some(at) = self.hypervisor {
            self.under_way[at] = self.calls.under_way();
        }
    }

    /// Takes an event; of each CPU they come in the order of time.
    pub fn push(&mut self, happened: Happened) {
        self.arrivals += 1;
        self.waiting.push(Waiting { key: Reverse((happened.time_ns(), self.arrivals)), happened });
    }

    /// Counts what happened until then: all of it must have been pushed.
    pub fn settle(&mut self, until_ns: u64) {
        while self.waiting.peek().is_some_and(|next| next.time_ns() <= until_ns)
            && let Some(next) = self.waiting.pop()
        {
            self.interval.late_events += u64::from(next.time_ns() < self.now_ns);
            self.pass(next.time_ns());
            self.take(&next.happened);
        }
        self.pass(until_ns);
    }

    /// Ends the interval then, and begins the next one.
    pub fn cut(&mut self, until_ns: u64) -> Interval {
        self.settle(until_ns);
        for (counts, under_way) in self.interval.layers.iter_mut().zip(&self.under_way) {
            counts.under_way = *under_way;
        }
        self.interval.until_ns = self.now_ns;
        let next = self.empty(self.now_ns);
        std::mem::replace(&mut self.interval, next)
    }

    fn empty(&self, from_ns: u64) -> Interval {
        let count = self.layers.all().len();
        let layers = (0..count).map(|_| LayerCounts::of_layers(count)).collect();
        Interval { from_ns, until_ns: from_ns, layers, late_events: 0, lost_events: 0 }
    }

    /// Counts the time until then, in which nothing changed.
    fn pass(&mut self, until_ns: u64) {
        let Some(passed_ns) = until_ns.checked_sub(self.now_ns).filter(|ns| *ns > 0) else { return };
        self.now_ns = until_ns;
        let Some(lowest) = self.lowest() else { return };
        let level = self.layers.all()[lowest].level;
        for (at, counts) in self.interval.layers.iter_mut().enumerate() {
            let under_way = self.under_way[at];
            if under_way == 0 {
                continue;
            }
            counts.busy_ns += passed_ns;
            counts.under_way_ns += u128::from(under_way) * u128::from(passed_ns);
            // Devices side by side do not wait for each other.
            let with = if self.layers.all()[at].level == level { at } else { lowest };
            counts.with_ns[with] += passed_ns;
        }
    }

    /// The lowest layer that has requests under way; of several side by side the one with most.
    fn lowest(&self) -> Option<usize> {
        let busy = self.layers.all().iter().enumerate().filter(|(at, _)| self.under_way[*at] > 0);
        busy.max_by_key(|(at, layer)| (layer.level, self.under_way[*at], Reverse(*at))).map(|(at, _)| at)
    }

    fn take(&mut self, happened: &Happened) {
        match happened {
            Happened::FileIo(event) => self.file_io(event),
            Happened::Block(event) => self.block(event),
        }
    }

    fn file_io(&mut self, event: &FileIoEvent) {
        let Some(at) = self.hypervisor else { return };
        let ended = self.calls.push(event);
        self.under_way[at] = self.calls.under_way();
        if let Some(call) = ended {
            let counts = &mut self.interval.layers[at];
            counts.of_machine += 1;
            let tally = counts.tally(call.operation);
            tally.record(call.latency_ns);
            tally.add_bytes(call.bytes);
        }
    }

    fn block(&mut self, event: &BlockEvent) {
        let Some((own, above, device)) = self.devices.iter_mut().find(|(.., d)| d.is_of(event.device)) else {
            return;
        };
        device.push(event, &mut self.ended);
        self.under_way[*own] = device.with_driver();
        let (own, above) = (*own, *above);
        for ended in self.ended.drain(..) {
            let layer_of = |side| if side == Side::Own { Some(own) } else { above };
            match ended {
                Ended::Request { side, operation, latency_ns, thread } => {
                    let Some(at) = layer_of(side) else { continue };
                    let counts = &mut self.interval.layers[at];
                    counts.of_machine += u64::from(self.calls.is_of_machine(thread));
                    counts.tally(operation).record(latency_ns);
                }
                Ended::Bytes { side, operation, bytes } => {
                    let Some(at) = layer_of(side) else { continue };
                    self.interval.layers[at].tally(operation).add_bytes(bytes);
                }
            }
        }
        if let Some(above) = above {
            let handed = self.devices.iter().filter(|(_, over, _)| *over == Some(above));
            self.under_way[above] = handed.map(|(.., device)| device.handed()).sum();
        }
    }
}
