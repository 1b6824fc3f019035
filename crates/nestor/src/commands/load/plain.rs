//! `nestor load run`: any workload on a directory or device of this machine.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use nestor_machine::Ground;
use nestor_report::units::{bytes, count, digits, latency_ns, rate};
use nestor_text::complaint::WARNING;
use nestor_workload::{LoadResult, Place, Target, Workload, WorksOn};

use super::target;
use crate::interrupt::interrupted_by_signals;
use crate::named::workload_named;
use crate::output::{print_json, say, table};
use crate::progress::Progress;
use crate::scripts::check_files;

/// Arguments of `nestor load run`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("where").required(true))]
pub struct PlainArguments {
    /// The workload, such as fio:seq-write or postmark:small, or a profile of `nestor characterize` (FILE.toml); `nestor
    /// workloads` lists them all
    workload: String,
    /// Run it in this directory
    #[arg(long, value_name = "DIRECTORY", group = "where")]
    dir: Option<PathBuf>,
    /// Run it on this block device, whose contents are lost
    #[arg(long, value_name = "DEVICE", group = "where")]
    device: Option<PathBuf>,
    /// Allow this device to be overwritten: the one of --device, named once more
    #[arg(long, value_name = "PATH")]
    overwrite: Vec<PathBuf>,
    /// Decides the workload's random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Remove the files afterwards
    #[arg(long)]
    remove: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// How often it is asked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The directory that is made for the workload, so that it finds nothing of the user's.
const OWN_DIRECTORY: &str = "nestor-load";

/// Runs it: prepares its data, empties the page cache where that is allowed, measures.
///
/// # Errors
/// When it is no workload, or fails.
pub fn run(arguments: &PlainArguments) -> Result<()> {
    let workload = workload_named(&arguments.workload)?;
    let result = measured(arguments, &workload)?;
    if arguments.json {
        return print_json(&result);
    }
    say(&text(&workload, &result));
    Ok(())
}

/// Runs a workload in a directory of its own below `directory`, and removes that.
///
/// # Errors
/// When it fails.
pub fn run_in(directory: &Path, workload: &Workload, seed: u64) -> Result<LoadResult> {
    let arguments = PlainArguments {
        workload: workload.to_string(),
        dir: Some(directory.to_path_buf()),
        device: None,
        overwrite: Vec::new(),
        seed,
        remove: true,
        json: false,
    };
    measured(&arguments, workload)
}

/// Runs a workload where the arguments say.
fn measured(arguments: &PlainArguments, workload: &Workload) -> Result<LoadResult> {
    match (workload.works_on(), &arguments.device) {
        (WorksOn::Directories, Some(_)) => {
            bail!("{workload} makes files: use --dir DIRECTORY instead of --device")
        }
        (WorksOn::Devices, None) => {
            bail!("{workload} works on a block device: use --device DEVICE instead of --dir")
        }
        _ => {}
    }
    check_files(workload)?;
    let interrupted = interrupted_by_signals()?;
    let ground = Ground::here()?;
    let (target, own) = target_of(arguments)?;
    let progress = Progress::new(0);
    let finished = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        // The agent does not get the terminal's signals: it is told, and ends what it runs.
        let interrupt = ground.interrupter();
        let finished = &finished;
        scope.spawn(move || {
            while !finished.load(Ordering::Relaxed) {
                if interrupted.load(Ordering::Relaxed) {
                    return interrupt("interrupted");
                }
                std::thread::sleep(LOOK);
            }
        });
        let result = run_on(&ground, workload, target, arguments.seed, &progress);
        finished.store(true, Ordering::Relaxed);
        result
    });
    progress.finish();
    drop(ground);
    match own {
        Some(own) if arguments.remove => {
            std::fs::remove_dir_all(&own).with_context(|| format!("cannot remove {}", own.display()))?;
        }
        Some(own) => errln!("{}", target::left_in(&own)),
        None => {}
    }
    result
}

fn target_of(arguments: &PlainArguments) -> Result<(Target, Option<PathBuf>)> {
    if let Some(device) = &arguments.device {
        require_device(device)?;
        if !arguments.overwrite.contains(device) {
            bail!(
                "{0} would be overwritten; if you can lose everything on it, add --overwrite {0}",
                device.display()
            );
        }
        refuse_used(device)?;
        return Ok((Target::Device(device.display().to_string()), None));
    }
    let directory = arguments.dir.as_deref().context("no directory was given")?;
    let directory = target::directory(directory)?;
    let own = directory.join(OWN_DIRECTORY);
    match std::fs::create_dir(&own) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => bail!(
            "{} exists already, from an earlier run: remove it, or name another directory (--remove removes \
             it at the end)",
            own.display()
        ),
        Err(e) => return Err(e).with_context(|| format!("cannot create {}", own.display())),
    }
    Ok((Target::Directory(own.display().to_string()), Some(own)))
}

/// Refuses what is not there, or is no block device, before anybody is asked to allow that it is overwritten.
fn require_device(device: &Path) -> Result<()> {
    let shown = device.display();
    let found = match std::fs::metadata(device) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            bail!("the device {shown} does not exist; `lsblk` lists the devices")
        }
        found => found.with_context(|| format!("cannot open {shown}"))?.file_type(),
    };
    if found.is_block_device() {
        return Ok(());
    }
    let kind = match found {
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a directory",
        _ => "something else",
    };
    bail!(
        "{shown} is {kind} and no block device\n  --dir DIRECTORY runs a workload in a directory; `lsblk` lists the devices"
    )
}

fn refuse_used(device: &Path) -> Result<()> {
    match nestor_kernel::in_use::refusal_to_take(device) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => bail!("{} is {why}", device.display()),
        Err(e) => Err(e).with_context(|| format!("cannot open {}", device.display())),
    }
}

fn run_on(
    ground: &Ground,
    workload: &Workload,
    target: Target,
    seed: u64,
    progress: &Progress,
) -> Result<LoadResult> {
    let machine = ground.machine();
    let scratch = format!("{}/load", machine.facts()?.work_directory);
    machine.make_directory(&scratch)?;
    let place = Place { target, scratch };
    for step in workload.prepare(&place, seed) {
        progress.step(&step.title);
        let output = nestor_measure::cell::run_step(machine, &step)?;
        workload.check_preparation(&output)?;
    }
    progress.step("emptying the page cache");
    rustix::fs::sync();
    // Without the right to, the data that were just written are measured from the cache: say so.
    if std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
        errln!("{WARNING}the page cache could not be emptied (that needs root): reads may come from it");
    }
    let step = workload.measure(&place, seed);
    progress.step(&step.title);
    let output = nestor_measure::cell::run_step(machine, &step)?;
    Ok(workload.parse_output(&output)?)
}

fn text(workload: &Workload, result: &LoadResult) -> String {
    let seconds = result.elapsed_ns as f64 / 1e9;
    let mut text = format!(
        "{}   {}   {} operations/s in {seconds:.1} s   ({})\n{}, {:.1} s of CPU\n",
        result.workload,
        rate(result.bytes_per_second()),
        digits(result.operations_per_second()),
        workload.describe(),
        result.engine,
        result.cpu_user_s + result.cpu_system_s,
    );
    for remark in workload.remarks().iter().chain(&result.remarks) {
        text += &format!("  {remark}\n");
    }
    if result.working_set_bytes > 0
        && nestor_kernel::memory::total_bytes().is_ok_and(|memory| result.working_set_bytes < memory)
    {
        text += &format!(
            "  the working set ({}) fits into this machine's memory: without direct I/O, the page cache is \
             measured\n",
            bytes(result.working_set_bytes)
        );
    }
    let rows: Vec<[String; 8]> = result
        .operations
        .iter()
        .map(|(class, done)| {
            let seconds = done.elapsed_ns.map_or(seconds, |ns| ns as f64 / 1e9).max(1e-9);
            let quantile = |q: f64| done.latency.quantile_ns(q).map_or_else(|| "-".to_owned(), latency_ns);
            [
                format!("  {}", class.0),
                if done.operations > 0 { count(done.operations) } else { "-".to_owned() },
                if done.operations > 0 { digits(done.operations as f64 / seconds) } else { "-".to_owned() },
                if done.bytes > 0 { rate(done.bytes as f64 / seconds) } else { "-".to_owned() },
                quantile(0.5),
                quantile(0.99),
                match done.max_latency_ns {
                    Some(ns) => latency_ns(ns),
                    None => quantile(1.0),
                },
                done.cpu_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0} %")),
            ]
        })
        .collect();
    text += &table(&["  operation", "count", "/s", "moves", "p50", "p99", "max", "CPU"], &rows);
    let figures: Vec<[String; 2]> =
        result.figures.iter().map(|(name, value)| [format!("  {name}"), digits(*value)]).collect();
    if figures.is_empty() { text } else { text + "\n" + &table(&["  figure", ""], &figures) }
}
