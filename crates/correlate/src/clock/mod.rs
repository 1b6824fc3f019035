//! The clock of a level against that of the level above, from causality alone.
//!
//! A request begins below only after it was sent there, and it is finished below before it is finished above. So each
//! pair bounds the offset between the two clocks from both sides. Which pairs are true is not known beforehand: many
//! that merely may belong together are taken, and the offset and drift that most of them agree on is searched for
//! ([`vote`]); of these the true line is then bounded exactly ([`line`]). Where both clocks were read beside one that they
//! share, that is not needed ([`shared`]).

mod ballot;
mod flushes;
mod line;
mod pairs;
mod shared;
mod vote;

use nestor_trace::request_file::ClockReading;

pub(crate) use flushes::flush_pairs;
pub(crate) use pairs::{Pair, pairs, written_before};
pub use shared::{SharedClock, SharedReading};

use self::line::Line;
use self::vote::fit;

/// Jumps beyond which a clock is not followed.
const MOST_JUMPS: usize = 8;
/// Pairs that must agree on a line that is to be believed.
const FEWEST_PAIRS: usize = 8;
/// Tolerance where no pair bounds the offset: realtime clocks of machines that are set by one another differ by
/// about this much (NTP on a local network: a millisecond; a guest's clock after its boot: more).
const UNBOUNDED_TOLERANCE_NS: i64 = 20_000_000;
/// What recorders add: two events of one moment are stamped one after the other.
const STAMPING_NS: i64 = 2_000;

/// From a lower clock to an upper one.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// From which moment of the lower clock each line holds; the first one also before.
    pieces: Vec<(i64, Line)>,
    /// How much later than it should a moment can seem to be.
    pub tolerance_ns: i64,
    /// At the middle of the trace.
    pub offset_ns: i64,
    /// Parts per billion.
    pub drift_ppb: i64,
    /// How far the offset can be from the true one.
    pub bound_ns: u64,
    /// Pairs it rests on.
    pub pairs: u64,
    /// Whether it rests on readings instead.
    pub was_read: bool,
    /// Moments of the lower clock at which one of the two jumped.
    pub jumps: Vec<i64>,
}

/// A moment of a file on a scale that has room for offsets.
pub(crate) fn signed(time_ns: u64) -> i64 {
    time_ns.min(1 << 61) as i64
}

impl Clock {
    /// One and the same clock, with times of this resolution.
    pub fn same(resolution_ns: u64) -> Self {
        Self {
            pieces: Vec::new(),
            tolerance_ns: STAMPING_NS + 2 * signed(resolution_ns),
            offset_ns: 0,
            drift_ppb: 0,
            bound_ns: 0,
            pairs: 0,
            was_read: false,
            jumps: Vec::new(),
        }
    }

    /// An offset that is only believed.
    fn believed(offset_ns: i64) -> Self {
        let line = Line { origin_ns: 0, offset_ns, slope: 0.0 };
        Self {
            pieces: vec![(i64::MIN, line)],
            tolerance_ns: UNBOUNDED_TOLERANCE_NS,
            offset_ns,
            bound_ns: u64::MAX,
            ..Self::same(1)
        }
    }

    /// Estimates it. `span_ns` is when the lower level was recorded, on its own clock; `resolution_ns` that of the
    /// coarser times. Adds to `remarks` what makes it less certain than it seems.
    pub fn estimate(
        pairs: &[Pair],
        guess_ns: Option<i64>,
        fallback_ns: i64,
        span_ns: (i64, i64),
        resolution_ns: u64,
        remarks: &mut Vec<String>,
    ) -> Self {
        let slack_ns = signed(resolution_ns);
        let mut fits = Vec::new();
        let mut rest = pairs.to_vec();
        while fits.len() <= MOST_JUMPS {
            let Some(fit) = fit(&rest, guess_ns, slack_ns).filter(|fit| fit.agreeing.len() >= FEWEST_PAIRS)
            else {
                break;
            };
            // After the first line another one is a jump only if it explains what only one line can explain.
            let needed = rest.iter().filter(|pair| pair.unique).count() / 5;
            let unique = fit.agreeing.iter().filter(|pair| pair.unique).count();
            if !fits.is_empty() && (unique < 4 * FEWEST_PAIRS || unique < needed) {
                break;
            }
            rest.retain(|pair| !fit.line.agrees(pair, slack_ns));
            fits.push(fit);
        }
        if fits.is_empty() {
            return match guess_ns {
                Some(guess_ns) => Self::believed(guess_ns),
                None => {
                    remarks.push(
                        "no pair of requests bounds the offset of its clock, and it was not read otherwise"
                            .to_owned(),
                    );
                    Self::believed(fallback_ns)
                }
            };
        }
        let pieces = segments(&fits, slack_ns);
        Self::of_pieces(&pieces, span_ns, slack_ns)
    }

    fn of_pieces(pieces: &[(i64, vote::Fit)], span_ns: (i64, i64), slack_ns: i64) -> Self {
        let middle_ns = span_ns.0 + (span_ns.1 - span_ns.0) / 2;
        let mut tolerance_ns = 0;
        for (index, (from_ns, fit)) in pieces.iter().enumerate() {
            let from = if index == 0 { span_ns.0 } else { *from_ns };
            let until = pieces.get(index + 1).map_or(span_ns.1, |(next, _)| *next);
            for end_ns in [from, until] {
                tolerance_ns = tolerance_ns.max(fit.bound_at(end_ns, slack_ns));
            }
        }
        let (_, at_middle) =
            pieces.iter().rev().find(|(from_ns, _)| *from_ns <= middle_ns).unwrap_or(&pieces[0]);
        Self {
            tolerance_ns: tolerance_ns.min(UNBOUNDED_TOLERANCE_NS) + STAMPING_NS + 2 * slack_ns,
            offset_ns: at_middle.line.offset_at(middle_ns),
            drift_ppb: (at_middle.line.slope * 1e9).round() as i64,
            bound_ns: at_middle.bound_at(middle_ns, slack_ns).max(0) as u64,
            was_read: false,
            pairs: pieces.iter().map(|(_, fit)| fit.agreeing.len() as u64).sum(),
            jumps: jumps(pieces, slack_ns),
            pieces: pieces.iter().map(|(from_ns, fit)| (*from_ns, fit.line)).collect(),
        }
    }

    /// A moment of the lower clock on the upper one.
    pub fn to_upper(&self, lower_ns: i64) -> i64 {
        let Some((_, first)) = self.pieces.first() else { return lower_ns };
        let line = match self.pieces.as_slice() {
            [_] => first,
            pieces => {
                let at = pieces.partition_point(|(from_ns, _)| *from_ns <= lower_ns);
                &pieces[at.saturating_sub(1)].1
            }
        };
        lower_ns.saturating_add(line.offset_at(lower_ns))
    }
}

/// Where one line ends and the next begins at another offset. A clock that is merely slewed changes its drift there.
fn jumps(pieces: &[(i64, vote::Fit)], slack_ns: i64) -> Vec<i64> {
    let jump = |pair: &[(i64, vote::Fit)]| {
        let [(_, before), (at_ns, after)] = pair else { return None };
        let by_ns =
            after.line.offset_at(*at_ns).saturating_sub(before.line.offset_at(*at_ns)).saturating_abs();
        let uncertain_ns = before.bound_at(*at_ns, slack_ns).saturating_add(after.bound_at(*at_ns, slack_ns));
        (by_ns > uncertain_ns).then_some(*at_ns)
    };
    pieces.windows(2).filter_map(jump).collect()
}

/// A guessed offset, no less than what was [written before](written_before) allows; what is far from the guess is taken
/// for something else.
pub(crate) fn not_before(guess_ns: i64, written: &[i64]) -> i64 {
    let near =
        written.iter().copied().filter(|least| (0..UNBOUNDED_TOLERANCE_NS).contains(&(least - guess_ns)));
    near.max().unwrap_or(guess_ns)
}

/// Offset of a lower clock against an upper one by what both machines took the time of day to be.
pub(crate) fn guess(upper: &ClockReading, lower: &ClockReading) -> Option<i64> {
    let base = |reading: &ClockReading| Some(signed(reading.monotonic_ns) - signed(reading.realtime_ns?));
    Some(base(upper)? - base(lower)?)
}

/// Which line holds when: the lines' own pairs, sorted by time, say so, each by the majority of its neighbours.
fn segments(fits: &[vote::Fit], slack_ns: i64) -> Vec<(i64, vote::Fit)> {
    const NEIGHBOURS: usize = 15;
    let mut labels: Vec<(i64, usize)> = Vec::new();
    for (label, fit) in fits.iter().enumerate() {
        let sure = fit.agreeing.iter().filter(|pair| pair.unique || fits.len() == 1);
        labels.extend(sure.map(|pair| (pair.at_ns, label)));
    }
    labels.sort_unstable();
    let mut pieces: Vec<(i64, usize)> = Vec::new();
    for (index, (at_ns, _)) in labels.iter().enumerate() {
        let from = index.saturating_sub(NEIGHBOURS / 2);
        let near = &labels[from..(from + NEIGHBOURS).min(labels.len())];
        let votes = |label: usize| near.iter().filter(|(_, other)| *other == label).count();
        let winner =
            (0..fits.len()).max_by_key(|label| (votes(*label), std::cmp::Reverse(*label))).unwrap_or(0);
        if pieces.last().is_none_or(|(_, label)| *label != winner) {
            // Between the last pair of the one line and the first of the other: when a machine was stopped, nothing
            // happened there.
            let before = index.checked_sub(1).map_or(*at_ns, |before| labels[before].0);
            pieces.push((before + (*at_ns - before) / 2, winner));
        }
    }
    if pieces.len() <= 1 || pieces.len() > fits.len() {
        // One line, or lines that do not take turns: then the one that most pairs agree on stands for all.
        return vec![(i64::MIN, fits[0].clone())];
    }
    let all: Vec<Pair> = fits.iter().flat_map(|fit| fit.agreeing.iter().copied()).collect();
    let starts: Vec<i64> = pieces.iter().map(|(from_ns, _)| *from_ns).collect();
    let mut segments = Vec::new();
    for (index, (from_ns, label)) in pieces.into_iter().enumerate() {
        let until_ns = starts.get(index + 1).copied().unwrap_or(i64::MAX);
        let from_ns = if index == 0 { i64::MIN } else { from_ns };
        let inside = |pair: &&Pair| {
            (from_ns..until_ns).contains(&pair.at_ns) && fits[label].line.agrees(pair, slack_ns)
        };
        segments.push((from_ns, fits[label].only(all.iter().filter(inside).copied().collect(), slack_ns)));
    }
    segments
}

#[cfg(test)]
mod tests;
