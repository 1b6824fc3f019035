//! What people see on a terminal.

use super::fixture::*;
use crate::{
    CompareView, RunView, RunsView, StudyReport, Style, compare_text, run_text, runs_text, study_text,
};
use nestor_results::{RunListing, StoredRun};
use unicode_width::UnicodeWidthStr;

pub(super) fn cell(stack: usize, workload: usize, blocks: u32) -> Vec<StoredRun> {
    stored(runs(stack, workload, blocks))
}

fn narrow() -> Style {
    Style::terminal(80, true)
}

#[test]
fn a_run() {
    let runs = cell(2, 1, 5);
    let view = RunView::of(&borrowed(&runs)).unwrap();
    insta::assert_snapshot!(run_text(&view, Style::plain()), @"
    ext3/kvm:cache=writethrough/raw/jfs/hdd  fio:seq-write:scale=0.0125  (8 KiB, depth 255, 64 MiB in 8 files)
    physically plausible? yes: 434 requests/s on a disk (wd-7200-1tb) that does 75 random reads a second one at a time,
      72 % sequential, 11 % in its own cache, arm and platters busy 100 %; working set 0.05 x all memory, yet it went to the
      medium
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

      26.6 MB/s  [25.7, 27.5]  3 240 IOPS  5 fresh stacks
      latency p50 57.9 ms  p99 473 ms  steady from the start

      layer                   requests    bytes  x above  merged    queue  service
      application  fio 3.33     32 640  255 MiB        -       -        -  57.9 ms
      ext3         guest fs    132 254  264 MiB     1.03  94.9 %   123 us  46.0 ms
          +8.50 MiB, 72 % sequential, 12 flushes
      kvm/raw      raw image         -        -        -       -        -        -
      jfs          host fs      11 710  278 MiB     1.06  62.0 %   123 us  46.0 ms
          +14.7 MiB, 72 % sequential, 12 flushes
      hdd          disk          4 450  278 MiB     1.00       -  7.90 ms  3.10 ms
          seek 62 %, rotate 21 %, transfer 15 %, overhead 2 %, 12 flushes
      layers of run 4, the one with median throughput; times are medians

      host Linux 6.1.0-28-amd64, 2 x CPU (tcg), 41 % busy, 1.00 GiB; guest Linux 6.1.0-28-amd64, 2 x CPU (kvm), 22 % busy,
        256 MiB
      caches: emptied in every machine before measuring; disk timing: model's timing off while preparing, on while
        measuring; kvm cache: writethrough; working set: 64 MiB
      measured for 10.0 s, whole cell 14.2 s; nestor 0.1.0
      saved as runs 1 to 5      nestor report 5
    ");
}

#[test]
fn a_single_run_on_a_narrow_terminal() {
    let runs = cell(2, 1, 1);
    let view = RunView::of(&borrowed(&runs)).unwrap();
    insta::assert_snapshot!(run_text(&view, narrow()), @"
    ext3/kvm:cache=writethrough/raw/jfs/hdd
    fio:seq-write:scale=0.0125
      (8 KiB, depth 255, 64 MiB in 8 files)
    physically plausible? yes: 443 requests/s on a disk (wd-7200-1tb) that does 75
      random reads a second one at a time, 72 % sequential, 11 % in its own cache,
      arm and platters busy 100 %; working set 0.05 x all memory, yet it went to the
      medium
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute
      CPU-bound numbers do not

      26.1 MB/s  3 190 IOPS  1 fresh stack: no interval
      latency p50 59.1 ms  p99 473 ms  steady from the start

      layer                   requests    bytes  x above  merged    queue  service
      application  fio 3.33     31 872  249 MiB        -       -        -  59.1 ms
      ext3         guest fs    129 137  257 MiB     1.03  94.9 %   123 us  46.0 ms
          +8.30 MiB, 72 % sequential, 12 flushes
      kvm/raw      raw image         -        -        -       -        -        -
      jfs          host fs      11 436  272 MiB     1.06  62.0 %   123 us  46.0 ms
          +14.3 MiB, 72 % sequential, 12 flushes
      hdd          disk          4 346  272 MiB     1.00       -  7.90 ms  3.10 ms
          seek 62 %, rotate 21 %, transfer 15 %, overhead 2 %, 12 flushes
      times are medians

      host Linux 6.1.0-28-amd64, 2 x CPU (tcg), 41 % busy, 1.00 GiB; guest Linux
        6.1.0-28-amd64, 2 x CPU (kvm), 22 % busy, 256 MiB
      caches: emptied in every machine before measuring; disk timing: model's
        timing off while preparing, on while measuring; kvm cache: writethrough;
        working set: 64 MiB
      measured for 10.0 s, whole cell 14.2 s; nestor 0.1.0
      saved as run 1      nestor report 1
    ");
}

#[test]
fn a_failed_run() {
    let failed: Vec<StoredRun> =
        study_runs().into_iter().filter(|r| r.record.failure().is_some()).take(1).collect();
    let view = RunView::of(&borrowed(&failed)).unwrap();
    insta::assert_snapshot!(run_text(&view, narrow()), @"
    ext3/kvm:cache=writethrough/raw/xfs/hdd
    fio:rand-write:scale=0.0125
      (8 KiB, depth 255, 64 MiB in 8 files)
    physically plausible? cannot tell: the run failed, so it has no numbers
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute
      CPU-bound numbers do not

      no numbers: no run of this cell succeeded
      run 43 failed:
        the guest did not answer for 60 s
          its console ended with: <panic>

      host Linux 6.1.0-28-amd64, 2 x CPU (tcg), 1.00 GiB; guest Linux
        6.1.0-28-amd64, 2 x CPU (kvm), 256 MiB
      caches: emptied in every machine before measuring; disk timing: model's
        timing off while preparing, on while measuring; kvm cache: writethrough;
        working set: 64 MiB
      whole cell 14.2 s; nestor 0.1.0
      saved as run 43      nestor report 43
    ");
}

#[test]
fn a_run_that_contradicts_itself_is_shown_with_the_identity_and_counts_for_nothing() {
    let mut runs = cell(2, 1, 3);
    let reason = "hdd issued 26112 requests but 24112 completed".to_owned();
    runs[1].record.marks.push(nestor_results::Mark::Inconsistent { reason });
    let view = RunView::of(&borrowed(&runs)).unwrap();
    let text = run_text(&view, Style::plain());
    assert!(text.contains("2 fresh stacks"), "{text}");
    assert!(
        text.contains("physically plausible? no: the run contradicts itself: hdd issued 26112"),
        "{text}"
    );
    let listed = "  run 2 violates an identity and is excluded from the means: hdd issued 26112 requests but 24112 completed\n";
    assert!(text.contains(listed) && text.contains("  inconsistent in 1 of 3: "), "{text}");
    assert_ne!(view.shown_run, Some(2));
    let only = RunView::of(&borrowed(&runs[1..2])).unwrap();
    assert!(run_text(&only, narrow()).contains("no numbers: every run of this cell violates an identity"));
}

#[test]
fn a_comparison() {
    let (base, other) = (cell(0, 1, 5), cell(2, 1, 5));
    let view = CompareView::of(&borrowed(&base), &borrowed(&other)).unwrap();
    insta::assert_snapshot!(compare_text(&view, Style::plain()), @"
    fio:seq-write:scale=0.0125  (8 KiB, depth 255, 64 MiB in 8 files)
    physically plausible? baseline yes: 496 requests/s on a disk (wd-7200-1tb) that does 75 random reads a second one at a
      time, 72 % sequential, 11 % in its own cache, arm and platters busy 100 %; working set 0.05 x all memory, yet it went
      to the medium
      candidate yes: 434 requests/s on a disk (wd-7200-1tb) that does 75 random reads a second one at a time, 72 %
        sequential, 11 % in its own cache, arm and platters busy 100 %; working set 0.05 x all memory, yet it went to the
        medium
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

      ext3/kvm:cache=writethrough/hdd          31.3 MB/s  [30.3, 32.4]
      ext3/kvm:cache=writethrough/raw/jfs/hdd  26.6 MB/s  [25.7, 27.5]  -15.2 %  [-19.3, -10.9]
      5 pairs, order random, drift not tested

      told apart, per 1000 operations  baseline  candidate
      flushes, guest's block layer         0.31       0.37  +17.9 %  [+7.4, +29.5]
      flushes, disk                        0.31       0.37  +17.9 %  [+7.4, +29.5]
      bytes, disk                      8.07 MiB   8.52 MiB   +5.6 %  [+5.6, +5.6]
      seeks, disk                          36.2       38.2   +5.6 %  [+5.6, +5.6]
      requests, disk                        129        136   +5.6 %  [+5.6, +5.6]

      at the medium                      baseline  candidate
      bytes per byte of the application      1.03       1.09
      requests                              4 960      4 450
      bytes per request                    64 KiB   64.0 KiB
      sequential                             72 %       72 %
      flushes                                  12         12
      queue, median                       7.90 ms    7.90 ms
      service, median                     3.10 ms    3.10 ms
      service: seek                          62 %       62 %
      service: rotation                      21 %       21 %
      service: transfer                      15 %       15 %

      runs 1, 2, 3, 4, 5 against 1, 2, 3, 4, 5      nestor report RUN
    ");
}

#[test]
fn a_doubtful_comparison_on_a_narrow_terminal() {
    let all = study_runs();
    let runs_of = |stack: &str| -> Vec<&StoredRun> {
        all.iter().filter(|r| r.record.stack == stack && r.record.workload == WORKLOADS[0]).collect()
    };
    let view = CompareView::of(&runs_of(BASELINE), &runs_of(STACKS[2])).unwrap();
    insta::assert_snapshot!(compare_text(&view, narrow()), @"
    fio:seq-read:scale=0.0125  (8 KiB, depth 255, 64 MiB in 8 files)
    physically plausible? baseline yes: 1738 requests/s on a disk (wd-7200-1tb)
      that does 75 random reads a second one at a time, 72 % sequential, 11 % in its
      own cache, arm and platters busy 100 %; working set 0.05 x all memory, yet it
      went to the medium
      candidate no: 3 % of the 666 MiB read came from the disk (wd-7200-1tb), the
        rest from the memory of the host
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute
      CPU-bound numbers do not

      ext3/kvm:cache=writethrough/hdd
        105 MB/s  [98.8, 112]
      ext3/kvm:cache=writethrough/raw/jfs/hdd
        68.0 MB/s  [63.8, 72.4]
      -35.4 %  [-35.5, -35.3]
      3 pairs, order random, drift not tested
      less certain than it looks:
        candidate: cached in 3 of 3: of 646.0 MiB that the application read, 3 %
          was read below jfs (host fs) in the host: the rest stayed in memory at or
          above it

      told apart, per 1000 operations  baseline  candidate
      bytes, disk                      8.07 MiB    247 KiB  -97.0 %  [-97.5, -96.5]
      requests, disk                        129       3.86  -97.0 %  [-97.5, -96.5]
      seeks, disk                          36.2       1.08  -97.0 %  [-97.5, -96.5]

      at the medium                      baseline  candidate
      bytes per byte of the application      1.03       0.03
      requests                             16 533        320
      bytes per request                  64.0 KiB     64 KiB
      sequential                             72 %       72 %
      flushes                                   0          0
      queue, median                       7.90 ms    7.90 ms
      service, median                     3.10 ms    3.10 ms
      service: seek                          62 %       62 %
      service: rotation                      21 %       21 %
      service: transfer                      15 %       15 %

      runs 25, 26, 27 against 1, 2, 3      nestor report RUN
    ");
}

#[test]
fn a_study() {
    let report = StudyReport::of(&study(3), &study_runs());
    insta::assert_snapshot!(study_text(&report, Style::plain()), @"
    A made-up study of one nested file system  (made-up)
    physically plausible? yes in 14 of 15 cells, no in 1
      no: ext3/kvm:cache=writethrough/raw/jfs/hdd under fio:seq-read:scale=0.0125: 3 % of the 646 MiB read came from the
        disk (wd-7200-1tb), the rest from the memory of the host
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

      11 comparisons with a baseline: 5 slower, 6 not told apart.
      Slowest: ext3/kvm:cache=writethrough/raw/jfs/hdd under fio:seq-read:scale=0.0125, -35.4 % [-35.5, -35.3], doubtful:
        see its marks.
      42 fresh stacks measured, 2 failed, 4 not run; 3 blocks, each with every cell in random order (seed 1)
      time allowed 5 min; budget of 5 min ended
      measuring took 67 % of the cells' time: 7 min of 10 min
      drift not tested: the baseline ran once in each block

      ext3/kvm:cache=writethrough, scale=0.0125
      workload                      raw disk               raw/ext2                    raw/jfs                    raw/xfs
      fio:seq-read      105 MB/s [98.8, 112]   -2.7 % [-13.2, +9.1]  C  -35.4 % [-35.5, -35.3]  M  +17.4 % [-29.7, +96.1]
      fio:seq-write   31.6 MB/s [29.7, 33.6]  -16.8 % [-25.6, -7.0]  C  -16.9 % [-17.2, -16.7]     -31.2 % [-59.2, +15.9]
      fio:rand-read   14.7 MB/s [13.8, 15.7]   +2.1 % [-9.5, +15.3]  C  -11.2 % [-11.8, -10.6]      +7.4 % [-32.9, +71.9]
      fio:rand-write  5.24 MB/s [4.99, 5.51]   -2.0 % [-10.2, +6.9]  C     -8.0 % [-8.4, -7.6]                     failed

      change of throughput against the raw disk or named baseline, 95 % interval
      C: CPU-bound: a machine's CPUs were busy over 70 % of the time
      M: from memory: some of the data never reached the medium

      less certain than they look:
      ext3/kvm:cache=writethrough/raw/ext2/hdd fio:seq-read:scale=0.0125: 3 pairs, order random, drift not tested, not
        told apart
        candidate: cpu-bound in 1 of 3: the CPUs of the host were busy 88 % of the time
      ext3/kvm:cache=writethrough/raw/jfs/hdd fio:seq-read:scale=0.0125: 3 pairs, order random, drift not tested
        candidate: cached in 3 of 3: of 646.0 MiB that the application read, 3 % was read below jfs (host fs) in the host:
          the rest stayed in memory at or above it
      ext3/kvm:cache=writethrough/raw/ext2/hdd fio:seq-write:scale=0.0125: 3 pairs, order random, drift not tested
        candidate: cpu-bound in 1 of 3: the CPUs of the host were busy 88 % of the time
      ext3/kvm:cache=writethrough/raw/ext2/hdd fio:rand-read:scale=0.0125: 3 pairs, order random, drift not tested, not
        told apart
        candidate: cpu-bound in 1 of 3: the CPUs of the host were busy 88 % of the time
      ext3/kvm:cache=writethrough/raw/ext2/hdd fio:rand-write:scale=0.0125: 3 pairs, order random, drift not tested, not
        told apart
        candidate: cpu-bound in 1 of 3: the CPUs of the host were busy 88 % of the time

      failed: ext3/kvm:cache=writethrough/raw/xfs/hdd fio:rand-write:scale=0.0125 (runs 43, 44)
        the guest did not answer for 60 s
          its console ended with: <panic>
      not run: 4 cells: budget of 5 min ended
    ");
}

#[test]
fn a_study_on_a_narrow_terminal_with_one_block() {
    let runs: Vec<StoredRun> = study_runs().into_iter().filter(|r| r.record.block == 0).collect();
    let report = StudyReport::of(&study(1), &runs);
    insta::assert_snapshot!(study_text(&report, narrow()), @"
    A made-up study of one nested file system  (made-up)
    physically plausible? yes in 14 of 15 cells, no in 1
      no: ext3/kvm:cache=writethrough/raw/jfs/hdd under fio:seq-read:scale=0.0125:
        3 % of the 646 MiB read came from the disk (wd-7200-1tb), the rest from the
        memory of the host
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute
      CPU-bound numbers do not

      11 comparisons with a baseline: 11 without an interval (measured once).
      Slowest: ext3/kvm:cache=writethrough/raw/jfs/hdd under
        fio:seq-read:scale=0.0125, -35.4 % (one pair: no interval), doubtful: see
        its marks.
      Fastest: ext3/kvm:cache=writethrough/raw/xfs/hdd under
        fio:seq-read:scale=0.0125, +22.2 % (one pair: no interval).
      15 fresh stacks measured, 1 failed, 0 not run; 1 block, each with every cell
        in random order (seed 1)
      time allowed 5 min; budget of 5 min ended
      measuring took 66 % of the cells' time: 2 min 30 s of 3 min 47 s
      drift not tested: the baseline ran once in each block

      ext3/kvm:cache=writethrough, scale=0.0125
      workload         raw disk     raw/ext2      raw/jfs         raw/xfs
      fio:seq-read     105 MB/s   -0.1 % (1)  -35.4 % (1)  M  +22.2 % (1)
      fio:seq-write   31.5 MB/s  -14.7 % (1)  -17.0 % (1)     -28.3 % (1)
      fio:rand-read   14.7 MB/s   +5.0 % (1)  -11.4 % (1)     +11.4 % (1)
      fio:rand-write  5.24 MB/s   +0.0 % (1)   -8.0 % (1)          failed

      change of throughput against the raw disk or named baseline, 95 % interval
      (1): 1 fresh stack: no interval
      M: from memory: some of the data never reached the medium

      less certain than they look:
      ext3/kvm:cache=writethrough/raw/jfs/hdd fio:seq-read:scale=0.0125: 1 pair:
        no interval, order random, drift not tested
        candidate: cached in 1 of 1: of 646.0 MiB that the application read, 3 %
          was read below jfs (host fs) in the host: the rest stayed in memory at or
          above it

      failed: ext3/kvm:cache=writethrough/raw/xfs/hdd fio:rand-write:scale=0.0125
        (run 43)
        the guest did not answer for 60 s
          its console ended with: <panic>
    ");
}

#[test]
fn a_study_of_two_guests_has_a_matrix_per_workload() {
    let guests = ["ext3", "jfs"];
    let stacks: Vec<String> =
        guests.iter().flat_map(|g| [format!("{g}/kvm/hdd"), format!("{g}/kvm/raw/xfs/hdd")]).collect();
    let mut begun = study(1);
    begun.study.baselines =
        stacks.iter().map(|s| (s.as_str().into(), s.replace("raw/xfs/", "").into())).collect();
    begun.study.workloads.truncate(2);
    begun.study.stacks = stacks.iter().map(|s| s.as_str().into()).collect();
    let cells = stacks.iter().flat_map(|s| begun.study.workloads.iter().map(move |w| (s, w)));
    let runs = stored(cells.map(|(s, w)| record(s, w, 0, 10.0 + s.len() as f64)).collect());
    let text = study_text(&StudyReport::of(&begun, &runs), narrow());
    let start = text.find("  fio:seq-read:scale=0.0125, in kvm").unwrap();
    let end = text.find("  change of throughput").unwrap();
    insta::assert_snapshot!(&text[start..end], @r"
    fio:seq-read:scale=0.0125, in kvm
    guest   raw disk      raw/xfs
    ext3   23.1 MB/s  +36.4 % (1)
    jfs    22.0 MB/s  +38.1 % (1)

    fio:seq-write:scale=0.0125, in kvm
    guest   raw disk      raw/xfs
    ext3   23.1 MB/s  +36.4 % (1)
    jfs    22.0 MB/s  +38.1 % (1)
    ");
}

#[test]
fn a_study_that_has_not_begun() {
    let report = StudyReport::of(&study(1), &[]);
    let text = study_text(&report, narrow());
    assert!(text.contains("Nothing can be compared yet"), "{text}");
    assert!(text.contains("not run: 16 cells: budget of 5 min ended"), "{text}");
}

#[test]
fn lists_of_runs() {
    let listing = |number: i64, failure: Option<&str>| RunListing {
        number,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        study: None,
        stack: STACKS[number as usize].into(),
        workload: "fio:seq-write".into(),
        ground: "emulated".into(),
        bytes_per_second: failure.is_none().then_some(26.2e6),
        operations_per_second: failure.is_none().then_some(6396.0),
        failure: failure.map(str::to_owned),
        marks: vec!["emulated".to_owned()],
    };
    let view = RunsView { runs: vec![listing(2, None), listing(1, Some("no"))], total: 7 };
    insta::assert_snapshot!(runs_text(&view, Style::plain(), None), @r"
    run  began (UTC)       stack                                     workload       throughput  marks
      2  2026-01-02 03:04  ext3/kvm:cache=writethrough/raw/jfs/hdd   fio:seq-write   26.2 MB/s  emulated
      1  2026-01-02 03:04  ext3/kvm:cache=writethrough/raw/ext2/hdd  fio:seq-write      failed  emulated
    2 of 7 runs: --all lists them all
    ");
    let virtual_time = RunListing { ground: "emulated:time=virtual".into(), ..listing(2, None) };
    let both = RunsView { runs: vec![virtual_time, listing(2, None)], total: 2 };
    let text = runs_text(&both, Style::plain(), None);
    assert!(text.contains("emulated:time=virtual") && text.contains("  on "), "{text}");
    assert!(runs_text(&RunsView { runs: Vec::new(), total: 0 }, narrow(), None).starts_with("no runs yet"));
    let moves_nothing = RunListing { bytes_per_second: Some(0.0), ..listing(2, None) };
    let text = runs_text(&RunsView { runs: vec![moves_nothing], total: 1 }, Style::plain(), None);
    assert!(text.contains("6 400 IOPS") && !text.contains("MB/s"), "{text}");
}

#[test]
fn narrow_means_at_most_eighty_columns() {
    let all = study_runs();
    let study_text = study_text(&StudyReport::of(&study(3), &all), narrow());
    let run = RunView::of(&borrowed(&cell(2, 1, 5))).unwrap();
    let (base, other) = (cell(0, 1, 3), cell(3, 2, 3));
    let comparison = CompareView::of(&borrowed(&base), &borrowed(&other)).unwrap();
    for text in [study_text, run_text(&run, narrow()), compare_text(&comparison, narrow())] {
        for line in text.lines() {
            assert!(line.width() <= 80, "{} columns: {line}", line.width());
        }
    }
}

#[test]
fn without_colour_there_are_no_escapes_and_with_it_the_words_are_the_same() {
    let run = RunView::of(&borrowed(&cell(2, 1, 2))).unwrap();
    let plain = run_text(&run, Style { color: false, width: 100, ..Style::plain() });
    let coloured = run_text(&run, Style { color: true, width: 100, ..Style::plain() });
    assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
    let mut stripped = coloured;
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    #[test]
    fn no_message_can_move_the_cursor(hostile in "(\\PC|[\x1b\r\t\n\x07]){0,40}") {
        let mut records = vec![study_runs().remove(0).record];
        records[0].stack = hostile.clone().into();
        records[0].environment.settings.insert(hostile.clone(), hostile.clone());
        records.push(nestor_results::CellRecord { outcome: nestor_results::Outcome::Failed(nestor_results::CellFailure::new(nestor_results::FailureCause::MachineLost, hostile.clone())), ..records[0].clone() });
        let all = stored(records);
        let view = RunView::of(&borrowed(&all)).unwrap();
        let text = run_text(&view, narrow());
        proptest::prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }
}

#[test]
fn times_of_a_disk_that_counted_wrongly_are_no_shares() {
    let mut measured = measured(STACKS[0], WORKLOADS[0], 10.0);
    let disk = |measured: &nestor_results::Measured| {
        crate::LayerRow::of(measured, &crate::view::ShortNames::default()).last().unwrap().service_shares
    };
    assert!(disk(&measured).is_some());
    let metrics = measured.layers.last_mut().and_then(|layer| layer.metrics.as_mut()).unwrap();
    metrics.service.as_mut().unwrap().overhead_ns = u64::MAX;
    assert_eq!(disk(&measured), None);
}
