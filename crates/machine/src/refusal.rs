//! Why an agent did not carry out a request: a type that travels with the answer, and the words for people beside it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use nestor_text::c_library;
use serde::{Deserialize, Serialize};

use crate::bounds::clipped;
use crate::command_line::shown_program;
use crate::loss::Loss;
use crate::not_undone::NotUndone;

/// Things that could not be undone that one refusal names; its message has all of them.
const MOST_NOT_UNDONE: usize = 64;

/// What kind of thing went wrong, for those who decide what to do about it. Nothing is decided by reading the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A program is not installed.
    NotInstalled {
        /// Its name.
        program: String,
    },
    /// A program that the agent ran for the request did not succeed.
    ProgramFailed {
        /// Its name.
        program: String,
        /// How it ended.
        ended: ProgramEnd,
    },
    /// The kernel does not mount a file system as asked.
    NotMounted,
    /// A file system or a quota is full.
    NoSpace,
    /// There is not enough memory.
    NoMemory,
    /// The kernel does not permit it to the agent's user.
    NotPermitted,
    /// The kernel or the hypervisor refuses what was asked, and would again.
    NotSupported,
    /// There is no such file or device.
    NotThere,
    /// It is another kind of file than was asked for.
    OfAnotherKind {
        /// What it is.
        found: FileKind,
    },
    /// It is in use: by another program, as a mount, as part of another device.
    InUse,
    /// A disk did not appear in a machine.
    NoDisk,
    /// The hypervisor here cannot run a machine in virtual time.
    NoVirtualTime,
    /// A machine's kept state cannot be loaded.
    NotLoaded,
    /// A machine did not come up.
    NotStarted,
    /// The process of a machine did not begin in time; this says nothing about the machine.
    NotStartedInTime,
    /// A machine that was up has died, or is not there any more.
    MachineLost,
    /// A machine was given up, because it cannot go on without what has ended.
    GivenUp {
        /// What has ended.
        loss: Box<Loss>,
    },
    /// A machine that was up did not answer in time.
    MachineSilent,
    /// A program that the agent started for the controller was not ready within its time limit.
    TimedOut,
    /// The agent takes everything down, and does nothing else any more.
    TakenDown,
    /// Things that the agent made are still there.
    NotUndone {
        /// Each of them.
        left: Vec<NotUndone>,
    },
    /// Anything else.
    Other,
}

/// A request that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of thing went wrong.
    pub cause: Cause,
    /// What happened, where, what to do.
    pub message: String,
}

impl Refusal {
    /// With the words for it.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }

    /// An operation of the kernel that failed; `what` says which.
    pub fn of_io(what: &str, error: &io::Error) -> Self {
        Self::new(Cause::of_io(error), format!("{what}: {error}"))
    }

    /// A program that could not be started.
    pub fn cannot_start(argv: &[String], error: &io::Error) -> Self {
        let program = argv.first().map_or("", |program| shown_program(program));
        if error.kind() == io::ErrorKind::NotFound {
            let cause = Cause::NotInstalled { program: program.to_owned() };
            let message = format!(
                "the program `{program}` is not installed on this machine; `nestor doctor` names the package"
            );
            return Self::new(cause, message);
        }
        Self::of_io(&format!("the program `{program}` could not be started"), error)
    }

    /// The same failure with words before the message.
    pub fn within(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// A machine that is of no more use.
    pub(crate) fn given_up(loss: Loss) -> Self {
        let message = format!("it was given up: {loss}");
        Self::new(Cause::GivenUp { loss: Box::new(loss) }, message)
    }

    /// A request that came when everything was already being taken down.
    pub(crate) fn taken_down() -> Self {
        Self::new(Cause::TakenDown, "everything is being taken down")
    }

    /// Things that could not be undone.
    pub(crate) fn not_undone(left: Vec<NotUndone>) -> Self {
        let message = left.iter().map(NotUndone::to_string).collect::<Vec<_>>().join("; ");
        Self::new(Cause::NotUndone { left }, message)
    }

    /// With as much of it as a frame may hold.
    pub(crate) fn clipped(self) -> Self {
        let cause = match self.cause {
            Cause::NotUndone { left } => {
                let kept = left.into_iter().take(MOST_NOT_UNDONE).map(NotUndone::clipped);
                Cause::NotUndone { left: kept.collect() }
            }
            Cause::GivenUp { loss } => Cause::GivenUp { loss: Box::new(loss.clipped()) },
            cause => cause,
        };
        Self { cause, message: clipped(self.message) }
    }
}

impl Cause {
    /// What the operating system refused.
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::OutOfMemory => Self::NoMemory,
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Self::NotSupported,
            _ => Self::Other,
        }
    }

    /// A program that did not succeed, from what it has printed.
    ///
    /// Programs report errors of the kernel only in the words of the C library. The agent runs them with `LC_ALL=C`, so
    /// these words are always the same.
    pub(crate) fn of_program(program: &str, ended: ProgramEnd, output: &str) -> Self {
        Self::ProgramFailed { program: program.to_owned(), ended }.after(output)
    }

    /// The cause of a program's failure that has printed this.
    pub(crate) fn after(self, output: &str) -> Self {
        if matches!(self, Self::ProgramFailed { .. }) { self.after_words(output) } else { self }
    }

    /// The same of something that failed with these words of the C library.
    pub(crate) fn after_words(self, output: &str) -> Self {
        if c_library::says_no_space(output) {
            Self::NoSpace
        } else if c_library::says_no_memory(output) {
            Self::NoMemory
        } else {
            self
        }
    }
}

impl From<NotUndone> for Refusal {
    fn from(left: NotUndone) -> Self {
        Self::not_undone(vec![left])
    }
}

/// What kind of file something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A block device.
    BlockDevice,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}

impl FileKind {
    pub(crate) fn of(kind: fs::FileType) -> Self {
        match kind {
            _ if kind.is_block_device() => Self::BlockDevice,
            _ if kind.is_file() => Self::File,
            _ if kind.is_dir() => Self::Directory,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlockDevice => "a block device",
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Other => "something else",
        })
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// By its time limit.
    TimedOut {
        /// Seconds that it had.
        limit_s: u64,
    },
    /// The kernel does not say.
    Unknown,
}

impl ProgramEnd {
    /// Of a program that was waited for without a limit.
    pub(crate) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::TimedOut { limit_s } => write!(f, "did not end within {limit_s} s"),
            Self::Unknown => f.write_str("ended in an unknown way"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_has_a_cause() {
        let of = |errno| Refusal::of_io("x", &io::Error::from_raw_os_error(errno)).cause;
        assert_eq!(of(libc::ENOSPC), Cause::NoSpace);
        assert_eq!(of(libc::EDQUOT), Cause::NoSpace);
        assert_eq!(of(libc::ENOMEM), Cause::NoMemory);
        assert_eq!(of(libc::EPERM), Cause::NotPermitted);
        assert_eq!(of(libc::EIO), Cause::Other);
    }

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_cannot_be_started() {
        let argv = ["mkfs.jfs".to_owned()];
        let of = |errno| Refusal::cannot_start(&argv, &io::Error::from_raw_os_error(errno)).cause;
        assert_eq!(of(libc::ENOENT), Cause::NotInstalled { program: "mkfs.jfs".into() });
        assert_eq!(of(libc::EACCES), Cause::NotPermitted);
    }

    #[test]
    fn what_a_program_says_of_the_kernel_has_a_cause() {
        let of = |output| Cause::of_program("dd", ProgramEnd::Code(1), output);
        assert_eq!(of("dd: error writing 'x': No space left on device"), Cause::NoSpace);
        assert_eq!(of("mmap: Cannot allocate memory"), Cause::NoMemory);
        assert_eq!(
            of("dd: x: Input/output error"),
            Cause::ProgramFailed { program: "dd".into(), ended: ProgramEnd::Code(1) }
        );
    }

    #[test]
    fn words_before_a_message_leave_its_cause() {
        let refusal = Refusal::new(Cause::NoSpace, "full").within("the disk x");
        assert_eq!((refusal.cause, refusal.message.as_str()), (Cause::NoSpace, "the disk x: full"));
    }
}
