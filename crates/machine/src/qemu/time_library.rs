//! The library in QEMU ([`nestor_vtime`]) that stops its machine, speaks to the machine's time keeper through a socket.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nestor_processor::{InstructionCounts, WhyNotCounted};
use nestor_vtime::LIBRARY;
use nestor_vtime::protocol::{Counting, FromController, FromLibrary, Hello, Instructions, MESSAGE_BYTES};

use crate::machine::request::are_logged;
use crate::virtual_time::{Standing, TimeKeeper};

/// Puts the library into a directory; its path.
///
/// # Errors
/// The file cannot be written.
pub fn write_library(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join("vtime.so");
    nestor_ownership::new_file(&path, 0o600)?.write_all(LIBRARY)?;
    Ok(path)
}

/// Has the keeper hear the library in a QEMU from now on, which has greeted so.
///
/// # Errors
/// The socket cannot be shared.
pub fn keep_time(keeper: &TimeKeeper, control: UnixStream, hello: Hello) -> io::Result<()> {
    keeper.begin(Box::new(Library(control.try_clone()?)), why_not_counted(hello.counting));
    let keeper = keeper.clone();
    std::thread::spawn(move || hear(&keeper, control));
    Ok(())
}

/// A library that stops its machine.
#[derive(Debug)]
struct Library(UnixStream);

impl Library {
    fn tell(&mut self, what: FromController) {
        let _ = self.0.write_all(&what.encode());
    }
}

impl Standing for Library {
    fn go_on(&mut self, sent: u64) {
        self.tell(FromController::Go { sent });
    }

    fn stop(&mut self) {
        self.tell(FromController::Stop);
    }
}

fn hear(keeper: &TimeKeeper, mut control: UnixStream) {
    let is_logged = are_logged();
    loop {
        match receive(&mut control) {
            Ok(Some(FromLibrary::Held { written, instructions, now_ns })) => {
                if is_logged {
                    nestor_terminal::errln!("virtual time {now_ns} ns: {written} bytes answered");
                }
                keeper.held(written, instructions.is_some());
            }
            Ok(Some(FromLibrary::Marked(instructions))) => keeper.marked(counts_of(instructions)),
            Ok(Some(FromLibrary::Given { read })) => keeper.given(read),
            _ => break,
        }
    }
    keeper.end();
}

fn counts_of(counted: Instructions) -> InstructionCounts {
    let Instructions { host_user, host_kernel, guest_user, guest_kernel } = counted;
    InstructionCounts { host_user, host_kernel, guest_user, guest_kernel }
}

fn why_not_counted(counting: Counting) -> Option<WhyNotCounted> {
    match counting {
        Counting::Possible => None,
        Counting::NoInterface => Some(WhyNotCounted::NoInterface),
        Counting::NoFlags => Some(WhyNotCounted::NoFlags),
    }
}

/// What the library says first.
///
/// # Errors
/// It says nothing before the deadline, or something else.
pub fn greeting(control: &mut UnixStream, deadline: Instant) -> io::Result<Hello> {
    control.set_read_timeout(Some(left(deadline)))?;
    let Some(FromLibrary::Hello(hello)) = receive(control)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the library's greeting is not valid"));
    };
    control.set_read_timeout(None)?;
    Ok(hello)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn receive(control: &mut UnixStream) -> io::Result<Option<FromLibrary>> {
    let mut bytes = [0; MESSAGE_BYTES];
    control.read_exact(&mut bytes)?;
    Ok(FromLibrary::decode(&bytes))
}

#[cfg(test)]
mod tests;
