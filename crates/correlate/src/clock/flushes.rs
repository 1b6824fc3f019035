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
        for (upper, sync) in above.iter().enumerate() {
            let pair = Pair {
                at_ns: signed(flush.completed_ns),
                low_ns: signed(sync.issued_ns) - signed(flush.queued_ns),
                high_ns: signed(sync.completed_ns) - signed(flush.completed_ns),
                unique: false,
                upper: Some(upper as u32),
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
