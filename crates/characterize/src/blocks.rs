//! How many different bytes are touched, without remembering all of them.

use std::collections::HashSet;

use nestor_statistics::random::mixed;

/// What is counted as one.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Blocks that are remembered at most. The estimate from so many is off by 1/√65536 = 0.4 % (one standard deviation).
const MOST: usize = 1 << 16;
/// Blocks of one request that are looked at.
const MOST_OF_ONE: u64 = 1 << 18;

/// A sample of the blocks that were touched: those whose hash is below a limit, which is halved whenever there are too many
/// (Wegman's adaptive sampling: Flajolet, Computing 43, 1990).
pub(crate) struct Blocks {
    sample: HashSet<u64>,
    halvings: u32,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { sample: HashSet::new(), halvings: 0 }
    }

    pub(crate) fn touch(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let first = offset / BLOCK_BYTES;
        let last = offset.saturating_add(bytes - 1) / BLOCK_BYTES;
        for block in first..=last.min(first + MOST_OF_ONE) {
            let hash = mixed(block);
            if hash.leading_zeros() >= self.halvings {
                self.sample.insert(hash);
            }
        }
        while self.sample.len() > MOST {
            self.halvings += 1;
            let halvings = self.halvings;
            self.sample.retain(|hash| hash.leading_zeros() >= halvings);
        }
    }

    /// Bytes of the blocks that were touched.
    pub(crate) fn bytes(&self) -> u64 {
        (self.sample.len() as u64).saturating_mul(BLOCK_BYTES) << self.halvings.min(20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_are_counted_and_many_estimated() {
        let mut blocks = Blocks::new();
        for _ in 0..3 {
            blocks.touch(0, 10 * BLOCK_BYTES);
            blocks.touch(5 * BLOCK_BYTES + 1, 1);
            blocks.touch(20 * BLOCK_BYTES - 1, 2);
        }
        assert_eq!(blocks.bytes(), 12 * BLOCK_BYTES);
        let mut blocks = Blocks::new();
        for block in 0..2_000_000_u64 {
            blocks.touch(block * 7 * BLOCK_BYTES, BLOCK_BYTES);
        }
        let off = blocks.bytes() as f64 / (2_000_000 * BLOCK_BYTES) as f64 - 1.0;
        assert!(off.abs() < 0.03, "{off}");
        blocks.touch(u64::MAX - 5, u64::MAX);
        blocks.touch(3, 0);
    }
}
