//! What can go wrong with a run.

use std::io;
use std::path::PathBuf;

use nestor_workload::flow_report::FlowFailure;

/// Why a run has no result, or an incomplete one.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// A file set that cannot be made into a tree.
    #[error("file set {set} cannot be laid out: it {why}")]
    Tree {
        /// Its name.
        set: String,
        /// Why, and what to do.
        why: String,
    },
    /// A script that is understood, and cannot run.
    #[error("a script cannot run: {script}:{line}:{column}: {problem}")]
    CannotRun {
        /// What it is called.
        script: String,
        /// Where, counted from 1.
        line: usize,
        /// Where in the line, in characters, counted from 1.
        column: usize,
        /// What and what to do.
        problem: String,
    },
    /// There is no memory for an operation.
    #[error(
        "flowop {flowop} (line {line}) needs {bytes} bytes of memory, which are not available: give it a \
         smaller iosize=, or use fewer threads"
    )]
    Memory {
        /// Its name.
        flowop: String,
        /// Where it is written.
        line: usize,
        /// How much.
        bytes: usize,
    },
    /// Something stands where a file set would be made.
    #[error(
        "{path} is not empty and was not made by this program: name another directory, move it away, or let \
         the file set keep its contents (reuse)"
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// A file set would be outside of the directory it belongs in.
    #[error(
        "file set {set} (line {line}): {} is a link to another place, and links are not followed: move it \
         away, or name another directory",
        path.display()
    )]
    LeadsOut {
        /// The file set.
        set: String,
        /// Where it is defined.
        line: usize,
        /// The link, or what stands there in place of a directory.
        path: PathBuf,
    },
    /// A file that would be adopted has other names, and may belong to another program.
    #[error(
        "file set {set} (line {line}): {} has other names (hard links), so it does not count as a file of \
         the set: move it away, or name another directory",
        path.display()
    )]
    Linked {
        /// The file set.
        set: String,
        /// Where it is defined.
        line: usize,
        /// The file.
        path: PathBuf,
    },
    /// A file that would be adopted has not the length that the script says.
    #[error(
        "file set {set} (line {line}): {} has {found} bytes instead of {wanted} and was not made by this \
         program, so it is not changed: move it away, or give the set the right size= and entries=",
        path.display()
    )]
    Length {
        /// The file set.
        set: String,
        /// Where it is defined.
        line: usize,
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// What the script says.
        wanted: u64,
    },
    /// Something of others is among the files of a set that is to be removed.
    #[error(
        "{} was not made by this program, so nothing in {} is removed: move it away, or name another directory",
        stranger.display(), path.display()
    )]
    Stranger {
        /// The set's directory.
        path: PathBuf,
        /// What is in it.
        stranger: PathBuf,
    },
    /// The record of what was made in a directory cannot be trusted.
    #[error("{} {why}, so the files made in its directory are not known: move it away, or name another \
             directory", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// The prepared files are not there.
    #[error("the files of {set} were not prepared under {path}: prepare them first, with the same options")]
    NotPrepared {
        /// The file set.
        set: String,
        /// Where they should be.
        path: PathBuf,
    },
    /// The prepared files were replaced or changed.
    #[error(
        "the files of {set} under {path} are not those that were prepared: some have been replaced, \
         changed, added or removed since; nothing was written to them; move your own files elsewhere, \
         remove {path}, and prepare the set again"
    )]
    Replaced {
        /// The file set.
        set: String,
        /// Where they are.
        path: PathBuf,
    },
    /// The directory does not exist.
    #[error("{path} does not exist: name an existing directory")]
    NoDirectory {
        /// What was named.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{what} {path}: {reason}{}", .cause.raw_os_error().map_or("", nestor_workload::errno::remedy))]
    Call {
        /// What was tried: `cannot create`.
        what: &'static str,
        /// On which file.
        path: String,
        /// The system's words.
        reason: String,
        /// The system's error, whose words are in `reason`.
        cause: io::Error,
    },
    /// A flowop failed.
    #[error("flowop {flowop} (line {line}) {problem}")]
    Flowop {
        /// Its name.
        flowop: String,
        /// Where it is written.
        line: usize,
        /// What happened and what to do.
        problem: String,
    },
    /// A block device is used as a file and was not named by the user.
    #[error(
        "file {set} is the block device {path}, whose contents would be lost: if you can lose them, use \
         --overwrite {path}"
    )]
    Device {
        /// The file's name.
        set: String,
        /// The device.
        path: PathBuf,
    },
    /// Threads could not be started.
    #[error(
        "cannot start thread {started} of {wanted}: {source}; the machine does not allow more: lower \
         instances=, or raise ulimit -u or -v"
    )]
    Threads {
        /// How many there were.
        started: usize,
        /// How many were asked for.
        wanted: usize,
        /// The system's error.
        source: io::Error,
    },
    /// `system` failed to start.
    #[error("system {command:?} could not be run: {source}")]
    System {
        /// The command.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// Several machines could not be kept together.
    #[error("the machines of this run are not synchronised: {0}")]
    Together(String),
    /// The user asked to stop before there was anything to report.
    #[error("stopped before the measurement began")]
    Interrupted,
}

impl FlowError {
    /// A failed system call on a file.
    pub(crate) fn call(what: &'static str, path: impl Into<String>, cause: io::Error) -> Self {
        let text = cause.to_string();
        let reason = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
        Self::Call { what, path: path.into(), reason, cause }
    }

    /// Whether it came of what the script did, and not of what it was given.
    pub fn failure(&self) -> Option<FlowFailure> {
        match self {
            _ if self.is_full() => Some(FlowFailure::Full),
            _ if self.is_stale() => Some(FlowFailure::Stale),
            Self::Call { .. } | Self::Flowop { .. } => Some(FlowFailure::Operation),
            _ => None,
        }
    }

    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self.errno(), Some(libc::ENOSPC | libc::EDQUOT))
    }

    /// Whether a file server no longer had what the call was for.
    pub fn is_stale(&self) -> bool {
        self.errno() == Some(libc::ESTALE)
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { cause, .. } => cause.raw_os_error(),
            _ => None,
        }
    }
}
