//! Requests of two levels that may belong together, and what that would say of the clocks.

use crate::survey::{Occurrence, Place, Sample, Unkept};

use super::line::MOST_DRIFT;
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
    /// The request above; `None` if it is any of those that were not kept.
    pub upper: Option<u32>,
    /// The request below, likewise.
    pub lower: Option<u32>,
}

/// A request and its number on its side.
type Numbered<'a> = (u32, &'a Occurrence);

impl Pair {
    fn new((upper, above): Numbered<'_>, (lower, below): Numbered<'_>, unique: bool) -> Self {
        Self {
            at_ns: signed(below.completed_ns),
            low_ns: signed(above.issued_ns) - signed(begun_ns(below)),
            high_ns: signed(above.completed_ns) - signed(below.completed_ns),
            unique,
            upper: Some(upper),
            lower: Some(lower),
        }
    }

    /// A request above with any of those below that were not kept.
    fn with_unkept_below((upper, above): Numbered<'_>, unkept: &Unkept) -> Self {
        let (first_ns, last_ns) = (signed(unkept.first_completed_ns), signed(unkept.last_begun_ns));
        let half_ns = (last_ns - first_ns) / 2;
        // It was at another moment than the middle: so far the clocks can go apart until then.
        let drift_ns = (half_ns.abs() as f64 * MOST_DRIFT).ceil() as i64;
        Self {
            at_ns: first_ns + half_ns,
            low_ns: signed(above.issued_ns) - last_ns - drift_ns,
            high_ns: signed(above.completed_ns) - first_ns + drift_ns,
            unique: false,
            upper: Some(upper),
            lower: None,
        }
    }

    /// A request below with any of those above that were not kept.
    fn with_unkept_above((lower, below): Numbered<'_>, unkept: &Unkept) -> Self {
        Self {
            at_ns: signed(below.completed_ns),
            low_ns: signed(unkept.first_issued_ns) - signed(begun_ns(below)),
            high_ns: signed(unkept.last_completed_ns) - signed(below.completed_ns),
            unique: false,
            upper: None,
            lower: Some(lower),
        }
    }

    /// Not if the lower one took longer.
    fn is_possible(&self, slack_ns: i64) -> bool {
        self.low_ns - slack_ns <= self.high_ns + slack_ns
    }

    /// Both requests are known.
    pub fn is_of_two(&self) -> bool {
        self.upper.is_some() && self.lower.is_some()
    }
}

/// Of a request that was put together, only the whole came after all that it was put together of.
fn begun_ns(lower: &Occurrence) -> u64 {
    if lower.merged { lower.issued_ns } else { lower.queued_ns }
}

/// Pairs of what two levels sampled at the same places, those at places with few requests first. Where a cache takes
/// writes, a write above does not wait for the one below, and they say nothing together.
pub(crate) fn pairs(upper: &Sample, lower: &Sample, writes_wait: bool, slack_ns: i64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let (mut uppers, mut lowers) = (0, 0);
    let waits = |(_, request): &Numbered<'_>| (writes_wait || !request.writes) && !request.ahead;
    for (above, below) in upper.common(lower) {
        let unique = above.count() == 1 && below.count() == 1;
        let above_all: Vec<Numbered<'_>> = (uppers..).zip(above.occurrences()).collect();
        let below_all: Vec<Numbered<'_>> = (lowers..).zip(below.occurrences()).filter(waits).collect();
        let both = above_all.iter().flat_map(|above| below_all.iter().map(move |below| (*above, *below)));
        let of_two = both.map(|(above, below)| Pair::new(above, below, unique));
        let unkept_below = below.unkept().into_iter();
        let with_unkept_below = unkept_below
            .flat_map(|unkept| above_all.iter().map(|above| Pair::with_unkept_below(*above, unkept)));
        let unkept_above = above.unkept().into_iter();
        let with_unkept_above = unkept_above
            .flat_map(|unkept| below_all.iter().map(|below| Pair::with_unkept_above(*below, unkept)));
        let all = of_two.chain(with_unkept_below).chain(with_unkept_above);
        pairs.extend(all.filter(|pair| pair.is_possible(slack_ns)));
        uppers += above.occurrences().count() as u32;
        lowers += below.occurrences().count() as u32;
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
