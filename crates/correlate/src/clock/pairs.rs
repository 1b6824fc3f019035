//! Requests of two levels that may belong together, and what that would say of the clocks.

use crate::survey::{Occurrence, Place, Sample};

use super::signed;

/// Pairs that are formed: more do not make the estimate better.
const MOST_PAIRS: usize = 200_000;

/// What a pair of requests says of the offset (upper less lower clock), if they belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// When, on the lower clock.
    pub at_ns: i64,
    /// The offset is not less: the lower request begins after the upper one.
    pub low_ns: i64,
    /// The offset is not more: the lower request is finished before the upper one.
    pub high_ns: i64,
    /// There is no other request of the same operation at this place on either side.
    pub unique: bool,
    /// Which requests they are, above and below: one can be in several pairs, of which one is true at most.
    pub members: (u32, u32),
}

impl Pair {
    /// `None` if they cannot belong together: the lower one took longer.
    fn new(upper: &Occurrence, lower: &Occurrence, unique: bool, slack_ns: i64) -> Option<Self> {
        // Of a request that was put together, only the whole came after all that it was put together of.
        let begun_ns = if lower.merged { lower.issued_ns } else { lower.queued_ns };
        let pair = Self {
            at_ns: signed(lower.completed_ns),
            low_ns: signed(upper.issued_ns) - signed(begun_ns),
            high_ns: signed(upper.completed_ns) - signed(lower.completed_ns),
            unique,
            members: (0, 0),
        };
        (!lower.ahead && pair.low_ns - slack_ns <= pair.high_ns + slack_ns).then_some(pair)
    }
}

/// Pairs of what two levels sampled at the same places, those at places with few requests first. Where a cache takes
/// writes, a write above does not wait for the one below, and they say nothing together.
pub(crate) fn pairs(upper: &Sample, lower: &Sample, writes_wait: bool, slack_ns: i64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let (mut uppers, mut lowers) = (0, 0);
    for (above, below) in upper.common(lower) {
        let unique = above.count() == 1 && below.count() == 1;
        let first = lowers;
        for upper in above.occurrences() {
            lowers = first;
            for lower in below.occurrences() {
                let waits = writes_wait || !lower.writes;
                let pair = Pair::new(upper, lower, unique, slack_ns).filter(|_| waits);
                pairs.extend(pair.map(|pair| Pair { members: (uppers, lowers), ..pair }));
                lowers += 1;
            }
            uppers += 1;
        }
        if pairs.len() > MOST_PAIRS {
            break;
        }
    }
    pairs
}

/// What a cache that takes writes leaves to be known: the offset (upper less lower clock) is not less than any of
/// these, as what is written out was written before.
pub(crate) fn written_before(upper: &Sample, lower: &Sample) -> Vec<i64> {
    let single = |(above, below): &(&Place, &Place)| above.count() == 1 && below.count() == 1;
    let places = upper.common(lower).into_iter().filter(single).take(MOST_PAIRS);
    let both =
        places.filter_map(|(above, below)| Some((above.occurrences().next()?, below.occurrences().next()?)));
    both.filter(|(_, lower)| lower.writes)
        .map(|(upper, lower)| signed(upper.issued_ns) - signed(lower.queued_ns))
        .collect()
}
