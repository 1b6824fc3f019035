//! Keys as a terminal in raw mode sends them.
//!
//! crossterm reads keys, too, but goes on reading forever once the terminal has hung up: its loop ends with an event, and the end of a
//! file is none.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::view::Key;

const ESCAPE: u8 = 0x1b;
const CONTROL_C: u8 = 0x03;
/// Bytes that are read at a time; what is pasted comes in several.
const CHUNK: usize = 256;

/// The terminal that keys come from.
pub(crate) struct Keys {
    terminal: OwnedFd,
    /// Keys that were read and not taken.
    read: VecDeque<Key>,
}

impl Keys {
    /// Standard input if it is a terminal, otherwise the terminal of the session.
    pub fn open() -> io::Result<Self> {
        let input = io::stdin();
        let terminal = match input.is_terminal() {
            true => input.as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        Ok(Self { terminal, read: VecDeque::new() })
    }

    /// Waits for a key that means something, at most that long; a signal ends the wait, too.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn next(&mut self, limit: Duration) -> io::Result<Option<Key>> {
        if let Some(key) = self.read.pop_front() {
            return Ok(Some(key));
        }
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(gone());
        }
        let mut bytes = [0; CHUNK];
        match rustix::io::read(&self.terminal, &mut bytes) {
            Ok(0) => return Err(gone()),
            Ok(read) => self.read.extend(keys_of(&bytes[..read])),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.read.pop_front())
    }
}

fn gone() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the terminal is gone")
}

/// The keys that mean something. What begins with Escape is another key (an arrow, Alt with a letter), unless nothing follows.
fn keys_of(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        match (*first, rest) {
            (ESCAPE, []) => keys.push(Key::Quit),
            (ESCAPE, [b'[' | b'O', sequence @ ..]) => {
                let end = sequence.iter().position(|byte| (b'@'..=b'~').contains(byte));
                bytes = end.map_or(&[], |end| &sequence[end + 1..]);
            }
            (ESCAPE, [_, after @ ..]) => bytes = after,
            (byte, _) => keys.extend(meaning(byte)),
        }
    }
    keys
}

fn meaning(byte: u8) -> Option<Key> {
    match byte {
        CONTROL_C | b'q' | b'Q' => Some(Key::Quit),
        b' ' => Some(Key::Pause),
        b's' | b'S' => Some(Key::SinceStart),
        b'?' | b'h' => Some(Key::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        assert_eq!(keys_of(b"q\x03\x1b"), [Key::Quit; 3]);
        assert_eq!(keys_of(b"c? s"), [Key::Help, Key::Pause, Key::SinceStart]);
    }

    #[test]
    fn arrows_function_keys_and_letters_of_other_alphabets_mean_nothing() {
        for other in ["\x1b[A", "\x1bOQ", "\x1b[15~", "\x1bq", "\x1b[1;5C", "\x1b[", "ß", "\r"] {
            assert_eq!(keys_of(other.as_bytes()), [], "{other:?}");
        }
        assert_eq!(keys_of(b"\x1b[Aq"), [Key::Quit], "what follows an arrow is a key again");
    }
}
