//! The scoreboard as text.

use std::collections::{BTreeMap, BTreeSet};

use nestor_results::{Claim, ClaimKind, ClaimPart, ClaimResult, Coverage, Covered, EffectUnit, Verdict};
use nestor_statistics::{Interval, Ratio};

use crate::Style;
use crate::text::{claim_findings, claim_table, scoreboard_text};

fn result(
    id: &str,
    title: &str,
    paper: &str,
    effect: Option<(f64, f64, f64)>,
    verdict: Verdict,
) -> ClaimResult {
    ClaimResult {
        claim: Claim {
            id: id.to_owned(),
            title: title.to_owned(),
            place: "§1".to_owned(),
            paper: paper.to_owned(),
            kind: ClaimKind::Ratio,
            expected: None,
            margin: None,
            band: None,
            sql: None,
            not_testable: None,
            note: None,
        },
        verdict,
        effect: effect.map(|(value, low, high)| Ratio {
            value,
            interval: Some(Interval { low, high }),
            pairs: 3,
        }),
        unit: EffectUnit::default(),
        reason: String::new(),
        parts: Vec::new(),
        other: Vec::new(),
        coverage: None,
        marked: BTreeMap::new(),
        doubts: Vec::new(),
        runs: vec![1, 2],
        why: Vec::new(),
    }
}

fn results() -> Vec<ClaimResult> {
    let mut faster = result(
        "L-27",
        "Ext3 on JFS reads faster than Ext3 on the disk",
        "+34 %",
        Some((1.21, 1.14, 1.29)),
        Verdict::Reproduced,
    );
    faster.reason = "the interval lies within 17 % to 68 %; 3 pairs".to_owned();
    faster.coverage = Some(Coverage {
        guests: Covered { names: BTreeSet::from(["ext3".to_owned()]), of: 6 },
        hosts: Covered { names: BTreeSet::from(["jfs".to_owned()]), of: 1 },
    });
    faster.marked = BTreeMap::from([("cached".to_owned(), 6)]);
    faster.doubts = vec!["cached in 6 of 6 runs".to_owned()];
    faster.other = vec![(
        "raw disk with cache=none".to_owned(),
        Some(Ratio { value: 1.5, interval: Some(Interval { low: 1.3, high: 1.7 }), pairs: 3 }),
        Verdict::Reproduced,
    )];
    let costly = result(
        "L-29",
        "XFS as host costs random writes",
        "-40 %",
        Some((0.88, 0.85, 0.91)),
        Verdict::Smaller,
    );
    let mut wrong = result(
        "L-15",
        "ReiserFS on Ext2, database",
        "-67 %",
        Some((1.02, 0.95, 1.09)),
        Verdict::Contradicted,
    );
    wrong.why = vec![
        "run 7 (reiserfs/kvm/raw/ext2/hdd) against run 5 (reiserfs/kvm/hdd), the median of 3 pairs:"
            .to_owned(),
        "the disk worked 1.0 ms per MiB of the application against 1.0 ms".to_owned(),
    ];
    wrong.claim.note = Some("the same section calls it \"a right combination\"".to_owned());
    let mut setup = result(
        "L-4",
        "The guest: one processor, 512 MB",
        "1 core, 512 MB, Linux 2.6.32-33 as on the host, and a text that is long",
        None,
        Verdict::Deviates,
    );
    setup.claim.kind = ClaimKind::Setup;
    setup.reason = "2 of 3 as published; declared: memory in MiB 256, published 512".to_owned();
    let mut none = result("L-44", "Xen and VMware vary alike", "fairly similar", None, Verdict::NotTestable);
    none.reason = "no such hypervisor".to_owned();
    vec![faster, costly, wrong, setup, none]
}

#[test]
fn the_scoreboard_reads_like_the_sketch() {
    insta::assert_snapshot!(scoreboard_text(&results(), Style::plain()), @r#"
      L-27  Ext3 on JFS reads faster than Ext3 on the disk
            paper +34 %     here +21.0 % [+14.0, +29.0]   reproduced
            the interval lies within 17 % to 68 %; 3 pairs; 1 of 6 guests: ext3; cached in 6 of 6 runs
            raw disk with cache=none: +50.0 % [+30.0, +70.0], reproduced
      L-29  XFS as host costs random writes
            paper -40 %     here -12.0 % [-15.0, -9.0]    smaller, same sign
      L-15  ReiserFS on Ext2, database
            paper -67 %     here +2.0 % [-5.0, +9.0]      contradicted
            why: run 7 (reiserfs/kvm/raw/ext2/hdd) against run 5 (reiserfs/kvm/hdd), the median of 3 pairs:
            the disk worked 1.0 ms per MiB of the application against 1.0 ms
            note: the same section calls it "a right combination"
      L-4   The guest: one processor, 512 MB
            paper 1 core, 512 MB, Linux 2.6.32-33 as on the host, and a text that is long   deviates, declared
            2 of 3 as published; declared: memory in MiB 256, published 512
      L-44  Xen and VMware vary alike
            paper fairly similar   not testable here: no such hypervisor

    measured: 1 reproduced, 1 contradicted, 1 smaller, same sign, 1 not testable here; configured: 1, 0 as published
    "#);
}

#[test]
fn the_scoreboard_is_a_table_of_what_was_measured() {
    insta::assert_snapshot!(claim_table(&results()), @"
    | | claim | paper | here | verdict |
    |---|---|---|---|---|
    | L-27 | Ext3 on JFS reads faster than Ext3 on the disk | +34 % | +21.0 % [+14.0, +29.0] | reproduced |
    | L-29 | XFS as host costs random writes | -40 % | -12.0 % [-15.0, -9.0] | smaller, same sign |
    | L-15 | ReiserFS on Ext2, database | -67 % | +2.0 % [-5.0, +9.0] | contradicted |
    | L-44 | Xen and VMware vary alike | fairly similar |  | not testable here |
    ");
    assert_eq!(claim_table(&[]), "");
}

#[test]
fn eighty_columns_are_enough_and_colour_is_not_needed() {
    let text = scoreboard_text(&results(), Style { color: false, width: 80, ..Style::plain() });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let coloured = scoreboard_text(&results(), Style { color: true, width: 80, ..Style::plain() });
    let mut plain = String::new();
    let mut escape = false;
    for c in coloured.chars() {
        match (escape, c) {
            (false, '\u{1b}') => escape = true,
            (true, 'm') => escape = false,
            (false, c) => plain.push(c),
            _ => {}
        }
    }
    assert_eq!(plain, text);
}

#[test]
fn no_claims_make_an_empty_board() {
    assert_eq!(scoreboard_text(&[], Style::plain()), "no claims\n");
}

#[test]
fn findings_are_few_lines_and_what_contradicts_comes_first() {
    insta::assert_snapshot!(claim_findings(&results()).join("\n"), @"
    - Measured: 1 reproduced, 1 contradicted, 1 smaller, same sign, 1 not testable here; configured: 1, 0 as published
    - Less certain, because their runs are marked: cached in 1 of 3 rows
    - Contradicted: L-15, ReiserFS on Ext2, database: paper -67 %; here +2.0 % [-5.0, +9.0]
    - Reproduced: L-27, Ext3 on JFS reads faster than Ext3 on the disk: paper +34 %; here +21.0 % [+14.0, +29.0]
    ");
    let effects = [(0.5, 0.4, 0.6), (0.9, 0.8, 1.1), (3.0, 2.5, 3.5), (0.7, 0.6, 0.8), (0.1, 0.05, 0.2)];
    let of = |verdict: Verdict| {
        let one = move |(i, effect): (usize, &(f64, f64, f64))| {
            result(&format!("X-{i}"), "title", "", Some(*effect), verdict)
        };
        effects.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let many = [of(Verdict::Reproduced), of(Verdict::Contradicted), of(Verdict::Undecided)].concat();
    let lines = claim_findings(&many);
    let mut of_parts =
        result("X-9", "two hosts", "both slower", Some((2.0, 1.5, 2.5)), Verdict::Contradicted);
    let part = |name: &str, effect, reason: &str| ClaimPart {
        name: name.to_owned(),
        verdict: Verdict::Reproduced,
        effect,
        unit: EffectUnit::default(),
        reason: reason.to_owned(),
    };
    of_parts.parts =
        vec![part("on ext3", None, "no run"), part("on jfs", of_parts.effect, "the interval excludes less")];
    let told = claim_findings(std::slice::from_ref(&of_parts))[1].clone();
    assert_eq!(
        told,
        "- Contradicted: X-9, two hosts: paper both slower; here on jfs: +100 % [+50.0, +150] (the interval excludes less)"
    );
    let board = scoreboard_text(&[of_parts], Style::plain());
    assert!(
        board.contains("paper both slower   here on jfs: +100 % [+50.0, +150]   contradicted"),
        "{board}"
    );
    assert_eq!(lines.len(), 8, "{lines:?}");
    assert!(lines[1].contains("X-4") && lines[2].contains("X-2") && lines[3].contains("X-0"), "{lines:?}");
    assert_eq!(lines[4], "- 2 more are contradicted");
    assert_eq!(lines[7], "- 3 more are reproduced");
}
