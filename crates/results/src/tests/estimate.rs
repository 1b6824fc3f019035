//! What a study will take: from nothing, from past cells, and what is left of it.

use nestor_statistics::sequential::StopRule;

use crate::{CellKey, CellSample, Decisions, Effort, Estimator, PastCell, Study};

const NESTED: &str = "ext3/kvm/raw/jfs/hdd";
/// A workload with a limit of time of its own, and one without.
const LIMITED: &str = "fio:seq-write:runtime=20s";
const UNLIMITED: &str = "fio:seq-write:runtime=off";

fn past(stack: &str, workload: &str, cell_s: f64, measured_s: f64) -> PastCell {
    PastCell { stack: stack.into(), workload: workload.into(), cell_s, load_s: measured_s, measured_s }
}

fn cell_s(estimator: &Estimator, stack: &str, workload: &str) -> (f64, f64) {
    estimator.cell_s(&stack.into(), &workload.into())
}

#[test]
fn where_nothing_is_known_the_workloads_own_limit_counts() {
    let nothing = Estimator::of(&[]);
    assert!(!nothing.knows_anything() && !nothing.knows(&NESTED.into(), &LIMITED.into()));
    assert_eq!(cell_s(&nothing, NESTED, LIMITED), (35.0, 20.0));
    assert_eq!(cell_s(&nothing, NESTED, UNLIMITED), (45.0, 30.0));
    assert_eq!(cell_s(&nothing, "no stack", "no workload"), (45.0, 30.0));
}

#[test]
fn the_same_cell_is_told_by_its_medians() {
    let cells = [(100.0, 60.0), (150.0, 70.0), (110.0, 60.0)];
    let estimator =
        Estimator::of(&cells.map(|(cell_s, measured_s)| past(NESTED, LIMITED, cell_s, measured_s)));
    assert!(estimator.knows_anything() && estimator.knows(&NESTED.into(), &LIMITED.into()));
    // 40, 80 and 50 s besides the measurement; 60, 70 and 60 s of it.
    assert_eq!(cell_s(&estimator, NESTED, LIMITED), (110.0, 60.0));
}

#[test]
fn the_nearest_that_is_known_is_taken() {
    let estimator = Estimator::of(&[
        past(NESTED, LIMITED, 25.0, 5.0),
        past("xfs/kvm/raw/xfs/hdd", LIMITED, 36.0, 6.0),
        past("xfs/kvm/raw/xfs/ssd", LIMITED, 57.0, 7.0),
        past("xfs/kvm/raw/xfs/ssd", "fio:rand-read:runtime=9s", 108.0, 8.0),
    ]);
    // The same layers under the same kind of workload: both of its times.
    assert_eq!(cell_s(&estimator, "ext3/kvm:cache=writeback/raw/jfs/hdd", UNLIMITED), (25.0, 5.0));
    // The same host: how long it took besides. How long it is measured, the workload's own limit says.
    assert_eq!(cell_s(&estimator, "ext4/kvm/raw/xfs/hdd", LIMITED), (50.0, 20.0));
    assert_eq!(cell_s(&estimator, "ext4/kvm/raw/xfs/hdd", UNLIMITED), (36.0, 6.0));
    // The same kind of workload elsewhere: 20, 30 and 50 s besides 5, 6 and 7 s.
    assert_eq!(cell_s(&estimator, "ext4/kvm/null", UNLIMITED), (36.0, 6.0));
    // Anything: 20, 30, 50 and 100 s besides 5, 6, 7 and 8 s.
    assert_eq!(cell_s(&estimator, "ext4/kvm/null", "fio:mixed:runtime=off"), (46.5, 6.5));
}

#[test]
fn a_machine_beside_another_takes_longer_to_make() {
    let nothing = Estimator::of(&[]);
    assert_eq!(cell_s(&nothing, "nfs/link/xfs/hdd", LIMITED), (60.0, 20.0));
    assert_eq!(cell_s(&nothing, "ext4/kvm/raw/nfs/link/xfs/hdd", LIMITED), (60.0, 20.0));
}

#[test]
fn a_host_is_what_is_below_the_virtual_machine_whatever_is_in_it() {
    let (native, on_nfs) = ("nfs/link/xfs/hdd", "ext2/kvm/raw/nfs/link/xfs/hdd");
    let estimator = Estimator::of(&[past(native, LIMITED, 30.0, 10.0), past(on_nfs, LIMITED, 90.0, 10.0)]);
    // A partition in the guest does not change its host.
    assert_eq!(cell_s(&estimator, "ext2/part:start=63s/kvm/raw/nfs/link/xfs/hdd", UNLIMITED), (90.0, 10.0));
    // Of the server's own disk nothing is known: both are as near as any.
    assert_eq!(cell_s(&estimator, "xfs/hdd", UNLIMITED), (60.0, 10.0));
    assert_eq!(cell_s(&estimator, "nfs:sync/link:rate=10mbit/xfs/hdd", UNLIMITED), (30.0, 10.0));
}

#[test]
fn in_virtual_time_a_load_takes_as_long_as_its_machine_is_slow() {
    // 20 virtual seconds took 60 real ones, and 30 s went by besides.
    let slow = PastCell { load_s: 60.0, ..past(NESTED, LIMITED, 90.0, 20.0) };
    let estimator = Estimator::of(&[slow]);
    assert_eq!(cell_s(&estimator, NESTED, LIMITED), (90.0, 60.0));
    // Another length of the same load on another host: the limit of its own, three times as long.
    assert_eq!(cell_s(&estimator, "xfs/kvm/hdd", "fio:seq-write:runtime=5s"), (45.0, 15.0));
    // 20 virtual seconds, most of them idle, took 2 real ones. The rest of the cell is not less for that.
    let fast = PastCell { load_s: 2.0, ..past(NESTED, LIMITED, 12.0, 20.0) };
    assert_eq!(cell_s(&Estimator::of(&[fast]), NESTED, LIMITED), (12.0, 2.0));
}

#[test]
fn side_by_side_all_but_the_first_boot_takes_less_long() {
    let effort = Effort { cells: 4, seconds: 140.0, load_s: 10.0 };
    assert_eq!([1, 2, 4, 99, 0].map(|n| effort.wall_s(n)), [140.0, 90.0, 65.0, 65.0, 140.0]);
    assert_eq!(Estimator::of(&[]).effort([]).wall_s(2), 40.0);
}

/// Two stacks under one workload, four blocks.
fn study() -> Study {
    let stacks = ["ext3/kvm/hdd", NESTED].map(Into::into).to_vec();
    Study { replications: 4, ..Study::new("s", "S", stacks, vec![LIMITED.into()]) }
}

#[test]
fn cells_add_up_with_one_boot() {
    let estimator = Estimator::of(&[past(NESTED, LIMITED, 110.0, 60.0)]);
    let cells: Vec<CellKey> = study().block_cells(0, false, &Decisions::default());
    let effort = estimator.effort(&cells);
    // The other one took nowhere its 50 s, but the same kind of workload did.
    assert_eq!((effort.cells, effort.seconds, effort.load_s), (2, 40.0 + 110.0 + 70.0, 80.0));
    assert_eq!(estimator.effort([]).seconds, 40.0);
}

#[test]
fn of_a_study_what_is_left_counts() {
    let estimator = Estimator::of(&[past(NESTED, LIMITED, 110.0, 60.0)]);
    let left = |study: &Study, finished: &dyn Fn(&CellKey) -> bool| {
        study.effort(&estimator, false, &Decisions::default(), finished)
    };
    let whole = left(&study(), &|_| false);
    assert_eq!((whole.most.cells, whole.known_cells), (8, 4));
    assert_eq!(whole.least, whole.most, "without a rule to stop");
    assert_eq!(whole.most.seconds, 40.0 + 4.0 * (110.0 + 70.0));
    assert!(whole.rests_on_past_cells);
    let one_block_done = left(&study(), &|cell| cell.block == 0);
    assert_eq!((one_block_done.most.cells, one_block_done.known_cells), (6, 3));
    let done = left(&study(), &|_| true);
    assert_eq!((done.most.cells, done.most.load_s, done.results_bytes), (0, 0.0, 0));
    let ruled = Study { stop: Some(StopRule { looks: vec![3, 4], ..StopRule::default() }), ..study() };
    let whole = left(&ruled, &|_| false);
    assert_eq!((whole.least.cells, whole.most.cells), (6, 8));
    // Of two blocks that have run, what is left until the first look is one.
    let two_done = left(&ruled, &|cell| cell.block < 2);
    assert_eq!((two_done.least.cells, two_done.most.cells), (2, 4));
}

#[test]
fn settled_comparisons_are_left_out() {
    let ruled = Study { stop: Some(StopRule { looks: vec![3, 4], ..StopRule::default() }), ..study() };
    let samples: Vec<CellSample> = (0..3)
        .flat_map(|block| {
            ruled.stacks.iter().zip([100.0, 50.0]).map(move |(stack, throughput)| CellSample {
                in_virtual_time: false,
                stack: stack.clone(),
                workload: LIMITED.into(),
                block,
                repeat: 0,
                // Hardly any noise, but some: without any there is no interval.
                throughput: throughput + 0.01 * f64::from(block),
                cell_s: 60.0,
            })
        })
        .collect();
    let decisions = Decisions::of(&ruled, &samples, None);
    let left = ruled.effort(&Estimator::of(&[]), false, &decisions, &|cell| cell.block < 3);
    assert_eq!((left.least.cells, left.most.cells), (0, 0));
}

#[test]
fn space_is_twice_the_largest_data_set_and_the_results() {
    const MIB: u64 = 1 << 20;
    let of = |workloads: &[&str]| {
        let workloads = workloads.iter().map(|w| (*w).into()).collect();
        Study { workloads, ..study() }.effort(&Estimator::of(&[]), false, &Decisions::default(), &|_| false)
    };
    let one = of(&["fio:seq-write"]);
    assert_eq!((one.data_bytes(), one.results_bytes), (2 * 512 * MIB, 8 * 150_000));
    assert_eq!(one.disk_bytes, one.data_bytes() + one.results_bytes);
    // A medium is emptied between cells: the largest counts, not the sum.
    let two = of(&["fio:seq-write:scale=0.2", "fio:seq-write"]);
    assert_eq!((two.data_bytes(), two.results_bytes), (2 * 1024 * MIB, 16 * 150_000));
    assert_eq!(of(&["no workload"]).data_bytes(), 0);
}
