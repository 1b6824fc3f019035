//! Campaigns on a bench that answers at once: which cells run, in which order, and what a kill loses.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nestor_stack::Stack;
use nestor_statistics::sequential::StopRule;
use tempfile::TempDir;

use super::fixture::{self, MIB};
use crate::Bench;
use crate::campaign::{CampaignEnd, CampaignOptions, run_campaign};
use crate::cell::{CellEnd, CellRequest};
use crate::watcher::Watcher;
use nestor_results::record::{CellRecord, Mark, Outcome};
use nestor_results::{
    CellFailure, CellKey, FailureCause, LaboratoryDigest, RunFilter, Store, Study, WrittenPlace,
};

const STACKS: [&str; 3] = ["ext3/kvm/hdd", "ext3/kvm/raw/jfs/hdd", "ext3/kvm/raw/xfs/hdd"];

/// What a made-up cell does.
type Behaviour<'a> = Box<dyn Fn(&CellRequest<'_>, usize) -> CellRecord + Send + 'a>;

struct MadeUp<'a> {
    ran: Vec<CellKey>,
    behaviour: Behaviour<'a>,
}

impl Bench for MadeUp<'_> {
    fn ground(&self) -> WrittenPlace {
        "emulated".into()
    }

    fn make_room_for(&mut self, _: &[Stack]) {}

    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd {
        progress("making it up");
        let record = (self.behaviour)(request, self.ran.len());
        self.ran.push(CellKey {
            stack: request.stack.to_string().into(),
            workload: request.workload.to_string().into(),
            block: request.block,
            repeat: request.repeat,
            untraced_twin: request.untraced_twin,
        });
        CellEnd { record, refused: false }
    }
}

/// A bench on which numbers follow from what this digest is of.
struct Repeating<'a>(MadeUp<'a>, [u8; 32]);

impl Bench for Repeating<'_> {
    fn ground(&self) -> WrittenPlace {
        self.0.ground()
    }

    fn dependencies(&mut self) -> Option<LaboratoryDigest> {
        Some(LaboratoryDigest { base: self.1, ..LaboratoryDigest::default() })
    }

    fn make_room_for(&mut self, _: &[Stack]) {}

    fn run_cell(&mut self, request: &CellRequest<'_>, progress: &dyn Fn(&str)) -> CellEnd {
        self.0.run_cell(request, progress)
    }
}

/// A cell of this many bytes in ten seconds.
fn reached(request: &CellRequest<'_>, bytes: u64) -> CellRecord {
    CellRecord {
        workload: request.workload.to_string().into(),
        study: request.study.map(str::to_owned),
        study_hash: request.study_hash.map(str::to_owned),
        repeat: request.repeat,
        position: request.position,
        untraced_twin: request.untraced_twin,
        ..fixture::record(&request.stack.to_string(), request.block, bytes)
    }
}

#[derive(Default)]
struct Silent(RefCell<Vec<(u32, usize)>>);

impl Watcher for Silent {
    fn block_begins(&self, block: u32, cells: usize, _: usize, _: usize) {
        self.0.borrow_mut().push((block, cells));
    }
    fn cell_begins(&self, _: &CellKey, _: usize, _: usize, _: Option<Duration>) {}
    fn step(&self, _: &str) {}
    fn cell_ended(&self, _: &CellRecord, _: i64) {}
    fn cell_known(&self, _: &CellRecord, _: i64) {}
}

struct Table {
    _directory: TempDir,
    store: Store,
}

impl Table {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let store = Store::open(&directory.path().join("r.sqlite")).unwrap();
        Self { _directory: directory, store }
    }

    fn run(&mut self, study: &Study, behaviour: Behaviour<'_>) -> (Vec<CellKey>, CampaignEnd) {
        self.run_until(study, behaviour, &AtomicBool::new(false))
    }

    fn run_until(
        &mut self,
        study: &Study,
        behaviour: Behaviour<'_>,
        interrupted: &AtomicBool,
    ) -> (Vec<CellKey>, CampaignEnd) {
        let mut bench = MadeUp { ran: Vec::new(), behaviour };
        let end = self.run_on(vec![&mut bench], study, interrupted);
        (bench.ran, end)
    }

    fn run_on(
        &mut self,
        benches: Vec<&mut (dyn Bench + Send)>,
        study: &Study,
        interrupted: &AtomicBool,
    ) -> CampaignEnd {
        let options = CampaignOptions { as_study: true, ..CampaignOptions::default() };
        run_campaign(benches, study, &mut self.store, &options, interrupted, &Silent::default()).unwrap()
    }
}

fn study(replications: u32) -> Study {
    let stacks = STACKS.map(Into::into).to_vec();
    Study { replications, ..Study::new("made-up", "Made up", stacks, vec!["fio:seq-write".into()]) }
}

#[test]
fn a_comparison_ends_when_its_sign_is_settled_and_the_others_go_on() {
    let study = Study { stop: Some(StopRule { looks: vec![3, 5, 8], ..StopRule::default() }), ..study(8) };
    let mut table = Table::new();
    // jfs is far slower without any noise; xfs is alike with much noise.
    let (ran, end) = table.run(
        &study,
        Box::new(|request, _| {
            let stack = request.stack.to_string();
            let noise = if request.block % 2 == 0 { 30 } else { 0 };
            reached(
                request,
                match stack.as_str() {
                    s if s.contains("jfs") => 50 * MIB,
                    s if s.contains("xfs") => (85 + noise) * MIB,
                    _ => 100 * MIB,
                },
            )
        }),
    );
    let count = |stack: &str| ran.iter().filter(|c| c.stack == stack).count();
    assert_eq!(STACKS.map(count), [8, 3, 8]);
    assert!(end.not_run.is_empty(), "{:?}", end.not_run);
    assert_eq!(end.decisions.iter().count(), 2);
    // Once more: nothing is left, nothing is counted twice.
    let (again, end) = table.run(&study, Box::new(|_, _| unreachable!("everything is done")));
    assert!(again.is_empty());
    assert_eq!(end.already_done, 19);
}

#[test]
fn benches_side_by_side_run_the_same_cells_to_the_same_decisions() {
    let study = Study { stop: Some(StopRule { looks: vec![3, 5, 8], ..StopRule::default() }), ..study(8) };
    let behaviour = |request: &CellRequest<'_>, _: usize| {
        let slow = request.stack.to_string().contains("jfs");
        let noise = u64::from(request.block % 2) * 30 + u64::from(request.position % 3);
        reached(request, if slow { 50 * MIB } else { (85 + noise) * MIB })
    };
    let outcome = |benches: usize| {
        let mut table = Table::new();
        let mut crew: Vec<MadeUp<'_>> =
            (0..benches).map(|_| MadeUp { ran: Vec::new(), behaviour: Box::new(behaviour) }).collect();
        let refs = crew.iter_mut().map(|bench| bench as &mut (dyn Bench + Send)).collect();
        let end = table.run_on(refs, &study, &AtomicBool::new(false));
        let mut kept: Vec<_> = table.store.runs(&RunFilter::default()).unwrap();
        kept.sort_by_key(|run| run.record.position);
        let kept: Vec<_> = kept
            .into_iter()
            .map(|run| {
                let bytes = run.record.measured().unwrap().load.bytes();
                (run.record.position, run.record.stack.clone(), run.record.block, bytes)
            })
            .collect();
        (kept, end.decisions.iter().count(), end.not_run.len())
    };
    let alone = outcome(1);
    assert_eq!(alone.0.len(), 15, "of 24: jfs is settled early");
    assert_eq!(outcome(3), alone);
}

#[test]
fn two_benches_run_at_the_same_time() {
    let both = std::sync::Barrier::new(2);
    let mut table = Table::new();
    let mut crew = [(), ()].map(|()| MadeUp {
        ran: Vec::new(),
        behaviour: Box::new(|request: &CellRequest<'_>, _: usize| {
            // Neither goes on without the other.
            both.wait();
            reached(request, MIB)
        }),
    });
    let refs = crew.iter_mut().map(|bench| bench as &mut (dyn Bench + Send)).collect();
    let end = table.run_on(refs, &study(2), &AtomicBool::new(false));
    assert_eq!(end.kept, 6);
    assert!(crew.iter().all(|bench| bench.ran.len() == 3));
}

#[test]
fn killed_anywhere_it_ends_with_the_same_cells() {
    let study = Study { sentinels: Some(true), ..study(3) };
    let mut whole = Table::new();
    let behaviour =
        |request: &CellRequest<'_>, _: usize| reached(request, (90 + u64::from(request.position)) * MIB);
    whole.run(&study, Box::new(behaviour));
    let cells = |table: &Table| -> BTreeSet<(String, u32, u32, u32)> {
        let runs = table.store.runs(&RunFilter::default()).unwrap();
        runs.iter()
            .map(|r| (r.record.stack.to_string(), r.record.block, r.record.repeat, r.record.position))
            .collect()
    };
    let expected = cells(&whole);
    for killed_at in 0..expected.len() {
        let mut table = Table::new();
        let interrupted = AtomicBool::new(false);
        let stopping = |request: &CellRequest<'_>, ran: usize| {
            // What is torn down by the signal is not kept.
            interrupted.store(ran == killed_at, Ordering::Relaxed);
            match ran == killed_at {
                true => fixture::failed(&request.stack.to_string(), request.block, "torn down"),
                false => behaviour(request, ran),
            }
        };
        let (ran, end) = table.run_until(&study, Box::new(stopping), &interrupted);
        assert_eq!((ran.len(), end.kept), (killed_at + 1, killed_at));
        assert_eq!(end.not_run.len(), expected.len() - killed_at);
        table.run(&study, Box::new(behaviour));
        assert_eq!(cells(&table), expected, "killed at {killed_at}");
        assert_eq!(table.store.numbers(&RunFilter::default()).unwrap().len(), expected.len());
    }
}

#[test]
fn what_was_finished_when_the_signal_came_is_kept() {
    let mut table = Table::new();
    let interrupted = AtomicBool::new(false);
    let finishing = |request: &CellRequest<'_>, ran: usize| {
        interrupted.store(ran == 2, Ordering::Relaxed);
        reached(request, MIB)
    };
    let (ran, end) = table.run_until(&study(3), Box::new(finishing), &interrupted);
    assert_eq!((ran.len(), end.kept), (3, 3));
}

#[test]
fn what_failed_is_tried_once_more_in_its_block_and_kept_as_failed() {
    let mut table = Table::new();
    let (ran, end) = table.run(
        &study(2),
        Box::new(|request, ran| {
            let lost = request.stack.to_string().contains("jfs") && request.block == 0 && ran < 3;
            if lost {
                fixture::failed(&request.stack.to_string(), 0, "the guest died")
            } else {
                reached(request, MIB)
            }
        }),
    );
    let tries: Vec<u32> = ran.iter().filter(|c| c.stack.contains("jfs")).map(|c| c.block).collect();
    assert_eq!(tries, [0, 0, 1], "the second try comes before the next block");
    assert!(end.not_run.is_empty());
}

#[test]
fn a_place_that_fails_always_alike_is_given_up() {
    let mut table = Table::new();
    let always = |request: &CellRequest<'_>, _: usize| CellRecord {
        outcome: Outcome::Failed(CellFailure::new(FailureCause::MachineLost, "no machine boots")),
        ..reached(request, MIB)
    };
    let (ran, end) = table.run(&study(5), Box::new(always));
    assert_eq!(ran.len(), 3);
    assert_eq!(end.not_run[0].reason, "3 cells in a row failed for the same cause");
}

#[test]
fn runs_that_violate_an_identity_settle_nothing() {
    let study = Study { stop: Some(StopRule { looks: vec![3, 5], ..StopRule::default() }), ..study(5) };
    let mut table = Table::new();
    let (ran, _) = table.run(
        &study,
        Box::new(|request, _| {
            let mut record =
                reached(request, if request.stack.to_string() == STACKS[0] { 100 } else { 50 } * MIB);
            if request.stack.to_string().contains("jfs") {
                record.marks.push(Mark::Inconsistent { reason: "made up".to_owned() });
            }
            record
        }),
    );
    let count = |stack: &str| ran.iter().filter(|c| c.stack == stack).count();
    assert_eq!(STACKS.map(count), [5, 5, 3]);
}

#[test]
fn a_script_that_changes_meanwhile_ends_the_study() {
    let directory = TempDir::new().unwrap();
    let script = directory.path().join("x.f");
    std::fs::write(&script, "run 1").unwrap();
    let workload = format!("wml:script:file={}", script.display());
    let mut study = Study { workloads: vec![workload.into()], ..study(2) };
    study.note_files().unwrap();
    let mut table = Table::new();
    let behaviour = |request: &CellRequest<'_>, ran: usize| {
        if ran == 1 {
            std::fs::write(&script, "run 2").unwrap();
        }
        reached(request, MIB)
    };
    let (ran, end) = table.run(&study, Box::new(behaviour));
    assert_eq!((ran.len(), end.not_run.len()), (2, 4));
    assert_eq!(end.not_run[0].reason, format!("{} has changed since the study began", script.display()));
    std::fs::write(&script, "run 1").unwrap();
    let (ran, end) = table.run(&study, Box::new(|request, _| reached(request, MIB)));
    assert_eq!((ran.len(), end.already_done), (4, 2), "put back, it goes on");
}

#[test]
fn what_has_the_same_dependencies_is_not_measured_again_but_counts() {
    let mut table = Table::new();
    let mut run = |study: &Study, laboratory, again| {
        let behaviour = Box::new(|request: &CellRequest<'_>, _: usize| {
            if request.block == 0 && request.stack.to_string().contains("xfs") {
                return CellRecord {
                    outcome: Outcome::Failed(CellFailure::new(FailureCause::Other, "it fails")),
                    ..reached(request, MIB)
                };
            }
            reached(request, (90 + u64::from(request.block)) * MIB)
        });
        let mut bench = Repeating(MadeUp { ran: Vec::new(), behaviour }, [laboratory; 32]);
        let options = CampaignOptions { as_study: true, again, ..CampaignOptions::default() };
        let interrupted = AtomicBool::new(false);
        let end = run_campaign(
            vec![&mut bench],
            study,
            &mut table.store,
            &options,
            &interrupted,
            &Silent::default(),
        )
        .unwrap();
        let study_hash = Some(study.hash(&"emulated".into()));
        let kept = table.store.runs(&RunFilter { study_hash, ..RunFilter::default() }).unwrap();
        let bytes = kept.iter().filter_map(|run| Some(run.record.measured()?.load.bytes())).sum::<u64>();
        (bench.0.ran.len(), end.known, bytes)
    };
    let of = |stacks: &[&str]| {
        let stacks = stacks.iter().map(|stack| (*stack).into()).collect();
        Study { replications: 2, ..Study::new("made-up", "Made up", stacks, vec!["fio:seq-write".into()]) }
    };
    let small = of(&["ext4/hdd", "xfs/hdd"]);
    // A cell that failed is tried once more, and by another study again.
    assert_eq!(run(&small, 1, false), (5, 0, 272 * MIB));
    let larger = of(&["ext4/hdd", "xfs/hdd", "jfs/hdd"]);
    assert_eq!(run(&larger, 1, false), (4, 3, 453 * MIB), "what is known is the new study's too");
    let others = of(&["ext4/hdd", "ext2/hdd"]);
    assert_eq!(run(&others, 2, false).1, 0, "another laboratory gives other numbers");
    let anew = of(&["ext4/hdd", "ext3/hdd"]);
    assert_eq!(run(&anew, 1, true), (4, 0, 2 * 181 * MIB));
}

#[test]
fn a_guest_that_ran_out_of_memory_runs_again_only_where_numbers_may_differ() {
    let runs = |laboratory: Option<[u8; 32]>| {
        let mut table = Table::new();
        let behaviour =
            Box::new(|request: &CellRequest<'_>, _: usize| match request.stack.to_string().as_str() {
                "xfs/hdd" => CellRecord {
                    outcome: Outcome::Failed(CellFailure::new(FailureCause::NoMemory, "out of memory")),
                    ..reached(request, MIB)
                },
                _ => reached(request, MIB),
            });
        let stacks = ["ext4/hdd", "xfs/hdd"].map(Into::into).to_vec();
        let study = Study::new("made-up", "Made up", stacks, vec!["fio:seq-write".into()]);
        let bench = MadeUp { ran: Vec::new(), behaviour };
        match laboratory {
            None => table.run(&study, bench.behaviour).0.len(),
            Some(digest) => {
                let mut bench = Repeating(bench, digest);
                table.run_on(vec![&mut bench], &study, &AtomicBool::new(false));
                bench.0.ran.len()
            }
        }
    };
    assert_eq!(runs(None), 3);
    assert_eq!(runs(Some([1; 32])), 2);
}

#[test]
fn before_the_first_look_no_bench_waits_for_the_end_of_a_block() {
    // Whether the only cell of the second block begins before that of the first has ended, which waits for it where it is to.
    let is_beside_the_first = |looks: Vec<u32>, waits: bool| {
        let (begun, second) = std::sync::mpsc::channel();
        let second = std::sync::Mutex::new(second);
        let (has_ended, is_beside) = (AtomicBool::new(false), AtomicBool::new(false));
        let behaviour = |request: &CellRequest<'_>, _: usize| {
            if request.block == 0 {
                if waits {
                    second.lock().unwrap().recv_timeout(Duration::from_secs(300)).unwrap();
                }
                has_ended.store(true, Ordering::SeqCst);
            } else {
                is_beside.store(!has_ended.load(Ordering::SeqCst), Ordering::SeqCst);
                begun.send(()).unwrap();
            }
            reached(request, MIB)
        };
        let study = Study {
            stop: Some(StopRule { looks, ..StopRule::default() }),
            replications: 2,
            ..Study::new("made-up", "Made up", vec!["ext4/hdd".into()], vec!["fio:seq-write".into()])
        };
        let mut benches = [(); 2].map(|()| MadeUp { ran: Vec::new(), behaviour: Box::new(&behaviour) });
        let benches = benches.iter_mut().map(|bench| bench as &mut (dyn Bench + Send)).collect();
        Table::new().run_on(benches, &study, &AtomicBool::new(false));
        is_beside.load(Ordering::SeqCst)
    };
    assert!(is_beside_the_first(vec![2], true));
    assert!(!is_beside_the_first(vec![1, 2], false), "a look after the first block waits for it");
}
