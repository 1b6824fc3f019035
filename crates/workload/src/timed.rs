//! What a program took, measured from outside: for programs that do not say it, or only in whole seconds.
//!
//! `{nestor} load timed --result FILE [--as-root=ARGUMENT…] -- PROGRAM ARGUMENTS…` runs the program with its own standard input, output and
//! error, waits for it, and leaves a [`Timed`] in FILE as JSON on one line. It exits with the program's exit code; with
//! 128 and the signal's number if a signal ended it, and with 127 if there is no such program (as shells do).

use serde::{Deserialize, Serialize};

use crate::engine::{Ended, Place, StepOutput};
use crate::error::LoadError;

/// What one run of a program took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// How it ended. Never [`Ended::TimedOut`]: a caller that runs out of patience ends the timing program too.
    pub ended: Ended,
    /// From before it was started until it was waited for, by the monotonic clock.
    pub elapsed_ns: u64,
    /// Processor time of the program and of its children that it waited for, in user mode (`wait4`, `ru_utime`).
    pub user_s: f64,
    /// The same in the kernel (`ru_stime`).
    pub system_s: f64,
    /// Largest resident set (`ru_maxrss`).
    pub max_rss_bytes: u64,
}

/// The end of the name of the file with the result.
const FILE_END: &str = ".timed.json";

/// The command that runs `argv` and times it, and the file that it leaves; `name` tells steps of engines apart.
pub(crate) fn command(place: &Place, name: &str, argv: Vec<String>) -> (Vec<String>, String) {
    command_of(place, name, &[], argv)
}

/// The same, with arguments that the program gets at its end where it runs as root.
pub(crate) fn command_of(
    place: &Place,
    name: &str,
    as_root: &[&str],
    argv: Vec<String>,
) -> (Vec<String>, String) {
    let result = format!("{}/nestor-{name}{FILE_END}", place.scratch.trim_end_matches('/'));
    let mut timed = ["{nestor}", "load", "timed", "--result", &result].map(str::to_owned).to_vec();
    timed.extend(as_root.iter().map(|argument| format!("--as-root={argument}")));
    timed.push("--".to_owned());
    timed.extend(argv);
    (timed, result)
}

impl Timed {
    /// What the step of [`command`] left.
    ///
    /// # Errors
    /// There is no such file, because timing itself failed, or it cannot be read.
    pub(crate) fn read(program: &'static str, output: &StepOutput) -> Result<Self, LoadError> {
        let unreadable = |detail: String| LoadError::Unreadable {
            program: "nestor load timed",
            detail,
            versions: env!("CARGO_PKG_VERSION"),
        };
        match output.files.iter().find(|(path, _)| path.ends_with(FILE_END)) {
            Some((_, text)) => {
                serde_json::from_str(text.trim()).map_err(|error| unreadable(error.to_string()))
            }
            None => {
                crate::engines::exit_code(program, &output.ended)?;
                Err(unreadable(format!("it reported no time; its output: {}", output.stderr.trim())))
            }
        }
    }
}
