//! How many requests are in flight, and which overtake which: the same counts for a trace and for its replay.

use serde::{Deserialize, Serialize};

/// A request from beginning to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Handed over.
    pub from_ns: u64,
    /// Complete.
    pub to_ns: u64,
}

/// Requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Depth {
    /// Over the time from the first request to the last completion (Little's law: sum of latencies over that time).
    pub mean: f64,
    /// At the busiest moment.
    pub max: u64,
}

/// Requests in flight, or `None` without any request.
pub fn depth(spans: impl Iterator<Item = Span>) -> Option<Depth> {
    let (mut starts, mut ends): (Vec<u64>, Vec<u64>) =
        spans.map(|span| (span.from_ns, span.to_ns.max(span.from_ns))).unzip();
    if starts.is_empty() {
        return None;
    }
    let sum: u128 = ends.iter().zip(&starts).map(|(end, start)| u128::from(end - start)).sum();
    starts.sort_unstable();
    ends.sort_unstable();
    let (mut ended, mut max) = (0, 0);
    for (begun, start) in starts.iter().enumerate() {
        // One that ends at the moment in which another begins makes room for it.
        while ended < ends.len() && ends[ended] <= *start {
            ended += 1;
        }
        // A request that took no time has ended before it began; it was there all the same.
        max = max.max((begun + 1).saturating_sub(ended).max(1));
    }
    let whole_ns = ends[ends.len() - 1] - starts[0];
    let mean = if whole_ns == 0 { starts.len() as f64 } else { sum as f64 / whole_ns as f64 };
    Some(Depth { mean, max: max as u64 })
}

/// Requests that were complete later than one that should have been complete after them. `completed` is in the order in
/// which they should have been: (place in that order, when it was complete); those of equal place may come in any order.
pub fn overtaken(completed: &[(u64, u64)]) -> u64 {
    let (mut count, mut earliest_later) = (0, u64::MAX);
    for same_place in completed.chunk_by(|a, b| a.0 == b.0).rev() {
        count += same_place.iter().filter(|(_, ns)| *ns > earliest_later).count() as u64;
        earliest_later = same_place.iter().map(|(_, ns)| *ns).fold(earliest_later, u64::min);
    }
    count
}

/// What became of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordering {
    /// Requests that were submitted later than one that follows them in the trace.
    pub submitted_out_of_order: u64,
    /// Requests whose completion is known of both the trace and the replay.
    pub compared: u64,
    /// Of them, those that a later one overtook in the trace.
    pub overtaken_in_trace: u64,
    /// Of them, those that a later one overtook in the replay.
    pub overtaken_in_replay: u64,
    /// Of them, those that were complete later than one that was complete after them in the trace.
    pub completed_out_of_trace_order: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans(of: &[(u64, u64)]) -> Vec<Span> {
        of.iter().map(|(from_ns, to_ns)| Span { from_ns: *from_ns, to_ns: *to_ns }).collect()
    }

    #[test]
    fn depth_of_known_requests() {
        assert_eq!(depth([].into_iter()), None);
        // One after the other without a pause, then two at once for half of the time.
        let one = depth(spans(&[(0, 10), (10, 20), (20, 40), (30, 40)]).into_iter()).unwrap();
        assert_eq!((one.max, one.mean), (2, 50.0 / 40.0));
        let instant = depth(spans(&[(5, 5), (5, 5)]).into_iter()).unwrap();
        assert_eq!((instant.max, instant.mean), (1, 2.0));
    }

    #[test]
    fn the_overtaken_are_counted() {
        assert_eq!(overtaken(&[(0, 10), (1, 20), (2, 30)]), 0);
        assert_eq!(overtaken(&[(0, 40), (1, 20), (2, 30)]), 1);
        assert_eq!(overtaken(&[(0, 30), (1, 20), (2, 10)]), 2);
        assert_eq!(overtaken(&[(0, 30), (0, 20), (0, 10)]), 0, "of one place any order is right");
        assert_eq!(overtaken(&[(0, 10), (1, 10)]), 0, "at the same moment nobody was overtaken");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn depth_is_what_counting_at_every_moment_gives(
            of in prop::collection::vec((0..60_u64, 1..20_u64), 1..40)
        ) {
            let of: Vec<_> = of.into_iter().map(|(from, length)| (from, from + length)).collect();
            let there = |at: u64| of.iter().filter(|(from, to)| *from <= at && at < *to).count() as u64;
            let (first, last) =
                (of.iter().map(|s| s.0).min().unwrap(), of.iter().map(|s| s.1).max().unwrap());
            let found = depth(spans(&of).into_iter()).unwrap();
            prop_assert_eq!(found.max, (first..last).map(there).max().unwrap());
            let sum: u64 = (first..last).map(there).sum();
            prop_assert!((found.mean - sum as f64 / (last - first) as f64).abs() < 1e-9);
        }

        #[test]
        fn overtaken_is_what_comparing_all_pairs_gives(
            of in prop::collection::vec((0..20_u64, 0..30_u64), 0..40)
        ) {
            let mut of = of;
            of.sort();
            let slow = of.iter().filter(|a| of.iter().any(|b| b.0 > a.0 && b.1 < a.1)).count() as u64;
            prop_assert_eq!(overtaken(&of), slow);
        }
    }
}
