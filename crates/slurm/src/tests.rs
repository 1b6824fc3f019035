//! A crew on a cluster that is made up: what is lost, what comes twice, and who ends what.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nestor_measure::Watcher;
use nestor_measure::campaign::{CampaignEnd, CampaignOptions, Laboratory, run_campaign_by};
use nestor_results::{
    CellKey, CellRecord, Environment, LaboratoryDigest, Measured, Outcome, RunFilter, Store, Study, TraceMode,
};
use nestor_workload::{LoadResult, OperationClass, OperationResult};
use tempfile::TempDir;

use crate::{
    ArrayJob, Cluster, Request, Settings, SharedDirectory, SlurmCrew, SlurmError, TaskCell, TaskFiles,
    TaskState, TaskStatus, take_leftovers,
};

const PLACE: &str = "emulated:time=virtual";

/// A made-up result of a cell; the same for the same cell and `bytes`.
fn record(job: &ArrayJob, cell: &TaskCell, bytes: u64) -> CellRecord {
    let key = &cell.cell.key;
    let write = OperationResult { operations: bytes / 4096, bytes, ..OperationResult::default() };
    let load = LoadResult {
        elapsed_ns: 10_000_000_000,
        operations: BTreeMap::from([(OperationClass("write".to_owned()), write)]),
        ..LoadResult::default()
    };
    let measured = Measured { load, host_cpu_busy: 0.3, ..Measured::default() };
    CellRecord {
        stack: key.stack.clone(),
        workload: key.workload.clone(),
        study: Some(job.study.0.clone()),
        study_hash: Some(job.study.1.clone()),
        block: key.block,
        repeat: key.repeat,
        position: cell.cell.position,
        trace: cell.trace,
        untraced_twin: key.untraced_twin,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        cell_s: 12.5,
        load_s: None,
        outcome: Outcome::Measured(measured),
        marks: Vec::new(),
        environment: Environment { ground: job.place.clone(), ..Environment::default() },
    }
}

/// How a task of the made-up cluster goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It measures everything.
    Done,
    /// It measures so many cells, and dies with the next under way; Slurm then says this state.
    Dies(usize, &'static str),
    /// As `Dies`, but after Slurm has given it up, it publishes everything; with other numbers if `true`.
    Returns(bool),
    /// Its node refuses.
    Refuses,
    /// It never says anything.
    Silent,
}

/// One array job of the made-up cluster.
struct Submitted {
    job: ArrayJob,
    directory: PathBuf,
    fates: Vec<Fate>,
    looks: usize,
    arguments: Vec<String>,
}

/// What is seen of the made-up cluster from outside.
#[derive(Default)]
struct Seen {
    jobs: Vec<Submitted>,
    cancelled: Vec<(String, bool)>,
    notes: Vec<String>,
}

/// Decides the fate of a task by the numbers of the array job and of the task, from 0.
type Fates = Box<dyn Fn(usize, usize) -> Fate>;

struct MadeUp {
    seen: Rc<RefCell<Seen>>,
    fates: Fates,
    /// Whether it refuses these arguments of `sbatch`.
    refuses: fn(&[String]) -> bool,
}

impl Submitted {
    fn node(task: usize) -> String {
        format!("n{}", task % 2 + 1)
    }

    fn publish(&self, task: usize, cells: usize, bytes: u64, cell_s: f64) {
        let folder = TempDir::new().unwrap();
        let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
        for cell in &self.job.tasks[task][..cells] {
            store.insert(&CellRecord { cell_s, ..record(&self.job, cell, bytes) }).unwrap();
        }
        TaskFiles::of(&self.directory, task).publish(&store).unwrap();
    }

    fn say(&self, task: usize, status: TaskStatus) {
        let status = TaskStatus { node: Self::node(task), ..status };
        TaskFiles::of(&self.directory, task).say(&status).unwrap();
    }

    /// Slurm is asked: each task waits at the first look, runs at the second, and has ended at the third.
    fn look(&self, task: usize) -> TaskState {
        let all = self.job.tasks[task].len();
        let ended = |state: &str| TaskState::Ended(state.to_owned(), Self::node(task));
        match (self.looks, self.fates[task]) {
            (0 | 1, _) => return TaskState::Waits("Resources".to_owned()),
            (2, Fate::Done) => self.publish(task, all, 4096, 12.5),
            (2, Fate::Dies(cells, _)) => {
                self.publish(task, cells, 4096, 12.5);
                self.say(task, TaskStatus { under_way: Some(cells), ..TaskStatus::default() });
            }
            (2, Fate::Returns(_)) => {
                self.say(task, TaskStatus { under_way: Some(0), ..TaskStatus::default() })
            }
            (3, Fate::Done) => self.say(task, TaskStatus { ended: true, ..TaskStatus::default() }),
            (3, Fate::Refuses) => {
                let refusal = Some("there is no lab image".to_owned());
                self.say(task, TaskStatus { refusal, ended: true, ..TaskStatus::default() });
            }
            (6, Fate::Returns(differently)) => {
                self.publish(task, all, if differently { 8192 } else { 4096 }, 99.0)
            }
            _ => {}
        }
        match (self.looks, self.fates[task]) {
            (2, _) => TaskState::Runs(Self::node(task)),
            (_, Fate::Done) => ended("COMPLETED"),
            (_, Fate::Dies(_, state)) => ended(state),
            (_, Fate::Returns(_)) => ended("NODE_FAIL"),
            (_, Fate::Refuses | Fate::Silent) => ended("FAILED"),
        }
    }
}

impl Cluster for MadeUp {
    fn submit(&mut self, arguments: &[OsString]) -> Result<String, SlurmError> {
        let arguments: Vec<String> = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        if (self.refuses)(&arguments) {
            return Err(SlurmError::Refused { program: "sbatch", said: "not available".to_owned() });
        }
        let file = Path::new(arguments.last().unwrap());
        let job: ArrayJob = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let mut seen = self.seen.borrow_mut();
        let number = seen.jobs.len();
        let fates = (0..job.tasks.len()).map(|task| (self.fates)(number, task)).collect();
        let directory = file.parent().unwrap().to_owned();
        seen.jobs.push(Submitted { job, directory, fates, looks: 0, arguments });
        Ok(number.to_string())
    }

    fn tasks(&mut self, job: &str) -> Result<Option<BTreeMap<usize, TaskState>>, SlurmError> {
        let mut seen = self.seen.borrow_mut();
        let at: usize = job.parse().unwrap();
        let is_cancelled = seen.cancelled.iter().any(|(cancelled, _)| cancelled == job);
        // Time passes for all of them.
        for submitted in &mut seen.jobs {
            submitted.looks += 1;
            if submitted.looks == 1 {
                return Ok(None);
            }
            (0..submitted.job.tasks.len()).for_each(|task| drop(submitted.look(task)));
        }
        let submitted = &seen.jobs[at];
        let states = (0..submitted.job.tasks.len()).map(|task| match submitted.look(task) {
            TaskState::Waits(_) if is_cancelled => {
                (task, TaskState::Ended("CANCELLED".to_owned(), String::new()))
            }
            state => (task, state),
        });
        Ok(Some(states.collect()))
    }

    fn cancel(&mut self, job: &str, name: &str, only_waiting: bool) -> Result<(), SlurmError> {
        assert_eq!(name, "nestor-made-up");
        self.seen.borrow_mut().cancelled.push((job.to_owned(), only_waiting));
        Ok(())
    }
}

struct Silent;

impl Watcher for Silent {
    fn cell_begins(&self, _: &CellKey, _: usize, _: usize, _: Option<Duration>) {}
    fn step(&self, _: &str) {}
    fn cell_ended(&self, _: &CellRecord, _: i64) {}
    fn cell_known(&self, _: &CellRecord, _: i64) {}
}

struct Table {
    folder: TempDir,
    seen: Rc<RefCell<Seen>>,
    refuses: fn(&[String]) -> bool,
}

impl Table {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), seen: Rc::default(), refuses: |_| false }
    }

    fn shared(&self, hash: &str) -> SharedDirectory {
        SharedDirectory::open(&self.folder.path().join("slurm"), hash).unwrap()
    }

    fn store(&self) -> Store {
        Store::open(&self.folder.path().join("r.sqlite")).unwrap()
    }

    fn crew(&self, study: &Study, fates: Fates) -> SlurmCrew<MadeUp> {
        let seen = Rc::clone(&self.seen);
        let settings = Settings {
            request: Request { at_once: 2, memory_mib: 100, ..Request::default() },
            job: ArrayJob {
                program: String::new(),
                place: PLACE.into(),
                laboratory: LaboratoryDigest::default(),
                study: (study.name.clone(), study.hash(&PLACE.into())),
                stacks: study.stacks.clone(),
                seed: study.seed,
                trace_to: None,
                deadline: None,
                tasks: Vec::new(),
            },
            name: "nestor-made-up".to_owned(),
            pause: Duration::ZERO,
            patience: Duration::ZERO,
            after_deadline: "too late".to_owned(),
            note: Box::new(move |text| seen.borrow_mut().notes.push(text.to_owned())),
        };
        let cluster = MadeUp { seen: Rc::clone(&self.seen), fates, refuses: self.refuses };
        SlurmCrew::new(cluster, self.shared(&study.hash(&PLACE.into())), settings).unwrap()
    }

    fn run(&self, study: &Study, fates: Fates) -> (CampaignEnd, Option<String>) {
        let mut crew = self.crew(study, fates);
        let laboratory = Laboratory { ground: PLACE.into(), digest: Some(LaboratoryDigest::default()) };
        let options = CampaignOptions { as_study: true, ..CampaignOptions::default() };
        let no = AtomicBool::new(false);
        let end = run_campaign_by(&mut crew, &laboratory, study, &mut self.store(), &options, &no, &Silent);
        (end.unwrap(), crew.finish())
    }

    /// The cells that the results file has, and that each is there once.
    fn cells(&self, study: &Study) -> BTreeSet<CellKey> {
        let filter = RunFilter { study_hash: Some(study.hash(&PLACE.into())), ..RunFilter::default() };
        let runs = self.store().runs(&filter).unwrap();
        let cells: BTreeSet<CellKey> = runs.iter().map(|run| run.record.key()).collect();
        assert_eq!(cells.len(), runs.len(), "each once");
        cells
    }

    fn notes(&self) -> String {
        self.seen.borrow().notes.join("\n")
    }
}

fn study(replications: u32) -> Study {
    let stacks = ["ext4/null", "xfs/null", "jfs/null"].map(Into::into).to_vec();
    let workloads = vec!["fio:seq-write".into(), "fio:seq-read".into()];
    Study { replications, trace: TraceMode::None, ..Study::new("made-up", "Made up", stacks, workloads) }
}

fn all_cells(study: &Study) -> BTreeSet<CellKey> {
    study.all_cells(false, &nestor_results::Decisions::default()).into_iter().collect()
}

#[test]
fn every_cell_is_measured_once_and_nothing_is_left_in_the_shared_directory() {
    let (table, study) = (Table::new(), study(2));
    let (end, failure) = table.run(&study, Box::new(|_, _| Fate::Done));
    assert_eq!((failure, end.not_run.len(), end.kept), (None, 0, 12));
    assert_eq!(table.cells(&study), all_cells(&study));
    let seen = table.seen.borrow();
    assert_eq!(seen.jobs.len(), 1, "one array job");
    assert_eq!(seen.jobs[0].job.tasks.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6]);
    let positions: Vec<u32> = seen.jobs[0].job.tasks[0].iter().map(|cell| cell.cell.position).collect();
    assert_eq!(positions, [0, 2, 4, 6, 8, 10], "by the plan");
    assert_eq!(std::fs::read_dir(table.folder.path().join("slurm")).unwrap().count(), 0);
}

#[test]
fn what_is_lost_with_a_node_runs_again() {
    let (table, study) = (Table::new(), study(2));
    let (end, failure) = table.run(
        &study,
        Box::new(|job, task| if (job, task) == (0, 1) { Fate::Dies(2, "NODE_FAIL") } else { Fate::Done }),
    );
    assert_eq!((failure, end.not_run.len(), end.kept), (None, 0, 12));
    assert_eq!(table.cells(&study), all_cells(&study));
    let seen = table.seen.borrow();
    let again: Vec<u32> = seen.jobs[1].job.tasks.concat().iter().map(|cell| cell.cell.position).collect();
    assert_eq!(again.iter().copied().collect::<BTreeSet<_>>(), [5, 7, 9, 11].into(), "only what was lost");
    insta::assert_snapshot!(seen.notes.join("\n"), @"task 1 of array job 0 was lost on n2 (NODE_FAIL): 4 cells run again elsewhere");
}

#[test]
fn a_cell_that_is_lost_again_and_again_is_given_up_and_the_others_are_not() {
    let (table, study) = (Table::new(), study(1));
    // Whichever task has the study's first cell dies with it.
    let (end, failure) = table.run(
        &study,
        Box::new(|job, task| match (job, task) {
            (0, 0) => Fate::Dies(0, "OUT_OF_MEMORY"),
            (1 | 2, 0) => Fate::Dies(0, "NODE_FAIL"),
            _ => Fate::Done,
        }),
    );
    assert_eq!(failure, None);
    let not_run: Vec<&str> = end.not_run.iter().map(|cell| cell.reason.as_str()).collect();
    assert_eq!(not_run, ["lost 3 times with its task, the last time on n1 (NODE_FAIL)"]);
    assert_eq!(table.cells(&study).len(), 5);
}

#[test]
fn a_task_that_was_only_thought_lost_changes_nothing() {
    for (differently, words) in [
        (false, "both results are the same to the last bit"),
        (true, "the two results differ, which is a defect to report; the first one counts"),
    ] {
        let (table, study) = (Table::new(), study(2));
        // The task that returns does so while a slow one still runs.
        let (end, failure) = table.run(
            &study,
            Box::new(move |job, task| match (job, task) {
                (0, 1) => Fate::Returns(differently),
                (2, _) => Fate::Done,
                (1, 0) => Fate::Dies(2, "TIMEOUT"),
                _ => Fate::Done,
            }),
        );
        assert_eq!((failure, end.not_run.len()), (None, 0));
        assert_eq!(table.cells(&study), all_cells(&study));
        assert!(table.notes().contains(words), "{}", table.notes());
    }
}

#[test]
fn a_node_that_cannot_run_cells_gets_no_more_of_them() {
    let (table, study) = (Table::new(), study(2));
    let fates: Fates = Box::new(|job, task| if (job, task) == (0, 1) { Fate::Refuses } else { Fate::Done });
    let (end, failure) = table.run(&study, fates);
    assert_eq!((failure, end.not_run.len()), (None, 0));
    assert_eq!(table.cells(&study), all_cells(&study));
    let seen = table.seen.borrow();
    assert!(seen.jobs[1].arguments.contains(&"--exclude=n2".to_owned()), "{:?}", seen.jobs[1].arguments);
    assert!(seen.cancelled.contains(&("0".to_owned(), true)), "what waits there is taken back");
    assert_eq!(seen.notes, ["n2 cannot run cells: there is no lab image"]);
}

#[test]
fn if_no_node_is_left_the_reasons_are_said() {
    let table =
        Table { refuses: |arguments| arguments.iter().any(|a| a == "--exclude=n1,n2"), ..Table::new() };
    let study = study(2);
    let (end, failure) = table.run(&study, Box::new(|_, _| Fate::Refuses));
    insta::assert_snapshot!(failure.unwrap(), @r"
    not available
      `sbatch` refused; partition, memory, time limit and other options: --slurm-partition, --slurm-time, --slurm-arg
      n1: there is no lab image
      n2: there is no lab image
    ");
    assert_eq!((end.kept, end.not_run.len()), (0, 12));
    assert!(table.cells(&study).is_empty());
}

#[test]
fn a_directory_that_nodes_do_not_share_is_found_out() {
    let (table, study) = (Table::new(), study(2));
    let (end, failure) = table.run(&study, Box::new(|_, _| Fate::Silent));
    let failure = failure.unwrap();
    assert!(failure.starts_with("3 tasks in a row ended without a sign"), "{failure}");
    assert!(failure.contains("--slurm-dir DIRECTORY"), "{failure}");
    assert_eq!((end.kept, end.not_run.len()), (0, 12));
}

#[test]
fn a_job_that_somebody_cancels_ends_the_study_and_keeps_what_it_has() {
    let (table, study) = (Table::new(), study(2));
    let fates: Fates =
        Box::new(|_, task| if task == 0 { Fate::Dies(2, "CANCELLED") } else { Fate::Dies(6, "CANCELLED") });
    let (end, failure) = table.run(&study, fates);
    assert_eq!(failure.as_deref(), Some("array job 0 was cancelled by somebody else"));
    assert_eq!((end.kept, end.not_run.len()), (8, 4));
    assert_eq!(table.seen.borrow().jobs.len(), 1, "nothing is submitted again");
    // The same study goes on where it was.
    let (end, failure) = table.run(&study, Box::new(|_, _| Fate::Done));
    assert_eq!((failure, end.kept, end.already_done), (None, 4, 8));
    assert_eq!(table.cells(&study), all_cells(&study));
}

#[test]
fn what_a_killed_controller_has_left_is_taken_once() {
    let (table, study) = (Table::new(), study(2));
    let hash = study.hash(&PLACE.into());
    let (_, failure) = table
        .run(&study, Box::new(|_, task| if task == 0 { Fate::Done } else { Fate::Dies(3, "CANCELLED") }));
    assert!(failure.is_some());
    assert_eq!(table.cells(&study).len(), 9);
    // As if it had been killed before it took anything but one result.
    let runs = table.store().runs(&RunFilter::default()).unwrap();
    std::fs::rename(table.folder.path().join("r.sqlite"), table.folder.path().join("before.sqlite")).unwrap();
    let mut store = table.store();
    store.insert(&runs[4].record).unwrap();
    let mut cluster =
        MadeUp { seen: Rc::clone(&table.seen), fates: Box::new(|_, _| Fate::Done), refuses: |_| false };
    table.seen.borrow_mut().cancelled.clear();
    let shared = table.shared(&hash);
    let left = take_leftovers(&mut cluster, &shared, "nestor-made-up", &hash, &mut store).unwrap();
    assert_eq!((left.taken, left.jobs), (8, vec!["0".to_owned()]));
    assert_eq!(table.seen.borrow().cancelled, [("0".to_owned(), false)], "it may still run");
    assert_eq!(table.cells(&study).len(), 9);
    let again = take_leftovers(&mut cluster, &shared, "nestor-made-up", &hash, &mut store).unwrap();
    assert_eq!(again.taken, 0);
    assert!(shared.arrays().is_empty());
}
