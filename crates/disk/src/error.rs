//! What can go wrong in this crate, in words.

use std::io;
use std::path::PathBuf;

use crate::log::LogFault;
use crate::model::FiguresError;

/// Why a modelled disk could not be described, served or read back.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No profile has that name.
    #[error("no disk profile is called `{name}`; the profiles are {known}")]
    UnknownProfile {
        /// The name that was asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// The published figures of a profile contradict each other or the form of the model.
    #[error("the figures of disk profile `{profile}` do not fit the model: {reason}")]
    Profile {
        /// Which profile.
        profile: String,
        /// What does not fit.
        reason: FiguresError,
    },
    /// The served region is not on the modelled disk.
    #[error(
        "a region of {size} bytes at offset {offset} does not fit onto the modelled disk `{profile}` of {capacity} \
         bytes; both must be multiples of 512 and the region must not be empty"
    )]
    Region {
        /// Which profile.
        profile: String,
        /// Bytes that were to be served.
        size: u64,
        /// Where they were to begin.
        offset: u64,
        /// Bytes of the whole disk.
        capacity: u64,
    },
    /// A file or socket could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb phrase (`create the data file`).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file that was named for the data of a disk must not be used for it.
    #[error("{} cannot hold the disk's data: {reason}", path.display())]
    Data {
        /// What was named.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// A service of the operating system without a path.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb phrase (`start the request log's thread`).
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// A request log could not be written.
    #[error(transparent)]
    NotLogged(#[from] nestor_log::LogError),
    /// A request log does not have the form it should have.
    #[error("{}, byte {offset}: {reason}", path.display())]
    Log {
        /// The log file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there and what to do.
        reason: LogFault,
    },
}

impl DiskError {
    /// Wraps an error of the operating system about `path`.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Wraps an error of the operating system that concerns no path.
    pub fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
