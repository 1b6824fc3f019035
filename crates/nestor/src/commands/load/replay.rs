//! `nestor load replay`: the requests of a block trace, sent again.

mod text;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use nestor_replay::{
    EngineChoice, Fit, PlanOptions, ReplayOptions, ReplayPlan, SourceDevice, Speed, Stage, Step, Target,
    TargetOptions, Watcher, WriteData, read_plan, replay,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::output::{print_json, say};
use crate::progress::Progress;

/// What takes longer than this shows how far it is.
const QUIET: Duration = Duration::from_secs(2);
/// What the shell reports of a program that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Arguments of `nestor load replay`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  nestor load replay sda.blktrace.* --target /dev/sdb --overwrite /dev/sdb\n  \
    nestor load replay trace.txt --target /srv/test --remove --speed 2\n  \
    nestor load replay guest.requests --target /srv/disk.img --overwrite /srv/disk.img --speed max --depth 32\n  \
    nestor load replay sda --dry-run"
)]
pub struct ReplayArguments {
    /// The trace: files of blktrace (all CPUs), blkparse's output, tracefs, fio's logs, MSR's CSV, a disk's log, …; or - for
    /// standard input, a directory, a name as `blkparse -i` takes it
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Where to send the requests: a block device, a file, or a directory in which a file is made
    #[arg(long, value_name = "PATH", required_unless_present = "dry_run")]
    target: Option<PathBuf>,
    /// Send nothing: says how exactly this machine keeps the trace's times
    #[arg(long, conflicts_with_all = ["target", "overwrite", "remove", "size"])]
    dry_run: bool,
    /// How fast: 1 for the trace's own times, 2 for twice as fast, max for as fast as possible
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Which stage of a request to replay: q, as queued, or d, as sent to the driver [default: q if the trace has it]
    #[arg(long = "stage", alias = "from", value_name = "STAGE", value_enum, ignore_case = true)]
    from: Option<From>,
    /// Which device of a trace of several: 8:16, or its name
    #[arg(long, value_name = "DEVICE")]
    device_of_trace: Option<String>,
    /// Also give back and zero sectors as the trace does
    #[arg(long)]
    discard: bool,
    /// On a target that is too small: place requests modulo its size
    #[arg(long, conflicts_with = "scale_space")]
    wrap: bool,
    /// On a target that is too small: place requests by the ratio of the sizes
    #[arg(long)]
    scale_space: bool,
    /// Make requests whole blocks of the target
    #[arg(long)]
    widen: bool,
    /// Requests in flight at most [default: 4096; with --speed max as many as the trace had]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32768))]
    depth: Option<u32>,
    /// Sleep until a request's time instead of spinning for the last stretch: less exact, leaves the processor free
    #[arg(long)]
    no_spin: bool,
    /// How to send requests
    #[arg(long, value_enum, default_value = "auto")]
    engine: Engine,
    /// What to write
    #[arg(long = "contents", alias = "data", value_name = "CONTENTS", value_enum, default_value = "random")]
    data: Data,
    /// Decides the random data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Through the page cache
    #[arg(long)]
    buffered: bool,
    /// In a directory: size of the file to make [default: as far as the trace reaches]
    #[arg(long)]
    size: Option<nestor_stack::Bytes>,
    /// In a directory: remove the file at the end
    #[arg(long)]
    remove: bool,
    /// A device or file that may be overwritten; names it exactly as --target does
    #[arg(long, value_name = "PATH")]
    overwrite: Vec<PathBuf>,
    /// In a directory: only make the file
    #[arg(long, conflicts_with_all = ["dry_run", "remove"])]
    prepare: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Stages by blkparse's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// As queued.
    Q,
    /// As sent to the driver.
    D,
}

/// Ways to send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// io_uring, or threads where there is none.
    Auto,
    /// io_uring.
    IoUring,
    /// A thread for each request in flight.
    Threads,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Data {
    /// Bits that do not compress.
    Random,
    /// Zeros.
    Zeros,
}

/// Shows how far it is, once it takes a while, and stops when a signal came.
struct Shown {
    stop: Arc<AtomicBool>,
    began: Instant,
    bar: RefCell<Option<(Step, Progress)>>,
}

impl Shown {
    fn new() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The second one ends the program, where a device does not answer.
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
                .context("signals could not be caught")?;
        }
        Ok(Self { stop, began: Instant::now(), bar: RefCell::new(None) })
    }

    fn finish(&self) {
        if let Some((_, bar)) = self.bar.borrow_mut().take() {
            bar.finish();
        }
    }
}

impl Watcher for Shown {
    fn progress(&self, step: Step, done: u64, all: u64) {
        let mut bar = self.bar.borrow_mut();
        if self.began.elapsed() < QUIET {
            return;
        }
        if bar.as_ref().is_some_and(|(shown, _)| *shown != step) {
            bar.take().inspect(|(_, bar)| bar.finish());
        }
        let (what, shift) = match step {
            Step::Filling => ("filling a file with data (MiB)", 20),
            Step::Replaying => ("replaying (requests)", 0),
        };
        let (_, bar) = bar.get_or_insert_with(|| {
            let bar = Progress::new(all >> shift);
            bar.about(what, None);
            (step, bar)
        });
        bar.position(done >> shift);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl ReplayArguments {
    fn plan_options(&self) -> PlanOptions {
        PlanOptions {
            from: self.from.map(|from| match from {
                From::Q => Stage::Queued,
                From::D => Stage::Issued,
            }),
            device: self.device_of_trace.as_deref().map(SourceDevice::parse),
            discards: self.discard,
        }
    }

    fn options(&self) -> ReplayOptions {
        ReplayOptions {
            speed: self.speed,
            depth: self.depth.map(|depth| depth as usize),
            spin: !self.no_spin,
            engine: match self.engine {
                Engine::Auto => EngineChoice::Auto,
                Engine::IoUring => EngineChoice::IoUring,
                Engine::Threads => EngineChoice::Threads,
            },
            data: match self.data {
                Data::Random => WriteData::Random { seed: self.seed },
                Data::Zeros => WriteData::Zeros,
            },
        }
    }

    fn fit(&self) -> Fit {
        match (self.wrap, self.scale_space) {
            (true, _) => Fit::Wrap,
            (_, true) => Fit::Scale,
            _ => Fit::Exact,
        }
    }

    /// Opens the target and places the requests on it.
    fn target(&self, plan: &mut ReplayPlan, shown: &Shown) -> Result<Target> {
        let Some(path) = &self.target else { return Ok(Target::nothing(plan.span_bytes())) };
        let made_bytes = self.size.map_or_else(|| plan.span_bytes(), nestor_stack::Bytes::get);
        // Before a file is filled for nothing.
        if path.is_dir() && self.fit() == Fit::Exact {
            plan.require_room(made_bytes)?;
        }
        let options = TargetOptions {
            writes: plan.writes(),
            overwrite: self.overwrite.clone(),
            buffered: self.buffered,
            made_bytes,
            remove: self.remove,
        };
        let mut target = Target::open(path, &options, shown)?;
        if let Err(error) = plan.fit(target.size_bytes(), target.block_bytes(), self.fit(), self.widen) {
            target.remove_when_closed();
            return Err(error.into());
        }
        Ok(target)
    }
}

/// Runs it.
///
/// # Errors
/// When the trace cannot be read or replayed on the target, a request fails, or a signal interrupts it, after what was done
/// until then is printed.
pub fn run(arguments: &ReplayArguments) -> Result<()> {
    let mut plan = read_plan(&arguments.files, &arguments.plan_options())?;
    let options = arguments.options();
    plan.require_times(options.speed)?;
    let shown = Shown::new()?;
    let target = arguments.target(&mut plan, &shown)?;
    if arguments.prepare {
        shown.finish();
        return Ok(());
    }
    let report = replay(&plan, &target, &options, &shown);
    shown.finish();
    let report = report?;
    drop(target);
    if arguments.json {
        print_json(&report)?;
    } else {
        say(&text::replay(&report));
    }
    if report.interrupted {
        bail!(
            "interrupted after {} of {} requests; the requests in flight were completed",
            report.achieved.requests,
            report.plan.requests
        );
    }
    Ok(())
}
