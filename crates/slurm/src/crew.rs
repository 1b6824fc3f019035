//! The crew of a campaign whose cells run on a cluster.

mod settling;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nestor_measure::cell::CellEnd;
use nestor_measure::{Crew, Order, Said};
use nestor_results::{CellKey, CellRecord, StoreError};

use crate::array::{ArrayJob, TaskCell, deal, tasks_for};
use crate::cluster::{Cluster, TaskState};
use crate::files::SharedDirectory;
use crate::sbatch::{Request, SCRIPT, SubmittedFiles, arguments};
use crate::task::{FileVersion, TaskFiles, TaskStatus};

/// So many nodes that cannot run cells, and nothing measured in between, end the study.
const MOST_REFUSALS: usize = 3;

/// How often finished tasks are looked at until they have ended.
const LOOKS_AT_THE_END: usize = 20;

/// What applies to all array jobs of a study.
pub struct Settings {
    /// How tasks are asked for.
    pub request: Request,
    /// What the tasks have in common; its `tasks` are empty.
    pub job: ArrayJob,
    /// Name of the array jobs, by which they are known as this study's.
    pub name: String,
    /// How long to wait between two looks at the shared directory.
    pub pause: Duration,
    /// How long the shared directory may be behind.
    pub patience: Duration,
    /// Why a cell is not begun after the deadline.
    pub after_deadline: String,
    /// Tells the user what happened.
    pub note: Box<dyn Fn(&str)>,
}

/// Runs cells as array jobs.
pub struct SlurmCrew<C: Cluster> {
    cluster: C,
    directory: SharedDirectory,
    settings: Settings,
    program: PathBuf,
    /// Cells that are to be submitted.
    handed: Vec<Order>,
    /// Cells without a report, each with its task where it is in one.
    open: HashMap<CellKey, Open>,
    arrays: Vec<Array>,
    said: VecDeque<Said>,
    /// Ids of the results that were taken.
    taken: HashSet<String>,
    /// What cells came to that were reported.
    outcomes: HashMap<CellKey, String>,
    /// Nodes that cannot run cells, and why.
    refusing: BTreeMap<String, String>,
    /// Of them, those since something was measured.
    refusals: BTreeSet<String>,
    silent_tasks: usize,
    withdrawn: bool,
    no_answer: bool,
    gave_up: bool,
    failure: Option<String>,
}

struct Open {
    order: Order,
    losses: u32,
    /// The array job, by its place, and the task that has it now.
    task: Option<(usize, usize)>,
}

struct Array {
    number: String,
    tasks: Vec<Task>,
    states: BTreeMap<usize, TaskState>,
    /// When Slurm was asked for the first time, and the last time.
    asked: Option<(Instant, Instant)>,
    /// Whether its waiting tasks were taken back.
    withdrawn: bool,
}

impl Array {
    fn is_over(&self) -> bool {
        self.tasks.iter().all(|task| task.over)
    }
}

struct Task {
    files: TaskFiles,
    cells: Vec<CellKey>,
    status: Option<TaskStatus>,
    seen: Option<FileVersion>,
    /// Since when Slurm says that it has ended.
    ended: Option<Instant>,
    /// Whether nothing more is expected of it.
    over: bool,
}

impl<C: Cluster> SlurmCrew<C> {
    /// A crew that uses a directory.
    ///
    /// # Errors
    /// If this program cannot be put there.
    pub fn new(cluster: C, directory: SharedDirectory, settings: Settings) -> io::Result<Self> {
        let program = directory.program()?;
        Ok(Self {
            cluster,
            directory,
            settings,
            program,
            handed: Vec::new(),
            open: HashMap::new(),
            arrays: Vec::new(),
            said: VecDeque::new(),
            taken: HashSet::new(),
            outcomes: HashMap::new(),
            refusing: BTreeMap::new(),
            refusals: BTreeSet::new(),
            silent_tasks: 0,
            withdrawn: false,
            no_answer: false,
            gave_up: false,
            failure: None,
        })
    }

    /// Ends what is left, and returns why nothing more could be run, if so. The directory stays if something went wrong.
    pub fn finish(mut self) -> Option<String> {
        // Tasks whose results are all there end by themselves.
        for _ in 0..LOOKS_AT_THE_END {
            if self.withdrawn || self.arrays.iter().all(Array::is_over) {
                break;
            }
            std::thread::sleep(self.settings.pause);
            self.look();
        }
        if !self.withdrawn {
            self.cancel_all();
        }
        if !self.withdrawn && !self.gave_up {
            // What is left of it is used or removed by the next run.
            let _ = self.directory.remove();
        }
        self.failure
    }

    fn submit(&mut self) -> Result<(), String> {
        let mut orders = std::mem::take(&mut self.handed);
        orders.sort_by_key(|order| order.cell.position);
        let tasks = tasks_for(orders.len(), self.settings.request.at_once);
        let dealt = deal(orders, tasks);
        let cells = |task: &Vec<Order>| task.iter().map(TaskCell::of).collect();
        let job = ArrayJob { tasks: dealt.iter().map(cells).collect(), ..self.settings.job.clone() };
        let directory = self
            .write_job(&job)
            .map_err(|e| format!("{} cannot be written to: {e}", self.directory.path().display()))?;
        let (script, job_file) = (directory.join("task.sh"), directory.join("job.json"));
        let files =
            SubmittedFiles { directory: &directory, script: &script, program: &self.program, job: &job_file };
        let without: Vec<String> = self.refusing.keys().cloned().collect();
        let arguments = arguments(&self.settings.request, &self.settings.name, tasks, &without, &files);
        let number = self.cluster.submit(&arguments).map_err(|e| self.with_refusals(&e.to_string()))?;
        let kept = nestor_ownership::replace(&directory.join("job-number"), 0o600, number.as_bytes());
        if let Err(e) = kept {
            let _ = self.cluster.cancel(&number, &self.settings.name, false);
            return Err(format!("{} cannot be written to: {e}", directory.display()));
        }
        let mut tasks = Vec::new();
        for (task, orders) in dealt.into_iter().enumerate() {
            let cells: Vec<CellKey> = orders.into_iter().map(|order| order.cell.key).collect();
            for key in &cells {
                if let Some(open) = self.open.get_mut(key) {
                    open.task = Some((self.arrays.len(), task));
                }
            }
            let files = TaskFiles::of(&directory, task);
            tasks.push(Task { files, cells, status: None, seen: None, ended: None, over: false });
        }
        self.arrays.push(Array { number, tasks, states: BTreeMap::new(), asked: None, withdrawn: false });
        Ok(())
    }

    fn write_job(&self, job: &ArrayJob) -> io::Result<PathBuf> {
        let directory = self.directory.new_array()?;
        nestor_ownership::replace(&directory.join("task.sh"), 0o600, SCRIPT.as_bytes())?;
        nestor_ownership::replace(&directory.join("job.json"), 0o600, &serde_json::to_vec(job)?)?;
        Ok(directory)
    }

    fn with_refusals(&self, error: &str) -> String {
        let refusals = self.refusing.iter().map(|(node, why)| format!("\n  {node}: {why}"));
        refusals.fold(error.to_owned(), |text, refusal| text + &refusal)
    }

    /// Stops: nothing more can be run.
    fn fail(&mut self, why: String) {
        if self.failure.is_some() {
            return;
        }
        self.said.push_back(Said::Stopped(why.clone()));
        self.failure = Some(why);
        self.withdraw();
    }

    fn cancel_all(&mut self) {
        for array in &self.arrays {
            if !array.is_over() {
                (self.settings.note)(&format!("array job {} is cancelled", array.number));
                if let Err(e) = self.cluster.cancel(&array.number, &self.settings.name, false) {
                    (self.settings.note)(&format!("array job {} could not be cancelled: {e}", array.number));
                }
            }
        }
    }

    /// Looks once at all array jobs.
    fn look(&mut self) {
        for at in 0..self.arrays.len() {
            self.ask(at);
            for task in 0..self.arrays[at].tasks.len() {
                self.collect(at, task);
                if !self.arrays[at].tasks[task].over {
                    self.settle(at, task);
                }
            }
        }
    }

    /// Asks Slurm for the states of an array job, the less often the longer it runs: it serves a whole cluster.
    fn ask(&mut self, at: usize) {
        let array = &mut self.arrays[at];
        if array.is_over() {
            return;
        }
        if let Some((first, last)) = array.asked {
            let between = (first.elapsed() / 20).clamp(self.settings.pause, self.settings.pause * 15);
            if last.elapsed() < between {
                return;
            }
        }
        let now = Instant::now();
        array.asked = Some((array.asked.map_or(now, |(first, _)| first), now));
        match self.cluster.tasks(&array.number) {
            Ok(Some(states)) => {
                self.no_answer = false;
                let ended = |task: usize| {
                    !matches!(states.get(&task), Some(TaskState::Waits(_) | TaskState::Runs(_)))
                };
                for (number, task) in array.tasks.iter_mut().enumerate() {
                    task.ended = ended(number).then(|| task.ended.unwrap_or(now));
                }
                array.states = states;
            }
            // It may be restarted meanwhile; the tasks go on.
            Ok(None) => self.no_answer = true,
            Err(e) => self.fail(e.to_string()),
        }
    }

    /// Takes the results that a task has published since the last look.
    fn collect(&mut self, at: usize, number: usize) {
        let task = &mut self.arrays[at].tasks[number];
        if !task.over {
            task.status = task.files.status().or(task.status.take());
        }
        let version = task.files.version();
        if version.is_none() || version == task.seen {
            return;
        }
        let refused = task.status.as_ref().map(|status| status.refused_stacks.clone()).unwrap_or_default();
        let refused: HashSet<CellKey> =
            refused.iter().filter_map(|&cell| task.cells.get(cell).cloned()).collect();
        match task.files.results() {
            Ok(results) => {
                task.seen = version;
                for (id, record) in results {
                    if self.taken.insert(id) {
                        self.take(record, &refused);
                    }
                }
            }
            // A file that is replaced at this moment, on a file system that shows the change late.
            Err(StoreError::CannotOpen { .. } | StoreError::Missing { .. }) => {}
            Err(e) => (self.settings.note)(&format!("results of a task cannot be read: {e}")),
        }
    }

    /// Takes a result. Of a cell that was thought lost there may be two; the first one counts.
    fn take(&mut self, record: CellRecord, refused: &HashSet<CellKey>) {
        let key = record.key();
        self.refusals.clear();
        self.silent_tasks = 0;
        let digest = record.outcome_digest().unwrap_or_default();
        if let Some(open) = self.open.remove(&key) {
            self.handed.retain(|order| order.cell.key != key);
            if record.measured().is_some() {
                self.outcomes.insert(key.clone(), digest);
            }
            let end = CellEnd { refused: refused.contains(&key), record };
            self.said.push_back(Said::Ended(Box::new((open.order.cell, end))));
        } else if let Some(first) = self.outcomes.get(&key).filter(|_| record.measured().is_some()) {
            (self.settings.note)(&second_result(&record, *first == digest));
        }
    }

    /// `2 tasks run (n1, n2), 3 wait (Resources)`.
    fn activity(&self) -> String {
        let (mut nodes, mut reasons) = (BTreeSet::new(), BTreeSet::new());
        let (mut run, mut wait) = (0, 0);
        for array in &self.arrays {
            for (number, _) in array.tasks.iter().enumerate().filter(|(_, task)| !task.over) {
                match array.states.get(&number) {
                    Some(TaskState::Runs(node)) => {
                        run += 1;
                        nodes.insert(node.as_str());
                    }
                    Some(TaskState::Waits(reason)) => {
                        wait += 1;
                        reasons.insert(reason.as_str());
                    }
                    _ => {}
                }
            }
        }
        let list = |words: BTreeSet<&str>| {
            let shown = words.iter().take(4).copied().collect::<Vec<_>>().join(", ");
            if words.len() > 4 { format!("{shown}, …") } else { shown }
        };
        let mut parts = Vec::new();
        if run > 0 {
            parts.push(format!(
                "{run} {} on {}",
                if run == 1 { "task runs" } else { "tasks run" },
                list(nodes)
            ));
        }
        if wait > 0 {
            parts.push(format!("{wait} wait ({})", list(reasons)));
        }
        if self.no_answer {
            parts.push("Slurm does not answer at present".to_owned());
        }
        if parts.is_empty() { "waiting for Slurm".to_owned() } else { parts.join(", ") }
    }
}

fn second_result(record: &CellRecord, is_same: bool) -> String {
    let cell = format!("{}  {}, block {}", record.stack, record.workload, record.block + 1);
    if is_same {
        format!(
            "{cell}: measured twice, because its task was thought lost; both results are the same to the last bit"
        )
    } else if record.environment.is_in_virtual_time() {
        format!(
            "{cell}: measured twice, because its task was thought lost, and the two results differ, which is a defect to report; \
             the first one counts"
        )
    } else {
        format!("{cell}: measured twice, because its task was thought lost; the first result counts")
    }
}

impl<C: Cluster> Crew for SlurmCrew<C> {
    fn has_free(&self) -> bool {
        !self.withdrawn
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.said.is_empty()
    }

    fn side_by_side(&self) -> usize {
        self.settings.request.at_once.max(1)
    }

    fn begin(&mut self, order: Order) {
        let key = order.cell.key.clone();
        self.outcomes.remove(&key);
        self.open.insert(key, Open { order: order.clone(), losses: 0, task: None });
        self.handed.push(order);
    }

    fn hear(&mut self) -> Said {
        if let Some(said) = self.said.pop_front() {
            return said;
        }
        if !self.handed.is_empty()
            && !self.withdrawn
            && let Err(why) = self.submit()
        {
            self.fail(why);
        }
        self.look();
        if let Some(said) = self.said.pop_front() {
            return said;
        }
        std::thread::sleep(self.settings.pause);
        Said::Step(self.activity())
    }

    fn withdraw(&mut self) {
        if std::mem::replace(&mut self.withdrawn, true) {
            return;
        }
        for at in 0..self.arrays.len() {
            (0..self.arrays[at].tasks.len()).for_each(|task| self.collect(at, task));
        }
        self.cancel_all();
        self.handed.clear();
        let why = self.failure.clone().unwrap_or_else(|| "not run any more".to_owned());
        let keys: Vec<CellKey> = self.open.keys().cloned().collect();
        keys.iter().for_each(|key| self.give_up(key, why.clone()));
    }
}
