//! Which QEMU is installed.

use super::QEMU;
use crate::agent::process::{self, Spawner};
use crate::message::Command;

/// Seconds that QEMU may take to say its version.
const ANSWER_LIMIT_S: u64 = 20;

/// How that line begins; any other program is not QEMU.
const BEGINNING: &str = "QEMU emulator version ";

/// The first line of `--version`, if QEMU is installed.
pub fn first_line() -> Option<String> {
    first_line_of(&[QEMU.to_owned()])
}

fn first_line_of(program: &[String]) -> Option<String> {
    let words = program.iter().map(String::as_str).chain(["--version"]);
    // A program that prints nothing and does not end is not QEMU.
    let asked = Command::new(words).timeout_s(ANSWER_LIMIT_S);
    let finished = process::run(&Spawner::new(), &asked, |_| {}).ok().filter(|said| !said.timed_out)?;
    let said = finished.stdout_text();
    said.lines().next().filter(|line| line.starts_with(BEGINNING)).map(str::to_owned)
}

/// How KVM is to translate the addresses of its guests where QEMU emulates AMD's SVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestPaging {
    /// KVM keeps shadow page tables. With nested ones, guests or the emulated host itself reset themselves in 7 of 43 cells of a
    /// study with QEMU 7.2, with shadow page tables in 0 of 57; cells took as long.
    Shadow,
    /// The processor follows both page tables. Since QEMU 9 no guest boots with shadow page tables: it faults when its kernel has
    /// loaded its second page table (tried with 9.2.1, 10.0.2, 10.0.13 and 11.1.3; with 8.2.2 one boots).
    Nested,
}

/// The first QEMU in which KVM does not work with shadow page tables.
const FIRST_WITHOUT_SHADOW: u32 = 9;

impl GuestPaging {
    /// What works in the QEMU that is installed.
    pub fn here() -> Self {
        Self::of(&[QEMU.to_owned()])
    }

    /// What works in the QEMU that a command line with these words at its beginning runs.
    pub fn of(program: &[String]) -> Self {
        Self::in_qemu(first_line_of(program).as_deref().and_then(major_version))
    }

    fn in_qemu(major: Option<u32>) -> Self {
        if major.is_some_and(|major| major >= FIRST_WITHOUT_SHADOW) { Self::Nested } else { Self::Shadow }
    }
}

/// The first number of the version that `QEMU emulator version 10.0.2 (Debian …)` names.
fn major_version(line: &str) -> Option<u32> {
    let version = line.strip_prefix(BEGINNING)?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paging_is_what_works_in_a_version() {
        let paging = |line| GuestPaging::in_qemu(major_version(line));
        for line in ["QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)", "QEMU emulator version 8.2.2"] {
            assert_eq!(paging(line), GuestPaging::Shadow, "{line}");
        }
        for line in ["QEMU emulator version 9.2.1 (Debian 1:9.2.1+ds-1)", "QEMU emulator version 10.0.13"] {
            assert_eq!(paging(line), GuestPaging::Nested, "{line}");
        }
        for line in ["", "QEMU emulator version ", "QEMU emulator version x.1", "GNU bash, version 10.0.2"] {
            assert_eq!(major_version(line), None, "{line}");
        }
    }
}
