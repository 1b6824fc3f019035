//! What a controller asks of an agent, and what it answers: the one protocol of every transport.
//!
//! A frame is a four-byte big-endian length and that many bytes of MessagePack. Requests carry a number that
//! their answer repeats, so several may be in flight at once.

mod answer;
mod machine_facts;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bounds::check_frame;
use crate::disks::DiskMark;
use crate::mounting::Mounting;
use crate::nfs_export::NfsExport;
use crate::place::MachinePlace;
use crate::refusal::{FileKind, ProgramEnd};
use crate::spec::{DiskAttachment, InterfaceAttachment, MachineSpec};
pub use answer::{Answer, TimedAnswer};
pub use machine_facts::Facts;

/// Version of the messages; an agent of another version is refused.
pub const PROTOCOL: u32 = 26;

/// Longest frame that is accepted, in bytes: a hostile length must not exhaust memory.
pub const MAX_FRAME_BYTES: u32 = 64 << 20;

/// A request with its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// Chosen by the controller, repeated in the answer; 0 is the agent's greeting.
    pub number: u64,
    /// What is asked or answered.
    pub body: T,
}

/// A program to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments; never a shell string. `{nestor}` as program is the agent's own binary.
    pub argv: Vec<String>,
    /// Environment variables to add.
    pub environment: BTreeMap<String, String>,
    /// Bytes for its standard input.
    #[serde(with = "serde_bytes")]
    pub stdin: Vec<u8>,
    /// Milliseconds after which it is killed, with everything it started.
    pub timeout_ms: u64,
}

impl Command {
    /// A program with arguments, no input, and a minute to run.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), timeout_ms: 60_000, ..Self::default() }
    }

    /// The same with another time limit.
    pub fn timeout_s(mut self, seconds: u64) -> Self {
        self.timeout_ms = seconds * 1000;
        self
    }
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Exit code, or `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time limit ended it.
    pub timed_out: bool,
    /// Standard output.
    #[serde(with = "serde_bytes")]
    pub stdout: Vec<u8>,
    /// Standard error.
    #[serde(with = "serde_bytes")]
    pub stderr: Vec<u8>,
    /// Wall time it took.
    pub elapsed_ns: u64,
}

impl Finished {
    /// Whether it exited with code 0.
    pub fn succeeded(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// How it ended, if it had this time limit in seconds.
    pub fn end(&self, limit_s: u64) -> ProgramEnd {
        match (self.timed_out, self.exit_code, self.signal) {
            (true, ..) => ProgramEnd::TimedOut { limit_s },
            (_, Some(code), _) => ProgramEnd::Code(code),
            (_, _, Some(signal)) => ProgramEnd::Signal(signal),
            _ => ProgramEnd::Unknown,
        }
    }

    /// Standard output as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text, without trailing white space.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim_end().to_owned()
    }
}

/// What shows that a started program is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadySign {
    /// It has made a file (absolute path).
    File(String),
    /// It takes connections at a Unix socket (absolute path); the file of one is there before, and may be that of an earlier program.
    Socket(String),
    /// It takes TCP connections of its own machine at an address.
    Port(std::net::SocketAddrV4),
}

impl fmt::Display for ReadySign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "made {path}"),
            Self::Socket(path) => write!(f, "listened at {path}"),
            Self::Port(at) => write!(f, "listened at TCP port {} of {}", at.port(), at.ip()),
        }
    }
}

/// What an agent can be asked. The same at every level, from the user's machine to the deepest guest.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// What this machine is.
    Facts,
    /// Run a program to its end.
    Run(Command),
    /// Start a program in the background; its output goes to a file. Ended by [`Request::StopProcess`] or at take-down.
    StartProcess {
        /// The program.
        command: Command,
        /// File for its standard output and error.
        output: String,
    },
    /// Ask a started program to end (SIGINT, then SIGKILL after `grace_ms`) and wait for it.
    StopProcess {
        /// As answered by [`Answer::Started`].
        process: u32,
        /// Milliseconds it gets to end by itself.
        grace_ms: u64,
    },
    /// Wait until a started program is ready. Refused when it has ended before, or is not ready in time.
    AwaitReady {
        /// From [`Answer::Started`].
        process: u32,
        /// How that is seen.
        sign: ReadySign,
        /// Milliseconds of this machine's own time.
        timeout_ms: u64,
    },
    /// Write a whole file.
    WriteFile {
        /// Absolute path.
        path: String,
        /// Its contents.
        #[serde(with = "serde_bytes")]
        contents: Vec<u8>,
    },
    /// Read a part of a file (or all of a file of `/proc` and `/sys`).
    ReadFile {
        /// Absolute path.
        path: String,
        /// First byte.
        offset: u64,
        /// At most this many bytes.
        max_bytes: u64,
    },
    /// Make a directory, removed (if empty) at take-down.
    MakeDirectory {
        /// Absolute path.
        path: String,
    },
    /// Mount a file system.
    Mount(Mounting),
    /// Undo a mount.
    Unmount {
        /// The directory.
        target: String,
    },
    /// Make a block device of a file.
    AttachLoop {
        /// The file.
        file: String,
        /// Whether the device bypasses the page cache.
        direct_io: bool,
    },
    /// Undo [`Request::AttachLoop`].
    DetachLoop {
        /// `/dev/loopN`.
        device: String,
    },
    /// Take a device or file of the user's for ourselves: refused while another program uses it, another Nestor included.
    Claim {
        /// Absolute path.
        path: String,
        /// What it has to be.
        kind: FileKind,
    },
    /// Say what a claimed medium holds: [`Answer::Found`]. A medium that this agent has written to and released
    /// counts as empty if it has not been changed since.
    Inspect {
        /// As claimed.
        path: String,
    },
    /// From now on everything on a claimed medium was written by us: [`Request::Release`] and take-down erase it.
    EraseAtRelease {
        /// As claimed.
        path: String,
    },
    /// Undo [`Request::Claim`].
    Release {
        /// As claimed.
        path: String,
    },
    /// Make a directory of a random name in one of the user's: [`Answer::OwnDirectory`]. [`Request::RemoveOwnDirectory`] and take-down remove it
    /// with all that is in it.
    MakeOwnDirectory {
        /// The user's directory (absolute path).
        within: String,
        /// Directories of the laboratory (absolute paths): none of them may be within that one, or around it.
        kept: Vec<String>,
    },
    /// Undo [`Request::MakeOwnDirectory`].
    RemoveOwnDirectory {
        /// As answered.
        path: String,
    },
    /// Write a value into a file of `/sys` or `/proc/sys`; the old one is restored at take-down.
    Set {
        /// The file.
        path: String,
        /// The value.
        value: String,
    },
    /// Wait for a disk and answer the path of its block device.
    FindDisk {
        /// By what it is known.
        mark: DiskMark,
        /// Milliseconds to wait for it to appear.
        timeout_ms: u64,
    },
    /// Boot a machine inside this one.
    StartMachine(Box<MachineSpec>),
    /// Start an agent on this machine's kernel with a network and mounts of its own, which then is a machine like those that were booted.
    StartApart {
        /// Its place.
        machine: MachinePlace,
    },
    /// The kernel's NFS server was not running and is started next, for one export: it is ended by [`Request::EndNfsServer`] or at take-down.
    OwnNfsServer(NfsExport),
    /// The server runs now. When it ends without [`Request::EndNfsServer`], the machines that use it are given up.
    WatchNfsServer,
    /// Undo [`Request::OwnNfsServer`].
    EndNfsServer(NfsExport),
    /// Write the state of a machine in virtual time into a new file; the machine does not continue.
    KeepMachine {
        /// Which.
        machine: MachinePlace,
        /// The file, in the machine that booted it.
        path: String,
        /// Milliseconds it may take.
        timeout_ms: u64,
    },
    /// Say what was counted at marks in a machine since this was last asked: [`Answer::Instructions`].
    TakeInstructions {
        /// Which.
        machine: MachinePlace,
    },
    /// Read `CLOCK_MONOTONIC`: [`Answer::Clock`].
    ReadClock {
        /// Whether what counts the instructions of a machine in virtual time marks this moment.
        mark: bool,
    },
    /// Read the clock and the processor's counter: [`Answer::Ticks`].
    ReadTicks,
    /// Say what its hypervisor adds to this machine's counter in a machine inside: [`Answer::TickOffset`].
    TickOffset {
        /// Which.
        machine: MachinePlace,
    },
    /// Say what was served of the disk of a machine's hypervisor layer: [`Answer::Served`].
    ServedRequests {
        /// Which.
        machine: MachinePlace,
    },
    /// Take everything down and power this machine off, which is one of the lab's: the end of the stream is the answer.
    PowerOff,
    /// Have a machine power itself off, and wait for its end. Refused, and the machine ended, if it does not within `limit_ms`.
    ShutDownMachine {
        /// Which.
        machine: MachinePlace,
        /// Milliseconds it may take.
        limit_ms: u64,
    },
    /// End a machine at once.
    StopMachine {
        /// Which.
        machine: MachinePlace,
    },
    /// Plug a disk into a running machine.
    AttachDisk {
        /// Which.
        machine: MachinePlace,
        /// The disk.
        disk: Box<DiskAttachment>,
    },
    /// Unplug it.
    DetachDisk {
        /// Which machine.
        machine: MachinePlace,
        /// The disk.
        disk: Box<DiskAttachment>,
    },
    /// Say how far the copying of a disk's backing file into it is: [`Answer::Prefetch`].
    Prefetch {
        /// Which machine.
        machine: MachinePlace,
        /// The serial number of the disk.
        disk: String,
    },
    /// Plug a network interface into a running machine.
    AttachInterface {
        /// Which.
        machine: MachinePlace,
        /// The interface.
        interface: InterfaceAttachment,
    },
    /// Unplug it.
    DetachInterface {
        /// Which machine.
        machine: MachinePlace,
        /// The interface.
        interface: InterfaceAttachment,
    },
    /// Machines that a link joins belong together from now on: in virtual time they run and stand together, and when one of them or the
    /// link's server has ended, requests to the others fail.
    JoinMachines {
        /// The machine at the lower end, then those at the upper one.
        machines: Vec<MachinePlace>,
        /// The link's server, from [`Answer::Started`].
        server: u32,
        /// The control socket of the link's server.
        control: String,
    },
    /// Do nothing for a while of this machine's own time.
    Pause {
        /// How long.
        ms: u64,
    },
    /// Pass a request on to a machine inside this one.
    Forward {
        /// Which.
        machine: MachinePlace,
        /// Milliseconds to wait for its answer.
        timeout_ms: u64,
        /// The request.
        request: Box<Request>,
    },
    /// Carry out lines of requests: the lines at the same time, the requests of a line one after the other, up to the first that is refused
    /// or whose program fails. Answered by [`Answer::Together`].
    Together {
        /// The lines.
        lines: Vec<Vec<Request>>,
    },
    /// Begin what [`Request::Together`] carries out, and do not wait for its end. Answered by [`Answer::Begun`].
    BeginTogether {
        /// The lines.
        lines: Vec<Vec<Request>>,
    },
    /// Wait for the end of lines that were begun. Answered by [`Answer::Together`], once.
    EndTogether {
        /// As answered.
        begun: u64,
        /// Milliseconds that they may take.
        timeout_ms: u64,
    },
    /// Take down everything this agent made, in reverse order.
    TakeDown,
    /// Make a directory of a random name that only the agent's user may enter, below the agent's work directory, with which
    /// it goes. Answered by [`Answer::Path`].
    MakePrivateDirectory {
        /// What its name begins with: letters, digits and `-`.
        prefix: String,
    },
    /// Make a file that does not exist, for the agent's user alone: never through a link, never over an existing file.
    CreateFile {
        /// Absolute path; the directory must exist.
        path: String,
        /// Its contents.
        #[serde(with = "serde_bytes")]
        contents: Vec<u8>,
    },
    /// Let all that the kernel draws from now on follow from these bytes and what it has drawn from so far.
    MixRandom {
        /// 64 bytes.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
}

/// Writes one frame; how many bytes it has.
///
/// # Errors
/// When the stream fails or the message is longer than [`MAX_FRAME_BYTES`].
pub fn write_frame<T: Serialize>(mut stream: impl Write, message: &T) -> io::Result<usize> {
    let bytes = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len())
        .ok()
        .filter(|&n| n <= MAX_FRAME_BYTES)
        .ok_or_else(|| io::Error::other(format!("a message of {} bytes is too long to send", bytes.len())))?;
    let mut frame = Vec::with_capacity(bytes.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&bytes);
    stream.write_all(&frame)?;
    stream.flush()?;
    Ok(frame.len())
}

/// Reads one frame.
///
/// # Errors
/// `UnexpectedEof` when the other side is gone; `InvalidData` for what is not a frame, or holds more than
/// [`bounds`](crate::bounds) allow.
pub fn read_frame<T: DeserializeOwned>(mut stream: impl Read) -> io::Result<T> {
    let mut length = [0u8; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes was announced; the longest allowed is {MAX_FRAME_BYTES}"),
        ));
    }
    let mut bytes = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode_frame(&bytes).map_err(|e| {
        io::Error::new(io::ErrorKind::InvalidData, format!("a frame does not hold a message: {e}"))
    })
}

/// What the bytes of a frame say.
///
/// # Errors
/// What is wrong with them, in words; also when the message would take much more memory than they do.
pub fn decode_frame<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    check_frame(bytes)?;
    rmp_serde::from_slice(bytes).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
