//! A clock that all machines share, read beside each one's own: the time of an emulated host in virtual time.

use serde::{Deserialize, Serialize};

use super::line::Line;
use super::{Clock, STAMPING_NS, signed};

/// A level's clock and the shared one at one moment, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedReading {
    /// The level's own.
    pub own_ns: u64,
    /// The shared one.
    pub shared_ns: u64,
    /// How far apart the two were read at most.
    pub bound_ns: u64,
}

/// A level's clock against the shared one. Between its two readings, before and after the recording, it goes evenly: nobody
/// sets clocks in a laboratory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedClock {
    /// Before the recording.
    pub first: SharedReading,
    /// After it.
    pub last: SharedReading,
}

impl SharedClock {
    /// The shared clock itself.
    pub const ITSELF: Self = Self {
        first: SharedReading { own_ns: 0, shared_ns: 0, bound_ns: 0 },
        last: SharedReading { own_ns: 1 << 61, shared_ns: 1 << 61, bound_ns: 0 },
    };

    fn bound_ns(&self) -> u64 {
        self.first.bound_ns.max(self.last.bound_ns)
    }

    /// A moment of the shared clock on this one; `None` if its readings make no sense.
    fn at(&self, shared_ns: u64) -> Option<i64> {
        let since = |later: u64, earlier: u64| signed(later) - signed(earlier);
        let shared = since(self.last.shared_ns, self.first.shared_ns);
        let own = since(self.last.own_ns, self.first.own_ns);
        if shared <= 0 || own <= 0 {
            return None;
        }
        let passed = since(shared_ns, self.first.shared_ns);
        // The whole and what the clocks differ by apart: nothing of the whole is lost in rounding.
        let drift = (own - shared) as f64 * (passed as f64 / shared as f64);
        signed(self.first.own_ns).checked_add(passed)?.checked_add(drift.round() as i64)
    }
}

impl Clock {
    /// From a lower clock to an upper one that are both known against the shared one; `None` if the readings make no sense.
    pub fn shared(upper: &SharedClock, lower: &SharedClock, resolution_ns: u64) -> Option<Self> {
        // Where the lower clock was not read, being the shared one, the upper one's readings say when.
        let moments = match *lower == SharedClock::ITSELF {
            true => [upper.first.shared_ns, upper.last.shared_ns],
            false => [lower.first.shared_ns, lower.last.shared_ns],
        };
        let [first, last] = moments.map(|shared_ns| Some((lower.at(shared_ns)?, upper.at(shared_ns)?)));
        let ((low_first, up_first), (low_last, up_last)) = (first?, last?);
        let span_ns = low_last - low_first;
        if span_ns <= 0 {
            return None;
        }
        let (offset_ns, offset_at_end_ns) = (up_first - low_first, up_last - low_last);
        let slope = (offset_at_end_ns - offset_ns) as f64 / span_ns as f64;
        let line = Line { origin_ns: low_first, offset_ns, slope };
        // One for rounding.
        let bound_ns = upper.bound_ns().saturating_add(lower.bound_ns()).saturating_add(1);
        Some(Self {
            pieces: vec![(i64::MIN, line)],
            tolerance_ns: signed(bound_ns) + STAMPING_NS + 2 * signed(resolution_ns),
            offset_ns: line.offset_at(low_first + span_ns / 2),
            drift_ppb: (slope * 1e9).round() as i64,
            bound_ns,
            pairs: 0,
            was_read: true,
            jumps: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A clock that began at a shared moment and goes wrong by so many parts per billion.
    fn clock(
        began_ns: u64,
        drift_ppb: i64,
        from: u64,
        to: u64,
        bound_ns: u64,
    ) -> (SharedClock, impl Fn(u64) -> i64) {
        let own = move |shared_ns: u64| {
            let passed = i128::from(shared_ns) - i128::from(began_ns);
            i64::try_from(passed + passed * i128::from(drift_ppb) / 1_000_000_000).unwrap()
        };
        let read = |shared_ns| SharedReading { own_ns: own(shared_ns).cast_unsigned(), shared_ns, bound_ns };
        (SharedClock { first: read(from), last: read(to) }, own)
    }

    proptest! {
        #[test]
        fn a_moment_of_the_one_is_known_on_the_other(
            began in (0..10_u64.pow(10), 0..10_u64.pow(10)), drifts in (-300_000..300_000_i64, -300_000..300_000_i64),
            from in 10_u64.pow(10)..10_u64.pow(12), lasts in 10_u64.pow(6)..10_u64.pow(13), part in 0.0_f64..1.0,
            bounds in (0..1000_u64, 0..1000_u64),
        ) {
            let (upper, upper_at) = clock(began.0, drifts.0, from, from + lasts, bounds.0);
            let (lower, lower_at) = clock(began.1, drifts.1, from, from + lasts, bounds.1);
            let known = Clock::shared(&upper, &lower, 1).unwrap();
            let moment = from + (lasts as f64 * part) as u64;
            prop_assert!((known.to_upper(lower_at(moment)) - upper_at(moment)).abs() <= 2);
            prop_assert_eq!(known.bound_ns, bounds.0 + bounds.1 + 1);
            let above_the_shared = Clock::shared(&upper, &SharedClock::ITSELF, 1).unwrap();
            prop_assert!((above_the_shared.to_upper(signed(moment)) - upper_at(moment)).abs() <= 2);
        }

        #[test]
        fn any_readings_are_taken_or_refused(numbers: [u64; 6]) {
            let [a, b, c, d, e, f] = numbers;
            let read = |own_ns, shared_ns, bound_ns| SharedReading { own_ns, shared_ns, bound_ns };
            let clock = SharedClock { first: read(a, b, c), last: read(d, e, f) };
            for (upper, lower) in [(clock, SharedClock::ITSELF), (SharedClock::ITSELF, clock), (clock, clock)] {
                if let Some(known) = Clock::shared(&upper, &lower, 1) {
                    known.to_upper(signed(a));
                }
            }
        }
    }
}
