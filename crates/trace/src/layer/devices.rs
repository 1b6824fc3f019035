//! Several devices in one stream of events, each a layer of its own.

use super::accumulate::{LayerAccumulator, Limits, Surroundings};
use super::lives::RequestSink;
use crate::event::{Action, BlockEvent, Device};
use crate::metrics::{LayerMetrics, TracePoint};

/// The most devices that are distinguished; the events of further ones are counted and skipped.
pub(crate) const MOST_DEVICES: usize = 32;

/// What is kept of the second device and those after it, so that many devices do not take much memory.
const LATER: Limits = Limits { in_flight: 1 << 11, seek_distances: 3_000, processes: 16 };

/// Turns a stream of events into the numbers of each device in it.
#[derive(Debug)]
pub struct Devices {
    trace_point: TracePoint,
    only: Option<Device>,
    together: bool,
    per_process: bool,
    layers: Vec<(Device, LayerAccumulator)>,
    /// The device of the last event: the next is mostly of it too.
    last: usize,
    first_ns: u64,
    events: u64,
    of_others: u64,
    without_place: u64,
}

impl Devices {
    /// Tells apart all devices, or counts `only` one; with `per_process`, also its threads.
    pub fn new(trace_point: TracePoint, only: Option<Device>, per_process: bool) -> Self {
        Self {
            trace_point,
            only,
            together: false,
            per_process,
            layers: Vec::new(),
            last: 0,
            first_ns: u64::MAX,
            events: 0,
            of_others: 0,
            without_place: 0,
        }
    }

    /// Counts all devices together as one.
    pub fn together(trace_point: TracePoint, per_process: bool) -> Self {
        Self { together: true, ..Self::new(trace_point, None, per_process) }
    }

    /// Takes the next event and reports the request that it ended, if any, to `sink`.
    pub fn push(&mut self, event: &BlockEvent, sink: &mut impl RequestSink) {
        self.push_all(std::slice::from_ref(event), sink);
    }

    /// Takes the next events and reports the requests that they ended to `sink`.
    pub fn push_all(&mut self, events: &[BlockEvent], sink: &mut impl RequestSink) {
        self.events += events.len() as u64;
        if let Some(first) = events.first() {
            self.first_ns = self.first_ns.min(first.time_ns);
        }
        for event in events {
            if let Action::Remap { from, from_sector } = event.action {
                self.remap(from, from_sector, event.time_ns);
            }
            match self.layers.get_mut(self.last) {
                Some((device, layer)) if *device == event.device => layer.push_own(event, sink),
                _ => self.push_other(event, sink),
            }
        }
    }

    #[cold]
    fn remap(&mut self, from: Device, from_sector: u64, time_ns: u64) {
        if let Some((_, layer)) = self.layers.iter_mut().find(|(device, _)| *device == from) {
            layer.remapped(from, from_sector, time_ns);
        }
    }

    /// Takes an event of another device than the one before.
    #[cold]
    fn push_other(&mut self, event: &BlockEvent, sink: &mut impl RequestSink) {
        if self.change_device(event.device) {
            self.layers[self.last].1.push_own(event, sink);
        }
    }

    fn change_device(&mut self, device: Device) -> bool {
        if self.only.is_some_and(|only| only != device) {
            self.of_others += 1;
            return false;
        }
        if self.together && !self.layers.is_empty() {
            // All share the first place.
            self.layers[0].0 = device;
            self.layers[0].1.meet(device);
            return true;
        }
        if let Some(at) = self.layers.iter().position(|(known, _)| *known == device) {
            self.last = at;
            return true;
        }
        if self.layers.len() == MOST_DEVICES {
            self.without_place += 1;
            return false;
        }
        let limits = if self.layers.is_empty() { Limits::default() } else { LATER };
        let mut layer = LayerAccumulator::with_limits(self.trace_point, None, self.per_process, limits);
        layer.meet(device);
        self.last = self.layers.len();
        self.layers.push((device, layer));
        true
    }

    /// Events taken so far, of whatever device.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events of devices that were not asked for.
    pub fn events_of_other_devices(&self) -> u64 {
        self.of_others
    }

    /// Events of devices for which there was no place.
    pub fn events_without_place(&self) -> u64 {
        self.without_place
    }

    /// The numbers of each device that had requests, in the order in which they appeared.
    pub fn finish(
        self,
        dropped_events: u64,
        thread_name: &dyn Fn(u32) -> Option<String>,
        sink: &mut impl RequestSink,
    ) -> Vec<(Device, LayerMetrics)> {
        let around = Surroundings { dropped_events, trace_start_ns: Some(self.first_ns), thread_name };
        let layers = self.layers.into_iter().filter(|(_, layer)| layer.had_requests());
        layers.map(|(device, layer)| (device, layer.finish_within(&around, sink))).collect()
    }
}
