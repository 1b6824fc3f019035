//! Why a device could not be served.

use std::io;
use std::path::PathBuf;

/// Why a device could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// A socket could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb phrase (`create the socket`).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A service of the operating system without a path.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb phrase (`create the device's timer`).
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The socket is taken, or the vhost-user connection could not be set up.
    #[error("cannot serve on {}: {reason}", socket.display())]
    Vhost {
        /// The vhost-user socket.
        socket: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// The server behind a control socket refused or did not understand.
    #[error("the device behind {} says: {reason}", path.display())]
    Control {
        /// The control socket.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}

impl ServingError {
    /// Wraps an error of the operating system about `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Wraps an error of the operating system that concerns no path.
    pub fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
