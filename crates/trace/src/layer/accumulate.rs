//! Counting a layer's events.

use std::collections::{BTreeMap, BTreeSet};

use nestor_model::LatencyHistogram;

use super::pairing::{BioLife, Observer, Pairing, RequestLife};
use crate::event::{Action, BlockEvent, Device, Direction, Flags};
use crate::metrics::{DirectionMetrics, LayerMetrics, TracePoint};

/// Different sizes that are told apart; a hostile trace could have any number.
const MOST_SIZES: usize = 1 << 16;
/// Devices that are named in a remark.
const MOST_DEVICES: usize = 64;

/// Turns a stream of events, in the order of time, into the numbers of a layer.
///
/// Memory is that of the requests in flight. Events of another device than the one asked for are passed over.
#[derive(Debug)]
pub struct LayerAccumulator {
    trace_point: TracePoint,
    device: Option<Device>,
    pairing: Pairing,
    lives: Lives,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    events: u64,
    other_devices: u64,
    devices: BTreeSet<Device>,
    first_ns: u64,
    last_ns: u64,
    read: DirectionMetrics,
    write: DirectionMetrics,
    discard: DirectionMetrics,
    flushes: u64,
    fua_writes: u64,
    flushes_queued: u64,
    fua_writes_queued: u64,
    completed_empty: u64,
    issues: u64,
    sizes: BTreeMap<u64, u64>,
    other_sizes: u64,
    last_end: [Option<(Device, u64)>; 2],
    sequential: u64,
    requeues: u64,
    errors: u64,
    passthrough: u64,
}

/// The times of the lives that ended.
#[derive(Debug, Default)]
struct Lives {
    q2i: LatencyHistogram,
    i2d: LatencyHistogram,
    q2d: LatencyHistogram,
    d2c: LatencyHistogram,
    q2c: LatencyHistogram,
    flush_d2c: LatencyHistogram,
    /// Requests of which some event is older than the one that must come before it.
    backward: u64,
}

impl Lives {
    /// From `from` to `to`, or `None` and a count if that is backwards.
    fn span(&mut self, from: Option<u64>, to: Option<u64>) -> Option<u64> {
        let (from, to) = (from?, to?);
        if to < from {
            self.backward += 1;
        }
        to.checked_sub(from)
    }
}

impl Observer for Lives {
    fn request_ended(&mut self, life: &RequestLife) {
        let completed = life.issued_ns.and(Some(life.completed_ns));
        if let Some(ns) = self.span(life.queued_ns, life.inserted_ns) {
            self.q2i.record_ns(ns);
        }
        if let Some(ns) = self.span(life.inserted_ns, life.issued_ns) {
            self.i2d.record_ns(ns);
        }
        if let Some(ns) = self.span(life.queued_ns, life.issued_ns) {
            self.q2d.record_ns(ns);
        }
        if let Some(ns) = self.span(life.issued_ns, completed) {
            self.d2c.record_ns(ns);
        }
    }

    fn bio_ended(&mut self, life: &BioLife) {
        if let Some(ns) = self.span(Some(life.queued_ns), Some(life.completed_ns)) {
            self.q2c.record_ns(ns);
        }
    }

    fn flush_ended(&mut self, issued_ns: u64, completed_ns: u64) {
        if let Some(ns) = self.span(Some(issued_ns), Some(completed_ns)) {
            self.flush_d2c.record_ns(ns);
        }
    }
}

impl LayerAccumulator {
    /// Counts the events of one device, or of all together.
    pub fn new(trace_point: TracePoint, device: Option<Device>) -> Self {
        Self {
            trace_point,
            device,
            pairing: Pairing::new(),
            lives: Lives::default(),
            counts: Counts::default(),
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &BlockEvent) {
        if self.device.is_some_and(|device| device != event.device) {
            self.counts.other_devices += 1;
            return;
        }
        self.counts.count(event);
        self.pairing.push(event, &mut self.lives);
    }

    /// Events counted so far.
    pub fn events(&self) -> u64 {
        self.counts.events
    }

    /// Events of devices that were not asked for.
    pub fn events_of_other_devices(&self) -> u64 {
        self.counts.other_devices
    }

    /// Requests that have begun and not ended.
    pub fn in_flight(&self) -> usize {
        self.pairing.in_flight()
    }

    /// The numbers; `dropped_events` is what the recorder says it lost.
    pub fn finish(mut self, dropped_events: u64) -> LayerMetrics {
        self.pairing.finish(&mut self.lives);
        let mut remarks = self.remarks();
        let Counts { read, write, discard, mut flushes, mut fua_writes, issues, .. } = self.counts;
        let bio_based = issues == 0 && self.counts.completed_empty + read.completed + write.completed > 0;
        if bio_based {
            // A device without requests (device mapper, MD): what is queued is what goes down.
            (flushes, fua_writes) = (self.counts.flushes_queued, self.counts.fua_writes_queued);
            remarks.push("the device issues no requests of its own (device mapper or MD): no D2C".to_owned());
        }
        if dropped_events > 0 {
            remarks.push(format!("the recorder lost {dropped_events} events: all counts are lower bounds"));
        }
        let data_issues = read.issued + write.issued;
        let some = |histogram: LatencyHistogram| (histogram.count() > 0).then_some(histogram);
        LayerMetrics {
            trace_point: self.trace_point,
            read,
            write,
            discard,
            flushes,
            fua_writes,
            flushes_queued: self.counts.flushes_queued,
            fua_writes_queued: self.counts.fua_writes_queued,
            q2i: some(self.lives.q2i),
            i2d: some(self.lives.i2d),
            q2d: some(self.lives.q2d),
            d2c: some(self.lives.d2c),
            q2c: some(self.lives.q2c),
            flush_d2c: some(self.lives.flush_d2c),
            size_histogram: self.counts.sizes,
            sequential_share: (data_issues > 0).then(|| self.counts.sequential as f64 / data_issues as f64),
            service: None,
            dropped_events,
            span_s: self.counts.last_ns.saturating_sub(self.counts.first_ns) as f64 / 1e9,
            remarks,
        }
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

impl Counts {
    fn count(&mut self, event: &BlockEvent) {
        if self.events == 0 {
            self.first_ns = event.time_ns;
        }
        self.events += 1;
        self.first_ns = self.first_ns.min(event.time_ns);
        self.last_ns = self.last_ns.max(event.time_ns);
        if self.devices.len() < MOST_DEVICES && event.device != Device::default() {
            self.devices.insert(event.device);
        }
        if event.flags.contains(Flags::PASSTHROUGH) {
            self.passthrough += 1;
            return;
        }
        match event.action {
            Action::Queue => self.queued(event),
            Action::Issue => self.issued(event),
            Action::Complete => self.completed(event),
            Action::Requeue => self.requeues += 1,
            Action::BackMerge => self.with_direction(event, |d, _| d.back_merges += 1),
            Action::FrontMerge => self.with_direction(event, |d, _| d.front_merges += 1),
            _ => {}
        }
    }

    /// Adds to the counts of the event's direction if it carries data.
    fn with_direction(&mut self, event: &BlockEvent, add: impl FnOnce(&mut DirectionMetrics, u64)) {
        if event.bytes == 0 {
            return;
        }
        match event.direction {
            Direction::Read => add(&mut self.read, event.bytes),
            Direction::Write => add(&mut self.write, event.bytes),
            Direction::Discard => add(&mut self.discard, event.bytes),
            Direction::None => {}
        }
    }

    fn queued(&mut self, event: &BlockEvent) {
        self.flushes_queued += u64::from(event.flags.contains(Flags::FLUSH));
        self.fua_writes_queued += u64::from(event.bytes > 0 && event.flags.contains(Flags::FUA));
        self.with_direction(event, |direction, bytes| {
            direction.queued += 1;
            direction.queued_bytes += bytes;
        });
    }

    fn issued(&mut self, event: &BlockEvent) {
        self.issues += 1;
        self.flushes += u64::from(event.is_empty_flush());
        self.fua_writes += u64::from(event.bytes > 0 && event.flags.contains(Flags::FUA));
        self.with_direction(event, |direction, bytes| {
            direction.issued += 1;
            direction.issued_bytes += bytes;
        });
        let lane = match event.direction {
            Direction::Read => 0,
            Direction::Write => 1,
            _ => return,
        };
        if event.bytes == 0 {
            return;
        }
        if self.sizes.len() < MOST_SIZES || self.sizes.contains_key(&event.bytes) {
            *self.sizes.entry(event.bytes).or_default() += 1;
        } else {
            self.other_sizes += 1;
        }
        if self.last_end[lane] == Some((event.device, event.sector)) {
            self.sequential += 1;
        }
        self.last_end[lane] = Some((event.device, event.end_sector()));
    }

    fn completed(&mut self, event: &BlockEvent) {
        self.errors += u64::from(event.error != 0);
        self.completed_empty += u64::from(event.bytes == 0);
        self.with_direction(event, |direction, bytes| {
            direction.completed += 1;
            direction.completed_bytes += bytes;
        });
    }
}
