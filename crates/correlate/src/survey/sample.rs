//! Requests at places that a hash chooses.

use std::collections::BTreeMap;

use nestor_statistics::random::mixed;
use nestor_trace::event::Flags;
use nestor_trace::{Operation, Request};

/// Places that are kept. Of the two sides of a join those with the smallest hashes are, which are the same on both.
const PLACES: usize = 8192;
/// Requests of one place that are kept from the beginning of the trace, and as many from its end.
const KEPT_EACH: usize = 4;

/// A request at a sampled place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    /// When it was queued.
    pub queued_ns: u64,
    /// When it was sent on.
    pub issued_ns: u64,
    /// When it was finished.
    pub completed_ns: u64,
    /// Its length.
    pub bytes: u64,
    /// It was put together of several.
    pub merged: bool,
    /// It was read before it was requested.
    pub ahead: bool,
    /// It writes.
    pub writes: bool,
}

/// All that is kept of one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    first: Vec<Occurrence>,
    /// A ring of the latest ones after those.
    last: Vec<Occurrence>,
    unkept: Option<Unkept>,
    count: u64,
}

/// When the requests of a place were that were seen but not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unkept {
    pub first_issued_ns: u64,
    pub first_completed_ns: u64,
    pub last_begun_ns: u64,
    pub last_completed_ns: u64,
}

impl Unkept {
    fn with(before: Option<Self>, request: &Occurrence) -> Self {
        // Whichever it is of a request that was put together, queued or issued, it was not later.
        let begun_ns = request.queued_ns.max(request.issued_ns);
        let own = Self {
            first_issued_ns: request.issued_ns,
            first_completed_ns: request.completed_ns,
            last_begun_ns: begun_ns,
            last_completed_ns: request.completed_ns,
        };
        before.map_or(own, |before| Self {
            first_issued_ns: before.first_issued_ns.min(own.first_issued_ns),
            first_completed_ns: before.first_completed_ns.min(own.first_completed_ns),
            last_begun_ns: before.last_begun_ns.max(own.last_begun_ns),
            last_completed_ns: before.last_completed_ns.max(own.last_completed_ns),
        })
    }
}

impl Place {
    fn push(&mut self, occurrence: Occurrence) {
        if self.first.len() < KEPT_EACH {
            self.first.push(occurrence);
        } else if self.last.len() < KEPT_EACH {
            self.last.push(occurrence);
        } else {
            let oldest = &mut self.last[(self.count % KEPT_EACH as u64) as usize];
            let given_up = std::mem::replace(oldest, occurrence);
            self.unkept = Some(Unkept::with(self.unkept, &given_up));
        }
        self.count += 1;
    }

    /// Requests that were seen there.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The others, if not all were kept.
    pub(crate) fn unkept(&self) -> Option<&Unkept> {
        self.unkept.as_ref()
    }

    /// Those that were kept.
    pub(crate) fn occurrences(&self) -> impl Iterator<Item = &Occurrence> {
        self.first.iter().chain(&self.last)
    }
}

/// Requests at the places with the smallest hashes.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    places: BTreeMap<u64, Place>,
    /// Larger hashes are not sampled any more.
    limit: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { places: BTreeMap::new(), limit: u64::MAX }
    }
}

impl Sample {
    /// Looks whether a request is at a place that is sampled; `lower` is its place in the space of the lower level.
    pub(crate) fn push(&mut self, request: &Request, lower: u64) {
        if !matches!(request.operation, Operation::Read | Operation::Write) {
            return;
        }
        let hash = mixed(lower ^ (request.operation as u64) << 62);
        if hash > self.limit {
            return;
        }
        self.places.entry(hash).or_default().push(Occurrence {
            queued_ns: request.queued_ns,
            issued_ns: request.issued_ns,
            completed_ns: request.completed_ns,
            bytes: request.bytes,
            merged: request.bios > 1,
            ahead: request.flags.contains(Flags::AHEAD),
            writes: request.operation == Operation::Write,
        });
        if self.places.len() >= 2 * PLACES {
            let limit = *self.places.keys().nth(PLACES).expect("there are twice as many");
            self.limit = limit;
            self.places.split_off(&limit.saturating_add(1));
        }
    }

    /// Places that both samples have, the ones with fewest requests first.
    pub(crate) fn common<'a>(&'a self, other: &'a Self) -> Vec<(&'a Place, &'a Place)> {
        let both = self.places.iter().filter_map(|(hash, place)| Some((place, other.places.get(hash)?)));
        let mut both: Vec<_> = both.collect();
        both.sort_by_key(|(a, b)| a.count.saturating_mul(b.count));
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played;

    fn request(offset: u64, at_ns: u64) -> Request {
        played::request(Operation::Read, offset, 4096, [at_ns, at_ns, at_ns + 1])
    }

    #[test]
    fn two_sides_sample_the_same_places_in_bounded_memory() {
        let (mut a, mut b) = (Sample::default(), Sample::default());
        for index in 0..100_000_u64 {
            a.push(&request(index * 4096, index), index * 4096);
            // The other side sees them in another order, and others besides.
            let other = (index * 7919) % 100_000;
            b.push(&request(other * 4096, index), other * 4096);
            b.push(&request(other * 4096 + 512, index), other * 4096 + 512);
        }
        assert!(a.places.len() < 2 * PLACES && b.places.len() < 2 * PLACES);
        let common = a.common(&b).len();
        assert!(common > PLACES / 4, "{common}");
    }

    #[test]
    fn of_a_place_the_first_and_the_last_are_kept() {
        let mut sample = Sample::default();
        for at_ns in 0..100 {
            sample.push(&request(0, at_ns), 0);
        }
        let (place, _) = sample.common(&sample)[0];
        let mut kept: Vec<u64> = place.occurrences().map(|o| o.queued_ns).collect();
        kept.sort_unstable();
        assert_eq!((place.count(), kept), (100, vec![0, 1, 2, 3, 96, 97, 98, 99]));
    }
}
