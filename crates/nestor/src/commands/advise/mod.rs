//! `nestor advise`

mod known;
mod measure;
mod pasted;
mod propagated;
mod question;
mod recommend;
mod settled;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use nestor_results::Store;

use crate::arguments::{LabArguments, duration};
use crate::results_file::Access;

/// Arguments of `nestor advise`.
#[derive(Args, Debug)]
pub struct AdviseArguments {
    /// The workload, such as fio:rand-write; mail, web, file and db stand for the four servers
    #[arg(required_unless_present_any = ["settle", "stack", "propagate"])]
    pub workload: Option<String>,
    /// File systems of the guest to choose from [default: ext4]
    #[arg(long, value_name = "LEVELS", num_args = 1..)]
    pub guest: Vec<String>,
    /// File systems of the host to choose from [default: ext4,xfs]
    #[arg(long, value_name = "LEVELS", num_args = 1..)]
    pub host_fs: Vec<String>,
    /// Image formats to choose from; device stands for the disk itself [default: raw,qcow2]
    #[arg(long, value_name = "LEVELS", num_args = 1..)]
    pub format: Vec<String>,
    /// Cache modes to choose from [default: none,writeback,writethrough]
    #[arg(long, value_name = "LEVELS", num_args = 1..)]
    pub cache: Vec<String>,
    /// Device models to choose from [default: virtio-blk]
    #[arg(long = "device-model", alias = "device", id = "device", value_name = "LEVELS", num_args = 1..)]
    pub device: Vec<String>,
    /// I/O schedulers of the guest to choose from; default stands for the kernel's choice [default: default]
    #[arg(long, value_name = "LEVELS", num_args = 1..)]
    pub scheduler: Vec<String>,
    /// I/O schedulers of the host to choose from [default: default]
    #[arg(long, value_name = "LEVELS", num_args = 1..)]
    pub host_scheduler: Vec<String>,
    /// The medium of all stacks, such as hdd, ssd, hdd:wd-re3, dev:/dev/sdb
    #[arg(long, value_name = "MEDIUM", default_value = "hdd")]
    pub disk: String,
    /// Further options of every virtual machine, such as memory=1G:cpus=2
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    pub vm: String,
    /// The stack you have, which the others are compared with [default: the first level of everything]
    #[arg(long, value_name = "STACK")]
    pub yours: Option<String>,
    /// Time for measuring, such as 45m; a number alone is in seconds
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    pub budget: Duration,
    /// Where the numbers come from
    #[arg(
        long = "numbers",
        alias = "from",
        id = "from",
        value_enum,
        value_name = "SOURCE",
        default_value = "both"
    )]
    pub from: From,
    /// Say what would be measured and how long it takes; measure nothing
    #[arg(long)]
    pub plan: bool,
    /// Settle a conflict between recommendations (K1 to K12) or a piece of advice (A1 to A5) here; list shows them
    #[arg(long, value_name = "ID", conflicts_with_all = ["workload", "yours", "as_", "stack"])]
    pub settle: Option<String>,
    /// Write the best stack that is known, or --stack, for another tool; measures nothing
    #[arg(long = "as", id = "as_", value_enum, value_name = "TOOL")]
    pub as_: Option<Tool>,
    /// The stack to write, instead of the best
    #[arg(long, value_name = "STACK", requires = "as_")]
    pub stack: Option<String>,
    /// Decides which stacks are measured and in which order
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub lab: LabArguments,
    // Last, because their headings would be those of what follows.
    #[command(flatten)]
    pub network: NetworkLevels,
    #[command(flatten)]
    pub propagation: PropagationArguments,
}

/// Which way an image should come to its node.
#[derive(Args, Debug)]
#[command(next_help_heading = "Images that travel")]
pub struct PropagationArguments {
    /// Say which way an image of this size, or as long as this file, should come from a repository to its node: copied by which protocol, or
    /// left there as an overlay; from lives of instances in the results file, of the rate of --link [default: 1gbit]; measures nothing
    #[arg(long, value_name = "IMAGE", value_parser = propagated::image_bytes, group = OVER_A_LINK, conflicts_with_all = PROPAGATE_CONFLICTS)]
    pub propagate: Option<u64>,
    /// How many instances are asked for at once, on one node
    #[arg(long, value_name = "N", default_value_t = 1, requires = "propagate", conflicts_with_all = PROPAGATE_CONFLICTS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub instances: u32,
    /// How much an instance reads of its image in its life [default: not known, so the answer is from how much on a copy is better]
    #[arg(long, value_name = "BYTES", requires = "propagate", conflicts_with_all = PROPAGATE_CONFLICTS, value_parser = propagated::read_bytes)]
    pub reads: Option<u64>,
}

/// Arguments of other questions. What belongs to this one conflicts with them too: clap does not ask for an argument that conflicts with one
/// that is there.
const PROPAGATE_CONFLICTS: [&str; 18] = [
    "workload",
    "guest",
    "host_fs",
    "format",
    "cache",
    "device",
    "scheduler",
    "host_scheduler",
    "disk",
    "vm",
    "yours",
    "budget",
    "from",
    "plan",
    "settle",
    "as_",
    "stack",
    "seed",
];

/// What to choose from where the disk is a server's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Network storage")]
pub struct NetworkLevels {
    /// Choose where the file system should be, on the client, in the guest or at the server, and how the server is mounted; prices what a
    /// power cut of the client, a crash of the server and a power cut of the server lose
    #[arg(long, conflicts_with_all = ["format", "device", "scheduler", "host_scheduler", "settle", "as_", "stack", "propagate"], group = OVER_A_LINK)]
    pub nas: bool,
    /// Where the file system is: nfs (at the server, mounted by the client), vm-nfs (in a guest whose image is on NFS), guest-nfs (in an
    /// image at the server, mounted by the guest), nbd (in a guest whose image is a network disk) [default: all that can be built]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub placement: Vec<String>,
    /// Versions of NFS to choose from [default: 3,4.2]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub vers: Vec<String>,
    /// When the server says that data are stored [default: sync,async]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub export: Vec<String>,
    /// Whether the client waits for every write [default: off]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub sync: Vec<String>,
    /// Most bytes of one read; default stands for what client and server agree on [default: default]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub rsize: Vec<String>,
    /// Most bytes of one write [default: default]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub wsize: Vec<String>,
    /// For how many seconds the client believes attributes [default: default]
    #[arg(long, value_name = "LEVELS", num_args = 1.., requires = "nas")]
    pub actimeo: Vec<String>,
    /// Options of the link, such as rate=100mbit:memory=2G; of --propagate its rate alone, such as 100mbit
    #[arg(long, value_name = "OPTIONS", default_value = "", requires = OVER_A_LINK)]
    pub link: String,
}

/// The questions in which there is a link.
const OVER_A_LINK: &str = "over_a_link";

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// What was measured before; nothing is measured.
    Store,
    /// Measured now.
    Screen,
    /// Both: only what is missing is measured.
    Both,
}

/// Who a stack is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// The XML of a disk.
    Libvirt,
    /// A command line of qemu-system-x86_64.
    Qemu,
    /// Lines that make and mount file systems and image.
    Mkfs,
}

/// Recommends a stack for a workload or a way for an image, settles a dispute, or writes a stack for another tool.
///
/// # Errors
/// What is wrong with the arguments, or why nothing could be measured.
pub fn run(arguments: &AdviseArguments) -> Result<ExitCode> {
    if let Some(image_bytes) = arguments.propagation.propagate {
        return propagated::run(arguments, image_bytes);
    }
    if let Some(id) = &arguments.settle {
        return settled::run(arguments, id);
    }
    match (arguments.as_, &arguments.stack) {
        (Some(tool), Some(stack)) => pasted::print(tool, &question::one_stack(stack)?, arguments.lab.json),
        (Some(tool), None) => pasted::print_best(arguments, tool),
        _ => recommend::run(arguments),
    }
}

/// Before anything is read: what is measured and what is compared with it are of one place.
fn access(arguments: &AdviseArguments) -> Access {
    match (arguments.from == From::Store, arguments.plan) {
        (true, _) => Access::Reads,
        (false, true) => Access::Plans,
        (false, false) => Access::Adds,
    }
}

fn settle_place(arguments: &AdviseArguments, store: &Store) -> Result<()> {
    if arguments.from == From::Store {
        arguments.lab.place_of_results(store)?;
    } else if !arguments.plan {
        arguments.lab.place()?;
    }
    Ok(())
}
