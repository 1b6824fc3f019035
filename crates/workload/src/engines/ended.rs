//! How a program ended, in the words that every engine uses.

use nestor_text::c_library;

use crate::engine::Ended;
use crate::error::LoadError;

/// The exit code of a program that ended by itself.
///
/// # Errors
/// It did not start, did not end, or was killed.
pub(crate) fn exit_code(program: &'static str, ended: &Ended) -> Result<i32, LoadError> {
    match *ended {
        Ended::Code(code) => Ok(code),
        Ended::NoProgram => Err(LoadError::NoProgram { program }),
        Ended::TimedOut => Err(LoadError::TimedOut { program }),
        Ended::Signal(signal) => Err(killed(program, signal)),
        Ended::OutOfMemory { resident_bytes } => Err(LoadError::OutOfMemory { program, resident_bytes }),
    }
}

/// It was ended by a signal.
pub(super) fn killed(program: &'static str, signal: i32) -> LoadError {
    let hint = match signal {
        9 => "usually because the machine ran out of memory: check its kernel log, or give it more memory",
        2 | 15 => "another process or a user stopped it: run it again",
        6 | 11 => "it crashed: try other options or another version of it",
        _ => "check the machine's kernel log",
    };
    LoadError::Killed { program, signal, hint }
}

/// It refused to run, with what it said about it.
pub(super) fn refused(program: &'static str, code: i32, detail: &str) -> LoadError {
    let detail = if detail.is_empty() { "it gave no reason" } else { detail };
    LoadError::Refused { program, code, detail: detail.to_owned() }
}

/// It failed with this complaint: a full file system, a stale file handle, or another error from the stack.
pub(super) fn failed(program: &'static str, detail: String) -> LoadError {
    if c_library::says_no_space(&detail) {
        LoadError::Full { detail }
    } else if c_library::says_stale(&detail) {
        LoadError::Stale { program, detail }
    } else {
        LoadError::OperationFailed { program, detail }
    }
}
