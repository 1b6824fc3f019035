//! Counting a layer's events.

use super::bios::{BioMetrics, Bios};
use super::counts::Counts;
use super::lives::{Lives, NoSink, RequestSink, Told};
use super::pairing::{MOST_IN_FLIGHT, Pairing};
use super::processes::MOST_PROCESSES;
use super::timeline::{Clock, Happened};
use crate::event::{Action, BlockEvent, Device, Direction, Flags};
use crate::metrics::{LayerMetrics, Phase, TracePoint};

/// Different seek distances that are counted each, of bios and of requests: 8 MiB of counters each.
const MOST_DISTANCES: usize = 780_000;

/// How much is kept of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bios and requests followed at once.
    pub in_flight: usize,
    /// Different seek distances that are counted each, so that the most frequent is exact.
    pub seek_distances: usize,
    /// The most threads that are distinguished, if any.
    pub processes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight: MOST_IN_FLIGHT, seek_distances: MOST_DISTANCES, processes: MOST_PROCESSES }
    }
}

/// What the numbers of a layer need to know besides its events.
pub struct Surroundings<'a> {
    /// Lost events that the recorder reports.
    pub dropped_events: u64,
    /// The first event of the whole trace, if the layer's own is not it.
    pub trace_start_ns: Option<u64>,
    /// Names of threads.
    pub thread_name: &'a dyn Fn(u32) -> Option<String>,
}

/// Turns a stream of events, in the order of time, into the numbers of a layer.
///
/// Memory is that of the requests in flight and of the histograms. Events of another device than the one asked for
/// are passed over.
#[derive(Debug)]
pub struct LayerAccumulator {
    trace_point: TracePoint,
    device: Option<Device>,
    other_devices: u64,
    last_device: Option<Device>,
    counts: Counts,
    pairing: Pairing,
    lives: Lives,
    bios: Bios,
    clock: Clock,
}

impl LayerAccumulator {
    /// Counts the events of one device, or of all together.
    pub fn new(trace_point: TracePoint, device: Option<Device>) -> Self {
        Self::with_limits(trace_point, device, true, Limits::default())
    }

    /// As [`Self::new`]; with `per_process`, threads are distinguished.
    pub fn with_limits(
        trace_point: TracePoint,
        device: Option<Device>,
        per_process: bool,
        limits: Limits,
    ) -> Self {
        Self {
            trace_point,
            device,
            other_devices: 0,
            last_device: None,
            counts: Counts::new(),
            pairing: Pairing::with_most(limits.in_flight),
            lives: Lives::default(),
            bios: Bios::new(&limits, per_process),
            clock: Clock::new(),
        }
    }

    /// Names a device of which events come through [`Self::push_own`].
    pub(super) fn meet(&mut self, device: Device) {
        self.counts.meet(device);
    }

    /// Takes the next event.
    #[inline]
    pub fn push(&mut self, event: &BlockEvent) {
        self.push_to(event, &mut NoSink);
    }

    /// Takes the next event and reports the request that it ended, if any, to `sink`.
    #[inline]
    pub fn push_to(&mut self, event: &BlockEvent, sink: &mut impl RequestSink) {
        if self.device.is_some_and(|device| device != event.device) {
            self.other_devices += 1;
            return;
        }
        if self.last_device != Some(event.device) {
            self.last_device = Some(event.device);
            self.counts.meet(event.device);
        }
        self.push_own(event, sink);
    }

    /// As [`Self::push_to`] for events of one device that the caller has seen to.
    #[inline]
    pub(super) fn push_own(&mut self, event: &BlockEvent, sink: &mut impl RequestSink) {
        // Each arm is the same with the action known, so that what counts below need not ask again.
        match event.action {
            Action::Queue => self.take(Action::Queue, event, sink),
            Action::GetRequest => self.take(Action::GetRequest, event, sink),
            Action::Insert => self.take(Action::Insert, event, sink),
            Action::Issue => self.take(Action::Issue, event, sink),
            Action::Complete => self.take(Action::Complete, event, sink),
            Action::BackMerge => self.take(Action::BackMerge, event, sink),
            Action::Plug => self.take(Action::Plug, event, sink),
            action @ Action::Unplug { .. } => self.take(action, event, sink),
            action => self.take(action, event, sink),
        }
    }

    #[inline(always)]
    fn take(&mut self, action: Action, event: &BlockEvent, sink: &mut impl RequestSink) {
        self.counts.count(action, event);
        if event.flags.contains(Flags::PASSTHROUGH) {
            return;
        }
        if event.bytes > 0 {
            self.bios.push(action, event);
        } else {
            self.bios.push_empty(action, event);
        }
        self.tick(action, event);
        self.pairing.take(action, event, &mut Told { lives: &mut self.lives, sink });
    }

    #[inline(always)]
    fn tick(&mut self, action: Action, event: &BlockEvent) {
        if event.bytes == 0 {
            return;
        }
        let what = match action {
            Action::Queue => Happened::Queued,
            Action::Issue => Happened::Issued,
            Action::Complete => {
                // No branch for what is as good as random.
                let of = |direction| u64::from(event.direction == direction) * event.bytes;
                Happened::Completed { read_bytes: of(Direction::Read), write_bytes: of(Direction::Write) }
            }
            Action::Requeue => Happened::GivenBack,
            _ => return,
        };
        self.clock.push(event.time_ns, what, self.pairing.in_flight());
    }

    /// A bio of this device was handed on to another one, as that one's events say (A).
    pub fn remapped(&mut self, from: Device, from_sector: u64, time_ns: u64) {
        self.bios.remapped(from, from_sector, time_ns);
    }

    /// Events counted so far.
    pub fn events(&self) -> u64 {
        self.counts.events
    }

    /// Events of devices that were not asked for.
    pub fn events_of_other_devices(&self) -> u64 {
        self.other_devices
    }

    /// Whether there was any request or flush.
    pub fn had_requests(&self) -> bool {
        self.counts.had_requests()
    }

    /// Requests that have begun and not ended.
    pub fn in_flight(&self) -> usize {
        self.pairing.in_flight()
    }

    /// The numbers; `dropped_events` is the loss that the recorder reports.
    pub fn finish(self, dropped_events: u64) -> LayerMetrics {
        self.finish_within(
            &Surroundings { dropped_events, trace_start_ns: None, thread_name: &|_| None },
            &mut NoSink,
        )
    }

    /// The numbers, with more to know.
    pub fn finish_within(mut self, around: &Surroundings<'_>, sink: &mut impl RequestSink) -> LayerMetrics {
        self.pairing.finish(&mut Told { lives: &mut self.lives, sink });
        let mut remarks = self.remarks();
        let bio_based = self.counts.is_bio_based();
        if bio_based {
            remarks.push("the device issues no requests of its own (device mapper or MD): no D2C".to_owned());
        }
        let dropped_events = around.dropped_events;
        if dropped_events > 0 {
            remarks.push(format!("the recorder lost {dropped_events} events: all counts are lower bounds"));
        }
        let mut metrics = LayerMetrics { dropped_events, remarks, ..LayerMetrics::new(self.trace_point) };
        let start_ns = around.trace_start_ns.unwrap_or(self.counts.first_ns);
        metrics.timeline = self.clock.finish();
        self.counts.fill(&mut metrics);
        self.lives.fill(&mut metrics);
        fill_bios(self.bios.finish(start_ns), around, &mut metrics);
        if bio_based {
            // What is queued is what goes down.
            (metrics.flushes, metrics.fua_writes) = (metrics.flushes_queued, metrics.fua_writes_queued);
        }
        metrics
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let mut say = |count: u64, text: &str| {
            if count > 0 {
                remarks.push(format!("{count} {text}"));
            }
        };
        let unpaired = self.pairing.unpaired();
        say(
            self.pairing.in_flight() as u64,
            "requests were not complete when the trace ended: counted, not timed",
        );
        say(unpaired.begun_before, "requests were queued before the trace began: counted, not timed from Q");
        say(unpaired.completions, "completions have no issue in the trace: counted, not timed");
        say(unpaired.merges, "merges have a part that is not in the trace");
        say(unpaired.given_up, "requests were given up because too many were in flight: counted, not timed");
        say(unpaired.impossible, "events name sectors beyond any device and were not timed");
        say(
            self.lives.identity.violations,
            "requests whose Q2I + I2D + D2C is not their Q2C, because events are missing or run backwards",
        );
        say(self.lives.backward, "intervals run backwards (clocks of the CPUs differ) and were left out");
        say(
            self.counts.requeues,
            "requests were given back by the driver and issued again, and counted each time",
        );
        say(self.counts.errors, "completions report an error");
        say(
            self.counts.passthrough,
            "events are of commands passed through to the device, which are not requests",
        );
        say(
            self.counts.other_sizes,
            "issued requests are not in the histogram of sizes, which has too many different ones",
        );
        if self.counts.devices.len() > 1 {
            let names: Vec<_> = self.counts.devices.iter().map(Device::to_string).collect();
            remarks.push(format!(
                "devices {} were counted together; name one to count it alone",
                names.join(", ")
            ));
        }
        remarks
    }
}

fn fill_bios(found: BioMetrics, around: &Surroundings<'_>, metrics: &mut LayerMetrics) {
    let latencies = |phase: Phase| found.phases[phase as usize].latencies();
    metrics.q2q = latencies(Phase::Q2Q);
    metrics.q2a = latencies(Phase::Q2A);
    metrics.q2g = latencies(Phase::Q2G);
    metrics.s2g = latencies(Phase::S2G);
    metrics.g2i = latencies(Phase::G2I);
    metrics.q2m = latencies(Phase::Q2M);
    metrics.m2d = latencies(Phase::M2D);
    metrics.q2q_seeks = found.q2q.finish();
    metrics.d2d_seeks = found.d2d.finish();
    metrics.plugs = (found.plugs.unplugs + found.plugs.timer_unplugs > 0).then_some(found.plugs);
    metrics.btt = (found.btt.queued + found.btt.issued > 0).then_some(found.btt);
    metrics.processes = found.processes.map(|p| p.finish(around.thread_name)).unwrap_or_default();
}
