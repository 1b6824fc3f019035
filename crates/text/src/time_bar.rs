//! Spans of time as bars of characters under each other.

/// The axis on which bars are drawn: so many characters for so long a time.
#[derive(Clone, Copy, Debug)]
pub struct TimeBars {
    /// Characters between the ends.
    pub columns: usize,
    /// Where the axis begins, in nanoseconds.
    pub from_ns: u64,
    /// How long it is, in nanoseconds.
    pub total_ns: u64,
}

impl TimeBars {
    /// `|   ..###   |`: a span that waits from `begin_ns` and is worked on from `work_ns` until `end_ns`. It has one character at least.
    pub fn bar(&self, begin_ns: u64, work_ns: u64, end_ns: u64) -> String {
        let columns = self.columns.max(1);
        let column = |time_ns: u64| {
            let part = u128::from(time_ns.saturating_sub(self.from_ns)) * columns as u128
                / u128::from(self.total_ns.max(1));
            usize::try_from(part).unwrap_or(columns).min(columns)
        };
        let start = column(begin_ns).min(columns - 1);
        let end = column(end_ns).max(start + 1);
        let work = column(work_ns).clamp(start, end - 1);
        let paint = |at: usize| match at {
            at if at < start || at >= end => ' ',
            at if at < work => '.',
            _ => '#',
        };
        format!("|{}|", (0..columns).map(paint).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: TimeBars = TimeBars { columns: 10, from_ns: 100, total_ns: 1000 };

    #[test]
    fn a_bar_waits_and_works_within_the_axis() {
        assert_eq!(AXIS.bar(300, 500, 900), "|  ..####  |");
        assert_eq!(AXIS.bar(100, 100, 1100), "|##########|");
        assert_eq!(AXIS.bar(0, 0, u64::MAX), "|##########|");
    }

    #[test]
    fn a_short_span_is_seen_and_an_axis_without_length_is_one() {
        assert_eq!(AXIS.bar(400, 400, 401), "|   #      |");
        assert_eq!(AXIS.bar(1100, 1100, 1100), "|         #|");
        assert_eq!(TimeBars { columns: 0, from_ns: 0, total_ns: 0 }.bar(0, 0, 0), "|#|");
    }
}
