//! `nestor slurm-task`: one task of an array job, on a node of a Slurm cluster.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use nestor_lab::{Lab, LabOptions};
use nestor_measure::Bench;
use nestor_results::{Store, WrittenStack};
use nestor_slurm::{ArrayJob, TaskCell, TaskFiles, TaskStatus};
use nestor_stack::Stack;

use crate::progress::Progress;
use crate::session::remove_leftovers;
use crate::signals::EndOnSignals;
use crate::{lab_image, paths, slurm};

/// Runs the cells of the task that Slurm says this is.
///
/// # Errors
/// Why this node cannot run them; the controller is told too.
pub fn run(file: &Path) -> Result<ExitCode> {
    let unreadable = || format!("{} cannot be read", file.display());
    let job: ArrayJob =
        serde_json::from_slice(&std::fs::read(file).with_context(unreadable)?).with_context(unreadable)?;
    let number = std::env::var("SLURM_ARRAY_TASK_ID").ok().and_then(|number| number.parse::<usize>().ok());
    let number = number.context("this is not a task of an array job: SLURM_ARRAY_TASK_ID is not set")?;
    let cells = job.tasks.get(number).with_context(|| format!("{} has no task {number}", file.display()))?;
    let directory = file.parent().unwrap_or(Path::new("."));
    let files = TaskFiles::of(directory, number);
    let mut task = Task { job: &job, files, status: TaskStatus { node: node(), ..TaskStatus::default() } };
    task.say()?;
    let ended = match task.open_lab() {
        Ok(lab) => task.run_cells(lab, cells),
        Err(e) => {
            task.status.refusal = Some(crate::message(&e));
            Err(e)
        }
    };
    task.status.under_way = None;
    task.status.ended = true;
    task.say()?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// The name by which Slurm knows this machine.
fn node() -> String {
    let by_slurm = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    by_slurm.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

struct Task<'a> {
    job: &'a ArrayJob,
    files: TaskFiles,
    status: TaskStatus,
}

impl Task<'_> {
    /// Tells the controller how far this is.
    fn say(&self) -> Result<()> {
        self.files.say(&self.status).context("the directory of the array job cannot be written to")
    }

    /// Opens a lab that gives the same numbers as the controller's.
    fn open_lab(&self) -> Result<Lab> {
        if slurm::program_digest()? != self.job.program {
            bail!("this node runs another Nestor than the controller; start the study again");
        }
        let cache_directory = paths::cache_directory();
        let (_, has_image) = lab_image::state();
        if !has_image {
            bail!(
                "there is no lab image in {}; run `nestor lab build` there, or let NESTOR_CACHE name a directory that all nodes \
                 share",
                cache_directory.display()
            );
        }
        remove_leftovers()?;
        let Some(place) = self.job.place.value().cloned() else {
            bail!("this version does not know the place {}", self.job.place);
        };
        let stacks: Vec<Stack> = self.job.stacks.iter().filter_map(WrittenStack::value).cloned().collect();
        let qemus = lab_image::qemus_of(&place, &stacks)?;
        let mut lab = Lab::open(LabOptions {
            place,
            image: Some(lab_image::files()?),
            packs: lab_image::packs()?,
            kernels: lab_image::kernels_of(&stacks)?,
            qemus,
            cache_directory,
            overwrite: Vec::new(),
            seed: self.job.seed,
            remark: None,
            progress: Progress::new(1).as_lab_progress(),
        })?;
        if !Bench::dependencies(&mut lab).is_some_and(|here| self.job.laboratory.is_within(&here)) {
            bail!(
                "QEMU or the lab image is another one here than on the machine that the study was started on, so numbers \
                 would differ; install the same QEMU, and make the lab image there and here by the same Nestor"
            );
        }
        lab.make_room_for(&stacks);
        Ok(lab)
    }

    /// Runs the cells one after another. After each of them, the results so far are where the controller finds them.
    fn run_cells(&mut self, lab: Lab, cells: &[TaskCell]) -> Result<()> {
        let mut store = Store::open(self.files.own())?;
        let mut labs = [lab];
        let signals = EndOnSignals::of(&labs)?;
        for (place, cell) in cells.iter().enumerate() {
            if !has_time(cell, self.job.deadline, SystemTime::now()) {
                self.status.left_out.push(place);
                continue;
            }
            self.status.under_way = Some(place);
            self.say()?;
            let key = &cell.cell.key;
            let order = self.job.order(cell);
            let order = order.with_context(|| format!("{} or {} is not known", key.stack, key.workload))?;
            let mut end = labs[0].run_cell(&order.request(), &|_| {});
            if signals.interrupted().load(Ordering::Relaxed) {
                bail!("Slurm ended this task; everything was taken down");
            }
            if end.record.measured().is_some() {
                end.record.environment.depends_on.clone_from(&cell.depends_on);
            }
            if end.refused {
                self.status.refused_stacks.push(place);
                self.say()?;
            }
            errln!("{}  {}  {:.0} s", key.stack, key.workload, end.record.cell_s);
            store.insert(&end.record)?;
            self.files.publish(&store)?;
        }
        Ok(())
    }
}

/// Whether a cell would end before the deadline, which is in seconds since 1970.
fn has_time(cell: &TaskCell, deadline: Option<u64>, now: SystemTime) -> bool {
    let Some(deadline) = deadline else { return true };
    let ends = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + cell.expected();
    ends <= Duration::from_secs(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nestor_results::{CellKey, PlannedCell, TraceMode};

    #[test]
    fn a_cell_that_would_end_too_late_is_not_begun() {
        let key = CellKey {
            stack: "ext4/null".into(),
            workload: "fio:seq-read".into(),
            block: 0,
            repeat: 0,
            untraced_twin: false,
        };
        let cell = TaskCell {
            cell: PlannedCell { key, position: 0 },
            seed: 1,
            trace: TraceMode::None,
            expected_s: 60.0,
            depends_on: None,
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert!(has_time(&cell, None, now));
        assert!(has_time(&cell, Some(1060), now));
        assert!(!has_time(&cell, Some(1059), now));
    }
}
