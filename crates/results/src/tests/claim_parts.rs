//! Claims of several parts, and claims on variation.

use super::claims::{Lab, change, claim, usual};
use crate::Verdict;
use crate::claims::{Claim, ClaimKind, ClaimResult, Expected};

/// Hosts against the raw disk as parts of one claim.
fn in_parts(expected: Expected, hosts: &str) -> Claim {
    let sql = format!(
        "SELECT column1 AS part, baseline, candidate, run, baseline_run FROM (VALUES {hosts}) LEFT JOIN pair ON host = column1"
    );
    claim(ClaimKind::Predicate, Some(expected), &sql)
}

#[test]
fn the_worst_part_decides_and_each_is_told() {
    let mut lab = Lab::new(usual());
    let told = |result: &ClaimResult| {
        let change = result.effect.map(|e| format!("{:+.1} %, ", e.change_percent())).unwrap_or_default();
        format!("{change}{}: {}", result.verdict.words(), result.reason)
    };
    let claims = vec![
        in_parts(Expected::Less, "('jfs'), ('xfs')"),
        in_parts(Expected::NotLess, "('xfs'), ('jfs')"),
        in_parts(Expected::NotLess, "('xfs'), ('ext4')"),
        in_parts(Expected::NotLess, "('ext4'), ('jfs')"),
        in_parts(Expected::Less, "('ext4'), ('reiserfs')"),
    ];
    let results = lab.judge(claims);
    insta::assert_snapshot!(results.iter().map(told).collect::<Vec<_>>().join("\n"), @r#"
    +1.0 %, contradicted: jfs: -39.6 % [-40.6, -38.6], reproduced (the interval says at least 5 % less; 3 pairs); xfs: +1.0 % [+1.0, +1.0], contradicted (the interval excludes less; 3 pairs)
    -39.6 %, contradicted: xfs: +1.0 % [+1.0, +1.0], reproduced (the interval excludes a loss of more than 10 %; 3 pairs); jfs: -39.6 % [-40.6, -38.6], contradicted (the interval says a loss of more than 10 %; 3 pairs)
    not testable here: xfs: +1.0 % [+1.0, +1.0], reproduced (the interval excludes a loss of more than 10 %; 3 pairs); ext4: not testable here (no pair has both numbers)
    -39.6 %, contradicted: ext4: not testable here (no pair has both numbers); jfs: -39.6 % [-40.6, -38.6], contradicted (the interval says a loss of more than 10 %; 3 pairs)
    not testable here: no counted run matches its query
    "#);
    // The layers are told of the part that is contradicted, and both parts' runs are evidence.
    assert!(results[1].why[0].contains("raw/jfs"), "{:?}", results[1].why);
    assert_eq!(results[1].runs, [1, 3, 4, 5, 7, 8, 9, 11, 12]);
}

#[test]
fn two_parts_on_the_same_runs_are_no_shared_baseline() {
    let mut lab = Lab::new(usual());
    let part = |name: &str| {
        format!(
            "SELECT '{name}' AS part, baseline, candidate, run, baseline_run FROM pair WHERE host = 'jfs'"
        )
    };
    let sql = format!("{} UNION ALL {}", part("one"), part("two"));
    let result = lab.judge_one(claim(ClaimKind::Predicate, Some(Expected::Less), &sql));
    assert_eq!((result.verdict, result.doubts.len()), (Verdict::Reproduced, 0), "{:?}", result.doubts);
    let sql = sql.replace("'two' AS part", "'one' AS part");
    let result = lab.judge_one(claim(ClaimKind::Predicate, Some(Expected::Less), &sql));
    assert_eq!(result.doubts, ["6 pairs share 3 baseline runs, so the interval is too narrow"]);
}

/// Three hosts in three blocks, each host as far from the next as 1 is from 2, and runs that differ by a few per cent.
const VARIED: &str = "SELECT m.column1 AS member, b.column1 AS block, m.column2 * b.column2 * (1 + 0.02 * ((m.column3 * b.column1) % 3)) AS value \
    FROM (VALUES ('ext2', 1.0, 1), ('jfs', 2.0, 2), ('xfs', 4.0, 3)) AS m, (VALUES (0, 1.0), (1, 1.3), (2, 0.8)) AS b";

#[test]
fn members_vary_by_more_than_their_runs_do() {
    let mut lab = Lab::new(usual());
    let ratio = |sql: &str| claim(ClaimKind::Ratio, Some(change(79.0)), sql);
    let all = lab.judge_one(ratio(VARIED));
    assert_eq!(all.verdict, Verdict::Reproduced, "{all:?}");
    assert!((all.effect.unwrap().value - 1.787).abs() < 0.02, "{:?}", all.effect);
    assert!(all.reason.ends_with("; 3 blocks"), "{}", all.reason);
    let two = lab.judge_one(ratio(&format!("SELECT * FROM ({VARIED}) WHERE block < 2")));
    assert_eq!(two.verdict, Verdict::NotTestable);
    assert!(two.reason.contains("a variation needs three blocks"), "{}", two.reason);
    let parts = lab.judge_one(ratio(&format!("SELECT *, 'part' AS part FROM ({VARIED}) WHERE block < 2")));
    assert!(parts.reason.contains("a variation needs three blocks"), "{}", parts.reason);
    // Reads that do not vary at all against writes that do.
    let sides = format!(
        "SELECT member, block, value, 'baseline' AS side FROM ({VARIED}) UNION ALL SELECT member, block, 1, 'candidate' FROM ({VARIED})"
    );
    let less = lab.judge_one(claim(ClaimKind::Predicate, Some(Expected::Less), &sides));
    assert_eq!(less.verdict, Verdict::Reproduced, "{less:?}");
    assert!((less.effect.unwrap().value - 0.213).abs() < 0.02, "{:?}", less.effect);
}

#[test]
fn a_part_states_its_own_direction() {
    let mut lab = Lab::new(usual());
    let sql = |word: &str| {
        format!(
            "SELECT host AS part, iif(host = 'xfs', {word}, 'less') AS expected, baseline, candidate, run, baseline_run FROM pair"
        )
    };
    let of = |word| claim(ClaimKind::Predicate, Some(Expected::Less), &sql(word));
    let results = lab.judge(vec![of("'less'"), of("'alike'"), of("'more or less'"), of("0.5"), of("1.01")]);
    let verdicts: Vec<Verdict> = results.iter().map(|r| r.verdict).collect();
    assert_eq!(
        verdicts,
        [
            Verdict::Contradicted,
            Verdict::Reproduced,
            Verdict::NotTestable,
            Verdict::Contradicted,
            Verdict::Reproduced
        ]
    );
    assert!(
        results[2]
            .reason
            .contains("`more or less`; it has a ratio above 0 or one of less, more, alike, not-less"),
        "{}",
        results[2].reason
    );
}
