//! Gates over made-up runs.

use nestor_workload::OperationClass;

use super::*;
use crate::record::{Mark, Outcome};
use crate::tests::fixture::{MIB, latency, record};

/// A run of each number of MiB, in blocks from 0.
fn runs(throughputs_mib: &[u64]) -> Vec<StoredRun> {
    let of_block = |(block, mib): (u32, &u64)| StoredRun {
        number: i64::from(block) + 1,
        id: String::new(),
        record: record("ext4/hdd", block, mib * MIB),
    };
    (0..).zip(throughputs_mib).map(of_block).collect()
}

fn rules(texts: &[&str]) -> Vec<GateRule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn judged(
    texts: &[&str],
    baseline: &[StoredRun],
    candidate: &[StoredRun],
) -> Result<Vec<GateAnswer>, GateError> {
    let (baseline, candidate): (Vec<_>, Vec<_>) = (baseline.iter().collect(), candidate.iter().collect());
    judge(&rules(texts), &baseline, &candidate, texts.len())
}

#[test]
fn the_worst_of_several_rules_is_the_answer() {
    let (before, after) = (runs(&[100, 102, 98]), runs(&[90, 92, 88]));
    let answers = judged(&["throughput<-5%", "latency>+20%", "latency>+11%"], &before, &after).unwrap();
    let verdicts: Vec<_> = answers.iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts, [LimitVerdict::Worse, LimitVerdict::Fine, LimitVerdict::Undecided]);
    assert_eq!(worst(&answers), Some(LimitVerdict::Worse));
    assert!(answers[2].pairs_needed.is_some_and(|pairs| pairs > 3) && answers[0].pairs_needed.is_none());
    assert!((answers[0].confidence - (1.0 - 0.05 / 3.0)).abs() < 1e-12);
    assert_eq!(worst(&judged(&["throughput<-5%"], &before, &before).unwrap()), Some(LimitVerdict::Fine));
}

#[test]
fn one_pair_decides_nothing() {
    let answers = judged(&["throughput<-5%"], &runs(&[100]), &runs(&[50])).unwrap();
    assert_eq!((answers[0].verdict, answers[0].pairs_needed), (LimitVerdict::Undecided, None));
}

#[test]
fn latencies_of_different_operations_are_not_put_together() {
    let with_fsync = |mut run: StoredRun, fsync_ns| {
        if let Outcome::Measured(measured) = &mut run.record.outcome {
            let result = nestor_workload::OperationResult {
                operations: 10,
                latency: latency(10, fsync_ns),
                ..Default::default()
            };
            measured.load.operations.insert(OperationClass("fsync".to_owned()), result);
        }
        run
    };
    let with =
        |fsync_ns| runs(&[100, 100]).into_iter().map(|run| with_fsync(run, fsync_ns)).collect::<Vec<_>>();
    let (before, after) = (with(1_000_000), with(2_000_000));
    let verdict = |rule| judged(&[rule], &before, &after).map(|answers| answers[0].verdict);
    assert_eq!(verdict("p99:fsync>+10%"), Ok(LimitVerdict::Worse));
    assert_eq!(verdict("p99:write>+10%"), Ok(LimitVerdict::Fine));
    insta::assert_snapshot!(
        verdict("p99>+10%").unwrap_err(),
        @"`p99>+10%` cannot be judged: no run of the baseline has this metric; what its runs have: throughput, latency:fsync, latency:write"
    );
    assert!(verdict("instructions>0%").is_err(), "they were not counted");
}

#[test]
fn a_rule_about_what_no_result_has_is_refused_before_anything_is_measured() {
    let rules = |rule: &str| [rule.parse::<GateRule>().unwrap()];
    let refused = |rule, workload: &str| check_rules(&rules(rule), &workload.into());
    insta::assert_snapshot!(refused("p99:fsync>+10%", "fio:rand-write:fsync=1").unwrap_err(), @"
    `p99:fsync>+10%` cannot be judged: the result of fio:rand-write:fsync=1 has no latency of fsync
      add engine=psync or engine=io_uring
    ");
    for (rule, workload) in [
        ("p99:fsync>+10%", "fio:rand-write:fsync=1:engine=io_uring"),
        ("p99:fsync>+10%", "fio:rand-write:fsync=1:engine=psync"),
        ("p99:write>+10%", "fio:rand-write:fsync=1"),
        ("throughput<-5%", "fio:rand-write:fsync=1"),
    ] {
        assert_eq!(refused(rule, workload), Ok(()), "{rule} {workload}");
    }
}

#[test]
fn a_run_that_does_not_count_is_no_answer() {
    let before = runs(&[100, 100, 100]);
    let mut after = runs(&[100, 100, 100]);
    let reason = "hdd issued 3 requests but 2 completed".to_owned();
    after[1].record.marks.push(Mark::Inconsistent { reason });
    insta::assert_snapshot!(
        judged(&["throughput<-5%"], &before, &after).unwrap_err(),
        @"run 2 of the candidate does not count, so that the gate cannot say anything: hdd issued 3 requests but 2 completed"
    );
}
