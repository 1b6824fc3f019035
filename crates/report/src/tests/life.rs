//! What instances of a cloud went through, on a terminal, in a browser, and as JSON.

use nestor_results::checks::{Expected, marks};
use nestor_results::{
    CellRecord, DiskUse, InstanceLife, LifeState, Outcome, RunListing, StateRecord, StoredRun, Study,
    StudyRecord,
};

use nestor_stack::MachineName;

use super::fixture::*;
use crate::view::CellKind;
use crate::{
    CompareView, RunView, RunsView, StudyReport, Style, compare_text, render_run, render_study, run_text,
    runs_text, study_text,
};

const COPY: &str = "ext3/kvm/copy:scp/ext3/hdd//link/raw/ext3/hdd";
const OTHER: &str = "ext3/kvm/copy:nbd/ext3/hdd//link/raw/ext3/hdd";
const CYCLE: &str = "life:cycle";

fn state(state: LifeState, begin_ms: u64, took_ms: u64, own_ms: u64) -> StateRecord {
    let is_transfer = state == LifeState::Transfer;
    let disk = |machine: &str, read_bytes, written_bytes| DiskUse {
        machine: machine.into(),
        read_bytes,
        written_bytes,
        busy_ns: 400_000_000,
    };
    StateRecord {
        own_ns: own_ms * 1_000_000,
        from_repository_bytes: if is_transfer { 134 * MIB } else { 66 },
        to_repository_bytes: if is_transfer { MIB / 2 } else { 0 },
        link_busy: if is_transfer { 0.3 } else { 0.0 },
        processors: if is_transfer {
            vec![("host".into(), 0.97), ("repository".into(), 0.6)]
        } else {
            Vec::new()
        },
        disks: match state {
            LifeState::Pending => Vec::new(),
            LifeState::Transfer => {
                vec![disk("host", 4096, 128 * MIB), disk("repository", 127 * MIB, 8192)]
            }
            _ => vec![disk("host", 12 * MIB, MIB), disk("repository", 0, 0)],
        },
        ..StateRecord::uncounted(state, begin_ms * 1_000_000, (begin_ms + took_ms + own_ms) * 1_000_000)
    }
}

/// A life whose transfer took so long.
fn life(transfer_ms: u64) -> InstanceLife {
    let mut begin_ms = 0;
    let states = [
        (LifeState::Pending, 0, 0),
        (LifeState::Transfer, transfer_ms, 20),
        (LifeState::Boot, 2_400, 0),
        (LifeState::Running, 5_000, 30),
        (LifeState::Shutdown, 700, 0),
        (LifeState::Cleanup, 15, 0),
    ];
    let states = states.map(|(of, took_ms, own_ms)| {
        let record = state(of, begin_ms, took_ms, own_ms);
        begin_ms += took_ms + own_ms;
        record
    });
    InstanceLife {
        image_bytes: 128 << 20,
        node: 0,
        states: states.to_vec(),
        first_process_ns: Some(640_000_000),
        hello_ns: 2_150_000_000,
        managed: None,
    }
}

/// A run of instances, without a load or with one.
fn lived(stack: &str, block: u32, lives: Vec<InstanceLife>, with_load: bool) -> CellRecord {
    let mut run = record(stack, "fio:rand-read:scale=0.0125", block, 14.0 + f64::from(block));
    let Outcome::Measured(measured) = &mut run.outcome else { panic!("it was measured") };
    measured.lives = lives;
    if with_load {
        run.workload = "life:cycle:run=fio:rand-read".into();
    } else {
        run.workload = CYCLE.into();
        measured.load.operations.clear();
        measured.layers.iter_mut().for_each(|layer| layer.metrics = None);
    }
    run.marks = marks(measured, &run.environment, &Expected::default());
    run
}

/// Two stacks that instances lived on, and their runs.
pub(super) fn lived_study() -> (StudyRecord, Vec<CellRecord>) {
    let study = Study::new("lives", "", vec![COPY.into(), OTHER.into()], vec![CYCLE.into()]);
    let runs = [blocks(COPY, 3_700, false), blocks(OTHER, 2_900, false)].concat();
    (StudyRecord { study, ..super::fixture::study(3) }, runs)
}

/// Three blocks whose transfers take a little longer each.
fn blocks(stack: &str, transfer_ms: u64, with_load: bool) -> Vec<CellRecord> {
    (0..3)
        .map(|block| lived(stack, block, vec![life(transfer_ms + 50 * u64::from(block))], with_load))
        .collect()
}

pub(super) fn view_of_two() -> RunView {
    // The first was done before the second, and waited.
    let mut first = life(7_100);
    first.states[1].waited_ns = 3_400_000_000;
    let runs = stored(vec![lived(COPY, 0, vec![first, life(7_100)], false)]);
    RunView::of(&borrowed(&runs)).unwrap()
}

#[test]
fn a_life_without_a_load_is_shown_without_throughput() {
    let runs = stored(blocks(COPY, 3_700, false));
    let view = RunView::of(&borrowed(&runs)).unwrap();
    insta::assert_snapshot!(run_text(&view, Style::plain()), @"
    ext3/kvm/copy:scp/ext3/hdd//link/raw/ext3/hdd  life:cycle  (one instance, in which nothing runs)
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

      11.865 ± 0.124 s  whole life of an instance  3 fresh stacks

      life of the instance  seconds   share                           link  node reads  writes  repository reads  writes
      pending                 0.000   0.0 %  |                    |    0.0           -       -                 -       -
      transfer                3.750  31.6 %  |######              |  141.0         0.0   134.2             133.2     0.0
      boot                    2.400  20.2 %  |      ####          |    0.0        12.6     1.0               0.0     0.0
      running                 5.000  42.1 %  |          ########  |    0.0        12.6     1.0               0.0     0.0
      shutdown                0.700   5.9 %  |                  # |    0.0        12.6     1.0               0.0     0.0
      cleanup                 0.015   0.1 %  |                   #|    0.0        12.6     1.0               0.0     0.0
      whole                  11.865
      transfer: the processors of the host set the pace, busy 97 % of the time
      boot: first process after 640 ms, agent's hello after 2.15 s
      link and disks in MB, without 50.0 ms of the laboratory's own
      of run 2, the one with median life

      host Linux 6.1.0-28-amd64, 2 x CPU (tcg), 41 % busy, 1.00 GiB; guest Linux 6.1.0-28-amd64, 2 x CPU (kvm), 22 % busy,
        256 MiB
      caches: emptied in every machine before measuring; disk timing: model's timing off while preparing, on while
        measuring; kvm cache: writethrough; working set: 64 MiB
      measured for 10.0 s, whole cell 14.2 s; nestor 0.1.0
      saved as runs 1 to 3      nestor report 3
    ");
}

#[test]
fn a_narrow_terminal_has_the_numbers_without_bars() {
    let text = run_text(&view_of_two(), Style::terminal(80, true));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let from = text.find("  2 instances").unwrap();
    insta::assert_snapshot!(&text[from..text.find("host Linux").unwrap()], @"
    2 instances   first  median    last   link         node   repository
    pending       0.000   0.000   0.000    0.0            -            -
    transfer      3.700   5.400   7.100  141.0  0.0 / 134.2  133.2 / 0.0
    boot          2.400   2.400   2.400    0.0   12.6 / 1.0    0.0 / 0.0
    running       5.000   5.000   5.000    0.0   12.6 / 1.0    0.0 / 0.0
    shutdown      0.700   0.700   0.700    0.0   12.6 / 1.0    0.0 / 0.0
    cleanup       0.015   0.015   0.015    0.0   12.6 / 1.0    0.0 / 0.0
    whole        11.815  13.515  15.215
    transfer: the processors of the host set the pace, busy 97 % of the time
    boot: agent's hello after 2.15 s to 2.15 s
    each state begins for all at once; seconds until the first, the middle and
      the last is done, link and disks of all together, in MB, without 50.0 ms of
      the laboratory's own
    ");
}

#[test]
fn what_the_disks_of_several_nodes_did_is_told_together_and_each_life_has_its_own() {
    let mut second = life(7_000);
    second.node = 1;
    for disk in second.states.iter_mut().flat_map(|state| &mut state.disks) {
        if disk.machine == MachineName::HOST {
            disk.machine = "host 2".into();
        }
    }
    let third = InstanceLife { node: 0, ..life(7_100) };
    let runs = stored(vec![lived(COPY, 0, vec![life(7_100), second, third], false)]);
    let view = RunView::of(&borrowed(&runs)).unwrap();
    let text = run_text(&view, Style::plain());
    assert!(text.contains("life of 3 instances on 2 nodes"), "{text}");
    let transfer = text.lines().find(|line| line.trim_start().starts_with("transfer  ")).unwrap();
    // Each of the nodes wrote 134.2 MB, and what the repository read was for all.
    assert!(transfer.contains(" 268.4 ") && transfer.contains(" 133.2 "), "{transfer}");
    let nodes: Vec<u32> = view.lives.iter().map(|life| life.node).collect();
    assert_eq!(nodes, [0, 1, 0]);
    let written = |at: usize| view.lives[at].states[1].node_disk.unwrap().written_bytes;
    assert_eq!([written(0), written(1)], [128 * MIB; 2]);
}

#[test]
fn a_load_within_a_life_keeps_its_tables() {
    let runs = stored(blocks(COPY, 3_700, true));
    let text = run_text(&RunView::of(&borrowed(&runs)).unwrap(), Style::plain());
    for said in
        ["MB/s", "latency p50", "life of the instance", "transfer", "  layers of run", "median throughput"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn the_page_of_a_run_has_a_timeline_and_a_table_of_each_instance() {
    let html = render_run(&view_of_two());
    for said in [
        "<svg class=\"lives\"",
        "states of 2 instances over time",
        "transfer: 3.700 s, from 0.000 s to 3.720 s",
        "transfer: 7.100 s, from 0.000 s to 7.120 s",
        "<caption>life of instance 1</caption>",
        "whole life, mean of 2 instances",
        "transfer: the processors of the host set the pace, busy 97\u{a0}% of the time; boot: first process after 640\u{a0}ms",
        "134\u{a0}MiB",
        ">transfer</text>",
    ] {
        assert!(html.contains(said), "{said}");
    }
    for absent in ["no number", "IOPS", "class=\"layers\"", "Physically plausible"] {
        assert!(!html.contains(absent), "{absent}");
    }
    // As wide as the axis is long: 7.1 of 15.265 s, and 20 ms of the laboratory's own.
    assert!(html.contains("width:46.64%"), "{:?}", html.find("width:4"));
}

#[test]
fn json_has_every_number_of_a_life() {
    let json = serde_json::to_value(view_of_two()).unwrap();
    let transfer = &json["lives"][1]["states"][1];
    assert_eq!(transfer["state"], "transfer");
    assert_eq!(transfer["seconds"], 7.1);
    assert_eq!(transfer["from_repository_bytes"], 134 * MIB);
    assert_eq!(transfer["repository_disk"]["read_bytes"], 127 * MIB);
    assert_eq!(json["lives"][0]["hello_s"], 2.15);
    assert_eq!(json["lives_summary"]["instances"], 2);
    let without = serde_json::to_value(RunView::of(&borrowed(&stored(runs(0, 0, 1)))).unwrap()).unwrap();
    assert!(without.get("lives").is_none() && without.get("lives_summary").is_none());
}

pub fn compared(with_load: bool) -> CompareView {
    let (from, to) = (stored(blocks(COPY, 3_700, with_load)), stored(blocks(OTHER, 1_300, with_load)));
    CompareView::of(&borrowed(&from), &borrowed(&to)).unwrap().in_random_order()
}

#[test]
fn stacks_are_compared_by_each_state_and_the_whole_life() {
    insta::assert_snapshot!(compare_text(&compared(false), Style::plain()), @r"
    life:cycle  (one instance, in which nothing runs)
    on an emulated host (TCG, no KVM here): shapes and ratios hold, absolute CPU-bound numbers do not

      baseline   ext3/kvm/copy:scp/ext3/hdd//link/raw/ext3/hdd
      candidate  ext3/kvm/copy:nbd/ext3/hdd//link/raw/ext3/hdd

      lives            pending       transfer           boot        running       shutdown        cleanup           whole  n
      baseline   0.000 ± 0.000  3.750 ± 0.124  2.400 ± 0.000  5.000 ± 0.000  0.700 ± 0.000  0.015 ± 0.000  11.865 ± 0.124  3
      candidate  0.000 ± 0.000  1.350 ± 0.124  2.400 ± 0.000  5.000 ± 0.000  0.700 ± 0.000  0.015 ± 0.000   9.465 ± 0.124  3
      whole life -20.2 % [-20.4, -20.0]   3 pairs, order random
      in seconds: the mean over fresh stacks ± half its interval of 95 %

      runs 1, 2, 3 against 1, 2, 3      nestor report RUN
    ");
}

#[test]
fn a_narrow_comparison_has_a_row_for_each_state() {
    let text = compare_text(&compared(false), Style::terminal(80, true));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let from = text.find("  lives").unwrap();
    insta::assert_snapshot!(&text[from..], @r"
    lives           baseline      candidate
    pending    0.000 ± 0.000  0.000 ± 0.000
    transfer   3.750 ± 0.124  1.350 ± 0.124
    boot       2.400 ± 0.000  2.400 ± 0.000
    running    5.000 ± 0.000  5.000 ± 0.000
    shutdown   0.700 ± 0.000  0.700 ± 0.000
    cleanup    0.015 ± 0.000  0.015 ± 0.000
    whole     11.865 ± 0.124  9.465 ± 0.124
    n                      3              3
    whole life -20.2 % [-20.4, -20.0]   3 pairs, order random
    in seconds: the mean over fresh stacks ± half its interval of 95 %

    runs 1, 2, 3 against 1, 2, 3      nestor report RUN
    ");
}

#[test]
fn a_load_within_lives_is_compared_before_them() {
    let text = compare_text(&compared(true), Style::plain());
    let places = ["MB/s", "lives", "transfer", "whole life -"].map(|said| text.find(said).expect(said));
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn one_run_of_each_has_no_interval() {
    let (from, to) = (stored(blocks(COPY, 3_700, false)), stored(blocks(OTHER, 1_300, false)));
    let view = CompareView::of(&borrowed(&from)[..1], &borrowed(&to)[..1]).unwrap();
    let text = compare_text(&view, Style::plain());
    assert!(text.contains("1 pair: no interval, order random") && !text.contains("000 ±"), "{text}");
}

/// A study of both stacks, with a load that is no life or without.
fn study_of_lives(with_a_load_beside: bool) -> (StudyRecord, Vec<StoredRun>) {
    let mut records = blocks(COPY, 3_700, false);
    records.extend(blocks(OTHER, 1_300, false));
    let mut workloads = vec![CYCLE.into()];
    if with_a_load_beside {
        records.extend(runs_of(COPY).into_iter().chain(runs_of(OTHER)));
        workloads.push(WORKLOADS[0].into());
    }
    let stacks = [COPY, OTHER].map(Into::into).to_vec();
    let mut record = study(3);
    record.study = Study {
        replications: 3,
        baselines: [(OTHER.into(), COPY.into())].into(),
        ..Study::new("lives", "A study of lives", stacks, workloads)
    };
    (record, stored(records))
}

fn runs_of(stack: &str) -> Vec<CellRecord> {
    (0..3).map(|block| record(stack, WORKLOADS[0], block, 20.0 + f64::from(block))).collect()
}

#[test]
fn a_study_of_lives_compares_whole_lives() {
    let (record, runs) = study_of_lives(false);
    let report = StudyReport::of(&record, &runs);
    let text = study_text(&report, Style::plain());
    for said in [
        "No load ran in the lives of 2 cells; whole lives against a baseline: 1 shorter.",
        "life 11.865 ± 0.124 s",
        "life -20.2 % [-20.4, -20.0]",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let kinds: Vec<CellKind> = report.matrices[0].cells.iter().flatten().map(|cell| cell.kind).collect();
    assert_eq!(kinds, [CellKind::WithoutOperations; 2]);
    let html = render_study(&report);
    let (page, _script) = html.split_once("<script").unwrap();
    assert!(page.contains("<svg class=\"lives\"") && page.contains("life\u{a0}−20.2\u{a0}%"));
    // The cell is that of all its runs, though one is shown.
    assert!(page.contains("11.865\u{a0}±\u{a0}0.124\u{a0}s") && page.contains("3 fresh stacks"));

    for said in [&text, page] {
        for wrong in ["NaN", "inf ", "0 IOPS", "0.00 IOPS", "failed:"] {
            assert!(!said.contains(wrong), "{wrong}");
        }
    }
}

#[test]
fn loads_beside_lives_are_compared_as_ever() {
    let (record, runs) = study_of_lives(true);
    let text = study_text(&StudyReport::of(&record, &runs), Style::plain());
    assert!(
        text.contains("No load ran in the lives of 2 cells") && text.contains("1 comparison with a baseline"),
        "{text}"
    );
}

#[test]
fn a_list_of_runs_names_lives_without_a_throughput() {
    let listing = RunListing {
        number: 7,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        study: None,
        stack: COPY.into(),
        workload: CYCLE.into(),
        ground: "emulated".into(),
        bytes_per_second: Some(0.0),
        operations_per_second: Some(0.0),
        failure: None,
        marks: Vec::new(),
    };
    let text = runs_text(&RunsView { runs: vec![listing], total: 1 }, Style::plain(), None);
    assert!(text.contains("no operations") && !text.contains("IOPS"), "{text}");
}
