//! What an engine is: a way to turn a workload into commands, and their output into a result.

use serde::{Deserialize, Serialize};

use crate::demand::Demand;
use crate::engines::LifeCycle;
use crate::error::LoadError;
use crate::notation::Workload;
use crate::result::{Direction, LoadResult};
use crate::value::{Kind, Value};

/// What is always the same of an engine.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The first word of its workloads.
    pub name: &'static str,
    /// The program that must be installed on the machine.
    pub program: &'static str,
    /// The Debian package it comes in; `None` for this program itself.
    pub package: Option<&'static str>,
    /// The second words, each with what it does.
    pub cases: &'static [Case],
    /// The options, in the order in which they are printed.
    pub options: &'static [OptionSpec],
    /// Which way the operations of its classes move data. Those that are not here move none, or it is not known which way.
    pub directions: &'static [(&'static str, Direction)],
}

/// A program that makes load.
///
/// A run is: every step of [`Engine::prepare`] in order, each judged by [`Engine::check_preparation`]; then (caches
/// dropped, the modelled disk's timing and the trace points switched on) the one step of [`Engine::measure`], whose output
/// [`Engine::parse`] reads.
pub trait Engine: Sync {
    /// What is always the same of it.
    fn about(&self) -> &'static About;

    /// See [`About::name`].
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// See [`About::program`].
    fn program(&self) -> &'static str {
        self.about().program
    }

    /// A command that starts its program and ends at once, for programs whose start reads much from the disk. `None`: it reads little.
    fn trial(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// See [`About::cases`].
    fn cases(&self) -> &'static [Case] {
        self.about().cases
    }

    /// See [`About::options`].
    fn options(&self) -> &'static [OptionSpec] {
        self.about().options
    }

    /// What an option is when it is not written; it may depend on other options. `None`: nothing is assumed.
    fn default_value(&self, workload: &Workload, option: &str) -> Option<Value>;

    /// Checks what concerns several options at once.
    ///
    /// # Errors
    /// The option to blame, why, and what to write instead.
    fn check(&self, workload: &Workload) -> Result<(), Misfit>;

    /// What the workload works on.
    fn data_set(&self, workload: &Workload) -> DataSet;

    /// What the workload asks of the storage, as far as its options state it. What is not stated is recorded.
    fn demand(&self, _workload: &Workload) -> Demand {
        Demand::default()
    }

    /// Which workloads are alike when one is predicted from others: those of one engine, if it does not say otherwise.
    fn family(&self, _workload: &Workload) -> &'static str {
        self.name()
    }

    /// What it asks for, if it is not a load but the life of instances in which one runs.
    fn life(&self, _workload: &Workload) -> Option<LifeCycle> {
        None
    }

    /// The script in Filebench's language that the workload names: a file of the user's.
    fn script(&self, _workload: &Workload) -> Option<String> {
        None
    }

    /// The settings of the script that the workload runs, each with its value, in the script's own spelling; options override them.
    fn script_settings(&self, _workload: &Workload) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// What kind of target it needs.
    fn works_on(&self) -> WorksOn {
        WorksOn::Both
    }

    /// The workload's parameters in words: `8 KiB, depth 255, 512 MiB in 64 files`.
    fn describe(&self, workload: &Workload) -> String;

    /// What makes the workload less than it seems, to be printed with every result.
    fn remarks(&self, workload: &Workload) -> Vec<String>;

    /// The class of operations that the workload does without a latency in its result, and the option that gives it one.
    fn untimed(&self, _workload: &Workload) -> Option<Untimed> {
        None
    }

    /// The commands that make the data set; may be none. They may run with the modelled disk's timing off. The seed decides
    /// at most in which order it is made: every seed has the same files.
    fn prepare(&self, workload: &Workload, place: &Place, seed: u64) -> Vec<Step>;

    /// The command that is measured. The same seed gives the same sequence of operations.
    fn measure(&self, workload: &Workload, place: &Place, seed: u64) -> Step;

    /// The same command, leaving a record of each operation as well; `None` for an engine or a workload that cannot, or
    /// that has so many operations that their record would fill a small machine's memory.
    fn measure_recorded(&self, _workload: &Workload, _place: &Place, _seed: u64) -> Option<RecordedStep> {
        None
    }

    /// For a workload whose writes carry the numbers of their operations: the file in which the measured step leaves those
    /// operations (one of its output files), one JSON object a line as `nestor_correlate::stamps` writes them.
    fn marked_operations(&self, _place: &Place) -> Option<String> {
        None
    }

    /// Seconds after which the measured step ends by itself at the latest; `None` where nothing limits it.
    fn time_limit_s(&self, workload: &Workload) -> Option<u64> {
        match workload.value("runtime") {
            Some(Value::TimeLimit(seconds)) => seconds,
            _ => None,
        }
    }

    /// Judges the output of a step of [`Engine::prepare`].
    ///
    /// # Errors
    /// Why the data set is not as it should be.
    fn check_preparation(&self, workload: &Workload, output: &StepOutput) -> Result<(), LoadError>;

    /// Reads the output of the step of [`Engine::measure`].
    ///
    /// # Errors
    /// Why there is no result: the program's own complaint, or an output that contradicts itself.
    fn parse(&self, workload: &Workload, output: &StepOutput) -> Result<LoadResult, LoadError>;
}

/// A case of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The word.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// An option of an engine.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The word before `=`.
    pub name: &'static str,
    /// What may follow it.
    pub kind: Kind,
    /// The cases that have it; empty for all.
    pub cases: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
}

impl OptionSpec {
    /// Whether a case has it.
    pub fn is_of(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.contains(&case)
    }
}

/// Operations that are done and not timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untimed {
    /// Their class.
    pub class: &'static str,
    /// The option, or one or the other, with which they are timed.
    pub option: &'static str,
}

/// Options that do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The option to point at.
    pub option: &'static str,
    /// Why it does not fit.
    pub why: String,
    /// What to write instead.
    pub remedy: String,
}

/// What a workload works on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSet {
    /// All bytes it can touch: the working set.
    pub bytes: u64,
    /// Number of files they are in, when the target is a directory.
    pub files: u64,
    /// Size of each.
    pub file_bytes: u64,
    /// Size relative to the published one (1 = as published).
    pub scale_factor: f64,
}

/// Where a workload runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What it works on.
    pub target: Target,
    /// An existing directory for the engine's logs on the same machine; not on the stack that is measured.
    pub scratch: String,
}

/// What a workload works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A directory of the file system at the top of the stack.
    Directory(String),
    /// A block device, for a stack without a file system at the top. Everything on it is overwritten.
    Device(String),
}

impl Target {
    /// Its path.
    pub fn path(&self) -> &str {
        match self {
            Self::Directory(path) | Self::Device(path) => path,
        }
    }
}

/// What kind of target an engine can work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorksOn {
    /// A directory of a file system or a block device.
    Both,
    /// Only a directory: it makes files.
    Directories,
    /// Only a block device.
    Devices,
}

/// One command on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it does, for progress displays: `laying out 512 MiB in 64 files`.
    pub title: String,
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Files to write before it starts: path and content.
    pub input_files: Vec<(String, Vec<u8>)>,
    /// Files of the user's to copy before it starts: the path there, and the path where the workload was written down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copied_files: Vec<(String, String)>,
    /// Files to read after it ended, into [`StepOutput::files`], and then to remove; they may be missing.
    pub output_files: Vec<String>,
    /// Seconds after which it must be taken for hung and killed. A generous bound, not an estimate.
    pub timeout_s: u64,
}

/// A command that leaves a record of each operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStep {
    /// The command.
    pub step: Step,
    /// What it leaves, on the machine where it ran.
    pub log: OperationLog,
}

/// Files with a record of each operation, in fio's forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationLog {
    /// Of every operation: when it ended and how long it took.
    pub latency_log: String,
    /// Of every operation: on which file, and when it was submitted.
    pub iolog: String,
    /// What is left beside them and not needed.
    pub others: Vec<String>,
    /// Whether every operation goes to the device at once, without a cache of the machine's.
    pub direct: bool,
}

/// What a command left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutput {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Those of [`Step::output_files`] that existed: path and content.
    pub files: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By the machine's kernel, for want of memory.
    OutOfMemory {
        /// Memory that the program had, without files.
        resident_bytes: u64,
    },
    /// It was killed after [`Step::timeout_s`] seconds.
    TimedOut,
    /// There is no such program on the machine.
    NoProgram,
}
