//! Scripts of Filebench's Workload Model Language: those that come with this program, and the user's own.
//!
//! The engine (`nestor-flowops`) is this program itself on the machine where the workload runs: `{nestor} load wml`. The file sets
//! are made first (`--prepare`), from a fixed seed, so that they are the same in every replication; the measured step
//! finds them again (`--prepared`), with caches emptied in between.
//!
//! Scales: `scale=1` is what the papers say. Paper L (FAST '12, table 3) chose its sets larger than its guests' 512 MB; a tenth, the
//! default, is for guests of 256 MiB on emulated hosts. A set that a machine's memory can hold is marked like any other.

use std::collections::BTreeMap;

use nestor_text::complaint::why_it_ended;
use nestor_text::units;

use super::ended::{exit_code, refused};
use super::options::time_limit_s;
use crate::demand::Demand;
use crate::engine::{About, Case, DataSet, Engine, Misfit, OptionSpec, Place, Step, StepOutput, WorksOn};
use crate::error::LoadError;
use crate::flow_report::{FlowFailure, FlowReport, RunReport};
use crate::notation::Workload;
use crate::personalities::personality;
use crate::result::{Direction, LoadResult, OperationClass, OperationResult, total};
use crate::value::{Kind, Value};

/// The engine.
pub struct Wml;

/// How it is called in messages: it is this program itself.
const PROGRAM: &str = "nestor";

const CASES: &[Case] = &[
    Case {
        name: "fileserver",
        summary: "file server of Le and others, FAST '12: whole files made, appended to, read, removed",
    },
    Case {
        name: "webserver",
        summary: "web server of Le and others, FAST '12: whole files read, a log appended to",
    },
    Case {
        name: "mailserver",
        summary: "mail server of Le and others, FAST '12: small files synced, in one directory",
    },
    Case {
        name: "dbserver",
        summary: "database server of Le and others, FAST '12: small random reads and synchronous writes",
    },
    Case {
        name: "create-tree",
        summary: "Hildebrand and others, WIOV '11: empty files are created and closed in a tree",
    },
    Case { name: "stat-tree", summary: "Hildebrand and others, WIOV '11: stat of random files of a tree" },
    Case {
        name: "nas-seq-write",
        summary: "Hildebrand and others, WIOV '11: one thread writes a file in order",
    },
    Case {
        name: "nas-rand-read",
        summary: "Hildebrand and others, WIOV '11: 20 threads read a file at random",
    },
    Case { name: "script", summary: "a script of yours" },
];

const TREES: &[&str] = &["create-tree", "stat-tree"];
const NAS: &[&str] = &["nas-seq-write", "nas-rand-read"];
const WITH_THREADS: &[&str] =
    &["fileserver", "webserver", "mailserver", "dbserver", "create-tree", "stat-tree", "nas-rand-read"];

/// `nestor_wml::limits::MOST_THREADS`, which a test of `nestor` compares.
const MOST_THREADS: u64 = 16_384;

/// The cases whose files can become smaller by their number or by their size.
const WITH_SIZES: &[&str] = &["fileserver", "webserver", "mailserver", "dbserver", "script"];

/// Which way its flowops move data.
const DIRECTIONS: &[(&str, Direction)] = &[
    ("read", Direction::Read),
    ("readwholefile", Direction::Read),
    ("write", Direction::Write),
    ("writewholefile", Direction::Write),
    ("appendfile", Direction::Write),
    ("appendfilerand", Direction::Write),
    ("aiowrite", Direction::Write),
];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "file", kind: Kind::File, cases: &["script"], summary: "the script" },
    OptionSpec {
        name: "scale",
        kind: Kind::Factor,
        cases: &[],
        summary: "data set relative to the script's own",
    },
    OptionSpec {
        name: "filescale",
        kind: Kind::Factor,
        cases: WITH_SIZES,
        summary: "size of each file relative to the script's own; the number of files stays as scale says",
    },
    OptionSpec {
        name: "runtime",
        kind: Kind::TimeLimit,
        cases: &[],
        summary: "time limit; off: the script decides",
    },
    OptionSpec {
        name: "operations",
        kind: Kind::Count { min: 1, max: u64::MAX },
        cases: &[],
        summary: "exact number of operations",
    },
    OptionSpec {
        name: "threads",
        kind: Kind::Count { min: 1, max: MOST_THREADS },
        cases: WITH_THREADS,
        summary: "number of threads, instead of the script's own",
    },
    OptionSpec {
        name: "width",
        kind: Kind::Count { min: 2, max: 4_000_000_000 },
        cases: TREES,
        summary: "mean number of entries in a directory",
    },
    OptionSpec { name: "iosize", kind: Kind::Bytes, cases: NAS, summary: "bytes per operation" },
    OptionSpec {
        name: "allocated",
        kind: Kind::Switch,
        cases: &["nas-seq-write"],
        summary: "overwrite a file whose blocks exist",
    },
    OptionSpec {
        name: "rate",
        kind: Kind::Count { min: 1, max: 1_000_000_000 },
        cases: &[],
        summary: "open loop: passes that the threads begin per second",
    },
];

/// The variable of the scripts of `workloads/` that says how many threads work.
const THREADS: &str = "nthreads";

/// A tenth of the published sets.
const SCALE_MILLIONTHS: u64 = 100_000;
/// Ours, as for fio: long enough to settle, short enough for a study of many cells.
const RUNTIME_S: u64 = 10;
/// "Mean dir. width 20", paper H, table 1.
const WIDTH: u64 = 20;
/// The smallest of paper H, figure 6 and table 3.
const IO_BYTES: u64 = 2 << 10;

/// The slowest making of files that is not taken for a hang, on a nested emulated machine.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;
const SLOWEST_FILES_PER_S: u64 = 20;
const SPARE_S: u64 = 180;
/// A run without a time of its own ends with its work, or never: then it is taken for a hang.
const LONGEST_UNTIMED_S: u64 = 4 * 3600;

/// What a script's data set is at full size.
struct Published {
    files: u64,
    file_bytes: u64,
    /// The variable that scales it.
    variable: &'static str,
}

/// Paper L, table 3; paper H, §3. The sizes of `workloads/*.f`.
fn published(case: &str) -> Option<Published> {
    let set = |files, file_bytes, variable| Some(Published { files, file_bytes, variable });
    match case {
        "fileserver" => set(50_000, 128 << 10, "nfiles"),
        "webserver" => set(50_000, 16 << 10, "nfiles"),
        "mailserver" => set(50_000, 12 << 10, "nfiles"),
        "dbserver" => set(8, 1 << 30, "filesize"),
        "create-tree" | "stat-tree" => set(100_000, 0, "nfiles"),
        "nas-seq-write" | "nas-rand-read" => set(1, 4 << 30, "filesize"),
        _ => None,
    }
}

impl Engine for Wml {
    fn about(&self) -> &'static About {
        &About {
            name: "wml",
            program: PROGRAM,
            package: None,
            cases: CASES,
            options: OPTIONS,
            directions: DIRECTIONS,
        }
    }

    fn default_value(&self, workload: &Workload, option: &str) -> Option<Value> {
        let case = workload.case();
        Some(match option {
            "scale" if case == "script" => Value::Factor(1_000_000),
            "scale" => Value::Factor(SCALE_MILLIONTHS),
            "runtime" => Value::TimeLimit(Some(RUNTIME_S)),
            "width" if TREES.contains(&case) => Value::Count(WIDTH),
            "iosize" if NAS.contains(&case) => Value::Bytes(IO_BYTES),
            "allocated" if case == "nas-seq-write" => Value::Switch(false),
            _ => return None,
        })
    }

    fn check(&self, workload: &Workload) -> Result<(), Misfit> {
        // Without a file it is only the case's name in a list.
        let given = ["filescale", "scale"].into_iter().find(|option| workload.given(option).is_some());
        if let (Some(set), Some(option)) = (published(workload.case()), given)
            && (scaled(workload, &set).0 == 0 || (scaled(workload, &set).1 == 0 && set.file_bytes > 0))
        {
            return Err(Misfit {
                option,
                why: "no file is left".to_owned(),
                remedy: "write a larger factor".to_owned(),
            });
        }
        Ok(())
    }

    fn works_on(&self) -> WorksOn {
        WorksOn::Directories
    }

    fn demand(&self, workload: &Workload) -> Demand {
        let of_script = || self.script_settings(workload).into_iter().find(|(name, _)| *name == THREADS);
        let workers = match workload.value("threads") {
            Some(Value::Count(threads)) => Some(threads),
            _ => of_script().and_then(|(_, threads)| threads.parse().ok()),
        };
        Demand { workers, in_order: workload.case() == "nas-seq-write", ..Demand::default() }
    }

    /// Each script is a load of its own.
    fn family(&self, workload: &Workload) -> &'static str {
        workload.case()
    }

    fn script(&self, workload: &Workload) -> Option<String> {
        match workload.value("file") {
            Some(Value::File(file)) => Some(file),
            _ => None,
        }
    }

    fn script_settings(&self, workload: &Workload) -> Vec<(&'static str, &'static str)> {
        let lines = personality(workload.case()).unwrap_or_default().lines();
        lines.filter_map(|line| line.trim().strip_prefix("set $")?.split_once('=')).collect()
    }

    fn data_set(&self, workload: &Workload) -> DataSet {
        let (files, file_bytes) = published(workload.case()).map_or((0, 0), |set| scaled(workload, &set));
        DataSet { bytes: files * file_bytes, files, file_bytes, scale_factor: data_factor(workload) }
    }

    fn describe(&self, workload: &Workload) -> String {
        let mut words = Vec::new();
        match (published(workload.case()), workload.value("file")) {
            (Some(set), _) => {
                let (files, bytes) = scaled(workload, &set);
                let size = if bytes == 0 { "empty".to_owned() } else { format!("of {}", units::size(bytes)) };
                words.push(format!("{files} file{} {size}", if files == 1 { "" } else { "s" }));
            }
            (None, Some(file)) => words.push(format!("{file}")),
            (None, None) => words.push("file= names it".to_owned()),
        }
        for (option, unit) in
            [("threads", "threads"), ("width", "entries in a directory"), ("rate", "passes/s")]
        {
            if let Some(value) = workload.value(option) {
                words.push(format!("{value} {unit}"));
            }
        }
        if let Some(Value::Bytes(bytes)) = workload.value("iosize") {
            words.push(format!("{} each", units::size(bytes)));
        }
        words.join(", ")
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        match workload.case() {
            "create-tree" => {
                vec!["directories are made beforehand and are not part of the measurement".to_owned()]
            }
            _ => Vec::new(),
        }
    }

    fn prepare(&self, workload: &Workload, place: &Place, seed: u64) -> Vec<Step> {
        let set = self.data_set(workload);
        let mut step = command(workload, place, "prepare");
        step.title = format!("making the files of {workload}");
        step.argv.extend(["--prepare".to_owned(), format!("--seed={seed}")]);
        step.timeout_s = SPARE_S + set.bytes / SLOWEST_BYTES_PER_S + set.files / SLOWEST_FILES_PER_S;
        if set.files == 0 {
            step.timeout_s = LONGEST_UNTIMED_S;
        }
        vec![step]
    }

    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step {
        let mut step = command(workload, place, "measure");
        step.title = format!("{workload} on {}", place.target.path());
        step.argv.extend(["--prepared".to_owned(), "--cached".to_owned(), format!("--seed={seed}")]);
        if let Some(seconds) = time_limit_s(workload, "runtime") {
            step.argv.push(format!("--time={seconds}"));
        }
        for (option, argument) in [("operations", "operations"), ("rate", "open-loop")] {
            if let Some(value) = workload.value(option) {
                step.argv.push(format!("--{argument}={value}"));
            }
        }
        step.timeout_s = SPARE_S + time_limit_s(workload, "runtime").unwrap_or(LONGEST_UNTIMED_S);
        step
    }

    fn check_preparation(&self, _workload: &Workload, output: &StepOutput) -> Result<(), LoadError> {
        ended_well(output)
    }

    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError> {
        ended_well(output)?;
        let text = output.files.first().map(|(_, text)| text.as_str()).ok_or_else(|| {
            LoadError::NoOutput { program: PROGRAM, detail: output.stderr.trim().to_owned() }
        })?;
        let report: FlowReport = serde_json::from_str(text).map_err(|e| LoadError::Unreadable {
            program: PROGRAM,
            versions: env!("CARGO_PKG_VERSION"),
            detail: e.to_string(),
        })?;
        into_result(workload, &report, text)
    }
}

fn factor(workload: &Workload, option: &str) -> f64 {
    match workload.value(option) {
        Some(Value::Factor(millionths)) => millionths as f64 / 1e6,
        _ => 1.0,
    }
}

/// The bytes of all files relative to the script's own.
fn data_factor(workload: &Workload) -> f64 {
    factor(workload, "scale") * factor(workload, "filescale")
}

/// Files and mean bytes of each.
fn scaled(workload: &Workload, set: &Published) -> (u64, u64) {
    let (files, bytes) = counted(workload, set);
    (files, (bytes as f64 * factor(workload, "filescale")).round() as u64)
}

/// Files and mean bytes of each by `scale` alone, which scales whichever the script has many of.
fn counted(workload: &Workload, set: &Published) -> (u64, u64) {
    let factor = factor(workload, "scale");
    if set.variable == "nfiles" {
        ((set.files as f64 * factor).round() as u64, set.file_bytes)
    } else {
        // Whole pages.
        (set.files, (set.file_bytes as f64 * factor) as u64 & !4095)
    }
}

/// The part of the command that making files and measuring have in common.
fn command(workload: &Workload, place: &Place, what: &str) -> Step {
    let scratch = place.scratch.trim_end_matches('/');
    let script = format!("{scratch}/nestor-{}.f", workload.case());
    let result = format!("{scratch}/nestor-wml-{what}.json");
    let mut argv =
        ["{nestor}", "load", "wml", &script, "--dir", place.target.path()].map(str::to_owned).to_vec();
    argv.extend(["--result".to_owned(), result.clone()]);
    let mut set = |variable: &str, value: String| argv.push(format!("--set={variable}={value}"));
    if let Some(published) = published(workload.case()) {
        let (files, bytes) = counted(workload, &published);
        set(published.variable, if published.variable == "nfiles" { files } else { bytes }.to_string());
        if workload.case() == "nas-rand-read" {
            // Half of the file is read in all (paper H, table 3).
            set("bytes", (bytes / 2).to_string());
        }
        if workload.value("allocated") == Some(Value::Switch(true)) {
            set("initial", bytes.to_string());
        }
    }
    for (option, variable) in [("threads", THREADS), ("width", "dirwidth")] {
        if let Some(value) = workload.value(option) {
            set(variable, value.to_string());
        }
    }
    if let Some(Value::Bytes(bytes)) = workload.value("iosize") {
        set("iosize", bytes.to_string());
    }
    let (mut input_files, mut copied_files) = (Vec::new(), Vec::new());
    match (personality(workload.case()), workload.value("file")) {
        (Some(text), _) => input_files.push((script, text.as_bytes().to_vec())),
        (None, file) => {
            copied_files.push((script, file.map_or_else(String::new, |file| file.to_string())));
            argv.push(format!("--scale={}", factor(workload, "scale")));
        }
    }
    if workload.given("filescale").is_some() {
        argv.push(format!("--file-scale={}", factor(workload, "filescale")));
    }
    Step {
        title: String::new(),
        argv,
        input_files,
        copied_files,
        output_files: vec![result],
        timeout_s: SPARE_S,
    }
}

fn ended_well(output: &StepOutput) -> Result<(), LoadError> {
    match exit_code(PROGRAM, &output.ended)? {
        0 => Ok(()),
        code => {
            let detail = why_it_ended(&output.stderr);
            Err(match FlowFailure::of_exit_code(code) {
                Some(FlowFailure::Full) => LoadError::Full { detail },
                Some(FlowFailure::Stale) => LoadError::Stale { program: PROGRAM, detail },
                Some(FlowFailure::Operation) => LoadError::OperationFailed { program: PROGRAM, detail },
                None => refused(PROGRAM, code, &detail),
            })
        }
    }
}

/// What the flowops of each kind did.
fn by_class(run: &RunReport) -> BTreeMap<OperationClass, OperationResult> {
    let mut operations: BTreeMap<OperationClass, OperationResult> = BTreeMap::new();
    for flowop in run.flowops.iter().filter(|flowop| flowop.is_io && flowop.operations > 0) {
        let class = operations.entry(OperationClass(flowop.kind.clone())).or_default();
        class.operations = class.operations.saturating_add(flowop.operations);
        class.bytes = class.bytes.saturating_add(flowop.bytes);
        class.latency.merge(&flowop.latency);
        let seconds = class.bytes_by_second.len().max(flowop.bytes_by_second.len());
        class.bytes_by_second.resize(seconds, 0);
        for (all, bytes) in class.bytes_by_second.iter_mut().zip(&flowop.bytes_by_second) {
            *all = all.saturating_add(*bytes);
        }
    }
    operations
}

/// The last run of the script: those before it are its own warm-up.
fn into_result(workload: &Workload, report: &FlowReport, text: &str) -> Result<LoadResult, LoadError> {
    let run = report.runs.last().ok_or_else(|| LoadError::NothingMeasured {
        program: PROGRAM,
        detail: "the script has neither a run nor a process".to_owned(),
    })?;
    let operations = by_class(run);
    if operations.is_empty() {
        return Err(LoadError::NothingMeasured {
            program: PROGRAM,
            detail: "no operation ended in the measured time: use a longer runtime=".to_owned(),
        });
    }
    let mut figures = BTreeMap::new();
    for pass in run.passes.iter().filter(|pass| pass.operations > 0) {
        figures.insert(format!("passes_of_{}", pass.name), pass.operations as f64);
        for (quantile, name) in [(0.5, "p50"), (0.99, "p99")] {
            if let Some(ns) = pass.latency.quantile_ns(quantile) {
                figures.insert(format!("pass_of_{}_{name}_ns", pass.name), ns as f64);
            }
        }
    }
    let mut remarks = run.remarks.clone();
    if let Some(pace) = run.pace.as_ref().filter(|pace| pace.is_missed()) {
        remarks.push(format!(
            "of {} {} that were due, {} were begun: the rate was not reached",
            pace.offered, pace.of, pace.begun
        ));
    }
    Ok(LoadResult {
        engine: format!("nestor {}", env!("CARGO_PKG_VERSION")),
        workload: workload.to_string(),
        elapsed_ns: run.elapsed_ns,
        operations,
        working_set_bytes: total(report.file_sets.iter().map(|set| set.bytes)),
        scale_factor: data_factor(workload),
        cpu_user_s: run.cpu_user_s,
        cpu_system_s: run.cpu_system_s,
        engine_output: text.to_owned(),
        figures,
        remarks,
    })
}

#[cfg(test)]
mod tests;
