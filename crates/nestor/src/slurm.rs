//! A study whose cells run on the machines of a Slurm cluster.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use nestor_lab::{Lab, LabOptions, cell_needs};
use nestor_measure::campaign::{CampaignEnd, CampaignOptions, Laboratory, run_campaign_by};
use nestor_measure::{Bench, Watcher};
use nestor_results::{CellKey, CellRecord, Store, Study, StudyEffort, StudyRecord, budget_ended};
use nestor_slurm::{ArrayJob, Request, Settings, SharedDirectory, Slurm, SlurmCrew, Spread, take_leftovers};
use nestor_stack::{HostTime, Place, PlaceWish, Stack};
use sha2::{Digest as _, Sha256};

use crate::arguments::{LabArguments, SettledPlace, SlurmArguments};
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
    Ok(Spread::plan(
        store,
        record,
        effort,
        tasks_at_once,
        cell_needs(&stacks, session::at_once(&record.study)),
    )?)
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
    let laboratory = laboratory_here(lab, study)?;
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
        laboratory: laboratory.digest.clone().unwrap_or_default(),
        study: (study.name.clone(), record.hash.clone()),
        stacks: study.stacks.clone(),
        seed: study.seed,
        trace_to: lab.trace_to.as_ref().map(std::path::absolute).transpose()?,
        deadline: study.budget.and_then(deadline),
        tasks: Vec::new(),
    })
}

/// What every node has to be like: this program, QEMU and lab image.
fn laboratory_here(lab: &LabArguments, study: &Study) -> Result<Laboratory> {
    let place = lab.place()?.place.clone();
    let ground = place.clone().into();
    let stacks = session::stacks_of(study.run_stacks());
    let qemus = lab_image::qemus_of(&place, &stacks)?;
    let mut here = Lab::open(LabOptions {
        place,
        image: Some(lab_image::files()?),
        packs: lab_image::packs_of(stacks.iter().filter_map(Stack::lab_pack))?,
        kernels: lab_image::kernels_of(&stacks)?,
        qemus,
        cache_directory: paths::cache_directory(),
        overwrite: Vec::new(),
        seed: study.seed,
        remark: None,
        progress: Progress::new(1).as_lab_progress(),
    })?;
    let digest =
        Bench::dependencies(&mut here).context("QEMU or the lab image of this machine cannot be read")?;
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
