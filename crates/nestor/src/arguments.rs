//! The arguments of commands, and those that several commands share.

mod disk;
mod lab;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, ValueEnum};
use nestor_results::{GateRule, TraceMode};
use nestor_stack::{Place, PlaceWish};
use nestor_text::quantities::{TIME_FORM, parse_whole_seconds};

pub use disk::{DiskCommand, DiskTimeArgument, ServeArguments, Switch};
pub use lab::LabCommand;

/// A place, and what results there say of it.
#[derive(Clone, Debug)]
pub struct SettledPlace {
    /// Where stacks are built.
    pub place: Place,
    /// Why it is not the one that was to be expected.
    pub remark: Option<String>,
}

impl SettledPlace {
    /// The place that was asked for.
    pub fn exactly(place: Place) -> Self {
        Self { place, remark: None }
    }
}

/// Where and how cells run.
#[derive(Args, Clone, Debug)]
pub struct LabArguments {
    /// Where to build the stack, and whose earlier results count: emulated, this, ssh:HOST; a stack with a link also
    /// ssh:CLIENT,ssh:SERVER, and one with a source ssh:NODE,ssh:REPOSITORY; domain:NAME is a virtual machine of yours that libvirt runs here; ec2:URL and
    /// opennebula:URL are managers of a cloud, which start an instance (by=ec2, by=opennebula). If KVM is not usable and Nestor can attach to QEMU, an emulated host runs in virtual time, in which
    /// results repeat to the last bit (emulated:time=virtual); otherwise it runs in real time (emulated:time=real). In virtual time,
    /// emulated:cpu=4000mips models a faster processor
    #[arg(long, value_name = "PLACE", default_value_t = PlaceWish::default())]
    pub on: PlaceWish,
    /// What `on` has come to mean on this machine.
    #[arg(skip)]
    pub settled: OnceLock<SettledPlace>,
    /// How many cells run side by side; virtual time only; changes no number [default: one for each processor, as far as memory
    /// allows]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Allow Nestor to overwrite this device or file although it holds data; give the exact path
    #[arg(long, value_name = "PATH")]
    pub overwrite: Vec<PathBuf>,
    /// How much to record: every request through all layers, the numbers of each layer, or nothing [default: full, or the study's
    /// setting]
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "full")]
    pub trace: Option<TraceChoice>,
    /// Do not record at the trace points; the same as --trace none
    #[arg(long, conflicts_with = "trace")]
    pub no_trace: bool,
    /// Also measure each traced cell without tracing, on a fresh stack in the same block, and print what tracing costs
    #[arg(long)]
    pub trace_cost: bool,
    /// Measure every cell again, even if the results file has it (a study's finished cells; in virtual time, any cell with the same
    /// dependencies); keep the old results
    #[arg(long)]
    pub again: bool,
    /// Keep the requests of every traced cell in this directory, with all that joining them needs
    #[arg(long, value_name = "DIRECTORY")]
    pub trace_to: Option<PathBuf>,
    /// The results file [default: nestor/results.sqlite in your data directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Before the result, print neither the plan nor a line for each cell
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How much to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceChoice {
    /// Every trace point, and each request joined through all layers.
    Full,
    /// The numbers of each layer.
    Layers,
    /// Nothing.
    None,
}

impl LabArguments {
    /// What is to be recorded, where the study or the command says `usual`.
    pub fn trace_mode(&self, usual: TraceMode) -> TraceMode {
        match self.trace {
            _ if self.no_trace => TraceMode::None,
            Some(TraceChoice::Full) => TraceMode::Full,
            Some(TraceChoice::Layers) => TraceMode::Layers,
            Some(TraceChoice::None) => TraceMode::None,
            None => usual,
        }
    }
}

/// Arguments of `nestor run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The stack; alternatives in braces are measured one after another
    pub stack: String,
    /// The workload, such as fio:seq-write
    pub workload: String,
    /// Number of freshly built stacks to measure
    #[arg(long, short = 'n', default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replications: u32,
    /// Seed of the order and of everything that differs between repeats: the workload's random choices, the layout of files and, in
    /// virtual time, the phase of the platters and the moment of the start
    #[arg(long, default_value_t = 1, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Measure everything once more and compare; in virtual time, the results must be the same to the last bit
    #[arg(long)]
    pub verify: bool,
    /// Build the stack inside this virtual machine of yours, which libvirt runs here, on the disk of it that the stack names
    /// (ext4/dev:/dev/vdb); the same as --on domain:NAME
    #[arg(long, value_name = "NAME", value_parser = domain, conflicts_with = "on")]
    pub domain: Option<Place>,
    /// Save the runs under this name, in place of those that it had: `nestor compare --against NAME` compares others with them
    #[arg(long, value_name = "NAME", value_parser = plain_name)]
    pub save: Option<String>,
    #[command(flatten)]
    pub lab: LabArguments,
}

impl RunArguments {
    /// Where and how its cells run.
    pub fn lab(&self) -> LabArguments {
        match &self.domain {
            Some(domain) => LabArguments { on: PlaceWish::Exactly(domain.clone()), ..self.lab.clone() },
            None => self.lab.clone(),
        }
    }
}

fn domain(name: &str) -> Result<Place, String> {
    format!("domain:{name}")
        .parse()
        .map_err(|_| "a domain has a name, which does not begin with a hyphen".to_owned())
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// A name that is the same in a shell and in a file of CI, however it is quoted.
fn plain_name(name: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_plain) || name.starts_with('-') {
        return Err(
            "a name has letters, digits, `-`, `_` and `.`, and does not begin with a hyphen".to_owned()
        );
    }
    Ok(name.to_owned())
}

/// Arguments of `nestor compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// The stack to compare with, then those to judge, and last the workload; with --against only those to judge, and the workload; braces
    /// make several stacks of one
    #[arg(value_name = "STACK", required = true, num_args = 1..)]
    pub words: Vec<String>,
    /// Number of pairs of freshly built stacks to measure
    #[arg(long, short = 'n', default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replications: u32,
    /// Seed of the order and of everything that differs between repeats
    #[arg(long, default_value_t = 1, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Compare with the runs that `nestor run --save NAME` saved in the results file, in place of a stack
    #[arg(long, value_name = "NAME", value_parser = plain_name)]
    pub against: Option<String>,
    /// Fail if a metric changes by more than this: 'throughput<-5%', 'p99:fsync>+10%'; repeat for several. The exit code is 0 if the
    /// change is within every limit, 1 if it is beyond one, 2 if more pairs would be needed to tell, 3 after an error
    #[arg(long, value_name = "RULE")]
    pub fail_if: Vec<GateRule>,
    #[command(flatten)]
    pub lab: LabArguments,
}

impl CompareArguments {
    /// The stacks and the workload. They are one argument, because options may stand between them.
    ///
    /// # Errors
    /// There is one word only.
    pub fn stacks_and_workload(&self) -> Result<(&[String], &str), String> {
        match self.words.split_last() {
            Some((workload, stacks)) if !stacks.is_empty() => Ok((stacks, workload)),
            _ => Err(format!(
                "nestor compare needs stacks and, last, a workload; this is one word: `{}`\n  \
                 such as: nestor compare ext3/kvm/hdd ext3/kvm/raw/jfs/hdd fio:seq-write",
                self.words.concat()
            )),
        }
    }
}

/// Arguments of `nestor study`.
#[derive(Args, Debug)]
pub struct StudyArguments {
    /// The study's file, or the name of a study that comes with Nestor, such as quick; a file of that path comes first. --resume without a
    /// study continues the one that was started last
    #[arg(required_unless_present_any = ["resume", "list"])]
    pub study: Option<PathBuf>,
    /// List the studies that come with Nestor
    #[arg(long, conflicts_with_all = ["study", "plan", "resume"])]
    pub list: bool,
    #[command(flatten)]
    pub how: StudyHow,
    #[command(flatten)]
    pub lab: LabArguments,
}

/// How a study is run.
#[derive(Args, Clone, Debug)]
pub struct StudyHow {
    /// One of the sizes that the study offers [default: the size that it names]
    #[arg(long, value_name = "NAME")]
    pub scale: Option<String>,
    /// Print what would run, how long it takes and what space it needs; measure nothing
    #[arg(long)]
    pub plan: bool,
    /// Continue a study; refused if its file has changed since it started
    #[arg(long, conflicts_with = "again")]
    pub resume: bool,
    /// Number of blocks, instead of the study's
    #[arg(long, short = 'n', value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replications: Option<u32>,
    /// Run every block, even for comparisons that are settled
    #[arg(long)]
    pub no_stop: bool,
    /// Start no cell that would end after this time, such as 45m; a number alone is in seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<std::time::Duration>,
    /// Allow the study to write to this device or file, whose data is lost; give the path as the study does
    #[arg(long, value_name = "PATH")]
    pub allow: Vec<PathBuf>,
    /// File for the HTML report [default: nestor/reports/NAME.html in your data directory]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub slurm: SlurmArguments,
}

/// Where `--help` lists them.
const CLUSTER_OPTIONS: &str = "On a Slurm cluster";

/// Whether and how a study is spread over a Slurm cluster.
#[derive(Args, Clone, Debug)]
pub struct SlurmArguments {
    /// Spread the cells over the machines of a Slurm cluster, as an array job; virtual time only; changes no number
    #[arg(help_heading = CLUSTER_OPTIONS, long, conflicts_with = "jobs")]
    pub slurm: bool,
    /// The partition [default: Slurm's]
    #[arg(help_heading = CLUSTER_OPTIONS, long = "slurm-partition", value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// Number of tasks at once; each takes one core [default: as many as the partition has cores]
    #[arg(help_heading = CLUSTER_OPTIONS, long = "slurm-tasks", value_name = "N", requires = "slurm")]
    pub tasks: Option<NonZeroUsize>,
    /// Time limit of a task, such as 2h, a number alone in seconds; a cell that it ends runs again in another task [default: the partition's]
    #[arg(help_heading = CLUSTER_OPTIONS, long = "slurm-time", value_name = "TIME", value_parser = duration, requires = "slurm")]
    pub time: Option<std::time::Duration>,
    /// A further argument for sbatch, such as --slurm-arg=--account=lab; may be repeated
    #[arg(help_heading = CLUSTER_OPTIONS, long = "slurm-arg", value_name = "ARGUMENT", allow_hyphen_values = true, requires = "slurm")]
    pub arguments: Vec<String>,
    /// A directory that all nodes share, for the tasks' results [default: slurm/ beside the results file]
    #[arg(help_heading = CLUSTER_OPTIONS, long = "slurm-dir", value_name = "DIRECTORY", requires = "slurm")]
    pub directory: Option<PathBuf>,
}

/// A finite number above another; `None` for anything else.
pub fn number_above(limit: f64, text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number > limit)
}

/// A time as options take it.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    parse_whole_seconds(text).ok_or_else(|| format!("write {TIME_FORM}"))
}

/// Arguments of `nestor replicate`.
#[derive(Args, Debug)]
pub struct ReplicateArguments {
    /// The published study; without a name, all are listed
    pub paper: Option<String>,
    /// Measure nothing; judge the paper's claims by the results file
    #[arg(long, conflicts_with_all = ["plan", "resume", "again"])]
    pub claims: bool,
    /// Also write the scoreboard, the plots and the environment to this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub results_to: Option<PathBuf>,
    #[command(flatten)]
    pub how: StudyHow,
    #[command(flatten)]
    pub lab: LabArguments,
}

/// Results: one run, or those of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The run with this number.
    Run(i64),
    /// The study with this name.
    Study(String),
}

impl std::str::FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) => Ok(Self::Run(number)),
            Err(_) if text.is_empty() => Err("a run has a number and a study a name".to_owned()),
            Err(_) => Ok(Self::Study(text.to_owned())),
        }
    }
}

/// Arguments of `nestor report`.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// Number of a run, or name of a study
    #[arg(value_name = "RUN|STUDY", group = "reported")]
    pub subject: Option<Subject>,
    /// Name of a study; also for one whose name is a number
    #[arg(long, value_name = "NAME", group = "reported")]
    pub study: Option<String>,
    /// List all runs, not only the newest
    #[arg(long, conflicts_with = "reported")]
    pub all: bool,
    /// File for the HTML report
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write an SVG picture: a study's matrix, or some requests of a run through all layers
    #[arg(long, value_name = "FILE", requires = "reported")]
    pub picture: Option<PathBuf>,
    /// Also write an SVG picture of where the time of each class of a run's operations went
    #[arg(long, value_name = "FILE", requires = "reported")]
    pub time_picture: Option<PathBuf>,
    /// Also write the cells of a study as comma-separated values, one line per cell
    #[arg(long, value_name = "FILE", requires = "reported")]
    pub csv: Option<PathBuf>,
    /// Also write a study's answer and matrices as Markdown, for an issue or a merge request
    #[arg(long, value_name = "FILE", requires = "reported")]
    pub markdown: Option<PathBuf>,
    /// Also write the cells of a study to a Parquet file, one row per cell
    #[arg(long, value_name = "FILE", requires = "reported")]
    pub parquet: Option<PathBuf>,
    /// First copy the runs of another results file into this one
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// The results file [default: nestor/results.sqlite in your data directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `nestor doctor`.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// Remove what killed runs left behind
    #[arg(long)]
    pub clean: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// A command whose only choice is the form of its output.
#[derive(Args, Debug)]
pub struct JsonArguments {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `nestor stack`.
#[derive(Args, Debug)]
pub struct StackArguments {
    /// Stacks to check, or layers whose options to list, each by its name; without any, Nestor lists all layers
    #[arg(value_name = "STACK|LAYER")]
    pub stacks: Vec<String>,
    /// Also check whether the stacks can be built there [default: emulated, for stacks with a modelled disk]
    #[arg(long, value_name = "PLACE")]
    pub on: Option<PlaceWish>,
    #[command(flatten)]
    pub machine: Option<crate::commands::stack::DescribedMachine>,
    /// The storages of the Proxmox VE that --proxmox is of [default: /etc/pve/storage.cfg, where it is there]
    #[arg(long, value_name = "FILE", requires = "proxmox")]
    pub storages: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}
