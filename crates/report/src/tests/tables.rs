//! Studies for other programs: the table of cells and the Markdown.

use super::fixture::*;
use crate::{StudyReport, study_markdown};

fn report() -> StudyReport {
    StudyReport::of(&study(3), &study_runs())
}

#[test]
fn the_table_has_each_cell_with_its_intervals() {
    let table = report().table();
    assert_eq!(table.rows(), 16);
    let csv = table.csv();
    let lines: Vec<&str> = csv.lines().take(3).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    study,stack,workload,baseline,runs,failed,not_run,throughput,throughput_low,throughput_high,throughput_unit,ratio,ratio_low,ratio_high,ratio_pairs,ratio_confidence,life_s,life_low_s,life_high_s,latency_class,latency_p50_ns,latency_p90_ns,latency_p99_ns,latency_max_ns,marks
    made-up,ext3/kvm:cache=writethrough/hdd,fio:seq-read:scale=0.0125,,3,0,0,105185129.68737231,98844867.34293449,111932079.07259324,B/s,,,,,,,,,read,14761983,29523967,118095871,241041407,emulated
    made-up,ext3/kvm:cache=writethrough/raw/ext2/hdd,fio:seq-read:scale=0.0125,ext3/kvm:cache=writethrough/hdd,3,0,0,102319209.22919938,96084931.88639937,108957985.10495253,B/s,0.9727535587331495,0.8675046345426983,1.0907716781557237,3,0.95,,,,read,15065087,30130175,120520703,248381439,emulated cpu-bound
    ");
    // A cell that failed has a row without numbers.
    let failed = csv.lines().last().unwrap();
    insta::assert_snapshot!(failed, @"made-up,ext3/kvm:cache=writethrough/raw/xfs/hdd,fio:rand-write:scale=0.0125,ext3/kvm:cache=writethrough/hdd,0,2,1,,,,,,,,,,,,,,,,,,");
}

#[test]
fn a_page_carries_its_table() {
    use base64::Engine as _;
    let html = crate::render_study(&report());
    let start = html.find("base64,").unwrap() + "base64,".len();
    let encoded = &html[start..start + html[start..].find('"').unwrap()];
    let decoded = base64::prelude::BASE64_STANDARD.decode(encoded.replace("&#x2f;", "/")).unwrap();
    assert_eq!(String::from_utf8(decoded).unwrap(), report().table().csv());
}

#[test]
fn markdown_has_the_answer_and_the_matrices() {
    insta::assert_snapshot!(study_markdown(&report()), @"
    ## A made-up study of one nested file system

    - Physically plausible? yes in 14 of 15 cells, no in 1
    - 11 comparisons with a baseline: 5 slower, 6 not told apart.
    - Slowest: ext3/kvm:cache=writethrough/raw/jfs/hdd under fio:seq-read:scale=0.0125, -35.4 % [-35.5, -35.3], doubtful: see its marks.
    - on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

    **ext3/kvm:cache=writethrough, scale=0.0125**

    | workload | raw disk | raw/ext2 | raw/jfs | raw/xfs |
    |---|--:|--:|--:|--:|
    | fio:seq-read | 105 MB/s [98.8, 112] | *-2.7 % [-13.2, +9.1]* C | -35.4 % [-35.5, -35.3] M | *+17.4 % [-29.7, +96.1]* |
    | fio:seq-write | 31.6 MB/s [29.7, 33.6] | -16.8 % [-25.6, -7.0] C | -16.9 % [-17.2, -16.7] | *-31.2 % [-59.2, +15.9]* |
    | fio:rand-read | 14.7 MB/s [13.8, 15.7] | *+2.1 % [-9.5, +15.3]* C | -11.2 % [-11.8, -10.6] | *+7.4 % [-32.9, +71.9]* |
    | fio:rand-write | 5.24 MB/s [4.99, 5.51] | *-2.0 % [-10.2, +6.9]* C | -8.0 % [-8.4, -7.6] | failed |

    Change of throughput against the baseline, with its interval of 95 %; what is not told apart from it is in italics. Baselines show their own throughput.

    - C: CPU-bound: a machine's CPUs were busy over 70 % of the time
    - M: from memory: some of the data never reached the medium
    - every cell: emulated CPU: shapes and ratios hold, absolute CPU-bound numbers do not
    ");
}

#[test]
fn words_of_others_make_nothing_of_markdown() {
    let mut report = report();
    report.title = "a <b>title</b>\n# of `two` lines".to_owned();
    report.matrices[0].rows[0] = "a|b".to_owned();
    let markdown = study_markdown(&report);
    assert!(markdown.starts_with("## a &lt;b>title&lt;/b> # of \\`two\\` lines\n"), "{markdown}");
    assert!(markdown.contains("| a\\|b |"), "{markdown}");
}
