//! A study whose cells run on the machines of a Slurm cluster.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use nestor_lab::{Lab, LabOptions, cell_needs};
use nestor_measure::Watcher;
use nestor_measure::campaign::{CampaignEnd, CampaignOptions, Laboratory, run_campaign_by};
use nestor_results::{
    CellKey, CellRecord, Decisions, Estimator, Store, StudyEffort, StudyRecord, budget_ended,
};
use nestor_slurm::{ArrayJob, Request, Settings, SharedDirectory, Slurm, SlurmCrew, take_leftovers, wall_s};
use nestor_stack::{HostTime, Place, PlaceWish, Stack};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::arguments::{LabArguments, SettledPlace, SlurmArguments};
use crate::commands::study::minutes;
use crate::interrupt::interrupted_by_signals;
use crate::progress::Progress;
use crate::{lab_image, paths, session};

/// How often the shared directory is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a shared file system may take to show what another machine has written: NFS keeps attributes for up to 60 s (nfs(5),
/// `acdirmax`).
const PATIENCE: Duration = Duration::from_secs(70);

/// SHA-256 of this program.
///
/// # Errors
/// If it cannot be read.
pub fn program_digest() -> Result<String> {
    let program = std::fs::read("/proc/self/exe").context("this program cannot be read")?;
    Ok(hex::encode(Sha256::digest(program)))
}

/// Settles where the cells of a cluster run: on emulated hosts in virtual time, whatever this machine has.
///
/// # Errors
/// If another place is asked for.
pub fn settle_place(lab: &LabArguments) -> Result<()> {
    let place = match &lab.on {
        PlaceWish::EmulatedInRightTime => Place::Emulated(HostTime::VIRTUAL),
        PlaceWish::Exactly(place) if place.is_in_virtual_time() => place.clone(),
        PlaceWish::Exactly(Place::Emulated(_)) => bail!(
            "--slurm needs virtual time, but this is `--on {}`: a study compares the cells of a block, and in real time cells \
             on different machines cannot be compared\n  omit --on, or run the study on one machine, without --slurm",
            lab.on
        ),
        PlaceWish::Exactly(place) => bail!(
            "--slurm runs cells on emulated hosts, but this is `--on {place}`: devices and files of yours are those of one \
             machine\n  omit --on, or run the study without --slurm"
        ),
    };
    lab.settled.get_or_init(|| SettledPlace::exactly(place));
    Ok(())
}

/// How a study is spread, and what that costs.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Tasks at once.
    pub tasks_at_once: usize,
    /// MiB of memory for each task.
    pub memory_mib: u64,
    /// If every comparison is settled at the first look.
    pub least: SpreadExtent,
    /// If none is settled before its last block.
    pub most: SpreadExtent,
}

/// What cells cost on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadExtent {
    /// The times of all cells together, in hours.
    pub node_hours: f64,
    /// Seconds from the beginning to the end, if no task waits for other users.
    pub wall_s: f64,
}

impl Spread {
    /// `0.12 node-hours, up to 2 tasks at once, each with 1 core and 1931 MiB of memory`.
    pub fn in_words(&self) -> String {
        let (least, most) = (self.least.node_hours, self.most.node_hours);
        let hours = if least == most { format!("{most:.2}") } else { format!("{least:.2} to {most:.2}") };
        let tasks = match self.tasks_at_once {
            1 => "1 task".to_owned(),
            tasks => format!("up to {tasks} tasks"),
        };
        format!("{hours} node-hours, {tasks} at once, each with 1 core and {} MiB of memory", self.memory_mib)
    }

    /// `4 min to 9 min`.
    pub fn wall_in_words(&self) -> String {
        let (least, most) = (minutes(self.least.wall_s), minutes(self.most.wall_s));
        if least == most { most } else { format!("{least} to {most}") }
    }
}

/// Plans how what is left of a study is spread.
///
/// # Errors
/// If the results cannot be read, or Slurm does not say how large the partition is.
pub fn plan(
    store: &Store,
    record: &StudyRecord,
    effort: &StudyEffort,
    how: &SlurmArguments,
) -> Result<Spread> {
    let tasks_at_once = match how.tasks {
        Some(tasks) => tasks.get(),
        None => Slurm::processors(how.partition.as_deref())?,
    };
    let stacks: Vec<Stack> = record.study.stacks.iter().filter_map(|stack| stack.value().cloned()).collect();
    let estimator = Estimator::of(&store.past_cells(&record.ground)?);
    let finished = store.finished(&record.hash)?;
    let decisions = Decisions::of(&record.study, &store.cell_samples(&record.hash)?, None);
    let cells_s = |block| -> Vec<f64> {
        let cells = record.study.block_cells(block, record.sentinels, &decisions);
        let left = cells.into_iter().filter(|cell| !finished.contains(cell));
        left.map(|cell| estimator.cell(&cell).as_secs_f64()).collect()
    };
    let extent = |blocks: u32, seconds: f64| {
        let rounds: Vec<Vec<f64>> = match record.study.stop {
            // A look needs the whole block before it.
            Some(_) => (0..blocks).map(cells_s).collect(),
            None => vec![(0..blocks).flat_map(cells_s).collect()],
        };
        let all: f64 = rounds.iter().flatten().sum();
        let wall: f64 = rounds.iter().map(|cells| wall_s(cells, tasks_at_once)).sum();
        // What is not a cell's, such as the first boot of a host.
        SpreadExtent { node_hours: seconds / 3600.0, wall_s: wall + (seconds - all).max(0.0) }
    };
    let most_blocks = record.study.most_blocks();
    let first_look = record.study.stop.as_ref().and_then(|rule| rule.looks.first().copied());
    Ok(Spread {
        tasks_at_once,
        memory_mib: cell_needs(&stacks).div_ceil(1 << 20),
        least: extent(first_look.map_or(most_blocks, |look| look.min(most_blocks)), effort.least.seconds),
        most: extent(most_blocks, effort.most.seconds),
    })
}

/// Runs what is left of a study on the cluster; returns how it ended, and whether it was interrupted.
///
/// # Errors
/// If the cluster cannot be used, no node can run cells, or results cannot be kept.
pub fn run_until_interrupted(
    record: &StudyRecord,
    lab: &LabArguments,
    how: &SlurmArguments,
    spread: &Spread,
    store: &mut Store,
) -> Result<(CampaignEnd, bool)> {
    let study = &record.study;
    session::check_study(study, lab)?;
    let laboratory = laboratory_here(lab, study.seed)?;
    let base = how.directory.clone().unwrap_or_else(|| beside(store));
    let directory = SharedDirectory::open(&base, &record.hash)
        .with_context(|| format!("{} cannot be used for --slurm", base.display()))?;
    let name = format!("nestor-{}-{}", study.name, record.hash.get(..8).unwrap_or_default());
    let left = take_leftovers(&mut Slurm, &directory, &name, &record.hash, store)?;
    if left.taken > 0 {
        errln!("took {} results that an earlier run had left in {}", left.taken, directory.path().display());
    }
    let interrupted = interrupted_by_signals()?;
    let progress = Progress::new(1);
    let notes = progress.clone();
    let settings = Settings {
        request: Request {
            partition: how.partition.clone(),
            at_once: spread.tasks_at_once,
            time_limit: how.time,
            memory_mib: spread.memory_mib,
            arguments: how.arguments.clone(),
        },
        job: job_of(record, lab, &laboratory)?,
        name,
        pause: PAUSE,
        patience: PATIENCE,
        after_deadline: study.budget.map(budget_ended).unwrap_or_default(),
        note: Box::new(move |text| notes.line(text)),
    };
    let mut crew =
        SlurmCrew::new(Slurm, directory, settings).context("the program could not be copied there")?;
    let options = CampaignOptions { as_study: true, trace_to: lab.trace_to.clone(), again: lab.again };
    let watcher = Spreading(progress.clone());
    let end = run_campaign_by(&mut crew, &laboratory, study, store, &options, &interrupted, &watcher);
    progress.finish();
    let failure = crew.finish();
    let end = end?;
    if let Some(failure) = failure {
        bail!("{failure}\n  {} finished results were kept; the same command continues", end.kept);
    }
    Ok((end, interrupted.load(Ordering::Relaxed)))
}

/// The job whose tasks run the study's cells; none yet.
fn job_of(record: &StudyRecord, lab: &LabArguments, laboratory: &Laboratory) -> Result<ArrayJob> {
    let study = &record.study;
    Ok(ArrayJob {
        program: program_digest()?,
        place: laboratory.ground.clone(),
        laboratory: laboratory.digest.map(hex::encode).unwrap_or_default(),
        study: (study.name.clone(), record.hash.clone()),
        stacks: study.stacks.clone(),
        seed: study.seed,
        trace_to: lab.trace_to.as_ref().map(std::path::absolute).transpose()?,
        deadline: study.budget.and_then(deadline),
        tasks: Vec::new(),
    })
}

/// What every node has to be like: this program, QEMU and lab image.
fn laboratory_here(lab: &LabArguments, seed: u64) -> Result<Laboratory> {
    let place = lab.place()?.place.clone();
    let ground = place.clone().into();
    let mut here = Lab::open(LabOptions {
        place,
        image: Some(lab_image::files()?),
        cache_directory: paths::cache_directory(),
        overwrite: Vec::new(),
        seed,
        remark: None,
        progress: Progress::new(1).as_lab_progress(),
    })?;
    let digest = here.dependencies().context("QEMU or the lab image of this machine cannot be read")?;
    Ok(Laboratory { ground, digest: Some(digest) })
}

/// The directory for tasks, unless another is named.
fn beside(store: &Store) -> PathBuf {
    store.path().with_file_name("slurm")
}

/// When a budget that begins now ends: seconds since 1970.
fn deadline(budget: Duration) -> Option<u64> {
    let end = SystemTime::now().checked_add(budget)?;
    end.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Shows the whole study instead of the cell that was handed out last.
struct Spreading(Progress);

impl Watcher for Spreading {
    fn cell_begins(&self, _: &CellKey, done: usize, all: usize, left: Option<Duration>) {
        self.progressed(done, all, left);
    }

    fn progressed(&self, done: usize, all: usize, left: Option<Duration>) {
        self.0.length(all as u64);
        self.0.about("cells on the cluster", left);
        self.0.position(done as u64);
    }

    fn step(&self, what: &str) {
        self.0.step(what);
    }

    fn cell_ended(&self, record: &CellRecord, run: i64) {
        self.0.cell_ended(record, run);
    }

    fn cell_known(&self, record: &CellRecord, run: i64) {
        self.0.cell_known(record, run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spread_study_costs_is_said() {
        let extent = |node_hours, wall_s| SpreadExtent { node_hours, wall_s };
        let mut spread = Spread {
            tasks_at_once: 2,
            memory_mib: 1931,
            least: extent(0.5, 900.0),
            most: extent(0.5, 900.0),
        };
        let words = "0.50 node-hours, up to 2 tasks at once, each with 1 core and 1931 MiB of memory";
        assert_eq!(spread.in_words(), words);
        assert_eq!(spread.wall_in_words(), "15 min");
        spread = Spread { tasks_at_once: 1, most: extent(2.0, 7200.0), ..spread };
        let words = "0.50 to 2.00 node-hours, 1 task at once, each with 1 core and 1931 MiB of memory";
        assert_eq!(spread.in_words(), words);
        assert_eq!(spread.wall_in_words(), "15 min to 2 h");
    }
}
