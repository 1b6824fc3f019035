//! Seeds for programs.

use nestor_statistics::SeededOrder;

use crate::notation::Workload;
use crate::value::Value;

/// The seed of a run in 31 bits, for programs: the workload's own as it is written; otherwise the replication's, mixed.
///
/// Replications have neighbouring seeds, and fio for one seeds its streams with seed, seed + 1, seed + 2, …, so that they
/// would share most of them. 31 bits, because fio multiplies the seed by the job's number.
pub(super) fn seed_of(workload: &Workload, seed: u64) -> u64 {
    if let Some(Value::Count(own)) = workload.given("seed") {
        return own;
    }
    (SeededOrder::new(seed).next() >> 33).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_runs_are_far_apart_and_an_own_seed_is_kept() {
        let workload = Workload::parse("fio:rand-read").unwrap();
        let (a, b) = (seed_of(&workload, 1), seed_of(&workload, 2));
        assert!(a.abs_diff(b) > 1000 && a < 1 << 31);
        assert_eq!(seed_of(&Workload::parse("fio:rand-read:seed=9").unwrap(), 1), 9);
    }
}
