//! Random order that a seed fixes for ever.

/// The step of SplitMix64's state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's first number from a seed: every bit of it depends on every bit of the seed, and different seeds have different ones.
#[inline]
pub fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(STEP);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A small generator (SplitMix64: Steele, Lea and Flood, OOPSLA 2014, figure 11).
///
/// It decides the order of cells and the draws of the bootstrap, not anything secret. It is written out here
/// because a study's seed must give the same order with every later version, which libraries do not promise.
#[derive(Clone, Debug)]
pub struct SeededOrder {
    state: u64,
}

impl SeededOrder {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts at a point that depends on the seed and on a block's number, so that a block keeps its order
    /// whatever came before it.
    pub fn for_block(seed: u64, block: u32) -> Self {
        Self::for_part(seed, u64::from(block))
    }

    /// The same for a part of any kind: a thread, a file set.
    pub fn for_part(seed: u64, part: u64) -> Self {
        let start = Self::new(seed).next();
        Self::new(start ^ Self::new(part.wrapping_add(1)).next())
    }

    /// The next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an endless generator is not an iterator that ends")]
    pub fn next(&mut self) -> u64 {
        let bits = mixed(self.state);
        self.state = self.state.wrapping_add(STEP);
        bits
    }

    /// A random index below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of a 128-bit product; its bias of bound / 2^64 is far below anything observable.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number from 0 (included) to 1 (excluded), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from the standard normal distribution (Box and Muller, Ann. Math. Statist. 29, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts the items into random order, each order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // First outputs for seed 1234567, as published with the reference implementation.
        let mut random = SeededOrder::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn an_order_never_changes() {
        let mut items: Vec<u32> = (0..8).collect();
        SeededOrder::for_block(1, 0).shuffle(&mut items);
        let mut again: Vec<u32> = (0..8).collect();
        SeededOrder::for_block(1, 0).shuffle(&mut again);
        assert_eq!(items, again);
        let mut other: Vec<u32> = (0..8).collect();
        SeededOrder::for_block(1, 1).shuffle(&mut other);
        assert_ne!(items, other);
    }

    #[test]
    fn every_order_is_about_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6_000 {
            let mut items = [0, 1, 2];
            SeededOrder::for_block(seed, 3).shuffle(&mut items);
            *counts.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (880..1_120).contains(n)), "{counts:?}");
    }
}
