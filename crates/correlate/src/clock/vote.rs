//! The line that most pairs agree on, bounded by those that are true.

use std::collections::HashMap;

use super::ballot::{Ballot, Winner};
use super::line::{Envelope, Line};
use super::{FEWEST_PAIRS, Pair};

/// Rounds in which bounds that no line can keep with the others are taken out.
const REMOVALS: usize = 24;
/// Rounds in which the bounds leave fewer pairs that can be true.
const NARROWINGS: usize = 8;

/// A line and the pairs it was fitted to.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub line: Line,
    pub agreeing: Vec<Pair>,
    /// Where no pairs stand alone: how far from the line most requests agree.
    agreed_within_ns: Option<i64>,
}

impl Fit {
    /// How far the line can be from the true one at a moment of the lower clock, in nanoseconds.
    pub fn bound_at(&self, at_ns: i64, slack_ns: i64) -> i64 {
        if let Some(within_ns) = self.agreed_within_ns {
            return within_ns;
        }
        let envelope = Envelope::new(&self.agreeing, self.line.origin_ns, self.line.offset_ns, slack_ns);
        let (low, high) = envelope.offsets_at(at_ns, self.line.slope);
        let offset = self.line.offset_at(at_ns);
        (offset - low).max(high - offset)
    }

    /// The line of these pairs only.
    pub fn only(&self, pairs: Vec<Pair>, slack_ns: i64) -> Self {
        if pairs.is_empty() || self.agreed_within_ns.is_some() {
            return Self { agreeing: pairs, ..self.clone() };
        }
        polish(self.line, pairs, slack_ns)
    }
}

/// Finds the line that the requests of most pairs agree on; where several places have nearly as many, the one near
/// `guess_ns`.
pub(super) fn fit(pairs: &[Pair], guess_ns: Option<i64>, slack_ns: i64) -> Option<Fit> {
    if pairs.iter().filter(|pair| pair.is_of_two()).count() < FEWEST_PAIRS {
        return None;
    }
    let ballot = Ballot::new(pairs, slack_ns);
    let ends = ballot.ends();
    let Winner { line, half_ns } = ballot.winner(guess_ns)?;
    let meets = |line: &Line, half_ns: i64| {
        let (line, within_ns) = (*line, slack_ns.saturating_add(half_ns));
        move |pair: &Pair| line.agrees(pair, within_ns)
    };
    let mut near = pairs.to_vec();
    near.retain(meets(&line, half_ns));
    let mut bounded: Option<Fit> = None;
    for _ in 0..NARROWINGS {
        let alone = undisputed(&near);
        if alone.len() < FEWEST_PAIRS {
            break;
        }
        let fit = polish(line, alone, slack_ns);
        let bounds = ends.map(|at_ns| fit.bound_at(at_ns, slack_ns));
        let before = near.len();
        near.retain(meets(&fit.line, bounds[0].max(bounds[1])));
        bounded = Some(fit);
        if near.len() == before {
            break;
        }
    }
    let agreeing: Vec<Pair> = near.into_iter().filter(Pair::is_of_two).collect();
    // Where hardly any stand alone, no more is known than where the requests agree.
    bounded.or((agreeing.len() >= FEWEST_PAIRS).then_some(Fit {
        line,
        agreeing,
        agreed_within_ns: Some(half_ns),
    }))
}

/// Those of which neither request is in another pair. The line lies where all these pairs can be true; so if a false one
/// is among them, a request of it is in the true one as well, and both are left out.
fn undisputed(near: &[Pair]) -> Vec<Pair> {
    let mut counts: [HashMap<u32, u32>; 2] = Default::default();
    for pair in near {
        for (counts, member) in counts.iter_mut().zip([pair.upper, pair.lower]) {
            *member.map_or(&mut 0, |member| counts.entry(member).or_default()) += 1;
        }
    }
    let alone = |pair: &&Pair| {
        let once = |counts: &HashMap<u32, u32>, member: Option<u32>| {
            member.is_some_and(|member| counts[&member] == 1)
        };
        once(&counts[0], pair.upper) && once(&counts[1], pair.lower)
    };
    near.iter().filter(alone).copied().collect()
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
    Fit { line, agreeing: pairs, agreed_within_ns: None }
}
