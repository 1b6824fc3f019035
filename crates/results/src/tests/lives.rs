//! What instances of a cloud went through: checked, stored, asked for and compared.

use nestor_stack::ManagerKind;
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::claims::{Lab, change, claim};
use super::fixture::*;
use crate::checks::{Expected, marks};
use crate::claims::Evidence;
use crate::record::{CellRecord, Mark};
use crate::store::of_version;
use crate::{
    CellNumbers, ClaimKind, InstanceLife, LifeState, LivesCompared, LivesSummary, ManagedLife, Store,
    StoredRun, Study, compare, median_life, summarise,
};

const COPY: &str = "ext3/kvm/copy:scp/ext3/hdd//link/raw/ext3/hdd";
const OTHER: &str = "ext3/kvm/copy:nbd/ext3/hdd//link/raw/ext3/hdd";

fn said_of(lives: Vec<InstanceLife>) -> Vec<String> {
    let run = lived(COPY, 0, lives);
    marks(run.measured().unwrap(), &environment(), &Expected::default())
        .iter()
        .map(|mark| format!("{}: {}", mark.name(), mark.detail()))
        .collect()
}

#[test]
fn a_run_of_lives_alone_is_neither_unsteady_nor_wrong() {
    assert_eq!(said_of(vec![life_with_transfer(1.25), life_with_transfer(2.5)]), [""; 0]);
}

#[test]
fn time_that_no_state_has_makes_a_run_inconsistent() {
    let mut gap = life_with_transfer(1.0);
    // Of 13.02 s, a tenth of a second is allowed and a fifth is not.
    gap.states[2].begin_ns += 100_000_000;
    assert_eq!(said_of(vec![gap.clone()]), [""; 0]);
    gap.states[2].begin_ns += 100_000_000;
    assert_eq!(
        said_of(vec![life_with_transfer(1.0), gap]),
        [
            "inconsistent: conservation of time: the states of instance 1 take 12.820 s together, its whole life 13.020 s"
        ]
    );
}

#[test]
fn time_that_two_states_have_makes_a_run_inconsistent() {
    let mut both = life_with_transfer(1.0);
    both.states[3].begin_ns -= 1_000_000_000;
    assert_eq!(
        said_of(vec![both]),
        [
            "inconsistent: conservation of time: the states of instance 0 take 14.020 s together, its whole life 13.020 s"
        ]
    );
}

proptest! {
    #[test]
    fn states_without_gaps_are_consistent_and_a_gap_of_two_per_cent_is_not(
        seconds in prop::collection::vec(0.001..100.0_f64, 6),
        place in 1..6_usize,
    ) {
        let whole: Vec<(LifeState, f64)> = LifeState::ALL.into_iter().zip(seconds).collect();
        let mut life = life(&whole);
        prop_assert_eq!(life.unaccounted_ns(), 0);
        prop_assert_eq!(said_of(vec![life.clone()]), [""; 0]);
        let gap_ns = life.whole_ns() / 49;
        for state in &mut life.states[place..] {
            state.begin_ns += gap_ns;
            state.end_ns += gap_ns;
        }
        prop_assert_eq!(life.unaccounted_ns(), gap_ns);
        prop_assert_eq!(said_of(vec![life]).len(), 1);
    }
}

/// The rows of a query, each with its columns joined.
fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    connection
        .prepare(sql)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

const STATES: &str = "SELECT concat_ws(' ', run, instance, state, round(begin_s, 3), round(seconds, 3), own_s, from_repository_bytes >> 20, \
     to_repository_bytes >> 20, node_read_bytes, node_written_bytes >> 20, node_busy_s, repository_read_bytes >> 20, \
     repository_written_bytes, repository_busy_s, link_busy, node_cpu_busy, repository_cpu_busy, instructions, nullif(waited_s, 0)) FROM states ORDER BY run, instance, begin_s, seconds";
const LIVES: &str = "SELECT concat_ws(' ', run, instance, image_bytes >> 20, whole_s, unaccounted_s, first_process_s, hello_s) FROM lives";

#[test]
fn lives_and_states_are_in_tables() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    let mut unknown = InstanceLife { first_process_ns: None, ..life_with_transfer(2.0) };
    unknown.states[1].waited_ns = 500_000_000;
    store.insert(&lived(COPY, 0, vec![life_with_transfer(1.0), unknown])).unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(rows(&reader, LIVES), ["1 0 128 13.02 0.0 0.31 1.2", "1 1 128 13.52 0.0 1.2"]);
    assert_eq!(
        rows(&reader, STATES)[..6],
        [
            "1 0 pending 0.0 0.0 0.0 0 0 0.0",
            "1 0 transfer 0.0 1.0 0.01 130 1 0 128 0.5 127 4096 0.5 0.9 0.5 0.25 3340",
            "1 0 boot 1.01 1.5 0.0 0 0 0.0",
            "1 0 running 2.51 10.0 0.0 0 0 0.0",
            "1 0 shutdown 12.51 0.5 0.0 0 0 0.0",
            "1 0 cleanup 13.01 0.02 0.0 0 0 0.0",
        ]
    );
    let transfer = "1 1 transfer 0.0 1.5 0.01 130 1 0 128 0.5 127 4096 0.5 0.9 0.5 0.25 3340 0.5";
    assert_eq!(rows(&reader, STATES)[7], transfer, "the second waited for half a second");
}

/// The life of a manager's instance, of which nothing is counted.
fn managed_life() -> InstanceLife {
    let states = [LifeState::Pending, LifeState::Running].map(|state| (state, 1.0));
    let managed = ManagedLife {
        manager: ManagerKind::OpenNebula,
        instance: "7".to_owned(),
        poll_ns: 1,
        told_apart: vec![],
        states: vec![],
        end_uncertain_ns: 0,
    };
    InstanceLife { image_bytes: 0, hello_ns: 0, managed: Some(Box::new(managed)), ..life(&states) }
}

#[test]
fn what_a_manager_does_not_count_is_missing_in_the_tables() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
    store.insert(&lived(COPY, 0, vec![managed_life(), life_with_transfer(1.0)])).unwrap();
    let reader = store.reader().unwrap();
    let counted = "SELECT instance || ' ' || state FROM states WHERE from_repository_bytes IS NOT NULL \
         OR to_repository_bytes IS NOT NULL OR link_busy IS NOT NULL ORDER BY instance, begin_s";
    assert_eq!(rows(&reader, counted)[0], "1 pending", "nothing of instance 0");
    let known = "SELECT concat_ws(' ', instance, image_bytes IS NULL, hello_s IS NULL, whole_s) FROM lives";
    assert_eq!(rows(&reader, known), ["0 1 1 2.0", "1 0 0 13.02"]);
}

#[test]
fn an_older_file_gets_the_lives_of_its_records_and_merges_with_them() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (folder.path().join("old.sqlite"), folder.path().join("new.sqlite"));
    let run = lived(COPY, 0, vec![life_with_transfer(1.0)]);
    let connection = Connection::open(&old).unwrap();
    of_version(&connection, 13).unwrap();
    for record in [&run, &record("ext3/hdd", 0, MIB)] {
        connection
            .execute(
                "INSERT INTO runs (id, stack, workload, block, repeat, position, started_at, cell_s, outcome, ground, record) \
                 VALUES (?, ?, ?, 0, 0, 0, '', 1.0, 'measured', 'emulated', ?)",
                rusqlite::params![
                    record.content_id().unwrap(),
                    record.stack,
                    record.workload,
                    serde_json::to_string(record).unwrap()
                ],
            )
            .unwrap();
    }
    drop(connection);
    let mut merged = Store::open(&new).unwrap();
    assert_eq!(merged.merge(&old).unwrap().added, 2);
    for store in [merged, Store::open(&old).unwrap()] {
        let reader = store.reader().unwrap();
        assert_eq!(rows(&reader, LIVES), ["1 0 128 13.02 0.0 0.31 1.2"]);
        assert_eq!(rows(&reader, STATES).len(), 6);
    }
}

/// Three blocks of two stacks, the transfers of the second in half the time.
fn two_stacks() -> Vec<CellRecord> {
    let both = |block: u32| {
        let transfer_s = 4.0 + f64::from(block);
        let lives = |seconds: f64| vec![life_with_transfer(seconds), life_with_transfer(seconds + 2.0)];
        [lived(COPY, block, lives(transfer_s)), lived(OTHER, block, lives(transfer_s / 2.0))]
    };
    (0..3).flat_map(both).collect()
}

#[test]
fn claims_and_figures_can_ask_for_states_and_lives() {
    let lab = Lab::new(two_stacks());
    let stacks = [COPY, OTHER].map(Into::into).to_vec();
    let mut study = lab.study.clone();
    study.study =
        Study { name: study.study.name.clone(), ..Study::new("s", "S", stacks, vec!["life:cycle".into()]) };
    let evidence = Evidence::new(&lab.store, &study).unwrap();
    assert_eq!(
        rows(
            evidence.connection(),
            "SELECT stack || ' ' || count(*) || ' ' || round(avg(seconds), 3) || ' ' || max(instances) || ' ' || max(link_bits_per_s) \
             FROM state WHERE state = 'transfer' GROUP BY stack"
        ),
        [format!("{OTHER} 6 3.5 2 1000000000"), format!("{COPY} 6 6.0 2 1000000000")]
    );
    assert_eq!(
        rows(
            evidence.connection(),
            "SELECT block || ' ' || instance || ' ' || instances || ' ' || whole_s || ' ' || link_bits_per_s FROM life WHERE block = 2 AND stack LIKE '%scp%'"
        ),
        ["2 0 2 18.02 1000000000", "2 1 2 20.02 1000000000"]
    );
    let mut lab = lab;
    let sql = "SELECT o.run, b.run AS baseline_run, o.block, b.seconds AS baseline, o.seconds AS candidate \
               FROM state AS o JOIN state AS b ON b.block = o.block AND b.instance = o.instance AND b.state = o.state \
               WHERE o.state = 'transfer' AND o.instance = 0 AND o.stack LIKE '%nbd%' AND b.stack LIKE '%scp%'";
    let judged = lab.judge_one(claim(ClaimKind::Ratio, Some(change(-50.0)), sql));
    let effect = judged.effect.unwrap_or_else(|| panic!("{}", judged.reason));
    assert!((effect.value - 0.5).abs() < 1e-9 && effect.pairs == 3, "{effect:?}");
}

fn of_stack<'a>(runs: &'a [StoredRun], stack: &str) -> Vec<&'a StoredRun> {
    runs.iter().filter(|run| run.record.stack == *stack).collect()
}

#[test]
fn each_state_is_averaged_by_itself_over_the_runs() {
    let runs = stored(two_stacks());
    let of_copy = LivesSummary::of(&of_stack(&runs, COPY)).unwrap();
    assert_eq!(of_copy.instances, 2);
    let transfer = of_copy.seconds_in(LifeState::Transfer).unwrap();
    // Runs of 5, 6 and 7 s: the t factor of two degrees is 4.3027, and the standard error of the mean 1 / sqrt(3).
    assert!((transfer.value - 6.0).abs() < 1e-9 && transfer.samples == 3, "{transfer:?}");
    let half = transfer.interval.unwrap().half_width();
    assert!((half - 4.302_652_7 / 3.0_f64.sqrt()).abs() < 1e-6, "{half}");
    assert!((of_copy.whole_s.value - 18.02).abs() < 1e-9, "{:?}", of_copy.whole_s);
    assert_eq!(of_copy.seconds_in(LifeState::Pending).unwrap().value, 0.0);
}

#[test]
fn whole_lives_are_compared_block_by_block() {
    let runs = stored(two_stacks());
    let (copy, other) = (of_stack(&runs, COPY), of_stack(&runs, OTHER));
    let compared = LivesCompared::of(&copy, &other).unwrap();
    let ratio = compared.ratio.unwrap();
    // 15.02 / 17.02, 15.52 / 18.02, 16.02 / 19.02.
    let expected = (15.02_f64 / 17.02 * 15.52 / 18.02 * 16.02 / 19.02).cbrt();
    assert!((ratio.value - expected).abs() < 1e-9 && ratio.pairs == 3, "{ratio:?} {expected}");
    assert!(compared.paired && compared.are_all);
    assert_eq!(ratio.differs(), Some(true));
    // A load within them is compared beside.
    let mut loaded = runs.clone();
    let crate::Outcome::Measured(measured) = &mut loaded[0].record.outcome else { panic!("measured") };
    measured.load = super::fixture::measured(MIB).load;
    let compared = LivesCompared::of(&of_stack(&loaded, COPY), &of_stack(&loaded, OTHER)).unwrap();
    assert!(!compared.are_all);
}

#[test]
fn a_study_reads_the_lives_of_its_runs_from_the_tables() {
    let lab = Lab::new(two_stacks());
    let runs = stored(two_stacks());
    let from_tables = lab.store.cells(super::judged::HASH).unwrap();
    let study = &lab.study.study;
    let cell = |stack: &str| from_tables.iter().find(|cell| cell.stack == *stack).unwrap();
    for stack in [COPY, OTHER] {
        let whole = CellNumbers::of(&of_stack(&runs, stack)).unwrap();
        let both = [cell(stack), &whole].map(|numbers| numbers.lives(study).unwrap());
        assert_eq!(both[0].states.len(), 6);
        for (found, known) in both[0].states.iter().zip(&both[1].states) {
            assert_eq!((found.state, found.seconds.samples), (known.state, 3));
            assert!((found.seconds.value - known.seconds.value).abs() < 1e-9, "{found:?} {known:?}");
        }
        // The block in the middle has the median life.
        assert_eq!(cell(stack).shown_run(), whole.shown_run());
        assert_eq!(lab.store.run(cell(stack).shown_run().unwrap()).unwrap().record.block, 1);
    }
    let compared = cell(OTHER).lives_against(cell(COPY), study).unwrap();
    let known = LivesCompared::of(&of_stack(&runs, COPY), &of_stack(&runs, OTHER)).unwrap();
    let (found, known) = (compared.ratio.unwrap(), known.ratio.unwrap());
    assert!((found.value - known.value).abs() < 1e-9 && found.pairs == 3, "{found:?} {known:?}");
    assert!(compared.are_all && compared.paired);
}

#[test]
fn runs_that_contradict_themselves_do_not_count() {
    let mut runs = stored(two_stacks());
    runs[0].record.marks.push(Mark::Inconsistent { reason: "a gap".to_owned() });
    let of_copy = LivesSummary::of(&of_stack(&runs, COPY)).unwrap();
    assert_eq!(of_copy.whole_s.samples, 2);
    assert_eq!(median_life(&of_stack(&runs, COPY)).map(|run| run.record.block), Some(1));
    for run in &mut runs {
        run.record.marks.push(Mark::Inconsistent { reason: "a gap".to_owned() });
    }
    assert_eq!(LivesSummary::of(&of_stack(&runs, COPY)), None);
    assert_eq!(LivesCompared::of(&of_stack(&runs, COPY), &of_stack(&runs, OTHER)), None);
}

#[test]
fn what_has_no_operations_has_no_throughput() {
    let runs = stored(two_stacks());
    let (copy, other) = (of_stack(&runs, COPY), of_stack(&runs, OTHER));
    let summary = summarise(&copy).unwrap();
    assert!(summary.is_without_operations() && summary.throughput().is_none());
    let comparison = compare(&copy, &other).unwrap();
    assert_eq!((comparison.ratio, comparison.doubts), (None, Vec::new()));
    let loaded = stored(vec![record("ext3/hdd", 0, MIB)]);
    let summary = summarise(&loaded.iter().collect::<Vec<_>>()).unwrap();
    assert!(!summary.is_without_operations() && summary.throughput().is_some());
}

#[test]
fn loads_without_lives_have_none_to_compare() {
    let runs = stored(vec![record("ext3/hdd", 0, MIB)]);
    assert_eq!(LivesSummary::of(&runs.iter().collect::<Vec<_>>()), None);
}
