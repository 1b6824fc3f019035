//! Xen's tools in the privileged domain, each call a vector of arguments, with a time limit.

use std::path::Path;

use super::role::Owner;
use crate::agent::process::{self, Spawner};
use crate::message::{Command, Finished};
use crate::refusal::{Cause, Refusal};

/// Xen's own tool for people and scripts.
pub const XL: &str = "xl";

/// Where Debian has the programs of Xen that are on no search path.
const PROGRAMS: &str = "/usr/lib/xen-4.17/bin";

/// How long a tool may take.
const LIMIT_MS: u64 = 60_000;

/// Runs a tool; what it printed.
///
/// # Errors
/// It is not there, it does not answer in time, or what it said when it failed.
pub fn run(spawner: &Spawner, words: &[&str]) -> Result<String, Refusal> {
    run_noting(spawner, words, |_| {})
}

/// The same; `on_start` hears its process.
///
/// # Errors
/// As [`run`].
pub fn run_noting(spawner: &Spawner, words: &[&str], on_start: impl FnOnce(u32)) -> Result<String, Refusal> {
    let finished = process::run(spawner, &command(words), |child| on_start(child.id()))?;
    understood(words, &finished)
}

fn understood(words: &[&str], finished: &Finished) -> Result<String, Refusal> {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if finished.succeeded() {
        return Ok(said(&finished.stdout));
    }
    let (call, limit_s) = (format!("`{}`", words.join(" ")), LIMIT_MS / 1000);
    if finished.timed_out {
        let message = format!("{call} did not end within {limit_s} s: Xen or its store does not answer");
        return Err(Refusal::new(Cause::TimedOut, message));
    }
    let ended = finished.end(limit_s);
    let message = format!("{call} failed ({ended}): {}", said(&finished.stderr));
    Err(Refusal::new(Cause::ProgramFailed { program: words[0].to_owned(), ended }, message))
}

/// What a tool is called, with its time limit.
pub fn command(words: &[&str]) -> Command {
    let program = program(words[0]);
    let argv = std::iter::once(&*program).chain(words[1..].iter().copied());
    Command { timeout_ms: LIMIT_MS, ..Command::new(argv) }
}

/// A domain of type `pvh` runs in what processors have for virtual machines.
///
/// # Errors
/// Xen does not use that here, or its tool failed.
pub fn require_support_for_machines(spawner: &Spawner) -> Result<(), Refusal> {
    let said = run(spawner, &[XL, "info", "virt_caps"])?;
    if supports_machines(&said) {
        return Ok(());
    }
    let message = "Xen has no support for virtual machines from this processor, which a domain of type pvh needs: switch SVM or VT-x on in the \
                   firmware, or use xen:guest=pv";
    Err(Refusal::new(Cause::NotSupported, message))
}

/// What Xen says that it can run (`virt_caps` of `xl info`, xl(1)): `pv hvm hap shadow`. `hvm` is the processor's support, which `pvh` uses too.
fn supports_machines(capabilities: &str) -> bool {
    capabilities.split_whitespace().any(|word| word == "hvm")
}

/// Whether Xen's tool is on the search path.
pub fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(XL).is_file())
}

/// A tool on the search path; in a machine of the lab, where Debian has it. On a user's machine, the one on the search path is of the Xen that
/// runs (Debian's `xl` is a script that looks which one that is).
fn program(name: &str) -> String {
    let debians = Path::new(PROGRAMS).join(name);
    let is_debians = Owner::here() == Owner::Lab && debians.is_file();
    if is_debians { debians.display().to_string() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hvm_among_the_capabilities_is_the_support_of_the_processor() {
        assert!(supports_machines("pv hvm hap shadow vmtrace gnttab-v1 gnttab-v2"));
        assert!(!supports_machines("pv pv_directio shadow gnttab-v1"));
        assert!(!supports_machines("pv hvm_directio"));
        assert!(!supports_machines(""));
    }

    #[test]
    fn who_does_not_answer_is_told_from_who_refuses() {
        let hangs = Finished { signal: Some(9), timed_out: true, ..Finished::default() };
        let refused = understood(&[XL, "vm-list"], &hangs).unwrap_err();
        assert_eq!(refused.cause, Cause::TimedOut);
        assert_eq!(refused.message, "`xl vm-list` did not end within 60 s: Xen or its store does not answer");
        let fails =
            Finished { exit_code: Some(1), stderr: b"libxl: error: no\n".to_vec(), ..Finished::default() };
        let refused = understood(&[XL, "create"], &fails).unwrap_err();
        assert_eq!(refused.message, "`xl create` failed (ended with exit code 1): libxl: error: no");
    }
}
