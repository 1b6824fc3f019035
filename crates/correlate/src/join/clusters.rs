//! Where the clusters of a virtual disk lie in an image whose format places them as they are written, learnt from the
//! requests themselves.

use std::collections::HashMap;

/// Clusters that are remembered: 64 GiB of 64 KiB, about 50 MiB of memory.
const MOST_CLUSTERS: usize = 1 << 20;

/// Clusters that are looked at for one request: 64 MiB of 64 KiB, more than any machine asks for at once.
const MOST_OF_ONE: u64 = 1024;

/// Clusters below and the ones above that they hold.
#[derive(Debug)]
pub(crate) struct Clusters {
    bytes: u64,
    above: HashMap<u64, u64>,
    below: HashMap<u64, u64>,
}

impl Clusters {
    /// None is known yet.
    pub fn new(bytes: u64) -> Self {
        Self { bytes: bytes.max(1), above: HashMap::new(), below: HashMap::new() }
    }

    /// Cuts a range below at the clusters' edges, as parts of the range above where those are known. `None` if one of
    /// them is not.
    pub fn above(&self, from: u64, to: u64) -> Option<Vec<(u64, u64)>> {
        if (to - from) / self.bytes >= MOST_OF_ONE {
            return None;
        }
        let mut parts = Vec::new();
        let mut at = from;
        while at < to {
            let cluster = at / self.bytes;
            let end = (cluster + 1).saturating_mul(self.bytes).min(to);
            let upper = self.above.get(&cluster)?.checked_mul(self.bytes)?.checked_add(at % self.bytes)?;
            parts.push((upper, upper + (end - at)));
            at = end;
        }
        Some(parts)
    }

    /// Where in `start..end` above a range below could lie, by its place within its cluster: the first such place
    /// whose cluster is not known to lie elsewhere.
    pub fn candidate(&self, from: u64, to: u64, start: u64, end: u64) -> Option<u64> {
        let within = from % self.bytes;
        let first = start / self.bytes;
        for cluster in first..=first.saturating_add(MOST_OF_ONE) {
            let upper = cluster.checked_mul(self.bytes)?.checked_add(within)?;
            if upper.checked_add(to - from)? > end {
                return None;
            }
            if upper >= start && self.below.get(&cluster).is_none_or(|known| *known == from / self.bytes) {
                return Some(upper);
            }
        }
        None
    }

    /// A range below holds one above.
    pub fn learn(&mut self, from: u64, to: u64, upper: u64) {
        let first = from / self.bytes;
        let last = to.saturating_sub(1).max(from) / self.bytes;
        if last - first >= MOST_OF_ONE {
            return;
        }
        for step in 0..=(last - first) {
            if self.above.len() >= MOST_CLUSTERS {
                return;
            }
            self.above.insert(first + step, upper / self.bytes + step);
            self.below.insert(upper / self.bytes + step, first + step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_once_is_known() {
        let mut clusters = Clusters::new(65536);
        assert_eq!(clusters.above(65536, 69632), None);
        assert_eq!(clusters.candidate(65536 + 4096, 65536 + 8192, 0, 1 << 20), Some(4096));
        assert_eq!(clusters.candidate(65536 + 4096, 65536 + 8192, 8192, 65536), None);
        clusters.learn(65536, 3 * 65536, 10 * 65536);
        assert_eq!(
            clusters.above(65536 + 512, 2 * 65536 + 512),
            Some(vec![(10 * 65536 + 512, 11 * 65536), (11 * 65536, 11 * 65536 + 512)])
        );
        // A cluster that is known to lie elsewhere is no candidate for another one.
        assert_eq!(clusters.candidate(9 * 65536, 9 * 65536 + 512, 10 * 65536, 12 * 65536), None);
    }
}
