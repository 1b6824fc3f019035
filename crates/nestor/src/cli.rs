//! The command line: its commands.

use clap::{Parser, Subcommand};

use crate::arguments::{
    CompareArguments, DiskCommand, DoctorArguments, JsonArguments, LabCommand, ReplicateArguments,
    ReportArguments, RunArguments, StackArguments, StudyArguments,
};
use crate::commands::trace::TraceCommand;

/// A laboratory for storage under virtual machines.
#[derive(Debug, Parser)]
#[command(name = "nestor", version, max_term_width = 110, arg_required_else_help = true)]
#[command(
    after_help = "A stack is written from the application down to the medium: ext3/kvm/raw/jfs/hdd is an ext3 guest\n\
whose disk is a raw image on a JFS host. `nestor stack` lists the layers, `nestor stack STACK` explains one.\n\n\
Examples:\n  \
nestor run ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
nestor compare ext3/kvm/hdd ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
nestor study quick\n  \
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
    /// Build a stack, run a workload on it and show what each layer did
    #[command(after_help = "Examples:\n  nestor run ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
        nestor run ext4/kvm:cache=writeback/qcow2/xfs/hdd:wd-re3 fio:rand-write:bs=4k --replications 5\n  \
        nestor run --on this xfs/file:/srv/disk.img fio:seq-read")]
    Run(RunArguments),
    /// Run one workload on stacks, in pairs in random order, and compare the first with each other one
    #[command(
        override_usage = "nestor compare [OPTIONS] <STACK>... <WORKLOAD>",
        after_help = "Examples:\n  nestor compare ext3/kvm/hdd ext3/kvm/raw/jfs/hdd fio:seq-write\n  \
        nestor compare 'ext3/{kvm,xen:guest={pv,pvh}}/raw/ext3/hdd:wd-re3' fio:seq-write\n  \
        nestor compare ext4/hdd xfs/hdd fio:rand-write:fsync=1 -n 5 --fail-if 'throughput<-5%'"
    )]
    Compare(CompareArguments),
    /// Run a study: stacks × workloads from a file, or one that comes with Nestor; continue an interrupted study where it stopped
    #[command(after_help = "Examples:\n  nestor study quick\n  nestor study quick --plan\n  \
        nestor study --resume\n  nestor study quick --slurm --slurm-tasks 16")]
    Study(StudyArguments),
    /// Repeat a published study on this machine and judge its claims
    #[command(after_help = "Examples:\n  nestor replicate\n  nestor replicate nested-fs --scale quick\n  \
        nestor replicate nested-fs --claims")]
    Replicate(ReplicateArguments),
    /// Recommend a stack for a workload and confirm it with new runs; settle a question on which recommendations conflict; or say which way an
    /// image should come to its node
    #[command(after_help = "Examples:\n  nestor advise mail --host-fs ext4,xfs --format raw,qcow2\n  \
        nestor advise mail --as libvirt\n  nestor advise --settle K4\n  nestor advise file --nas --disk raid5 --vers 3 \
        --placement nfs,vm-nfs\n  nestor advise fio:seq-write --nas --plan\n  nestor advise --propagate 8G --instances 8 --link 1gbit")]
    Advise(Box<crate::commands::advise::AdviseArguments>),
    /// Predict the throughput and latency of a load on another stack, with an interval, and suggest what to measure
    #[command(
        after_help = "Examples:\n  nestor predict --workload mail.toml --from ext4/hdd --to ext4/kvm/raw/xfs/hdd\n  \
        nestor predict --workload fio:rand-read --to ext4/kvm/qcow2/xfs/hdd --verify\n  \
        nestor predict --workload fio:seq-write --matrix --suggest 3\n  nestor predict --validate"
    )]
    Predict(Box<crate::commands::predict::PredictArguments>),
    /// Describe the load of a disk, a process, a control group or a trace
    #[command(
        after_help = "Examples:\n  nestor characterize --for 60s --device /dev/sda --output mail.toml\n  \
        nestor characterize --for 5m --cgroup system.slice/mysql.service --check-in /srv/test\n  \
        nestor characterize --traces sda.blktrace.*"
    )]
    Characterize(Box<crate::commands::characterize::CharacterizeArguments>),
    /// Show the layers of a virtual machine that runs here, as they work: IOPS, bytes, latencies, and who waits for whom
    #[command(after_help = "Examples:\n  nestor top\n  nestor top --domain mail\n  \
        nestor top --pid 4711 -n 1\n  nestor top --device /dev/sda --interval 5s --json")]
    Top(crate::commands::top::TopArguments),
    /// Explain what made a run slower or faster than its baseline
    #[command(
        after_help = "Examples:\n  nestor explain 41\n  nestor explain 41 --against 38\n  nestor explain 41 --equations"
    )]
    Explain(crate::commands::explain::ExplainArguments),
    /// Write the HTML report of runs or of a study, or list the runs
    #[command(after_help = "Examples:\n  nestor report                 list the runs\n  \
        nestor report 41              report of run 41\n  nestor report quick           report of a study\n  nestor report quick --csv cells.csv   its cells too, for other programs")]
    Report(ReportArguments),
    /// Check what this machine can do, and how to fix what it cannot
    Doctor(DoctorArguments),
    /// Modelled disks: list them, check them against published figures, serve them to any virtual machine
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Modelled network links: check them against their model, serve them to any two virtual machines
    #[command(subcommand)]
    Link(crate::commands::link::LinkCommand),
    /// Record and condense block traces
    #[command(subcommand)]
    Trace(TraceCommand),
    /// The lab image that every machine boots
    #[command(subcommand)]
    Lab(LabCommand),
    /// List the layers of stacks and their options, check and explain stacks, or say which stack a virtual machine of yours is
    #[command(
        after_help = "Examples:\n  nestor stack\n  nestor stack nfs\n  nestor stack 'ext4/kvm:cache={none,writeback}/raw/xfs/hdd'\n  \
        nestor stack --qemu $(pidof qemu-system-x86_64)\n  nestor stack --proxmox /etc/pve/qemu-server/100.conf"
    )]
    Stack(StackArguments),
    /// Run workloads on directories and devices of this machine, without the laboratory
    #[command(subcommand)]
    Load(crate::commands::load::LoadCommand),
    /// List the workloads
    Workloads(JsonArguments),
    /// Print shell completions; in bash, zsh and fish also of stacks, workloads, studies and profiles of disks
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command
    Man {
        /// Write the pages of all commands into this directory, which is made if it is not there
        #[arg(long, value_name = "DIRECTORY")]
        pages: Option<std::path::PathBuf>,
    },
    /// Print what may follow the last of these words of a command line, for the scripts of `completions`
    #[command(hide = true)]
    Complete {
        /// The words after the program's name, up to the cursor; the last may be empty
        #[arg(allow_hyphen_values = true, trailing_var_arg = true, num_args = 0..)]
        words: Vec<String>,
    },
    /// Obey requests on standard input and output
    #[command(hide = true)]
    Agent,
    /// Start an agent in a domain of libvirt's, and pass on what it hears and says
    #[command(hide = true)]
    DomainAgent {
        /// Name of the domain
        domain: String,
    },
    /// Run the cells of one task of an array job; Slurm starts it on a node, and SLURM_ARRAY_TASK_ID says which task it is
    #[command(hide = true)]
    SlurmTask {
        /// The file that says what the tasks do; the task's results go beside it
        job: std::path::PathBuf,
    },
}
