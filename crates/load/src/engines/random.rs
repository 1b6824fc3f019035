//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA '14, §3).

use crate::notation::Workload;
use crate::value::Value;

/// The generator's increment: 2^64 divided by the golden ratio, odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over 64 bits.
    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mixed(self.0)
    }

    /// Uniform from 0 to `bound` - 1, by the high half of a product: no number is likelier than another by more than
    /// `bound` / 2^64 of its share.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// The finalizer, which makes neighbouring numbers unlike.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The seed of a run in 31 bits, for programs: the workload's own as it is written; otherwise the replication's, mixed.
///
/// Replications have neighbouring seeds, and fio for one seeds its streams with seed, seed + 1, seed + 2, …, so that they
/// would share most of them. 31 bits, because fio multiplies the seed by the job's number.
pub(super) fn seed_of(workload: &Workload, seed: u64) -> u64 {
    if let Some(Value::Count(own)) = workload.given("seed") {
        return own;
    }
    (mixed(seed.wrapping_add(GAMMA)) >> 33).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first numbers of SplitMix64 from 1234567, as in the generator's public test vectors.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn seeds_of_runs_are_far_apart_and_an_own_seed_is_kept() {
        let workload = Workload::parse("fio:rand-read").unwrap();
        let (a, b) = (seed_of(&workload, 1), seed_of(&workload, 2));
        assert!(a.abs_diff(b) > 1000 && a < 1 << 31);
        assert_eq!(seed_of(&Workload::parse("fio:rand-read:seed=9").unwrap(), 1), 9);
    }
}
