//! Layers of which there are requests only, without the events in between.

use super::counts::Counts;
use super::lives::Lives;
use super::pairing::{BioLife, Observer, RequestLife};
use super::seeks::Seeks;
use super::timeline::Spans;
use super::{NoSink, lives::Told};
use crate::attribute::{Attributed, ClassTally};
use crate::decode::{Recorded, TracedRequest};
use crate::event::{Action, BlockEvent, Device, Direction, SECTOR_BYTES};
use crate::metrics::{LayerMetrics, TracePoint};
use crate::request::{Operation, Request};

/// The most disks or files that are distinguished.
pub(crate) const MOST_TARGETS: usize = 32;
/// Different seek distances that are counted each, of the first disk and of each later one.
const MOST_DISTANCES: usize = 100_000;
const LATER_DISTANCES: usize = 12_000;

struct RequestLayer {
    counts: Counts,
    lives: Lives,
    seeks: Seeks,
    spans: Spans,
    classes: ClassTally,
    /// Some request was sent later than it came.
    queued: bool,
}

/// Turns requests, in about the order of completion, into the numbers of each disk or file.
pub struct RequestLayers {
    trace_point: TracePoint,
    recorded: Recorded,
    layers: Vec<Option<RequestLayer>>,
    without_place: u64,
}

impl RequestLayers {
    /// `recorded` is what the requests contain.
    pub fn new(trace_point: TracePoint, recorded: Recorded) -> Self {
        Self { trace_point, recorded, layers: Vec::new(), without_place: 0 }
    }

    /// Takes the next request, with what it was for if that is known.
    pub fn push(&mut self, traced: &TracedRequest, attributed: Option<&Attributed>) {
        let target = traced.target as usize;
        if target >= MOST_TARGETS {
            self.without_place += 1;
            return;
        }
        if self.layers.len() <= target {
            self.layers.resize_with(target + 1, || None);
        }
        let layer = self.layers[target].get_or_insert_with(|| RequestLayer {
            counts: Counts::new(),
            lives: Lives::default(),
            seeks: Seeks::new(if target == 0 { MOST_DISTANCES } else { LATER_DISTANCES }),
            spans: Spans::new(),
            classes: ClassTally::default(),
            queued: false,
        });
        layer.push(&traced.request, self.recorded, self.trace_point);
        if let Some(attributed) = attributed {
            layer.classes.count(traced.request.operation, attributed);
        }
    }

    /// The numbers by target, and how many requests found no place.
    pub fn finish(self) -> (Vec<(usize, LayerMetrics)>, u64) {
        let layers = self.layers.into_iter().enumerate().filter_map(|(i, layer)| Some((i, layer?)));
        let finished = layers.map(|(i, layer)| (i, layer.finish(self.trace_point, self.recorded))).collect();
        (finished, self.without_place)
    }
}

impl RequestLayer {
    fn push(&mut self, request: &Request, recorded: Recorded, trace_point: TracePoint) {
        for (action, time_ns) in [
            (Action::Queue, request.queued_ns),
            (Action::Issue, request.issued_ns),
            (Action::Complete, request.completed_ns),
        ] {
            self.counts.count(action, &event_of(request, action, time_ns));
        }
        if recorded.offset && request.operation != Operation::Flush {
            let start = request.offset / SECTOR_BYTES;
            self.seeks.push(start, start.saturating_add(request.bytes / SECTOR_BYTES));
        }
        if recorded.time {
            // What arrived at a disk is with the device, whether the disk began with it or not.
            let issued_ns = match trace_point {
                TracePoint::DiskLog => request.queued_ns,
                _ => request.issued_ns,
            };
            self.spans.push(&Request { issued_ns, ..*request });
        }
        self.queued |= request.issued_ns > request.queued_ns;
        if recorded.latency {
            self.times(request);
        }
    }

    fn times(&mut self, request: &Request) {
        let mut told = Told { lives: &mut self.lives, sink: &mut NoSink };
        let direction = direction_of(request.operation);
        let life = RequestLife {
            device: Device::default(),
            direction,
            sector: request.offset / SECTOR_BYTES,
            bytes: request.bytes,
            flags: request.flags,
            pid: request.pid,
            bios: request.bios,
            first_bio_ns: None,
            queued_ns: Some(request.queued_ns),
            got_ns: None,
            inserted_ns: None,
            issued_ns: Some(request.issued_ns),
            completed_ns: request.completed_ns,
        };
        if request.operation == Operation::Flush {
            told.flush_ended(&life);
            return;
        }
        told.request_ended(&life);
        let (queued_ns, completed_ns) = (request.queued_ns, request.completed_ns);
        told.bio_ended(&BioLife { device: Device::default(), direction, queued_ns, completed_ns });
    }

    fn finish(self, trace_point: TracePoint, recorded: Recorded) -> LayerMetrics {
        let mut metrics = LayerMetrics::new(trace_point);
        self.counts.fill(&mut metrics);
        self.lives.fill(&mut metrics);
        if !self.queued {
            // The time of sending was not recorded: D2C is the whole.
            for times in [&mut metrics.read_times, &mut metrics.write_times] {
                times.q2d = None;
            }
            metrics.q2d = None;
        }
        metrics.d2d_seeks = self.seeks.finish();
        metrics.timeline = self.spans.finish();
        metrics.classes = self.classes.finish();
        if !recorded.time {
            metrics.span_s = 0.0;
        }
        metrics
    }
}

fn direction_of(operation: Operation) -> Direction {
    match operation {
        Operation::Read => Direction::Read,
        Operation::Write => Direction::Write,
        Operation::Discard => Direction::Discard,
        Operation::Flush => Direction::None,
    }
}

fn event_of(request: &Request, action: Action, time_ns: u64) -> BlockEvent {
    BlockEvent {
        time_ns,
        sequence: 0,
        cpu: 0,
        pid: request.pid,
        device: Device::default(),
        action,
        direction: direction_of(request.operation),
        flags: request.flags,
        sector: request.offset / SECTOR_BYTES,
        bytes: request.bytes,
        error: 0,
    }
}
