//! How far apart requests are.

/// Offsets that are remembered at most.
const MOST: usize = 8192;
/// Share of the requests that is left out at either end: the superblock and the last inode table belong to most file systems,
/// and are far from everything else.
const OUTSIDE: f64 = 0.02;

/// Every n-th offset, n doubled whenever there are too many.
#[derive(Default)]
pub(crate) struct Span {
    sample: Vec<u64>,
    halvings: u32,
    seen: u64,
}

impl Span {
    pub(crate) fn add(&mut self, offset: u64, bytes: u64) {
        let every = 1_u64 << self.halvings;
        if self.seen.is_multiple_of(every) {
            self.sample.push(offset.saturating_add(bytes / 2));
        }
        self.seen += 1;
        if self.sample.len() == MOST {
            self.halvings += 1;
            let mut odd = false;
            self.sample.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }

    /// Bytes from the offset that few are below to the one that few are above.
    pub(crate) fn bytes(mut self) -> u64 {
        self.sample.sort_unstable();
        let Some(last) = self.sample.len().checked_sub(1) else { return 0 };
        let at = |share: f64| self.sample[(last as f64 * share).round() as usize];
        at(1.0 - OUTSIDE) - at(OUTSIDE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_far_outside_does_not_count() {
        let mut span = Span::default();
        for i in 0..100_000_u64 {
            span.add((i * 7919 % 1000) << 20, 4096);
        }
        (0..10).for_each(|_| span.add(1 << 50, 4096));
        let found = span.bytes() as f64 / f64::from(1 << 20);
        assert!((found - 960.0).abs() < 10.0, "{found}");
    }

    #[test]
    fn nothing_spans_nothing() {
        assert_eq!(Span::default().bytes(), 0);
        let mut one = Span::default();
        one.add(17, 4096);
        assert_eq!(one.bytes(), 0);
    }
}
