//! How large requests are.

use std::collections::BTreeMap;

use nestor_workload::profile::SizeShare;

/// More different sizes are counted with the next smaller one that is known.
const MOST_SIZES: usize = 4096;

/// Requests by size.
#[derive(Default)]
pub(crate) struct Sizes {
    requests: BTreeMap<u64, u64>,
    all: u64,
}

impl Sizes {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.all += 1;
        if self.requests.len() < MOST_SIZES || self.requests.contains_key(&bytes) {
            *self.requests.entry(bytes).or_default() += 1;
            return;
        }
        let nearest = self.requests.range_mut(..bytes).next_back();
        if let Some((_, count)) = nearest {
            *count += 1;
        } else if let Some(count) = self.requests.values_mut().next() {
            *count += 1;
        }
    }

    /// The shares, the most frequent first.
    pub(crate) fn shares(&self) -> Vec<SizeShare> {
        let share = |count: &u64| *count as f64 / self.all as f64;
        let mut shares: Vec<SizeShare> = self
            .requests
            .iter()
            .map(|(bytes, count)| SizeShare { bytes: *bytes, share: share(count) })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.bytes.cmp(&b.bytes)));
        shares
    }
}
