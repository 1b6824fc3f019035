//! The arguments of `nestor disk`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::JsonArguments;

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
