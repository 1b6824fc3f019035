//! What a wire does to a frame.

use std::ops::Range;

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

/// One of the machines at a link: the first is at its lower end, all others are at its upper one, behind a switch if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortIndex(usize);

impl PortIndex {
    /// The machine at the lower end.
    pub const LOWER: Self = Self(0);

    /// All of so many machines, that at the lower end first.
    pub fn all(machines: usize) -> impl Iterator<Item = Self> {
        (0..machines).map(Self)
    }

    /// Its index in a list of all.
    pub const fn index(self) -> usize {
        self.0
    }

    /// The end at which it is.
    pub const fn end(self) -> End {
        match self.0 {
            0 => End::Lower,
            _ => End::Upper,
        }
    }
}

/// The machine at an end, or the first there.
impl From<End> for PortIndex {
    fn from(end: End) -> Self {
        Self(end.index())
    }
}

/// A link's figures, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Bits per second, at least one.
    pub rate_bits_per_s: u64,
    /// From the last bit's departure to its arrival.
    pub delay_ns: u64,
    /// Bytes that the network interface accepts ahead of the wire; the machine keeps the rest in its own memory.
    pub queue_bytes: u64,
    /// The probability that a frame is lost on the wire.
    pub loss: f64,
    /// When nothing arrives; `None` for never.
    pub cut: Option<Cut>,
}

/// A time in which all frames are lost. It is counted from the first frame of its direction after frames began to take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// When it begins.
    pub after_ns: u64,
    /// How long it is.
    pub lasts_ns: u64,
}

impl Cut {
    /// Whether it covers a moment.
    const fn covers(self, since_ns: u64) -> bool {
        since_ns >= self.after_ns && since_ns - self.after_ns < self.lasts_ns
    }
}

/// What becomes of frames that are on the wire one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They arrive whole.
    Arrives {
        /// When the first bit is on the wire.
        begins_ns: u64,
        /// When the last bit, and the gap behind it, has left.
        leaves_ns: u64,
        /// When the last bit has arrived.
        at_ns: u64,
    },
    /// They were on the wire and do not arrive.
    Lost {
        /// When the first bit was on the wire.
        begins_ns: u64,
        /// When the last bit, and the gap behind it, had left.
        leaves_ns: u64,
    },
}

impl Fate {
    /// When the first bit is on the wire.
    pub const fn begins_ns(self) -> u64 {
        match self {
            Self::Arrives { begins_ns, .. } | Self::Lost { begins_ns, .. } => begins_ns,
        }
    }
}

/// Frames of what a machine sent at once that have one fate. A segment that the interface cuts is one run, or several if frames of it are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which of the frames, in the order in which they are on the wire.
    pub frames: Range<usize>,
    /// Their bytes, without check sequences.
    pub bytes: u64,
    /// Their bytes with all that they take on the wire.
    pub wire_bytes: u64,
    /// What becomes of them.
    pub fate: Fate,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    wire: Wire,
    taken: Taken,
    random: SeededOrder,
    /// Whether frames take the time of their bytes, wait for room and are lost; otherwise they only have the delay.
    is_timed: bool,
    /// When the first frame went that took time.
    first_timed_ns: Option<u64>,
}

impl Direction {
    /// A direction at rest. The seed decides which frames are lost.
    pub fn new(wire: Wire, seed: u64) -> Self {
        let rate_bits_per_s = wire.rate_bits_per_s.max(1);
        Self {
            wire: Wire { rate_bits_per_s, ..wire },
            taken: Taken::default(),
            random: SeededOrder::new(seed),
            is_timed: true,
            first_timed_ns: None,
        }
    }

    /// Whether frames take the time of their bytes, wait for room and are lost from now on. The delay remains: it is how far one machine may
    /// run ahead of the other.
    pub fn set_timed(&mut self, is_timed: bool) {
        self.is_timed = is_timed;
    }

    /// When the interface takes a frame that the machine has for it: now, or when enough of what it has is on the wire.
    pub fn room_at_ns(&self, now_ns: u64) -> u64 {
        if !self.is_timed {
            return now_ns;
        }
        let rate = u128::from(self.wire.rate_bits_per_s);
        let queue_ns = u128::from(self.wire.queue_bytes) * 8 * NS_PER_S / rate;
        let queue_ns = u64::try_from(queue_ns).unwrap_or(u64::MAX);
        now_ns.max(self.taken.free_at_ns.saturating_sub(queue_ns))
    }

    /// Takes what a machine sends at a time, which is never before that of what it sent before. `frames` are the sizes (without check
    /// sequence) of the frames in which it goes over the wire: one, or several where the interface cuts it. Each is lost or arrives by itself; those
    /// of one fate that follow each other are a run, which arrives when the last of them does.
    pub fn send(&mut self, now_ns: u64, frames: impl IntoIterator<Item = u64>) -> Vec<Run> {
        self.taken.begin(now_ns);
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        for (index, bytes) in frames.into_iter().enumerate() {
            let (begins_ns, wire_bytes) = (self.taken.free_at_ns, wire_bytes(bytes));
            self.occupy(wire_bytes);
            let is_lost = self.is_lost(begins_ns);
            match runs.last_mut().filter(|run| matches!(run.fate, Fate::Lost { .. }) == is_lost) {
                Some(run) => {
                    run.frames.end = index + 1;
                    run.bytes += bytes;
                    run.wire_bytes += wire_bytes;
                    run.fate = self.fate(run.fate.begins_ns(), is_lost);
                }
                None => {
                    let fate = self.fate(begins_ns, is_lost);
                    runs.push(Run { frames: index..index + 1, bytes, wire_bytes, fate });
                }
            }
        }
        runs
    }

    /// Whether the next frame is lost, which is on the wire from then on.
    fn is_lost(&mut self, begins_ns: u64) -> bool {
        if !self.is_timed {
            return false;
        }
        let first_ns = *self.first_timed_ns.get_or_insert(begins_ns);
        let is_cut = self.wire.cut.is_some_and(|cut| cut.covers(begins_ns.saturating_sub(first_ns)));
        // Drawn in any case: a cut does not change which of the other frames are lost.
        let is_unlucky = self.random.unit() < self.wire.loss;
        is_cut || is_unlucky
    }

    /// The fate of frames of which the last one has just left.
    fn fate(&self, begins_ns: u64, is_lost: bool) -> Fate {
        let leaves_ns = self.taken.free_at_ns;
        if is_lost {
            return Fate::Lost { begins_ns, leaves_ns };
        }
        Fate::Arrives { begins_ns, leaves_ns, at_ns: leaves_ns.saturating_add(self.wire.delay_ns) }
    }

    /// The wire is taken for that many bytes more.
    fn occupy(&mut self, bytes: u64) {
        if self.is_timed {
            self.taken.occupy(bytes, self.wire.rate_bits_per_s);
        }
    }
}

/// Until when a wire is taken by frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// When the last frame's gap has ended.
    pub(crate) free_at_ns: u64,
    /// What `free_at_ns` is short of the exact time, in parts of `1 / rate` nanoseconds: rates of many frames are exact.
    short_by: u128,
}

impl Taken {
    /// A frame is there. It waits for those before it, if any is still on the wire.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        if now_ns >= self.free_at_ns {
            (self.free_at_ns, self.short_by) = (now_ns, 0);
        }
    }

    /// The wire is taken for that many bytes more.
    pub(crate) fn occupy(&mut self, bytes: u64, rate_bits_per_s: u64) {
        let rate = u128::from(rate_bits_per_s);
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

    const GBIT: Wire = Wire {
        rate_bits_per_s: 1_000_000_000,
        delay_ns: 100_000,
        queue_bytes: 1 << 20,
        loss: 0.0,
        cut: None,
    };

    /// The fate of what is not divided.
    fn fate(runs: Vec<Run>) -> Fate {
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].fate
    }

    fn arrival(runs: Vec<Run>) -> u64 {
        match fate(runs) {
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
        assert_eq!(fate(wire.send(5, [1514])), arrives(5, 12_304));
        // The next waits for it.
        assert_eq!(fate(wire.send(6, [1514])), arrives(12_309, 12_304));
        // A short one is padded to 60 bytes: 84 on the wire, 672 bits.
        assert_eq!(fate(wire.send(1_000_000, [42])), arrives(1_000_000, 672));
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
            fates.map(|runs| matches!(fate(runs), Fate::Lost { .. })).collect::<Vec<bool>>()
        };
        let count = lost(1).iter().filter(|is_lost| **is_lost).count();
        // Six standard deviations of a binomial: 6 · sqrt(100 000 · 0.1 · 0.9).
        assert!(count.abs_diff(10_000) < 570, "{count}");
        assert!(lost(1) == lost(1) && lost(1) != lost(2));
    }

    #[test]
    fn what_is_sent_while_the_link_is_cut_is_lost_and_nothing_else() {
        let cut = Some(Cut { after_ns: 1_000_000, lasts_ns: 2_000_000 });
        let mut wire = Direction::new(Wire { cut, ..GBIT }, 1);
        // What goes before is not the first frame that takes time.
        wire.set_timed(false);
        wire.send(5, [1000]);
        wire.set_timed(true);
        let is_lost =
            |wire: &mut Direction, at_ns: u64| matches!(wire.send(at_ns, [1000])[0].fate, Fate::Lost { .. });
        let begin = 10_000_000;
        let sent = [0, 999_999, 1_000_000, 2_999_999, 3_000_000, 9_000_000];
        let lost: Vec<bool> = sent.iter().map(|after| is_lost(&mut wire, begin + after)).collect();
        // A frame of 1000 bytes takes 8.2 us, so that the second one is not out before the third is sent.
        assert_eq!(lost, [false, false, true, true, false, false]);
        // It is cut once, whatever is switched later.
        wire.set_timed(false);
        wire.set_timed(true);
        assert!(!is_lost(&mut wire, begin + 11_000_000));
    }

    #[test]
    fn without_timing_frames_have_the_delay_alone_and_none_is_lost() {
        let wire = Wire { loss: 0.5, queue_bytes: 1538, ..GBIT };
        let mut direction = Direction::new(wire, 3);
        direction.set_timed(false);
        for _ in 0..100 {
            assert_eq!(direction.room_at_ns(9), 9);
            assert_eq!(arrival(direction.send(9, [1514])), 9 + 100_000);
        }
        direction.set_timed(true);
        // What was sent without it is no debt, and decides nothing of what is lost later.
        let mut fresh = Direction::new(wire, 3);
        let both = |now_ns| [&mut direction, &mut fresh].map(|d| fate(d.send(now_ns, [1514])));
        assert!((1..100).map(|at| at * 1_000_000).map(both).all(|[a, b]| a == b));
    }

    proptest! {
        #[test]
        fn frames_sent_without_a_pause_have_the_rate_exactly(
            rate_bits_per_s in 10_000u64..100_000_000_000,
            sizes in proptest::collection::vec(1u64..9000, 1..200),
        ) {
            let wire = Wire { rate_bits_per_s, delay_ns: 1000, queue_bytes: u64::MAX, loss: 0.0, cut: None };
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
                if let Fate::Arrives { begins_ns, at_ns, .. } = fate(direction.send(now, [bytes])) {
                    prop_assert!(begins_ns >= now && at_ns > now + GBIT.delay_ns && at_ns > before);
                    before = at_ns;
                }
            }
        }

        #[test]
        fn a_segment_that_is_cut_loses_the_frames_that_it_would_lose_as_frames_and_the_others_arrive_then(
            segments in proptest::collection::vec((0u64..2_000_000, 1usize..50), 1..20),
            loss in 0.0f64..=1.0,
            seed: u64,
        ) {
            let wire = Wire { loss, queue_bytes: u64::MAX, ..GBIT };
            let (mut cut, mut one_by_one) = (Direction::new(wire, seed), Direction::new(wire, seed));
            let mut now = 0;
            for (pause, frames) in segments {
                now += pause;
                let runs = cut.send(now, (0..frames).map(|at| 60 + at as u64));
                let single: Vec<Run> =
                    (0..frames).map(|at| one_by_one.send(now, [60 + at as u64]).remove(0)).collect();
                prop_assert_eq!((runs[0].frames.start, runs.last().map(|run| run.frames.end)), (0, Some(frames)));
                for (run, next) in runs.iter().zip(&runs[1..]) {
                    prop_assert_eq!(run.frames.end, next.frames.start);
                    let is_lost = [run, next].map(|run| matches!(run.fate, Fate::Lost { .. }));
                    prop_assert!(is_lost[0] != is_lost[1], "they would be one run");
                }
                for run in &runs {
                    let of_run = &single[run.frames.clone()];
                    prop_assert_eq!(run.bytes, of_run.iter().map(|run| run.bytes).sum::<u64>());
                    prop_assert_eq!(run.wire_bytes, of_run.iter().map(|run| run.wire_bytes).sum::<u64>());
                    let same_fate = |other: &Run| std::mem::discriminant(&other.fate) == std::mem::discriminant(&run.fate);
                    prop_assert!(of_run.iter().all(same_fate));
                    prop_assert_eq!(run.fate.begins_ns(), of_run[0].fate.begins_ns());
                    // Both leave, and arrive, with the last frame.
                    let ends = |fate| match fate {
                        Fate::Arrives { leaves_ns, at_ns, .. } => (leaves_ns, Some(at_ns)),
                        Fate::Lost { leaves_ns, .. } => (leaves_ns, None),
                    };
                    prop_assert_eq!(ends(run.fate), ends(of_run[of_run.len() - 1].fate));
                }
            }
        }
    }
}
