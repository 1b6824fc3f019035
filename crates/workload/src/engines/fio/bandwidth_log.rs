//! fio's bandwidth log: how much was moved in each second.
//!
//! A line is `time in ms, KiB/s, direction, block size, offset`, with the mean rate of the interval that ends at that time
//! (fio HOWTO, "Log File Formats"). Two things it does not say (both seen in 3.33, and in the function `__add_samples`):
//! an interval without any operation has no line, and what comes after the last full interval has none either. The logs of
//! several jobs follow one another.

use crate::result::MOST_SECONDS;

/// Reads, in the log's third column.
pub(super) const READ: u32 = 0;
/// Writes, in the log's third column.
pub(super) const WRITE: u32 = 1;

/// The interval that fio was asked for.
const INTERVAL_MS: u64 = 1000;

/// A gap between lines that is longer than this holds intervals without operations.
const LONGEST_INTERVAL_MS: u64 = INTERVAL_MS + INTERVAL_MS / 2;

/// The log may count this much more than the report before it is not believed: intervals are rounded to milliseconds and
/// shifted by the scheduling of the thread that takes the samples.
const BELIEVABLE_EXCESS: f64 = 1.05;

/// Bytes moved in each whole second of the run, oldest first.
///
/// What is left after the last whole second is not in it. Empty if the log is missing, or contradicts the report's total.
pub(super) fn bytes_by_second(log: &str, direction: u32, elapsed_ms: u64, total_bytes: u64) -> Vec<u64> {
    let seconds = usize::try_from(elapsed_ms / INTERVAL_MS).unwrap_or(usize::MAX);
    // A longer time is garbage, and would only use up memory.
    if seconds > MOST_SECONDS {
        return Vec::new();
    }
    if log.is_empty() || seconds == 0 {
        return Vec::new();
    }
    let mut bins = vec![0.0; seconds];
    let mut logged = 0.0;
    let mut logged_until_ms = 0;
    for sample in samples(log).filter(|sample| sample.direction == direction) {
        logged += sample.bytes;
        logged_until_ms = logged_until_ms.max(sample.to_ms);
        spread(&mut bins, sample.from_ms, sample.to_ms, sample.bytes);
    }
    let total = total_bytes as f64;
    if logged > total * BELIEVABLE_EXCESS {
        return Vec::new();
    }
    spread(&mut bins, logged_until_ms, elapsed_ms, (total - logged).max(0.0));
    bins.into_iter().map(|bytes| bytes.round() as u64).collect()
}

struct Sample {
    from_ms: u64,
    to_ms: u64,
    direction: u32,
    bytes: f64,
}

/// The lines of the log, each with the interval it is about; lines that are none are left out.
fn samples(log: &str) -> impl Iterator<Item = Sample> + '_ {
    let (mut from_ms, mut to_ms) = (0, 0);
    log.lines().filter_map(move |line| {
        let mut fields = line.split(',').map(str::trim);
        let time_ms: u64 = fields.next()?.parse().ok()?;
        let kib_per_s: u64 = fields.next()?.parse().ok()?;
        let direction = fields.next()?.parse().ok()?;
        if time_ms < to_ms {
            // The next job's log begins.
            from_ms = 0;
        } else if time_ms > to_ms {
            from_ms = to_ms;
        }
        to_ms = time_ms;
        if to_ms - from_ms > LONGEST_INTERVAL_MS {
            from_ms = to_ms - INTERVAL_MS;
        }
        let bytes = kib_per_s as f64 * 1024.0 * (to_ms - from_ms) as f64 / 1e3;
        Some(Sample { from_ms, to_ms, direction, bytes })
    })
}

/// Adds bytes that were moved evenly between two times to the seconds they fall into.
fn spread(bins: &mut [f64], from_ms: u64, to_ms: u64, bytes: f64) {
    let length_ms = to_ms.saturating_sub(from_ms);
    if length_ms == 0 {
        return;
    }
    let first = (from_ms / INTERVAL_MS) as usize;
    for (second, bin) in bins.iter_mut().enumerate().skip(first) {
        let begin_ms = second as u64 * INTERVAL_MS;
        if begin_ms >= to_ms {
            break;
        }
        let overlap_ms = to_ms.min(begin_ms + INTERVAL_MS) - from_ms.max(begin_ms);
        *bin += bytes * overlap_ms as f64 / length_ms as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unlogged_end_is_filled_up_from_the_total() {
        // 100 KiB/s for 3 s, then nothing logged of the fourth second and a tenth.
        let log = "1000, 100, 0, 0, 0\n2000, 100, 0, 0, 0\n3000, 100, 0, 0, 0\n";
        let bins = bytes_by_second(log, READ, 4100, 410 * 1024);
        assert_eq!(bins, [102_400; 4]);
        assert_eq!(bytes_by_second(log, WRITE, 4100, 0), [0; 4]);
    }

    #[test]
    fn idle_seconds_are_zero_and_late_samples_are_spread() {
        let log = "1000, 100, 1, 0, 0\n4000, 300, 1, 0, 0\n5200, 100, 1, 0, 0\n";
        let bins = bytes_by_second(log, WRITE, 6000, 520 * 1024);
        let kib: Vec<u64> = bins.iter().map(|b| b / 1024).collect();
        // The last sample covers 4.0 s to 5.2 s: 100 KiB in the fifth second, 20 KiB in the sixth.
        assert_eq!(kib, [100, 0, 0, 300, 100, 20]);
    }

    #[test]
    fn both_directions_and_several_jobs_share_a_log() {
        let log =
            "1000, 10, 0, 0, 0\n1000, 30, 1, 0, 0\n2000, 10, 0, 0, 0\n1000, 5, 0, 0, 0\n2001, 5, 0, 0, 0\n";
        let bins = bytes_by_second(log, READ, 2002, 30 * 1024);
        assert_eq!(bins.len(), 2);
        assert!(bins.iter().all(|b| b.abs_diff(15 * 1024) < 200), "{bins:?}");
        assert_eq!(bytes_by_second(log, WRITE, 2002, 30 * 1024)[0], 30 * 1024);
    }

    #[test]
    fn a_log_that_contradicts_the_total_is_not_believed() {
        assert!(bytes_by_second("1000, 100, 0, 0, 0\n", READ, 1000, 50 * 1024).is_empty());
        assert!(bytes_by_second("", READ, 1000, 50 * 1024).is_empty());
        assert!(bytes_by_second("1000, 100, 0, 0, 0\n", READ, 900, 50 * 1024).is_empty());
    }
}
