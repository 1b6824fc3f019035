//! Where a cache takes an application's writes, nothing that is written below says when it was asked for. What an application waits for
//! is its syncs: each flush below that one causes lies within it.

use crate::survey::FlushTimes;

use super::pairs::Pair;
use super::{UNBOUNDED_TOLERANCE_NS, signed};

/// Each flush below with each sync above that it can lie within if the clocks differ by as much as `guess_ns`, or by what clocks that are
/// set by the time of day differ more.
pub(crate) fn flush_pairs(above: &[FlushTimes], below: &[FlushTimes], guess_ns: i64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (lower, flush) in below.iter().enumerate() {
        for sync in above {
            let pair = Pair {
                at_ns: signed(flush.completed_ns),
                low_ns: signed(sync.issued_ns) - signed(flush.queued_ns),
                high_ns: signed(sync.completed_ns) - signed(flush.completed_ns),
                unique: false,
                // A sync can cause several flushes, so being in another pair says nothing against it.
                upper: u32::try_from(pairs.len()).ok(),
                lower: Some(lower as u32),
            };
            let is_near = pair.low_ns - UNBOUNDED_TOLERANCE_NS <= guess_ns
                && guess_ns <= pair.high_ns + UNBOUNDED_TOLERANCE_NS;
            if is_near && pair.low_ns <= pair.high_ns {
                pairs.push(pair);
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Clock;

    /// Syncs one after the other, each of which waits for two flushes that take nearly all of its time, as those of a journal do; the
    /// application's clock is ahead.
    fn syncs_and_flushes(lengths_us: &[(u64, u64)], ahead_us: i64) -> (Vec<FlushTimes>, Vec<FlushTimes>) {
        let (mut now_us, mut syncs, mut flushes) = (1_000_000, Vec::new(), Vec::new());
        let times = |from_us: u64, to_us: u64, ahead_us: i64| {
            let at = |us: u64| us.saturating_add_signed(ahead_us) * 1_000;
            FlushTimes { queued_ns: at(from_us), issued_ns: at(from_us), completed_ns: at(to_us) }
        };
        for (first_us, second_us) in lengths_us {
            let begin_us = now_us;
            for (before_us, length_us) in [(600, first_us), (150, second_us)] {
                now_us += before_us;
                flushes.push(times(now_us, now_us + length_us, 0));
                now_us += length_us;
            }
            now_us += 60;
            syncs.push(times(begin_us, now_us, ahead_us));
            now_us += 30;
        }
        (syncs, flushes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn flushes_that_fill_syncs_bound_their_clock(
            lengths_us in prop::collection::vec((2_000_u64..30_000, 2_000_u64..30_000), 150..300),
            ahead_us in -1_500_i64..1_500,
        ) {
            let (syncs, flushes) = syncs_and_flushes(&lengths_us, ahead_us);
            let pairs = flush_pairs(&syncs, &flushes, 0);
            let span_ns = (signed(flushes[0].queued_ns), signed(flushes.last().unwrap().completed_ns));
            let clock = Clock::estimate(&pairs, Some(0), 0, span_ns, 0, &mut Vec::new());
            prop_assert!(clock.bound_ns <= 400_000, "{} ns", clock.bound_ns);
            prop_assert!(clock.offset_ns.abs_diff(ahead_us * 1_000) <= clock.bound_ns, "{clock:?}");
        }
    }
}
