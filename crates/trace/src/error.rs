//! What can go wrong with a trace, in words.

use std::io;
use std::path::{Path, PathBuf};

use crate::request_file::RequestFault;

/// Why a trace could not be recorded or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A directory for a recording in which others could make files.
    #[error(
        "{} cannot take a recording: {reason}; name an empty directory of your own, or one that does not exist yet, below \
         directories that no other user may write to", path.display()
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A recording that cannot be removed.
    #[error("no file in {} was removed: {reason}", path.display())]
    NotRemoved {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: &'static str,
    },
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb phrase (`open the trace`).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file is not what its name or place says.
    #[error("{}: at byte {offset}: {reason}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A file of requests does not have the form it should have.
    #[error("{}: at byte {offset}: {fault}", path.display())]
    Requests {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there and what to do.
        fault: RequestFault,
    },
    /// The traces hold nothing to count.
    #[error("no block event{} in {}; {hint}", of_device(*device), list(paths))]
    Empty {
        /// The files that were read.
        paths: Vec<PathBuf>,
        /// The device that was asked for, if one was.
        device: Option<crate::event::Device>,
        /// What may be the cause and what to do.
        hint: String,
    },
    /// The modelled disk's log could not be read.
    #[error("{0}")]
    DiskLog(#[from] nestor_disk::DiskError),
    /// A link's log could not be read.
    #[error("{0}")]
    LinkLog(#[from] nestor_link::log::FrameLogError),
    /// What was named is not a block device.
    #[error("{} is not a block device; name the device whose requests are to be recorded", path.display())]
    NotABlockDevice {
        /// What was named.
        path: PathBuf,
    },
    /// The kernel or the machine cannot record in the way that was asked for.
    #[error("cannot record {} through {method}: {reason}", device.display())]
    Capture {
        /// The device that was to be recorded.
        device: PathBuf,
        /// The way of recording.
        method: &'static str,
        /// The obstacle and what to do.
        reason: String,
    },
}

impl TraceError {
    /// Makes the closure that `map_err` wants.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

fn of_device(device: Option<crate::event::Device>) -> String {
    device.map_or_else(String::new, |device| format!(" of device {device}"))
}

fn list(paths: &[PathBuf]) -> String {
    let mut names: Vec<_> = paths.iter().take(3).map(|p| p.display().to_string()).collect();
    if paths.len() > names.len() {
        names.push(format!("{} more", paths.len() - names.len()));
    }
    names.join(", ")
}
