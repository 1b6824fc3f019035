//! The row that tests an identity sees the runs that break it, which no other row counts.

use nestor_trace::Identity;

use super::*;
use crate::record::Mark;
use crate::{ClaimKind, Verdict};

/// The host breaks the identity for three requests of one run, whose mark says so.
fn breaking(mut record: CellRecord) -> CellRecord {
    let Outcome::Measured(measured) = &mut record.outcome else { unreachable!("all cells are measured") };
    let host = measured.layers.iter_mut().find(|layer| layer.layer == "host").unwrap();
    host.metrics.as_mut().unwrap().identity = Identity { checked: 10, violations: 3 };
    let reason = "at host Q2I + I2D + D2C is not Q2C for 3 of 10 requests".to_owned();
    CellRecord { marks: vec![Mark::Inconsistent { reason }], ..record }
}

/// The claims on two stacks, of whose runs the first one may break the identity.
fn judged_of(breaks: bool) -> Vec<ClaimResult> {
    let others =
        |stack: &str| !stack.starts_with("ext3/") || stack.contains("/reiserfs/") || stack.contains("/xfs/");
    let mut first = breaks;
    let (results, _) = judged_with("quick", 1..=2, &others, &mut |stack, workload, block| {
        let host = file_systems(stack).1;
        let of_host = Outcome::Measured(measured_on(host));
        let model = CellRecord { outcome: of_host, ..record(stack, 0, 4096) };
        let run = cell(&model, stack, workload, block);
        if std::mem::take(&mut first) { breaking(run) } else { run }
    });
    results
}

#[test]
fn a_run_that_breaks_the_identity_contradicts_the_row_that_tests_it_and_is_counted_in_no_other() {
    let row = |results: &[ClaimResult]| results.iter().find(|r| r.claim.id == "L-32").cloned().unwrap();
    let (whole, broken) = (judged_of(false), judged_of(true));
    assert_eq!(row(&whole).claim.kind, ClaimKind::Constant);
    assert_eq!((row(&whole).verdict, row(&whole).reason.as_str()), (Verdict::Reproduced, "equal in all 2"));
    let found = row(&broken);
    assert_eq!(found.verdict, Verdict::Contradicted, "{}", found.reason);
    assert!(
        found.reason.starts_with("differs in 1 of 2: requests at the host that break it, of "),
        "{}",
        found.reason
    );
    assert!(found.reason.ends_with(": 3, expected 0"), "{}", found.reason);
    let first = 1;
    assert!(found.runs.contains(&first), "the run that breaks it is the evidence: {:?}", found.runs);
    let others = |results: &[ClaimResult]| -> BTreeSet<i64> {
        results.iter().filter(|r| r.claim.id != "L-32").flat_map(|r| r.runs.clone()).collect()
    };
    assert!(others(&whole).contains(&first) && !others(&broken).contains(&first));
}
