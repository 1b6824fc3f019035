//! Where most requests agree: each votes for all offsets that one of its pairs allows.
//!
//! Requests vote and not pairs. At the true offset every request has its true pair; at few places a wrong one can have
//! more pairs, but never more requests.

use std::collections::BTreeMap;

use super::Pair;
use super::line::{Line, MOST_DRIFT};

/// Slopes that are tried at once; each round searches between the neighbours of the best.
const SLOPES: usize = 17;
/// Rounds of that: 4^8 times finer than [`MOST_DRIFT`].
const ROUNDS: usize = 8;
/// Requests that take part once it is known roughly where the offset lies.
const VOTERS: usize = 2048;

/// An interval in which the requests of most pairs agree.
#[derive(Clone, Copy, Debug)]
struct Peak {
    low: f64,
    high: f64,
    votes: usize,
}

/// The pairs that one request is in.
type Voter<'a> = Vec<&'a Pair>;

/// Pairs by who votes.
pub(super) struct Ballot<'a> {
    voters: Vec<Voter<'a>>,
    origin_ns: i64,
    base_ns: i64,
    half_span: f64,
    slack: f64,
}

/// A line, and how far from it, at any moment of the pairs, one can be on which nearly as many agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winner {
    pub line: Line,
    pub half_ns: i64,
}

impl<'a> Ballot<'a> {
    /// Those vote of whose level fewer requests are in pairs: more of them have a true one.
    pub fn new(pairs: &'a [Pair], slack_ns: i64) -> Self {
        let of_both = || pairs.iter().filter(|pair| pair.is_of_two());
        let by = |member: fn(&Pair) -> Option<u32>| {
            let mut voters: BTreeMap<u32, Voter<'a>> =
                of_both().filter_map(member).map(|member| (member, Vec::new())).collect();
            for pair in pairs {
                if let Some(voter) = member(pair).and_then(|member| voters.get_mut(&member)) {
                    voter.push(pair);
                }
            }
            voters
        };
        let (uppers, lowers) = (by(|pair| pair.upper), by(|pair| pair.lower));
        let voters = if uppers.len() < lowers.len() { uppers } else { lowers };
        let times = || of_both().map(|pair| pair.at_ns);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let origin_ns = first + (last - first) / 2;
        Self {
            voters: voters.into_values().collect(),
            origin_ns,
            base_ns: of_both().next().map_or(0, |pair| pair.low_ns),
            half_span: (last - origin_ns) as f64,
            slack: slack_ns as f64,
        }
    }

    /// The first and the last moment of the pairs, on the lower clock.
    pub fn ends(&self) -> [i64; 2] {
        let half_ns = self.half_span as i64;
        [self.origin_ns - half_ns, self.origin_ns + half_ns]
    }

    /// The line that most agree on; where several places have nearly as many, the one near `guess_ns`.
    pub fn winner(mut self, guess_ns: Option<i64>) -> Option<Winner> {
        let reach = MOST_DRIFT * self.half_span;
        let guess = guess_ns.map(|guess| (guess - self.base_ns) as f64);
        let votes = self.votes(0.0, reach);
        let mut peak = tallest(&votes, guess)?;
        if guess.is_none()
            && let Some((low, high)) = range_of(&votes, peak.votes)
        {
            // Nothing tells which of several places is the true one.
            peak = Peak { low, high, ..peak };
        }
        self.keep_near(peak, reach);
        self.refine()
    }

    /// The offsets less `base_ns` at the origin that each voter's pairs allow at a slope, as intervals that do not
    /// overlap.
    fn votes(&self, slope: f64, reach: f64) -> Vec<(f64, f64)> {
        let mut votes = Vec::new();
        let mut own = Vec::new();
        for voter in &self.voters {
            own.clear();
            own.extend(voter.iter().map(|pair| self.interval(pair, slope, reach)));
            own.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let mut joined: Option<(f64, f64)> = None;
            for (low, high) in own.drain(..) {
                joined = match joined {
                    Some((from, to)) if low <= to => Some((from, to.max(high))),
                    before => {
                        votes.extend(before);
                        Some((low, high))
                    }
                };
            }
            votes.extend(joined);
        }
        votes
    }

    fn interval(&self, pair: &Pair, slope: f64, reach: f64) -> (f64, f64) {
        let drift = slope * (pair.at_ns - self.origin_ns) as f64;
        let at = |bound: i64| (bound - self.base_ns) as f64 - drift;
        (at(pair.low_ns) - reach - self.slack, at(pair.high_ns) + reach + self.slack)
    }

    /// Leaves the pairs that meet a peak, and of the voters those first that nothing competes with, then every n-th.
    fn keep_near(&mut self, peak: Peak, reach: f64) {
        let mut voters = std::mem::take(&mut self.voters);
        for voter in &mut voters {
            voter.retain(|pair| {
                let (low, high) = self.interval(pair, 0.0, reach);
                low <= peak.high && peak.low <= high
            });
        }
        voters.retain(|voter| !voter.is_empty());
        let step = voters.len().div_ceil(VOTERS).max(1);
        let (sure, unsure): (Vec<_>, Vec<_>) =
            voters.into_iter().partition(|voter| voter.iter().any(|pair| pair.unique));
        self.voters = sure.into_iter().chain(unsure).step_by(step).collect();
    }

    /// Tries slopes, ever finer ones around the best.
    fn refine(&self) -> Option<Winner> {
        let (mut middle, mut step) = (0.0, MOST_DRIFT / (SLOPES / 2) as f64);
        let mut best: Option<(Peak, f64, f64)> = None;
        for _ in 0..ROUNDS {
            // A slope between two that are tried is at most half a step from one of them.
            let reach = step / 2.0 * self.half_span;
            let tried = (0..SLOPES).filter_map(|index| {
                let slope = middle + (index as f64 - (SLOPES / 2) as f64) * step;
                Some((tallest(&self.votes(slope, reach), None)?, slope))
            });
            let (peak, slope) = tried.max_by(|(a, x), (b, y)| {
                let near = |slope: &f64| -(slope - middle).abs();
                a.votes.cmp(&b.votes).then(near(x).total_cmp(&near(y)))
            })?;
            best = Some((peak, slope, step));
            if reach < 100.0 {
                break;
            }
            middle = slope;
            step *= 2.0 / (SLOPES / 2) as f64;
        }
        best.map(|(peak, slope, step)| self.with_room(peak, slope, step))
    }

    /// How far lines on which nearly as many agree are from the best one.
    fn with_room(&self, peak: Peak, slope: f64, step: f64) -> Winner {
        let reach = step / 2.0 * self.half_span;
        let offset = peak.low + (peak.high - peak.low) / 2.0;
        let room = |other: f64| {
            let (low, high) = range_of(&self.votes(other, reach), peak.votes)?;
            Some((offset - low).max(high - offset) + (other - slope).abs() * self.half_span)
        };
        let mut half = room(slope).unwrap_or(0.0);
        for side in [-1.0, 1.0] {
            let mut apart = step;
            while apart <= 2.0 * MOST_DRIFT {
                let Some(room) = room(slope + side * apart) else { break };
                half = half.max(room);
                apart *= 2.0;
            }
        }
        let offset_ns = self.base_ns + offset.round() as i64;
        let line = Line { origin_ns: self.origin_ns, offset_ns, slope };
        Winner { line, half_ns: half.ceil() as i64 }
    }
}

/// Some true pairs are missing: of requests that were put together, or that a cache answered.
fn nearly(votes: usize, most: usize) -> bool {
    50 * votes >= 49 * most
}

/// Beginnings and ends of intervals, in order. Beginnings before ends: intervals that touch overlap.
fn edges(intervals: &[(f64, f64)]) -> Vec<(f64, bool)> {
    let mut edges: Vec<(f64, bool)> =
        intervals.iter().flat_map(|(low, high)| [(*low, false), (*high, true)]).collect();
    edges.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    edges
}

/// Where most intervals overlap.
fn tallest(intervals: &[(f64, f64)], guess: Option<f64>) -> Option<Peak> {
    let edges = edges(intervals);
    let mut peaks: Vec<Peak> = Vec::new();
    let mut open = 0_usize;
    let mut most = 0_usize;
    for (index, (at, ends)) in edges.iter().enumerate() {
        if *ends {
            open -= 1;
            continue;
        }
        open += 1;
        most = most.max(open);
        // Where nearly the most overlap, and the next edge is an end: a place of its own.
        if edges.get(index + 1).is_some_and(|(_, next_ends)| *next_ends) && 10 * open >= 9 * most {
            peaks.push(Peak { low: *at, high: edges[index + 1].0, votes: open });
        }
    }
    let enough =
        |peak: &&Peak| if guess.is_some() { 10 * peak.votes >= 9 * most } else { peak.votes == most };
    let distance =
        |peak: &Peak| guess.map_or(0.0, |guess| (peak.low - guess).max(guess - peak.high).max(0.0));
    peaks
        .iter()
        .filter(enough)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then(b.votes.cmp(&a.votes)))
        .copied()
}

/// From the first to the last offset at which [nearly](nearly) as many intervals overlap as `most`.
fn range_of(intervals: &[(f64, f64)], most: usize) -> Option<(f64, f64)> {
    let mut open = 0_usize;
    let mut range: Option<(f64, f64)> = None;
    for (at, ends) in edges(intervals) {
        if ends && nearly(open, most) {
            range = range.map(|(from, _)| (from, at));
        }
        if ends {
            open -= 1;
        } else {
            open += 1;
        }
        if !ends && nearly(open, most) {
            range.get_or_insert((at, at));
        }
    }
    range
}
