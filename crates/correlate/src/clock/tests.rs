//! Clocks whose offset, drift and jumps are known.

use nestor_statistics::SeededOrder;

use nestor_trace::{Operation, Request};

use super::*;
use crate::played;
use crate::survey::Sample;

/// A clock's offset, drift and jump, and the pairs that requests over `span_ns` give; `false_share` of them are of
/// requests that do not belong together.
struct Made {
    offset_ns: i64,
    ppm: f64,
    jump: Option<(i64, i64)>,
    span_ns: u64,
    false_share: f64,
}

impl Made {
    fn offset_at(&self, at_ns: i64) -> i64 {
        let jump = self.jump.filter(|(from_ns, _)| at_ns >= *from_ns).map_or(0, |(_, by_ns)| by_ns);
        self.offset_ns + (at_ns as f64 * self.ppm * 1e-6) as i64 + jump
    }

    fn pairs(&self, count: usize, seed: u64) -> Vec<Pair> {
        let mut random = SeededOrder::new(seed);
        let mut below = |bound: u64| random.below(bound as usize) as i64;
        (0..count)
            .map(|number| {
                let at_ns = below(self.span_ns);
                let wrong = (below(1 << 20) as f64) < self.false_share * f64::from(1 << 20);
                let shift = if wrong { below(2 * self.span_ns) - self.span_ns as i64 } else { 0 };
                let truth = self.offset_at(at_ns) + shift;
                Pair {
                    at_ns,
                    low_ns: truth - 3_000 - below(200_000),
                    high_ns: truth + 4_000 + below(200_000),
                    unique: !wrong,
                    upper: Some(number as u32),
                    lower: Some(number as u32),
                }
            })
            .collect()
    }

    fn estimate(&self, pairs: &[Pair], guess_ns: Option<i64>) -> Clock {
        Clock::estimate(pairs, guess_ns, 0, (0, self.span_ns as i64), 0, &mut Vec::new())
    }

    /// The estimate is within its own bound, everywhere.
    fn assert_found(&self, clock: &Clock) {
        let middle = self.span_ns as i64 / 2;
        let off = clock.offset_ns - self.offset_at(middle);
        assert!(off.unsigned_abs() <= clock.bound_ns, "{off} ns off, bound {} ns", clock.bound_ns);
        assert!(clock.bound_ns < 60_000, "bound {} ns", clock.bound_ns);
        for part in 0..=20 {
            let at_ns = self.span_ns as i64 * part / 20;
            let off = clock.to_upper(at_ns) - at_ns - self.offset_at(at_ns);
            assert!(
                off.abs() <= clock.tolerance_ns,
                "{off} ns off at {at_ns}, tolerance {} ns",
                clock.tolerance_ns
            );
        }
    }
}

const PLAIN: Made =
    Made { offset_ns: -9_000_000_000_000, ppm: 0.0, jump: None, span_ns: 60_000_000_000, false_share: 0.0 };

#[test]
fn any_offset_and_drift_is_found() {
    let cases = [
        (0.0, 2_000_000_000, 0.0),
        (200.0, 60_000_000_000, 0.3),
        (-200.0, 3_600_000_000_000, 0.7),
        (37.0, 3_600_000_000_000, 0.0),
        (-499.0, 60_000_000_000, 0.7),
    ];
    for (seed, (ppm, span_ns, false_share)) in cases.into_iter().enumerate() {
        let made = Made { ppm, span_ns, false_share, ..PLAIN };
        made.assert_found(&made.estimate(&made.pairs(1500, seed as u64), None));
    }
}

#[test]
fn few_pairs_are_enough_and_fewer_are_not_believed() {
    let clock = PLAIN.estimate(&PLAIN.pairs(12, 1), None);
    assert!((clock.offset_ns - PLAIN.offset_ns).unsigned_abs() <= clock.bound_ns);
    assert_eq!(PLAIN.estimate(&PLAIN.pairs(3, 1), None).bound_ns, u64::MAX);
    assert_eq!(PLAIN.estimate(&[], Some(77)).offset_ns, 77);
}

#[test]
fn a_jump_is_found() {
    for by_ns in [-5_000_000_000, 80_000_000, -3_000_000] {
        let made = Made { ppm: 20.0, jump: Some((40_000_000_000, by_ns)), ..PLAIN };
        let clock = made.estimate(&made.pairs(1500, 9), None);
        assert_eq!(clock.jumps.len(), 1);
        let at = clock.jumps[0];
        assert!((at - 40_000_000_000).abs() < 500_000_000, "{at}");
        for at_ns in [0, 20_000_000_000, 39_000_000_000, 41_000_000_000, 60_000_000_000] {
            let off = clock.to_upper(at_ns) - at_ns - made.offset_at(at_ns);
            assert!(off.abs() <= clock.tolerance_ns, "{off} at {at_ns}");
        }
    }
}

#[test]
fn the_time_of_day_decides_between_places_that_are_as_good() {
    // The same work every ten seconds: shifted by one round, nearly as many pairs agree.
    let mut pairs = PLAIN.pairs(1000, 4);
    let shifted: Vec<Pair> = pairs
        .iter()
        .map(|pair| Pair {
            low_ns: pair.low_ns + 10_000_000_000,
            high_ns: pair.high_ns + 10_000_000_000,
            ..*pair
        })
        .collect();
    pairs.extend(&shifted[..975]);
    for shift in [0, 10_000_000_000] {
        let guess = PLAIN.offset_ns + shift + 900_000_000;
        let clock = PLAIN.estimate(&pairs, Some(guess));
        let off = clock.offset_ns - PLAIN.offset_ns - shift;
        assert!(off.unsigned_abs() <= clock.bound_ns, "{off}");
    }
}

/// A driver that keeps requests in flight at few places, and a disk below it; now and then a processor is taken from
/// one of the two. Both see the same requests, each in its own order of completion.
struct Driven {
    depth: usize,
    places: usize,
    count: usize,
    stall_share: f64,
    seed: u64,
}

impl Driven {
    const OFFSET_NS: i64 = 9_000_000_000_000;

    /// Samples of the driver's requests and of the disk's.
    fn samples(&self) -> (Sample, Sample) {
        let mut random = SeededOrder::new(self.seed);
        let mut slots = vec![1_000_000_u64; self.depth];
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for _ in 0..self.count {
            let slot = (0..self.depth).min_by_key(|slot| slots[*slot]).unwrap();
            let operation = if random.below(3) == 0 { Operation::Read } else { Operation::Write };
            let offset = random.below(self.places) as u64 * 4096;
            let bytes = 4096 << random.below(3);
            let mut delay = |usual: usize| {
                let stalled = random.unit() < self.stall_share;
                let most = if stalled { 1_000_000 } else { usual };
                1 + random.below(most) as u64
            };
            let started = slots[slot] + delay(2_000);
            let begun = started + delay(20_000);
            let done = begun + 30_000 + delay(100_000);
            let ended = done + delay(20_000);
            slots[slot] = ended;
            above.push(played::request(operation, offset, bytes, [started, started, ended]));
            below.push(played::request(operation, offset, bytes, [begun, begun, done]));
        }
        let sample = |mut requests: Vec<Request>, ahead_ns: i64| {
            requests.sort_by_key(|request| request.completed_ns);
            let mut sample = Sample::default();
            for mut request in requests {
                for time in [&mut request.queued_ns, &mut request.issued_ns, &mut request.completed_ns] {
                    *time = time.checked_add_signed(ahead_ns).unwrap();
                }
                sample.push(&request, request.offset);
            }
            sample
        };
        (sample(above, Self::OFFSET_NS), sample(below, 0))
    }
}

#[test]
fn few_places_and_deep_queues_leave_the_clock_within_its_bound() {
    for (places, stall_share, depth) in
        [(1, 0.0, 4), (1, 0.01, 4), (1, 0.0, 24), (1, 0.01, 24), (4, 0.1, 24), (64, 0.01, 24)]
    {
        for seed in 0..16 {
            let driven = Driven { depth, places, count: 600, stall_share, seed };
            let (above, below) = driven.samples();
            let clock = Clock::estimate(
                &pairs(&above, &below, true, 0),
                None,
                0,
                (0, 300_000_000),
                0,
                &mut Vec::new(),
            );
            let off_ns = (clock.offset_ns - Driven::OFFSET_NS).unsigned_abs();
            assert!(
                off_ns <= clock.bound_ns,
                "{places} places, {depth} deep, seed {seed}: {off_ns} ns off, bound {} ns",
                clock.bound_ns
            );
        }
    }
}
