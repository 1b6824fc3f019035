//! The library that a new QEMU loads joins it to virtual time.

use std::ffi::CStr;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nestor_vtime::NEEDED_FUNCTIONS;
use nestor_vtime::protocol::{AGENT_VARIABLE, CONTROL_VARIABLE, Hello, LOADED_VARIABLE, SPEED_VARIABLE};

use super::arguments::MachineFiles;
use super::time_library;
use crate::refusal::{Cause, Refusal};
use crate::virtual_time::TimeKeeper;
use nestor_processor::ProcessorSpeed;

/// How often it is looked whether the library has greeted.
const POLL: Duration = Duration::from_millis(2);

/// Why a QEMU cannot run in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum WhyNotJoined {
    /// It runs, but the library has not sent its greeting.
    #[error(
        "this QEMU does not load the library of virtual time: it is linked statically, or the program that starts it removes LD_PRELOAD"
    )]
    NotLoaded,
    /// The library is in it and does not find what it needs.
    #[error("this QEMU cannot be joined to virtual time: it does not export {}", functions(.0))]
    NoFunctions(Vec<&'static CStr>),
    /// QEMU's function that delivers interrupts is in this many places, and must be replaced in exactly one.
    #[error(
        "this QEMU cannot be joined to virtual time: its function that delivers interrupts was found in {0} places instead of one"
    )]
    InterruptSlots(u64),
    /// What its clock is made of was not found.
    #[error("this QEMU cannot be joined to virtual time: the parts of its clock were not found")]
    NoClock,
    /// It did not come so far.
    #[error("QEMU did not start in time to join virtual time; NESTOR_BOOT_LIMIT_S gives it more time")]
    Late,
    /// The connection to the library failed.
    #[error("the connection to the library of virtual time failed: {0}")]
    Unheard(#[from] io::Error),
}

impl WhyNotJoined {
    /// What kind of failure it is: this QEMU cannot, or nothing is known about it.
    pub fn cause(&self) -> Cause {
        match self {
            Self::NotLoaded | Self::NoFunctions(_) | Self::InterruptSlots(_) | Self::NoClock => {
                Cause::NoVirtualTime
            }
            Self::Late => Cause::NotStartedInTime,
            Self::Unheard(_) => Cause::NotStarted,
        }
    }

    fn of(hello: Hello) -> Self {
        let is_missing = |at: usize| hello.missing_functions >> at & 1 == 1;
        let missing = NEEDED_FUNCTIONS.iter().enumerate().filter(|(at, _)| is_missing(*at));
        match hello {
            Hello { missing_functions: 1.., .. } => {
                Self::NoFunctions(missing.map(|(_, name)| *name).collect())
            }
            Hello { interrupt_slots: 1, .. } => Self::NoClock,
            Hello { interrupt_slots, .. } => Self::InterruptSlots(interrupt_slots),
        }
    }
}

/// Those that are missing. That none is there has one known reason.
fn functions(missing: &[&CStr]) -> String {
    let (all, first) =
        (NEEDED_FUNCTIONS.len(), missing.first().map_or("", |name| name.to_str().unwrap_or_default()));
    match missing.len() {
        1 => format!("`{first}`, one of {all} functions that are needed"),
        some if some < all => format!("`{first}` and {} more of {all} functions that are needed", some - 1),
        _ => format!("any of {all} functions that are needed, as a QEMU does that is built without modules"),
    }
}

/// What is prepared for a machine in virtual time before it is started.
pub struct Joining {
    /// Keeps its time.
    pub keeper: TimeKeeper,
    listener: UnixListener,
}

impl Joining {
    /// Has a command load the library, which gives its processor a speed.
    ///
    /// # Errors
    /// The machine's directory cannot be written.
    pub fn prepare(
        command: &mut Command,
        files: &MachineFiles,
        speed: ProcessorSpeed,
        is_loaded: bool,
    ) -> Result<Self, Refusal> {
        let socket = files.time_socket();
        let failed = |e: io::Error| {
            let what = format!("virtual time could not be prepared in {}", files.directory.display());
            Refusal::of_io(&what, &e)
        };
        let library = time_library::write_library(&files.directory).map_err(failed)?;
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        command.env("LD_PRELOAD", library);
        command.env(CONTROL_VARIABLE, &socket).env(AGENT_VARIABLE, files.agent_socket());
        if speed != ProcessorSpeed::USUAL {
            command.env(SPEED_VARIABLE, speed.instructions_per_ns().to_string());
        }
        if is_loaded {
            command.env(LOADED_VARIABLE, "");
        }
        let keeper = if is_loaded { TimeKeeper::of_loaded() } else { TimeKeeper::new() };
        Ok(Self { keeper, listener })
    }

    /// Waits for the library in a QEMU that was just started, which opens `agent_socket`.
    ///
    /// # Errors
    /// It cannot run in virtual time; or it has ended, so that this is not known (the caller sees the end of the process).
    pub fn meet(&self, qemu: &mut Child, agent_socket: &Path, deadline: Instant) -> Result<(), WhyNotJoined> {
        let has_begun = || agent_socket.exists() || !matches!(qemu.try_wait(), Ok(None));
        let (control, hello) = wait_for_library(&self.listener, has_begun, deadline)?;
        Ok(time_library::keep_time(&self.keeper, control, hello)?)
    }
}

/// Waits until the library greets from a program in which it finds what it needs.
///
/// It greets before QEMU's first instruction, and from no program that starts QEMU. A wrapper may start more than one QEMU, so one
/// that cannot be used counts only if no other greets before the machine's has begun.
fn wait_for_library(
    listener: &UnixListener,
    mut has_begun: impl FnMut() -> bool,
    deadline: Instant,
) -> Result<(UnixStream, Hello), WhyNotJoined> {
    listener.set_nonblocking(true)?;
    let mut why_not = None;
    loop {
        // Asked first: who greeted before that is in the queue.
        let has_begun = has_begun();
        match listener.accept() {
            Ok((mut control, _)) => {
                control.set_nonblocking(false)?;
                let hello = time_library::greeting(&mut control, deadline)?;
                if hello.is_usable() {
                    return Ok((control, hello));
                }
                why_not = Some(WhyNotJoined::of(hello));
            }
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e.into()),
            Err(_) if has_begun => return Err(why_not.unwrap_or(WhyNotJoined::NotLoaded)),
            Err(_) if Instant::now() >= deadline => return Err(why_not.unwrap_or(WhyNotJoined::Late)),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use nestor_vtime::protocol::{Counting, FromLibrary};

    use super::*;

    const USABLE: Hello =
        Hello { missing_functions: 0, interrupt_slots: 1, counting: Counting::NoInterface, has_clock: true };
    const STRIPPED: Hello =
        Hello { missing_functions: !0, interrupt_slots: 0, counting: Counting::NoFlags, ..USABLE };
    const LONG: Duration = Duration::from_secs(60);

    /// What is found if these greet, in this order, before QEMU begins.
    fn found(greetings: &[Hello]) -> Result<Hello, WhyNotJoined> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("time.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut greetings = greetings.iter();
        let mut open = Vec::new();
        let begins = || match greetings.next() {
            None => true,
            Some(hello) => {
                let mut library = UnixStream::connect(&path).unwrap();
                library.write_all(&FromLibrary::Hello(*hello).encode()).unwrap();
                open.push(library);
                false
            }
        };
        wait_for_library(&listener, begins, Instant::now() + LONG).map(|(_, hello)| hello)
    }

    #[test]
    fn a_qemu_that_is_started_after_another_is_joined() {
        assert_eq!(found(&[STRIPPED, USABLE]).unwrap(), USABLE);
    }

    #[test]
    fn what_cannot_be_joined_says_why_as_soon_as_it_has_begun() {
        assert!(matches!(found(&[]), Err(WhyNotJoined::NotLoaded)));
        let lacks =
            |missing_functions| found(&[Hello { missing_functions, ..STRIPPED }]).unwrap_err().to_string();
        assert!(lacks(0b10000).ends_with("does not export `timer_del`, one of 21 functions that are needed"));
        assert!(lacks(0b10100).ends_with("`timer_init_full` and 1 more of 21 functions that are needed"));
        assert!(
            lacks(!0).ends_with(
                "any of 21 functions that are needed, as a QEMU does that is built without modules"
            )
        );
        let two = Hello { interrupt_slots: 2, ..USABLE };
        assert!(matches!(found(&[STRIPPED, two]), Err(WhyNotJoined::InterruptSlots(2))));
        let other = Hello { has_clock: false, ..USABLE };
        assert!(matches!(found(&[other]), Err(WhyNotJoined::NoClock)));
    }

    #[test]
    fn a_qemu_that_does_not_begin_is_not_waited_for_longer_than_asked() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("time.sock")).unwrap();
        let found = wait_for_library(&listener, || false, Instant::now());
        assert!(matches!(found, Err(WhyNotJoined::Late)));
    }
}
