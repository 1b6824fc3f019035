//! The line that most pairs agree on.

use std::collections::HashMap;

use super::line::{Envelope, Line, MOST_DRIFT};
use super::{FEWEST_PAIRS, Pair};

/// Slopes that are tried at once; each round searches between the neighbours of the best.
const SLOPES: usize = 17;
/// Rounds of that: 8^8 times finer than [`MOST_DRIFT`].
const ROUNDS: usize = 8;
/// Pairs that take part once it is known roughly where the offset lies.
const VOTERS: usize = 2048;
/// Rounds in which bounds that no line can keep with the others are taken out.
const REMOVALS: usize = 24;

/// A line and the pairs it was fitted to.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub line: Line,
    pub agreeing: Vec<Pair>,
}

impl Fit {
    /// How far the line can be from the true one at a moment of the lower clock, in nanoseconds.
    pub fn bound_at(&self, at_ns: i64, slack_ns: i64) -> i64 {
        let envelope = Envelope::new(&self.agreeing, self.line.origin_ns, self.line.offset_ns, slack_ns);
        let (low, high) = envelope.offsets_at(at_ns, self.line.slope);
        let offset = self.line.offset_at(at_ns);
        (offset - low).max(high - offset)
    }

    /// The line of these pairs only.
    pub fn only(&self, pairs: Vec<Pair>, slack_ns: i64) -> Self {
        if pairs.is_empty() {
            return Self { line: self.line, agreeing: pairs };
        }
        polish(self.line, pairs, slack_ns)
    }
}

/// An interval in which most of others overlap.
#[derive(Clone, Copy, Debug)]
struct Peak {
    low: f64,
    high: f64,
    votes: usize,
}

/// Finds the line that most pairs agree on; where several places have nearly as many, the one near `guess_ns`.
pub(super) fn fit(pairs: &[Pair], guess_ns: Option<i64>, slack_ns: i64) -> Option<Fit> {
    if pairs.len() < FEWEST_PAIRS {
        return None;
    }
    let (first, last) = pairs
        .iter()
        .fold((i64::MAX, i64::MIN), |(first, last), pair| (first.min(pair.at_ns), last.max(pair.at_ns)));
    let origin_ns = first + (last - first) / 2;
    let half_span = (last - origin_ns) as f64;
    let base_ns = pairs[pairs.len() / 2].low_ns;
    let slack = slack_ns as f64;
    let coarse = |pair: &Pair| {
        let reach = MOST_DRIFT * half_span + slack;
        ((pair.low_ns - base_ns) as f64 - reach, (pair.high_ns - base_ns) as f64 + reach)
    };
    let peak = tallest(pairs.iter().map(coarse).collect(), guess_ns.map(|guess| (guess - base_ns) as f64))?;
    let near: Vec<&Pair> = pairs
        .iter()
        .filter(|pair| {
            let (low, high) = coarse(pair);
            low <= peak.high && peak.low <= high
        })
        .collect();
    // Those that nothing competes with first; of the rest every n-th.
    let (sure, unsure): (Vec<&Pair>, Vec<&Pair>) = near.into_iter().partition(|pair| pair.unique);
    let step = (sure.len() + unsure.len()).div_ceil(VOTERS).max(1);
    let voters: Vec<&Pair> = sure.into_iter().chain(unsure).step_by(step).collect();
    let line = refine(&voters, origin_ns, base_ns, half_span, slack)?;
    let agreeing: Vec<Pair> =
        pairs.iter().filter(|pair| line.agrees(pair, slack_ns + 500)).copied().collect();
    (agreeing.len() >= FEWEST_PAIRS).then(|| polish(line, undisputed(agreeing), slack_ns))
}

/// Those of which neither request is in another pair. A true pair agrees with the line; so if a false one does as
/// well, a request of it is in two, and both are left out. Only where hardly any are left all must do.
fn undisputed(agreeing: Vec<Pair>) -> Vec<Pair> {
    let mut counts: [HashMap<u32, u32>; 2] = Default::default();
    for pair in &agreeing {
        *counts[0].entry(pair.members.0).or_default() += 1;
        *counts[1].entry(pair.members.1).or_default() += 1;
    }
    let alone = |pair: &&Pair| counts[0][&pair.members.0] == 1 && counts[1][&pair.members.1] == 1;
    let undisputed: Vec<Pair> = agreeing.iter().filter(alone).copied().collect();
    if undisputed.len() < FEWEST_PAIRS { agreeing } else { undisputed }
}

/// Tries slopes, ever finer ones around the best.
fn refine(voters: &[&Pair], origin_ns: i64, base_ns: i64, half_span: f64, slack: f64) -> Option<Line> {
    let (mut middle, mut step) = (0.0, MOST_DRIFT / (SLOPES / 2) as f64);
    let mut best = None;
    for _ in 0..ROUNDS {
        // A slope between two that are tried is at most half a step from one of them.
        let reach = step / 2.0 * half_span + slack;
        let tried = (0..SLOPES).filter_map(|index| {
            let slope = middle + (index as f64 - (SLOPES / 2) as f64) * step;
            let interval = |pair: &&Pair| {
                let drift = slope * (pair.at_ns - origin_ns) as f64;
                let at = |bound: i64| (bound - base_ns) as f64 - drift;
                (at(pair.low_ns) - reach, at(pair.high_ns) + reach)
            };
            Some((tallest(voters.iter().map(interval).collect(), None)?, slope))
        });
        let (peak, slope) = tried.max_by(|(a, x), (b, y)| {
            let near = |slope: &f64| -(slope - middle).abs();
            a.votes.cmp(&b.votes).then(near(x).total_cmp(&near(y)))
        })?;
        let offset_ns = base_ns + (peak.low + (peak.high - peak.low) / 2.0).round() as i64;
        best = Some(Line { origin_ns, offset_ns, slope });
        if reach < slack + 100.0 {
            break;
        }
        middle = slope;
        step *= 2.0 / (SLOPES / 2) as f64;
    }
    best
}

/// Bounds the line exactly by the pairs, without those that contradict the others.
fn polish(line: Line, mut pairs: Vec<Pair>, slack_ns: i64) -> Fit {
    let mut line = line;
    for _ in 0..REMOVALS {
        let envelope = Envelope::new(&pairs, line.origin_ns, line.offset_ns, slack_ns);
        let (widest, room) = envelope.widest();
        line = widest;
        let before = pairs.len();
        if room >= 0.0 || before <= FEWEST_PAIRS {
            break;
        }
        // The line in the middle violates exactly the bounds that stand against each other.
        let violation = |pair: &Pair| {
            let offset = line.offset_at(pair.at_ns);
            (pair.low_ns - slack_ns - offset).max(offset - pair.high_ns - slack_ns)
        };
        let limit = (-room / 2.0) as i64;
        pairs.retain(|pair| violation(pair) <= limit.max(0));
        if pairs.len() == before {
            break;
        }
    }
    Fit { line, agreeing: pairs }
}

/// Where most intervals overlap.
fn tallest(intervals: Vec<(f64, f64)>, guess: Option<f64>) -> Option<Peak> {
    let mut edges: Vec<(f64, bool)> = Vec::with_capacity(2 * intervals.len());
    for (low, high) in intervals {
        edges.push((low, false));
        edges.push((high, true));
    }
    // Beginnings before ends: intervals that touch overlap.
    edges.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
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
