//! Times during which at least one request was with the driver.

use std::collections::VecDeque;

use crate::metrics::LivePeriods;

/// Periods that a request that has not completed yet may still join; older ones are final.
const MOST_OPEN: usize = 4096;

/// Joins overlapping times from issue to completion. They come in the order of completion, so only the last periods
/// can still grow.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// (from, to), disjoint and ascending.
    open: VecDeque<(u64, u64)>,
    count: u64,
    live_ns: u64,
    last_ns: u64,
}

impl Live {
    #[inline]
    pub fn push(&mut self, issued_ns: u64, completed_ns: u64) {
        let (mut from, mut to) = (issued_ns.min(completed_ns), completed_ns);
        self.last_ns = self.last_ns.max(to);
        if let Some(last) = self.open.back_mut()
            && last.0 <= from
            && from <= last.1
        {
            last.1 = last.1.max(to);
            return;
        }
        while let Some(&(start, end)) = self.open.back() {
            if end < from {
                break;
            }
            if start > to {
                // A completion that is older than the one before: let the gap be part of the period.
                to = start;
            }
            (from, to) = (from.min(start), to.max(end));
            self.open.pop_back();
        }
        self.open.push_back((from, to));
        if self.open.len() > MOST_OPEN
            && let Some((from, to)) = self.open.pop_front()
        {
            self.count += 1;
            self.live_ns += to - from;
        }
    }

    /// `first_ns` is the first event of the trace.
    pub fn finish(&self, first_ns: u64) -> LivePeriods {
        let open: u64 = self.open.iter().map(|(from, to)| to - from).sum();
        let count = self.count + self.open.len() as u64;
        let until_ns = if count == 0 { 0 } else { self.last_ns.saturating_sub(first_ns) };
        LivePeriods { count, live_ns: self.live_ns.saturating_add(open), until_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_times_are_one_period() {
        let mut live = Live::default();
        for (from, to) in [(10, 20), (30, 40), (35, 45), (60, 70), (65, 71), (44, 80), (81, 90)] {
            live.push(from, to);
        }
        // 10–20, 30–80 (35–45 joins 30–40, 44–80 joins all after), 81–90.
        assert_eq!(live.finish(5), LivePeriods { count: 3, live_ns: 10 + 50 + 9, until_ns: 85 });
    }
}
