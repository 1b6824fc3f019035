//! `nestor load wml`: runs a script of Filebench's language.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use nestor_flowops::{
    Ended, FlowFailure, FlowOptions, FlowReport, Listener, RunReport, Scale, Scaled, Source, file_sets,
    make_places, mean_bytes, relocate, run_script, scale, scale_files,
};
use nestor_kernel::memory;
use nestor_text::complaint::{ERROR, WARNING};
use nestor_text::quantities::{TIME_FORM, parse_time};
use nestor_wml::Script;
use signal_hook::consts::SIGXFSZ;

use super::table::flow_text;
use super::{files, several, target};
use crate::arguments::number_above;
use crate::interrupt::interrupted_by_signals;
use crate::output::{print_json, say};
use crate::progress::Progress;
use crate::scripts::{Loaded, load};
use crate::whole_file;

/// Arguments of `nestor load wml`.
#[derive(Args, Clone, Debug)]
pub struct WmlArguments {
    /// The script (.f), or the name of one that comes with this program (see `nestor load list`)
    pub script: String,
    /// Put all file sets into this directory, instead of where the script says
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// End each run after this many seconds, instead of when the script says
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// End each run after exactly this many operations of all threads together
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Set a variable, instead of what the script sets it to
    #[arg(long, value_name = "VARIABLE=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Make all file sets larger or smaller: a factor, or tiny (at most 64 MiB in all, for trying)
    #[arg(long, value_name = "FACTOR|tiny", value_parser = scaling, conflicts_with = "memory_multiple")]
    pub scale: Option<Scale>,
    /// Make each file of all file sets larger or smaller by this factor; their number stays
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    pub file_scale: Option<f64>,
    /// Make all file sets together this many times as large as this machine's memory
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    pub memory_multiple: Option<f64>,
    /// Measure although the file sets fit into memory, so that the page cache is measured
    #[arg(long)]
    pub cached: bool,
    /// Begin this many passes per second in all threads together, whether or not earlier ones have ended, and count their
    /// latency from when they should have begun. A pass is once through a thread's flowops
    #[arg(long, value_name = "PER SECOND", value_parser = rate)]
    pub open_loop: Option<f64>,
    /// Decides the order of random operations, and the order in which files are made
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Decides the sizes and the tree of the file sets
    #[arg(long, default_value_t = 1)]
    pub data_seed: u64,
    /// Remove the file sets afterwards
    #[arg(long)]
    pub remove: bool,
    /// Do not obey the script's `system` commands
    #[arg(long)]
    pub no_system: bool,
    /// Allow the script to overwrite this block device, named exactly as the script does
    #[arg(long, value_name = "PATH")]
    pub overwrite: Vec<PathBuf>,
    /// Only make the file sets
    #[arg(long, conflicts_with = "prepared")]
    pub prepare: bool,
    /// Use the file sets that --prepare has made, with the same options
    #[arg(long)]
    pub prepared: bool,
    /// Run on these machines at the same time and merge their results: this and ssh:HOST, separated by commas
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    pub machines: Vec<nestor_stack::Place>,
    /// Only check that the script is understood
    #[arg(long)]
    pub check: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write the JSON to this file and print nothing
    #[arg(long, value_name = "FILE", hide = true)]
    pub result: Option<PathBuf>,
    /// Make this file when all threads are ready
    #[arg(long, value_name = "FILE", hide = true, requires = "go_file")]
    pub ready_file: Option<PathBuf>,
    /// Begin when this file is there
    #[arg(long, value_name = "FILE", hide = true, requires = "ready_file")]
    pub go_file: Option<PathBuf>,
    /// Stop when this file is there
    #[arg(long, value_name = "FILE", hide = true, requires = "ready_file")]
    pub stop_file: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    number_above(0.0, text).ok_or_else(|| "a number above 0".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    positive(text)
        .ok()
        .filter(|rate| *rate <= 1e9)
        .ok_or_else(|| "a number above 0, at most 1000000000".to_owned())
}

/// A number of seconds on the command line.
///
/// # Errors
/// What fits.
pub fn seconds(text: &str) -> Result<f64, String> {
    let most = nestor_wml::limits::MOST_SECONDS;
    parse_time(text)
        .map(|time| time.as_secs_f64())
        .filter(|seconds| *seconds > 0.0 && *seconds <= most)
        .ok_or_else(|| format!("write {TIME_FORM}; above 0, at most {most} seconds"))
}

fn scaling(text: &str) -> Result<Scale, String> {
    if text == "tiny" {
        return Ok(Scale::Tiny);
    }
    positive(text).map(Scale::Factor).map_err(|_| "a factor above 0, such as 0.1, or tiny".to_owned())
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim_start_matches('$').is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("VARIABLE=VALUE, such as nfiles=1000".to_owned()),
    }
}

/// Runs a script.
///
/// # Errors
/// When it cannot be read or begun.
pub fn run(arguments: &WmlArguments) -> Result<ExitCode> {
    let loaded = load(&arguments.script, &arguments.set)?;
    if let Some(file) = &arguments.result {
        whole_file::require_folder(file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.check {
        outln!("{} is understood", loaded.name);
        for warning in &loaded.script.warnings {
            outln!("  {}:{}: {}", loaded.name, warning.line, warning.text);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.machines.len() > 1
        || arguments.machines.iter().any(|place| *place != nestor_stack::Place::This)
    {
        let report = several::run(arguments, &loaded)?;
        return show(arguments, &loaded, 1.0, &report);
    }
    let scaled = scaled(arguments, &loaded.script)?;
    if !arguments.cached && arguments.scale != Some(Scale::Tiny) && !arguments.prepare {
        refuse_cached(&scaled.script)?;
    }
    let source = Source { name: &loaded.name, text: &loaded.text };
    let options = options(arguments, &scaled, source)?;
    for warning in &loaded.script.warnings {
        errln!("{WARNING}{}:{}: {}", loaded.name, warning.line, warning.text);
    }
    let terminal = Terminal::new(arguments)?;
    let report = run_script(&scaled.script, source, &options, &terminal);
    terminal.progress.finish();
    match report {
        Ok(report) => show(arguments, &loaded, scaled.factor, &report),
        Err(error) => match error.failure() {
            Some(failure) => Ok(failed(failure, &error.to_string())),
            None => Err(error.into()),
        },
    }
}

/// Says what failed, for people and by the exit code.
fn failed(failure: FlowFailure, why: &str) -> ExitCode {
    errln!("{ERROR}{why}");
    ExitCode::from(failure.exit_code())
}

fn scaled(arguments: &WmlArguments, script: &Script) -> Result<Scaled> {
    let how = match (arguments.scale, arguments.memory_multiple) {
        (Some(how), _) => how,
        (None, Some(multiple)) => Scale::Bytes((multiple * memory_bytes()? as f64) as u64),
        (None, None) => Scale::Factor(1.0),
    };
    let Some(factor) = arguments.file_scale else { return Ok(scale(script, how)) };
    let scaled = scale(&scale_files(script, factor), how);
    let written = mean_bytes(script);
    let factor = if written > 0 { mean_bytes(&scaled.script) as f64 / written as f64 } else { 1.0 };
    Ok(Scaled { factor, ..scaled })
}

fn options(arguments: &WmlArguments, scaled: &Scaled, source: Source<'_>) -> Result<FlowOptions> {
    let (places, inside) = match &arguments.dir {
        Some(directory) => {
            let directory = target::directory(directory)?;
            let places = relocate(&scaled.script, &directory);
            make_places(&scaled.script, source, &places, &directory)?;
            (places, Some(directory))
        }
        None => Default::default(),
    };
    Ok(FlowOptions {
        places,
        inside,
        seed: arguments.seed,
        data_seed: arguments.data_seed,
        time_s: arguments.time,
        operations: arguments.operations,
        passes_per_second: arguments.open_loop,
        only_prepare: arguments.prepare,
        prepared: arguments.prepared,
        remove: arguments.remove,
        no_system: arguments.no_system,
        overwrite: arguments.overwrite.clone(),
        growth_limit_bytes: scaled.growth_limit_bytes,
    })
}

fn memory_bytes() -> Result<u64> {
    memory::total_bytes().context("cannot read the size of the memory")
}

/// A data set that the page cache can hold says nothing about the storage.
fn refuse_cached(script: &Script) -> Result<()> {
    let has_run = script.actions.iter().any(|action| matches!(action, nestor_wml::Action::Run(_)));
    let bytes = nestor_flowops::mean_bytes(script);
    let memory = memory_bytes()?;
    // Sets that are only names (directories, empty files) are about the file system's own structures.
    if !has_run || bytes == 0 || bytes >= memory || file_sets(script).count() == 0 {
        return Ok(());
    }
    let size = nestor_report::units::bytes;
    bail!(
        "the file sets ({}) fit into this machine's memory ({}), so the page cache would be measured, not \
         the storage\n  --cached measures the page cache; --memory-multiple 2 makes the file sets twice as \
         large as memory; --scale tiny only tries the workload",
        size(bytes),
        size(memory),
    )
}

fn show(arguments: &WmlArguments, loaded: &Loaded, factor: f64, report: &FlowReport) -> Result<ExitCode> {
    if let Some(file) = &arguments.result {
        let text = serde_json::to_vec(report).context("the result has no JSON form")?;
        whole_file::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    } else if arguments.json {
        print_json(report)?;
    } else {
        say(&flow_text(&loaded.name, factor, report));
    }
    let ended = report.runs.iter().map(|run| &run.ended).find(|ended| !ended.is_well());
    match ended {
        Some(Ended::Interrupted) => Ok(ExitCode::from(130)),
        Some(Ended::Starved(why) | Ended::Failed(why)) => Ok(failed(FlowFailure::Operation, why)),
        Some(Ended::Full(why)) => Ok(failed(FlowFailure::Full, why)),
        Some(Ended::Stale(why)) => Ok(failed(FlowFailure::Stale, why)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Tells the terminal, and listens to it.
pub struct Terminal {
    /// Set by the user's signals.
    interrupted: Arc<AtomicBool>,
    progress: Progress,
    /// Lines of the script go to standard error when standard output is for the result.
    quiet: bool,
    last: Mutex<(String, u64)>,
    meeting: Option<(PathBuf, PathBuf)>,
    stop_file: Option<PathBuf>,
}

impl Terminal {
    fn new(arguments: &WmlArguments) -> Result<Self> {
        let interrupted = interrupted_by_signals()?;
        // A write beyond `ulimit -f` then fails and is reported, instead of ending the program without a word.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
            .context("cannot listen for signals")?;
        let meeting = arguments.ready_file.clone().zip(arguments.go_file.clone());
        Ok(Self {
            interrupted,
            progress: Progress::new(1000),
            quiet: arguments.json || arguments.result.is_some(),
            last: Mutex::new((String::new(), 0)),
            meeting,
            stop_file: arguments.stop_file.clone(),
        })
    }
}

impl Listener for Terminal {
    fn say(&self, line: &str) {
        if !self.quiet {
            self.progress.line(line);
        }
    }

    /// Goes to standard error, where a result does not.
    fn output(&self, line: &str) {
        self.progress.line(line);
    }

    fn progress(&self, what: &str, share: f64) {
        let now = (share.clamp(0.0, 1.0) * 1000.0) as u64;
        let mut last = nestor_stop::lock(&self.last);
        if last.0 != what {
            self.progress.about(what, None);
            last.0 = what.to_owned();
        }
        if last.1 != now {
            self.progress.position(now);
            last.1 = now;
        }
    }

    fn report(&self, so_far: &RunReport) {
        let seconds = so_far.elapsed_ns as f64 / 1e9;
        self.say(&format!(
            "after {seconds:.0} s: {} operations, {} operations/s, {}",
            so_far.operations(),
            nestor_report::units::digits(so_far.operations() as f64 / seconds),
            nestor_report::units::rate(so_far.bytes() as f64 / seconds),
        ));
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.stop_file.as_ref().is_some_and(|file| file.exists())
    }

    fn wait_for_others(&self) -> Result<(), String> {
        let Some((ready, go)) = &self.meeting else { return Ok(()) };
        files::make_sign(ready).map_err(|e| format!("cannot write {}: {e}", ready.display()))?;
        while !go.exists() {
            if self.is_interrupted() {
                return Err("stopped while waiting for the other machines".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}
