//! What a wire does to a frame.

use nestor_statistics::SeededOrder;
use serde::{Deserialize, Serialize};

/// Bytes that a frame takes on the wire besides what the machine sends: preamble and start of frame (8), frame check sequence (4) and the
/// gap to the next frame (12). IEEE 802.3, 3.1.1 and 4.4.2.
pub const FRAME_OVERHEAD_BYTES: u64 = 24;

/// The shortest frame, without its check sequence; what is shorter is padded (IEEE 802.3, 4.4.2).
pub const SHORTEST_FRAME_BYTES: u64 = 60;

/// Nanoseconds of a second.
const NS_PER_S: u128 = 1_000_000_000;

/// Bytes that a frame takes on the wire.
pub fn wire_bytes(frame_bytes: u64) -> u64 {
    frame_bytes.max(SHORTEST_FRAME_BYTES) + FRAME_OVERHEAD_BYTES
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The machine that serves: below the link in a stack.
    Lower,
    /// The machine that uses it: above the link in a stack.
    Upper,
}

impl End {
    /// Both, the lower one first.
    pub const BOTH: [Self; 2] = [Self::Lower, Self::Upper];

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::Upper => Self::Lower,
        }
    }

    /// Its index in an array of both.
    pub const fn index(self) -> usize {
        match self {
            Self::Lower => 0,
            Self::Upper => 1,
        }
    }
}

/// A link's figures, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Bits per second, at least one.
    pub rate_bits_per_s: u64,
    /// From the last bit's departure to its arrival.
    pub delay_ns: u64,
    /// Bytes that the network interface takes ahead of the wire; what more the machine sends waits in its own memory.
    pub queue_bytes: u64,
    /// The probability that a frame is lost on the wire.
    pub loss: f64,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives whole.
    Arrives {
        /// When its first bit is on the wire.
        begins_ns: u64,
        /// When its last bit, and the gap behind it, has left.
        leaves_ns: u64,
        /// When its last bit has arrived.
        at_ns: u64,
    },
    /// It was on the wire and does not arrive.
    Lost {
        /// When its first bit was on the wire.
        begins_ns: u64,
        /// When its last bit, and the gap behind it, had left.
        leaves_ns: u64,
    },
}

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    wire: Wire,
    /// When the last frame's gap has ended.
    free_at_ns: u64,
    /// What `free_at_ns` is short of the exact time, in parts of `1 / rate` nanoseconds: rates of many frames are exact.
    short_by: u128,
    random: SeededOrder,
}

impl Direction {
    /// A direction at rest. The seed decides which frames are lost.
    pub fn new(wire: Wire, seed: u64) -> Self {
        let rate_bits_per_s = wire.rate_bits_per_s.max(1);
        Self {
            wire: Wire { rate_bits_per_s, ..wire },
            free_at_ns: 0,
            short_by: 0,
            random: SeededOrder::new(seed),
        }
    }

    /// When the interface takes a frame that the machine has for it: now, or when enough of what it has is on the wire.
    pub fn room_at_ns(&self, now_ns: u64) -> u64 {
        let rate = u128::from(self.wire.rate_bits_per_s);
        let queue_ns = u128::from(self.wire.queue_bytes) * 8 * NS_PER_S / rate;
        let queue_ns = u64::try_from(queue_ns).unwrap_or(u64::MAX);
        now_ns.max(self.free_at_ns.saturating_sub(queue_ns))
    }

    /// Takes a frame at a time, which is never before that of the frame before. `frames` are the sizes (without check sequence) of the
    /// pieces in which it goes over the wire: one, or several where the interface cuts it.
    pub fn send(&mut self, now_ns: u64, frames: impl IntoIterator<Item = u64>) -> Fate {
        if now_ns >= self.free_at_ns {
            (self.free_at_ns, self.short_by) = (now_ns, 0);
        }
        let begins_ns = self.free_at_ns;
        let mut is_lost = false;
        for frame_bytes in frames {
            self.occupy(wire_bytes(frame_bytes));
            is_lost |= self.random.unit() < self.wire.loss;
        }
        let leaves_ns = self.free_at_ns;
        if is_lost {
            return Fate::Lost { begins_ns, leaves_ns };
        }
        Fate::Arrives { begins_ns, leaves_ns, at_ns: leaves_ns.saturating_add(self.wire.delay_ns) }
    }

    /// The wire is taken for that many bytes more.
    fn occupy(&mut self, bytes: u64) {
        let rate = u128::from(self.wire.rate_bits_per_s);
        let parts = u128::from(bytes) * 8 * NS_PER_S + self.short_by;
        let ns = u64::try_from(parts / rate).unwrap_or(u64::MAX);
        self.free_at_ns = self.free_at_ns.saturating_add(ns);
        self.short_by = parts % rate;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GBIT: Wire =
        Wire { rate_bits_per_s: 1_000_000_000, delay_ns: 100_000, queue_bytes: 1 << 20, loss: 0.0 };

    fn arrival(fate: Fate) -> u64 {
        match fate {
            Fate::Arrives { at_ns, .. } => at_ns,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_takes_its_bytes_on_the_wire_and_the_delay() {
        // 1514 bytes with 24 of overhead are 12 304 bits, at 1 Gbit/s as many nanoseconds.
        let mut wire = Direction::new(GBIT, 0);
        let arrives = |begins_ns, bits| {
            let leaves_ns = begins_ns + bits;
            Fate::Arrives { begins_ns, leaves_ns, at_ns: leaves_ns + 100_000 }
        };
        assert_eq!(wire.send(5, [1514]), arrives(5, 12_304));
        // The next waits for it.
        assert_eq!(wire.send(6, [1514]), arrives(12_309, 12_304));
        // A short one is padded to 60 bytes: 84 on the wire, 672 bits.
        assert_eq!(wire.send(1_000_000, [42]), arrives(1_000_000, 672));
    }

    #[test]
    fn an_interface_takes_so_many_bytes_ahead_of_the_wire() {
        let mut wire = Direction::new(Wire { queue_bytes: 2 * 1538, ..GBIT }, 0);
        assert_eq!(wire.room_at_ns(7), 7);
        for _ in 0..2 {
            wire.send(0, [1514]);
            assert_eq!(wire.room_at_ns(0), 0);
        }
        wire.send(0, [1514]);
        assert_eq!(wire.room_at_ns(0), 12_304, "as soon as one of three has left");
        assert_eq!(wire.room_at_ns(20_000), 20_000);
    }

    #[test]
    fn a_frame_that_the_interface_cuts_takes_the_time_of_its_pieces() {
        let mut whole = Direction::new(GBIT, 0);
        let mut cut = Direction::new(GBIT, 0);
        let last = (0..3).map(|_| whole.send(0, [1514])).last().unwrap();
        assert_eq!(arrival(cut.send(0, [1514; 3])), arrival(last));
    }

    #[test]
    fn the_share_of_lost_frames_is_the_one_asked_for_and_follows_the_seed() {
        let lost = |seed| {
            let mut wire = Direction::new(Wire { loss: 0.1, queue_bytes: u64::MAX, ..GBIT }, seed);
            let fates = (0..100_000u64).map(|at| wire.send(at * 100_000, [60]));
            fates.map(|fate| matches!(fate, Fate::Lost { .. })).collect::<Vec<bool>>()
        };
        let count = lost(1).iter().filter(|is_lost| **is_lost).count();
        // Six standard deviations of a binomial: 6 · sqrt(100 000 · 0.1 · 0.9).
        assert!(count.abs_diff(10_000) < 570, "{count}");
        assert!(lost(1) == lost(1) && lost(1) != lost(2));
    }

    proptest! {
        #[test]
        fn frames_sent_without_a_pause_have_the_rate_exactly(
            rate_bits_per_s in 10_000u64..100_000_000_000,
            sizes in proptest::collection::vec(1u64..9000, 1..200),
        ) {
            let wire = Wire { rate_bits_per_s, delay_ns: 1000, queue_bytes: u64::MAX, loss: 0.0 };
            let mut direction = Direction::new(wire, 0);
            let last = sizes.iter().map(|bytes| arrival(direction.send(0, [*bytes]))).last().unwrap();
            let bits: u128 = sizes.iter().map(|bytes| u128::from(wire_bytes(*bytes)) * 8).sum();
            let exact_ns = bits * NS_PER_S / u128::from(rate_bits_per_s);
            prop_assert_eq!(u128::from(last), exact_ns + 1000);
        }

        #[test]
        fn no_frame_arrives_before_one_that_was_sent_before_nor_sooner_than_the_delay(
            frames in proptest::collection::vec((0u64..50_000, 1u64..9000), 1..200),
        ) {
            let mut direction = Direction::new(GBIT, 0);
            let (mut now, mut before) = (0, 0);
            for (pause, bytes) in frames {
                now += pause;
                if let Fate::Arrives { begins_ns, at_ns, .. } = direction.send(now, [bytes]) {
                    prop_assert!(begins_ns >= now && at_ns > now + GBIT.delay_ns && at_ns > before);
                    before = at_ns;
                }
            }
        }
    }
}
