//! The command line's words.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::place::SettledPlace;
use clap::{Args, Parser, Subcommand, ValueEnum};
use nestor_build::PlaceWish;
use nestor_study::TraceMode;

/// A laboratory for storage under virtual machines.
#[derive(Debug, Parser)]
#[command(name = "nestor", version, max_term_width = 110, arg_required_else_help = true)]
#[command(
    after_help = "A stack is written from the application down to the medium: ext3/kvm/raw/jfs/hdd is an ext3 guest\n\
whose disk is a raw image on a JFS host. `nestor stack` lists the layers, `nestor stack STACK` explains one.\n\n\
Examples:\n  \
nestor run ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
nestor compare ext3/kvm/hdd ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
nestor study studies/quick.toml\n  \
nestor doctor"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build a stack, run a workload on it, and show what each layer did
    #[command(after_help = "Examples:\n  nestor run ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
        nestor run ext4/kvm:cache=writeback/qcow2/xfs/hdd:wd-re3 fio:rand-write:bs=4k --replications 5\n  \
        nestor run --on this xfs/file:/srv/disk.img fio:seq-read")]
    Run(RunArguments),
    /// Run one workload on two stacks, in pairs of random order, and say how they differ
    #[command(after_help = "Example:\n  nestor compare ext3/kvm/hdd ext3/kvm/raw/jfs/hdd fio:seq-write")]
    Compare(CompareArguments),
    /// Run a study: stacks × workloads from a file; an interrupted one goes on where it stopped
    #[command(
        after_help = "Examples:\n  nestor study studies/quick.toml\n  nestor study studies/quick.toml --plan\n  \
        nestor study --resume"
    )]
    Study(StudyArguments),
    /// Repeat a published study here and judge its claims
    #[command(after_help = "Examples:\n  nestor replicate\n  nestor replicate nested-fs --scale quick\n  \
        nestor replicate nested-fs --claims")]
    Replicate(ReplicateArguments),
    /// Recommend a stack for a workload, with its price, and prove it; or settle a conflict between recommendations
    #[command(after_help = "Examples:\n  nestor advise mail --host-fs ext4,xfs --format raw,qcow2\n  \
        nestor advise mail --as libvirt\n  nestor advise --settle K4")]
    Advise(crate::commands::advise::AdviseArguments),
    /// Say what a load will reach on another stack, how sure that is, and what would make it surer
    #[command(
        after_help = "Examples:\n  nestor predict --workload mail.toml --from ext4/hdd --to ext4/kvm/raw/xfs/hdd\n  \
        nestor predict --workload fio:rand-read --to ext4/kvm/qcow2/xfs/hdd --verify\n  \
        nestor predict --workload fio:seq-write --matrix --suggest 3\n  nestor predict --validate"
    )]
    Predict(Box<crate::commands::predict::PredictArguments>),
    /// Say what a load is: watch a disk, a process or a control group, or read traces
    #[command(
        after_help = "Examples:\n  nestor characterize --for 60s --device /dev/sda --output mail.toml\n  \
        nestor characterize --for 5m --cgroup system.slice/mysql.service --check /srv/test\n  \
        nestor characterize --trace sda.blktrace.*"
    )]
    Characterize(Box<crate::commands::characterize::CharacterizeArguments>),
    /// Say what made a run slower or faster than its baseline
    #[command(after_help = "Examples:\n  nestor explain 41\n  nestor explain 41 --against 38")]
    Explain(crate::commands::explain::ExplainArguments),
    /// Write the HTML report of runs or of a study, or list what there is
    #[command(after_help = "Examples:\n  nestor report                 list the runs\n  \
        nestor report 41              report of run 41\n  nestor report --study quick   report of a study")]
    Report(ReportArguments),
    /// Say what this machine can do, and what mends what it cannot
    Doctor(DoctorArguments),
    /// Modelled disks: list, check against published figures, serve to any virtual machine
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Record and condense block traces
    #[command(subcommand)]
    Trace(TraceCommand),
    /// The lab image that every machine boots
    #[command(subcommand)]
    Lab(LabCommand),
    /// List the layers stacks are made of, or check and explain stacks
    #[command(
        after_help = "Examples:\n  nestor stack\n  nestor stack 'ext4/kvm:cache={none,writeback}/raw/xfs/hdd'"
    )]
    Stack(StackArguments),
    /// Run workloads on this machine's own directories and devices, without a lab
    #[command(subcommand)]
    Load(crate::commands::load::LoadCommand),
    /// List the workloads
    Workloads(JsonArguments),
    /// Print shell completions
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Obey requests on standard input and output
    #[command(hide = true)]
    Agent,
}

/// Where and how cells run.
#[derive(Args, Clone, Debug)]
pub struct LabArguments {
    /// Where the stack stands: emulated, this, ssh:HOST. An emulated host lives in its own time, in which results repeat to the
    /// last bit (emulated:time=virtual), where KVM is not usable and QEMU can be joined to it; otherwise in this machine's
    /// (emulated:time=real). In virtual time the modelled processor can be a faster one: emulated:cpu=4000mips
    #[arg(long, value_name = "PLACE", default_value_t = PlaceWish::default())]
    pub on: PlaceWish,
    /// What `on` has come to mean on this machine.
    #[arg(skip)]
    pub settled: OnceLock<SettledPlace>,
    /// How many cells may run side by side, which changes no number: in virtual time only [default: as many as there are processors, as
    /// far as memory allows]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// A device or file of yours that may be overwritten although there is data on it; names it exactly
    #[arg(long, value_name = "PATH")]
    pub overwrite: Vec<PathBuf>,
    /// How much to record: every request through all layers, the numbers of each layer, or nothing [default: full, or
    /// as the study says]
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "full")]
    pub trace: Option<TraceChoice>,
    /// Measure without recording at the trace points: the same as --trace none
    #[arg(long, conflicts_with = "trace")]
    pub no_trace: bool,
    /// Measure each traced cell untraced as well, on a fresh stack in the same block, and say what tracing cost
    #[arg(long)]
    pub trace_cost: bool,
    /// Measure every cell anew: also those whose numbers the file of results has from a cell with the same dependencies (in virtual
    /// time), and those that a study has measured; nothing is forgotten
    #[arg(long)]
    pub again: bool,
    /// Keep the requests of every traced cell in this directory, with what is needed to join them
    #[arg(long, value_name = "DIRECTORY")]
    pub trace_to: Option<PathBuf>,
    /// File of results [default: nestor/results.sqlite in your data directory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How much to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceChoice {
    /// Every boundary, and each request joined through all layers.
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
    /// The stack; alternatives in braces run one after another
    pub stack: String,
    /// The workload, such as fio:seq-write
    pub workload: String,
    /// How many freshly built stacks to measure
    #[arg(long, short = 'n', default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replications: u32,
    /// Decides the order, and all that differs between repeats: the workload's random choices, where files lie and, in virtual
    /// time, where platters stand and when it starts
    #[arg(long, default_value_t = 1, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Measure all of it once more and compare: in virtual time it has to come out the same to the last bit
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub lab: LabArguments,
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

/// Arguments of `nestor compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// The stack to compare with
    pub baseline: String,
    /// The stack that is compared
    pub candidate: String,
    /// The workload
    pub workload: String,
    /// How many pairs of freshly built stacks to measure
    #[arg(long, short = 'n', default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replications: u32,
    /// Decides the order, and all that differs between repeats
    #[arg(long, default_value_t = 1, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub lab: LabArguments,
}

/// Arguments of `nestor study`.
#[derive(Args, Debug)]
pub struct StudyArguments {
    /// The study's file; with --resume it may be left out: the study that was begun last
    #[arg(required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub how: StudyHow,
    #[command(flatten)]
    pub lab: LabArguments,
}

/// How a study is run.
#[derive(Args, Clone, Debug)]
pub struct StudyHow {
    /// Which of the sizes that the study offers [default: the one it names]
    #[arg(long, value_name = "NAME")]
    pub scale: Option<String>,
    /// Say what would run, how long it will take and what space it needs; measure nothing
    #[arg(long)]
    pub plan: bool,
    /// Go on with a study that was begun; refused if the file has changed since
    #[arg(long, conflicts_with = "again")]
    pub resume: bool,
    /// So many blocks, whatever the study says
    #[arg(long, short = 'n', value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replications: Option<u32>,
    /// Run every block, also of comparisons that are settled
    #[arg(long)]
    pub no_stop: bool,
    /// Begin no cell that would not end within this time, such as 45m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<std::time::Duration>,
    /// A device or file of yours that the study may write to: everything on it is lost; names it as the study does
    #[arg(long, value_name = "PATH")]
    pub allow: Vec<PathBuf>,
    /// Where the HTML report goes [default: nestor/reports/NAME.html in your data directory]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A time as options take it.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    nestor_study::parse_duration(text)
        .ok_or_else(|| "write hours, minutes and seconds: 90s, 5m, 1h30m".to_owned())
}

/// Arguments of `nestor replicate`.
#[derive(Args, Debug)]
pub struct ReplicateArguments {
    /// The published study; without one they are listed
    pub paper: Option<String>,
    /// Measure nothing: judge the paper's claims by what is in the file of results
    #[arg(long, conflicts_with_all = ["plan", "resume", "again"])]
    pub claims: bool,
    /// Write the scoreboard, the plots and the environment into this directory as well
    #[arg(long, value_name = "DIRECTORY")]
    pub results_to: Option<PathBuf>,
    #[command(flatten)]
    pub how: StudyHow,
    #[command(flatten)]
    pub lab: LabArguments,
}

/// Arguments of `nestor report`.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// Number of a run
    #[arg(group = "subject")]
    pub run: Option<i64>,
    /// Name of a study
    #[arg(long, group = "subject")]
    pub study: Option<String>,
    /// List all runs, not only the newest
    #[arg(long, conflicts_with = "subject")]
    pub all: bool,
    /// Where the HTML report goes
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write an SVG picture: a study's matrix, or some requests of a run through all layers
    #[arg(long, value_name = "FILE", requires = "subject")]
    pub picture: Option<PathBuf>,
    /// Take the runs of another file of results over into this one first
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// File of results [default: nestor/results.sqlite in your data directory]
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
    /// Stacks to check; without any, the layers are listed
    pub stacks: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `nestor disk …`
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// List the profiles
    List(JsonArguments),
    /// Print model against published figures
    #[command(after_help = "Examples:\n  nestor disk check wd-re3\n  nestor disk check all --json")]
    Check {
        /// A profile, or all
        profile: String,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Offer a modelled disk to a virtual machine as vhost-user-blk
    #[command(
        after_help = "Example:\n  nestor disk serve wd-re3 --socket /run/disk.sock --data disk.img --size 16G &\n  \
        qemu-system-x86_64 -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m \\\n    \
        -chardev socket,id=d,path=/run/disk.sock -device vhost-user-blk-pci,chardev=d …"
    )]
    Serve(ServeArguments),
    /// Write the library that makes a QEMU of yours tell its time to a disk served with --time virtual
    #[command(
        after_help = "Example:\n  nestor disk library ./vtime.so\n  nestor disk serve wd-re3 --time virtual --socket /run/disk.sock &\n  \
        LD_PRELOAD=$PWD/vtime.so qemu-system-x86_64 -accel tcg -icount shift=0,sleep=off \\\n    \
        -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m \\\n    \
        -chardev socket,id=d,path=/run/disk.sock -device vhost-user-blk-pci,chardev=d …"
    )]
    Library {
        /// The file to make; it must not exist yet
        file: PathBuf,
    },
    /// Speak to a served disk: timing on|off, reset, start-log FILE, stop-log, statistics, quit
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
    /// Sparse file with the data [default: a temporary one, removed at the end]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Socket for `nestor disk control`
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Size of the region of the disk that is offered
    #[arg(long, value_name = "SIZE", default_value = "16G")]
    pub size: nestor_stack::Bytes,
    /// Where on the disk that region begins
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub at: nestor_stack::Bytes,
    /// The disk's own write cache [default: as the profile has it]
    #[arg(long, value_name = "STATE")]
    pub write_cache: Option<Switch>,
    /// How far its platters have turned at time zero, in revolutions: from 0 to less than 1
    #[arg(long, value_name = "PART", default_value = "0")]
    pub turned: nestor_disk::Turn,
    /// Whether requests take the time the model says
    #[arg(long, value_name = "STATE", default_value = "on")]
    pub timing: Switch,
    /// Serial number the machine sees
    #[arg(long, default_value = "nestor")]
    pub serial: String,
    /// Let a flush wait until the data file is on this machine's own storage
    #[arg(long)]
    pub durable: bool,
    /// Read the data file only; others may read it too
    #[arg(long, requires = "data")]
    pub read_only: bool,
    /// The time the disk lives in: this machine's, or that of the virtual machine, as its QEMU says it on SOCKET.time
    #[arg(long, value_name = "TIME", default_value = "real")]
    pub time: DiskTimeArgument,
    /// Log of requests, written from the start
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Stamps found in the data of requests, written from the start: for tests of traces
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

/// `nestor trace …`
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Record the block layer's events of a device until interrupted
    Record {
        /// The block device
        #[arg(long, value_name = "DEVICE")]
        device: PathBuf,
        /// Directory for the recording
        #[arg(long, value_name = "DIRECTORY")]
        output: PathBuf,
        /// How: blktrace's relay files, tracefs where the kernel locks those, or whichever works
        #[arg(long, value_enum, default_value = "auto")]
        method: RecordMethod,
    },
    /// Turn fio's own record of its operations into requests
    Application(crate::commands::trace::application::ApplicationArguments),
    /// Join the requests of a guest with those of its hypervisor, its host and the disk
    Correlate(crate::commands::trace::correlate::CorrelateArguments),
    /// Record and condense what QEMU does for a guest's disk
    #[command(subcommand)]
    Hypervisor(crate::commands::trace::hypervisor::HypervisorCommand),
    /// Sample how busy this machine's processors are until interrupted
    #[command(hide = true)]
    Processors(crate::commands::trace::processors::ProcessorsArguments),
    /// Write marked data to a device, for tests of joins
    #[command(hide = true)]
    StampWrite(crate::commands::trace::stamp_write::StampWriteArguments),
    /// Thaw a file system if whoever froze it is killed
    #[command(hide = true)]
    ThawWhenLeft(crate::commands::trace::layout::guard::GuardArguments),
    /// Read what the bytes of a file system's device are for
    Layout(crate::commands::trace::layout::LayoutArguments),
    /// Write requests as a trace for Perfetto, as Parquet or as CSV
    Export(crate::commands::trace::export::ExportArguments),
    /// Condense a recording, or a modelled disk's log, to the numbers of one layer
    Summarize(crate::commands::trace::summarize::SummarizeArguments),
    /// Say what a trace of yours says of each device in it
    #[command(
        after_help = "Examples:\n  nestor trace analyze sda.blktrace.*\n  nestor trace analyze --device 8:0 --per-process sda\n  blkparse -i sda -d - -O -o /dev/null | nestor trace analyze -"
    )]
    Analyze(crate::commands::trace::analyze::AnalyzeArguments),
    /// Compare two traces
    Diff(crate::commands::trace::diff::DiffArguments),
}

/// Ways to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordMethod {
    /// Whichever works.
    Auto,
    /// blktrace.
    Relay,
    /// tracefs.
    Tracefs,
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
    /// Make a file whose space lies in many pieces
    #[command(hide = true)]
    ScatteredImage {
        /// The file; it must not exist.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Say what is in it
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
