//! The arguments of commands, and those that several commands share.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use nestor_results::{GateRule, TraceMode};
use nestor_stack::{LabPack, Place, PlaceWish};
use nestor_text::quantities::{TIME_FORM, parse_whole_seconds};

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

/// `nestor disk …`
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// List the profiles
    List(JsonArguments),
    /// Compare a model with published figures
    #[command(after_help = "Examples:\n  nestor disk check wd-re3\n  nestor disk check all --json")]
    Check {
        /// A profile, or all
        profile: String,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Serve a modelled disk to a virtual machine as vhost-user-blk
    #[command(
        after_help = "Example:\n  nestor disk serve wd-re3 --socket /run/disk.sock --data disk.img --size 16G &\n  \
        qemu-system-x86_64 -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m \\\n    \
        -chardev socket,id=d,path=/run/disk.sock -device vhost-user-blk-pci,chardev=d …"
    )]
    Serve(ServeArguments),
    /// Write the library with which your own QEMU sends its time to a disk served with --clock virtual
    #[command(
        after_help = "Example:\n  nestor disk library ./vtime.so\n  nestor disk serve wd-re3 --clock virtual --socket /run/disk.sock &\n  \
        LD_PRELOAD=$PWD/vtime.so qemu-system-x86_64 -accel tcg -icount shift=0,sleep=off \\\n    \
        -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m \\\n    \
        -chardev socket,id=d,path=/run/disk.sock -device vhost-user-blk-pci,chardev=d …"
    )]
    Library {
        /// The file to write; it must not exist
        file: PathBuf,
    },
    /// Control a served disk: timing on|off, reset, start-log FILE, stop-log, statistics, quit
    Control {
        /// Its control socket
        #[arg(long, value_name = "SOCKET")]
        control: PathBuf,
        /// The command
        #[arg(required = true)]
        words: Vec<String>,
    },
}

/// Arguments of `nestor disk serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// The profile
    pub profile: String,
    /// Socket for the virtual machine; made with mode 0600
    #[arg(long, value_name = "SOCKET")]
    pub socket: PathBuf,
    /// Sparse file with the data [default: one without a name, gone at the end]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Socket for `nestor disk control`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Size of the region of the disk that is offered
    #[arg(long, value_name = "SIZE", default_value = "16G")]
    pub size: nestor_stack::Bytes,
    /// Offset of that region on the disk
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub at: nestor_stack::Bytes,
    /// The disk's write cache [default: the profile's setting]
    #[arg(long, value_name = "STATE")]
    pub write_cache: Option<Switch>,
    /// Rotation of the platters at time zero, in revolutions: from 0 to less than 1
    #[arg(long, value_name = "PART", default_value = "0")]
    pub turned: nestor_disk::Turn,
    /// Whether requests take the time that the model gives
    #[arg(long, value_name = "STATE", default_value = "on")]
    pub timing: Switch,
    /// Serial number that the machine sees
    #[arg(long, default_value = "nestor")]
    pub serial: String,
    /// Make a flush wait until the data is on this machine's own storage
    #[arg(long)]
    pub durable: bool,
    /// Open the data file read-only, so that others can read it too
    #[arg(long, requires = "data")]
    pub read_only: bool,
    /// The disk's clock: this machine's, or that of the virtual machine, which its QEMU sends on SOCKET.time
    #[arg(long = "clock", alias = "time", value_name = "CLOCK", default_value = "real")]
    pub time: DiskTimeArgument,
    /// File for a log of all requests
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// File for the stamps found in the data of requests; for tests of traces
    #[arg(long, value_name = "FILE", hide = true)]
    pub stamps: Option<PathBuf>,
}

/// The time that a disk lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiskTimeArgument {
    /// This machine's.
    Real,
    /// The virtual machine's.
    Virtual,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// `nestor lab …`
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Make the lab image, unless it is there
    Build {
        /// Print JSON: the image's files
        #[arg(long)]
        json: bool,
    },
    /// Make a lab image with more in it, for stacks that need that, unless it is there
    Pack {
        /// What it has besides
        #[arg(value_parser = lab_pack())]
        pack: LabPack,
        /// Print JSON: the image's files
        #[arg(long)]
        json: bool,
    },
    /// Add a kernel to the lab image under a name, by which file systems call it: ext4:kernel=NAME
    Kernel {
        /// Its name: letters, digits, `-`, `_`, `.`; a kernel that has it already is replaced
        #[arg(value_parser = plain_name)]
        name: String,
        /// A Debian package with a kernel (linux-image-RELEASE_….deb), or a kernel itself (bzImage)
        file: PathBuf,
        /// The modules of a kernel itself: …/lib/modules/RELEASE, as `make modules_install` makes it [default: none; all that machines
        /// need is built in]
        #[arg(long, value_name = "DIRECTORY")]
        modules: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a QEMU to the lab image under a name, by which virtual machines call it: kvm:qemu=NAME
    Qemu {
        /// Its name: letters, digits, `-`, `_`, `.`; a QEMU that has it already is replaced
        #[arg(value_parser = plain_name)]
        name: String,
        /// The program, qemu-system-x86_64; LD_LIBRARY_PATH names the directories of libraries that are not installed
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a file that is split into many extents
    #[command(hide = true)]
    ScatteredImage {
        /// The file; it must not exist.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Show what the image contains
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn lab_pack() -> impl TypedValueParser<Value = LabPack> {
    PossibleValuesParser::new(LabPack::ALL.map(LabPack::name))
        .try_map(|name| LabPack::ALL.into_iter().find(|pack| pack.name() == name).ok_or("not a pack"))
}
