//! What goes wrong with what was recorded of a cell.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::{Path, PathBuf};

use nestor_correlate::{CorrelateError, ExtentError};
use nestor_results::FailureCause;
use nestor_trace::TraceError;

use super::cause_of_system;

/// Why a cell has no trace.
#[derive(Debug, thiserror::Error)]
pub(super) enum TraceProblem {
    #[error("a recorder belongs to none of the layers of the stack")]
    NoLayer,
    #[error("the thread of a recorder ended unexpectedly")]
    ThreadEnded,
    #[error("{machine}: the summary of a trace is not readable: {reason}")]
    Summary { machine: String, reason: String },
    #[error("{} could not be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "no directory for the requests could be made ({source}); set NESTOR_WORK to a directory that you may write to"
    )]
    Directory { source: io::Error },
    #[error("the modelled disk's log: {source}")]
    DiskLog { source: TraceError },
    #[error("the layout of the file system: {source}")]
    Layout { source: io::Error },
    #[error("where a partition lies on its disk: {source}")]
    Partition {
        #[from]
        source: ExtentError,
    },
    #[error("{source}")]
    Requests {
        #[from]
        source: TraceError,
    },
    #[error("{source}")]
    Correlation {
        #[from]
        source: CorrelateError,
    },
}

impl TraceProblem {
    /// A file on this machine that could not be written.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }

    /// What kind of thing went wrong: where the system said it, what it said.
    pub fn cause(&self) -> FailureCause {
        let errors = successors(Some(self as &(dyn Error + 'static)), |error| (*error).source());
        let mut of_system = errors.filter_map(|error| error.downcast_ref::<io::Error>());
        of_system.next().map_or(FailureCause::Other, cause_of_system)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_full_disk_is_the_cause_wherever_it_was_met() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        let path = PathBuf::from("requests");
        let of_trace = TraceError::Io { action: "write", path: path.clone(), source: full() };
        let problems = [
            TraceProblem::Write { path: path.clone(), source: full() },
            TraceProblem::Directory { source: full() },
            TraceProblem::DiskLog { source: of_trace },
            TraceProblem::from(CorrelateError::Write { path, source: full() }),
        ];
        for problem in problems {
            assert_eq!(problem.cause(), FailureCause::NoSpace, "{problem}");
        }
    }

    #[test]
    fn what_is_no_fault_of_the_system_is_another_cause() {
        let refused = io::Error::from(ErrorKind::PermissionDenied);
        let summary = TraceProblem::Summary { machine: "guest".into(), reason: "it ends early".into() };
        for problem in [TraceProblem::NoLayer, TraceProblem::Directory { source: refused }, summary] {
            assert_eq!(problem.cause(), FailureCause::Other, "{problem}");
        }
    }
}
