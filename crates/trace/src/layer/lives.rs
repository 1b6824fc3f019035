//! The times of the lives that ended.

use nestor_layout::Class;
use nestor_statistics::LatencyHistogram;

use super::histogram::{Histogram, Tally};
use super::pairing::{BioLife, Observer, RequestLife};
use crate::event::{Device, Direction, Flags, SECTOR_BYTES};
use crate::metrics::{DirectionTimes, Identity, LayerMetrics};
use crate::request::{Operation, Request};

/// Receives every request in the order of completion.
pub trait RequestSink {
    /// A request of a device has ended. Its number and class are the receiver's to set.
    fn request(&mut self, device: Device, request: &Request);
}

/// Ignores all requests.
pub struct NoSink;

impl RequestSink for NoSink {
    #[inline]
    fn request(&mut self, _: Device, _: &Request) {}
}

impl<F: FnMut(Device, &Request)> RequestSink for F {
    #[inline]
    fn request(&mut self, device: Device, request: &Request) {
        self(device, request);
    }
}

/// Reads, writes, the rest.
const LANES: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Lives {
    q2i: Tally,
    i2d: Tally,
    q2d: [Tally; LANES],
    d2c: [Tally; LANES],
    q2c: [Tally; LANES],
    flush_d2c: Tally,
    /// Intervals whose end is older than their beginning.
    pub backward: u64,
    pub identity: Identity,
}

#[inline]
fn lane(direction: Direction) -> usize {
    (direction as usize).min(LANES - 1)
}

impl Lives {
    /// From `from` to `to`, or `None` and a count if that is backwards.
    #[inline]
    fn span(&mut self, from: Option<u64>, to: Option<u64>) -> Option<u64> {
        let (from, to) = (from?, to?);
        if to < from {
            self.backward += 1;
        }
        to.checked_sub(from)
    }

    /// Counts a request; see [`Identity`].
    #[inline(always)]
    fn request(&mut self, life: &RequestLife) {
        let lane = lane(life.direction);
        let completed = life.issued_ns.and(Some(life.completed_ns));
        let q2i = self.span(life.queued_ns, life.inserted_ns);
        let i2d = self.span(life.inserted_ns, life.issued_ns);
        let q2d = self.span(life.queued_ns, life.issued_ns);
        let d2c = self.span(life.issued_ns, completed);
        if let Some(ns) = q2i {
            self.q2i.record(ns);
        }
        if let Some(ns) = i2d {
            self.i2d.record(ns);
        }
        if let Some(ns) = q2d {
            self.q2d[lane].record(ns);
        }
        if let Some(ns) = d2c {
            self.d2c[lane].record(ns);
        }
        let Some(first_ns) = life.first_bio_ns.filter(|_| life.issued_ns.is_some()) else { return };
        self.identity.checked += 1;
        let queue = if life.inserted_ns.is_some() { q2i.zip(i2d).map(|(a, b)| a + b) } else { q2d };
        let sum = queue.zip(d2c).and_then(|(queue, service)| queue.checked_add(service));
        self.identity.violations +=
            u64::from(sum.is_none() || sum != life.completed_ns.checked_sub(first_ns));
    }

    /// Sets the numbers that these times are.
    pub fn fill(self, metrics: &mut LayerMetrics) {
        let all = |lanes: &[Histogram; LANES]| -> Option<LatencyHistogram> {
            let mut sum = lanes[0].clone();
            sum.merge(&lanes[1]);
            sum.merge(&lanes[2]);
            sum.latencies()
        };
        let [q2d, d2c, q2c] = [self.q2d, self.d2c, self.q2c].map(|lanes| lanes.map(Tally::finish));
        let times = |lane: usize| DirectionTimes {
            q2d: q2d[lane].latencies(),
            d2c: d2c[lane].latencies(),
            q2c: q2c[lane].latencies(),
        };
        metrics.q2i = self.q2i.finish().latencies();
        metrics.i2d = self.i2d.finish().latencies();
        metrics.q2d = all(&q2d);
        metrics.d2c = all(&d2c);
        metrics.q2c = all(&q2c);
        metrics.flush_d2c = self.flush_d2c.finish().latencies();
        metrics.read_times = times(0);
        metrics.write_times = times(1);
        metrics.identity = self.identity;
    }
}

/// Counts lives and passes requests on.
pub(super) struct Told<'a, S> {
    pub lives: &'a mut Lives,
    pub sink: &'a mut S,
}

impl<S: RequestSink> Observer for Told<'_, S> {
    #[inline(always)]
    fn request_ended(&mut self, life: &RequestLife) {
        self.lives.request(life);
        self.sink.request(life.device, &request_of(life));
    }

    #[inline]
    fn bio_ended(&mut self, life: &BioLife) {
        if let Some(ns) = self.lives.span(Some(life.queued_ns), Some(life.completed_ns)) {
            self.lives.q2c[lane(life.direction)].record(ns);
        }
    }

    fn flush_ended(&mut self, life: &RequestLife) {
        if let Some(ns) = self.lives.span(life.issued_ns, Some(life.completed_ns)) {
            self.lives.flush_d2c.record(ns);
        }
        self.sink.request(life.device, &request_of(life));
    }
}

/// The request that has lived. Times that were not seen are the nearest that were: Q where there is no D, D where there is no Q.
pub fn request_of(life: &RequestLife) -> Request {
    let operation = match life.direction {
        Direction::None if life.flags.contains(Flags::FLUSH) => Operation::Flush,
        direction => Operation::of_data(direction),
    };
    let queued_ns = life.queued_ns.or(life.issued_ns).unwrap_or(life.completed_ns);
    Request {
        id: 0,
        operation,
        flags: life.flags,
        class: if operation == Operation::Flush { Class::Flush } else { Class::Unknown },
        offset: life.sector.saturating_mul(SECTOR_BYTES),
        bytes: life.bytes,
        queued_ns,
        issued_ns: life.issued_ns.unwrap_or(queued_ns),
        completed_ns: life.completed_ns,
        bios: life.bios.max(1),
        pid: life.pid,
    }
}
