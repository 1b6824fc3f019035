//! `virsh`, libvirt's tool: each call a vector of arguments, with a time limit. libvirt's library is not linked, because this program is static
//! and libvirt loads its drivers into the program that uses it.

use std::fmt::Display;

use crate::agent::process::{self, Spawner};
use crate::message::{Command, Finished};
use crate::refusal::{Cause, Refusal};

/// The program.
pub const VIRSH: &str = "virsh";

/// Seconds that a call may take. The first one of a driver without a daemon asks QEMU for all that it can do: seven of real time.
const LIMIT_S: u64 = 120;

/// Runs a command of it; what it printed.
///
/// # Errors
/// It is not installed, it does not answer in time, or what it said when it failed.
pub fn run(spawner: &Spawner, uri: &impl Display, words: &[&str]) -> Result<String, Refusal> {
    run_noting(spawner, uri, words, |_| {})
}

/// The same; `on_start` hears its process.
///
/// # Errors
/// As [`run`].
pub fn run_noting(
    spawner: &Spawner,
    uri: &impl Display,
    words: &[&str],
    on_start: impl FnOnce(u32),
) -> Result<String, Refusal> {
    let finished = process::run(spawner, &command(uri, words), |child| on_start(child.id()))?;
    understood(words, &finished)
}

/// Makes sure that a libvirt answers.
///
/// # Errors
/// As [`run`].
pub fn require_answer(spawner: &Spawner, uri: &impl Display) -> Result<(), Refusal> {
    run(spawner, uri, &["uri"]).map(drop).map_err(|e| e.within(&format!("libvirt does not answer at {uri}")))
}

/// The version, of the tool that is here.
pub fn version(spawner: &Spawner) -> Option<String> {
    let asked = Command::new([VIRSH, "--version"]).timeout_s(20);
    let said = process::run(spawner, &asked, |_| {}).ok().filter(Finished::succeeded)?;
    said.stdout_text().lines().next().map(|line| format!("libvirt {}", line.trim()))
}

fn command(uri: &impl Display, words: &[&str]) -> Command {
    let uri = uri.to_string();
    // Without a terminal it asks nothing.
    Command::new([VIRSH, "--quiet", "--connect", &uri].into_iter().chain(words.iter().copied()))
        .timeout_s(LIMIT_S)
}

fn understood(words: &[&str], finished: &Finished) -> Result<String, Refusal> {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if finished.succeeded() {
        return Ok(said(&finished.stdout));
    }
    let call = format!("`virsh {}`", words.join(" "));
    if finished.timed_out {
        let message =
            format!("{call} did not end within {LIMIT_S} s: libvirt hangs, or the machine is overloaded");
        return Err(Refusal::new(Cause::TimedOut, message));
    }
    let ended = finished.end(LIMIT_S);
    let message = format!("{call} failed ({ended}): {}", said(&finished.stderr));
    Err(Refusal::new(Cause::ProgramFailed { program: VIRSH.to_owned(), ended }, message))
}

#[cfg(test)]
mod tests {
    use super::super::connection::Uri;
    use super::*;

    #[test]
    fn a_call_is_arguments_and_no_shell() {
        let argv = command(&Uri::Session, &["destroy", "a b;c"]).argv;
        assert_eq!(argv, ["virsh", "--quiet", "--connect", "qemu:///session", "destroy", "a b;c"]);
    }

    #[test]
    fn who_does_not_answer_is_told_from_who_refuses() {
        let hangs = Finished { signal: Some(9), timed_out: true, ..Finished::default() };
        let refused = understood(&["list"], &hangs).unwrap_err();
        assert_eq!(refused.cause, Cause::TimedOut);
        assert_eq!(
            refused.message,
            "`virsh list` did not end within 120 s: libvirt hangs, or the machine is overloaded"
        );
        let fails =
            Finished { exit_code: Some(1), stderr: b"error: no domain\n".to_vec(), ..Finished::default() };
        let refused = understood(&["list"], &fails).unwrap_err();
        assert!(refused.message.ends_with("error: no domain"), "{}", refused.message);
    }
}
