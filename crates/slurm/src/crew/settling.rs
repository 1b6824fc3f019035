//! What becomes of the cells of a task that has ended.

use nestor_measure::Said;
use nestor_results::CellKey;

use super::{MOST_REFUSALS, SlurmCrew};
use crate::cluster::{Cluster, TaskState};
use crate::ending::{Ending, ending};

/// How often a cell may be lost while it is under way before it is given up: it may itself be what ends its node.
const MOST_LOSSES: u32 = 3;

impl<C: Cluster> SlurmCrew<C> {
    /// Decides what becomes of the cells of a task that has ended.
    pub(super) fn settle(&mut self, at: usize, number: usize) {
        let array = &self.arrays[at];
        let task = &array.tasks[number];
        let is_open = |key| self.open.get(key).is_some_and(|open| open.task == Some((at, number)));
        let open: Vec<usize> = (0..task.cells.len()).filter(|&cell| is_open(&task.cells[cell])).collect();
        let has_ended = task.status.as_ref().is_some_and(|status| status.ended);
        if open.is_empty() && (task.ended.is_some() || has_ended) {
            self.arrays[at].tasks[number].over = true;
            return;
        }
        let left_out = task.status.as_ref().map(|status| status.left_out.clone()).unwrap_or_default();
        let left_out: Vec<CellKey> = open
            .iter()
            .filter(|cell| left_out.contains(cell))
            .map(|&cell| task.cells[cell].clone())
            .collect();
        if !left_out.is_empty() {
            left_out.iter().for_each(|key| self.give_up(key, self.settings.after_deadline.clone()));
            return;
        }
        let Some(since) = task.ended else { return };
        let (state, node) = match array.states.get(&number) {
            Some(TaskState::Ended(state, node)) => (Some(state.clone()), node.clone()),
            _ => (None, String::new()),
        };
        let waited = since.elapsed() >= self.settings.patience;
        let end = ending(state.as_deref(), task.status.as_ref(), &open, array.withdrawn, waited);
        let node = task.status.as_ref().map_or(node, |status| status.node.clone());
        if end != Ending::NotSeenYet {
            self.arrays[at].tasks[number].over = true;
            self.act_on(end, (at, number), &open, &node, &state.unwrap_or_else(|| "forgotten".to_owned()));
        }
    }

    fn act_on(&mut self, end: Ending, (at, number): (usize, usize), open: &[usize], node: &str, state: &str) {
        let array = &self.arrays[at];
        let task = &array.tasks[number];
        let keys = |cells: &[usize]| cells.iter().map(|&cell| task.cells[cell].clone()).collect::<Vec<_>>();
        let (all, job, output) = (keys(open), array.number.clone(), task.files.output().to_owned());
        match end {
            Ending::NotSeenYet => {}
            Ending::Cancelled => self.fail(format!("array job {job} was cancelled by somebody else")),
            Ending::Refused(why) => self.refused_by(at, node, why, &all),
            Ending::Lost { under_way, silent } => {
                let under_way = keys(&under_way);
                if !under_way.is_empty() {
                    (self.settings.note)(&lost_in_words(&job, number, node, state, all.len()));
                }
                self.silent_tasks += usize::from(silent);
                if silent && self.silent_tasks >= MOST_REFUSALS {
                    return self.fail(format!(
                        "{} tasks in a row ended without a sign, the last one {} with the state {state}; is {} \
                         visible there? its output is in {}\n  name a directory that all nodes share: \
                         --slurm-dir DIRECTORY",
                        self.silent_tasks,
                        if node.is_empty() { "on an unknown node".to_owned() } else { format!("on {node}") },
                        self.directory.path().display(),
                        output.display()
                    ));
                }
                let why =
                    format!("lost {MOST_LOSSES} times with its task, the last time on {node} ({state})");
                for key in under_way {
                    let Some(open) = self.open.get_mut(&key) else { continue };
                    open.losses += 1;
                    if open.losses >= MOST_LOSSES {
                        self.give_up(&key, why.clone());
                    }
                }
                self.hand_again(&all);
            }
        }
    }

    /// A node that cannot run cells gets no more of them, nor do tasks that wait for it.
    fn refused_by(&mut self, at: usize, node: &str, why: String, cells: &[CellKey]) {
        if !self.refusing.contains_key(node) {
            (self.settings.note)(&format!("{node} cannot run cells: {why}"));
        }
        self.refusing.insert(node.to_owned(), why.clone());
        self.refusals.insert(node.to_owned());
        if self.refusals.len() >= MOST_REFUSALS {
            return self.fail(self.with_refusals("nodes cannot run cells"));
        }
        let array = &mut self.arrays[at];
        if !std::mem::replace(&mut array.withdrawn, true)
            && let Err(e) = self.cluster.cancel(&array.number, &self.settings.name, true)
        {
            return self.fail(e.to_string());
        }
        self.hand_again(cells);
    }

    fn hand_again(&mut self, cells: &[CellKey]) {
        let orders = cells.iter().filter_map(|key| Some(self.open.get(key)?.order.clone()));
        self.handed.extend(orders);
    }

    pub(super) fn give_up(&mut self, key: &CellKey, why: String) {
        self.gave_up = true;
        if let Some(open) = self.open.remove(key) {
            self.handed.retain(|order| order.cell.key != *key);
            self.said.push_back(Said::NotRun(Box::new(open.order.cell), why));
        }
    }
}

fn lost_in_words(job: &str, task: usize, node: &str, state: &str, cells: usize) -> String {
    let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
    let cells = if cells == 1 { "1 cell runs".to_owned() } else { format!("{cells} cells run") };
    format!("task {task} of array job {job} was lost{on} ({state}): {cells} again elsewhere")
}
