//! `system`: a line for the shell, whose output is heard line by line and never goes to a terminal by itself.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::FlowError;
use crate::listener::{LOOK, Listener};

/// Longer lines are heard in pieces.
const MOST_LINE_BYTES: usize = 4096;
/// What a pipe of Linux holds, and so all that a shell that has ended can have left in it.
const PIPE_BYTES: usize = 64 << 10;

/// Runs the line, and tells what it writes while it runs.
pub(crate) fn obey(command: &str, listener: &dyn Listener) -> Result<(), FlowError> {
    listener.say(&format!("system: {command}"));
    let status =
        run(command, listener).map_err(|source| FlowError::System { command: command.to_owned(), source })?;
    if !status.success() {
        listener.say(&format!("system {command:?} ended with {status}"));
    }
    Ok(())
}

fn run(command: &str, listener: &dyn Listener) -> io::Result<ExitStatus> {
    // The language's own command is a shell's line; the user named the file it is in.
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut streams: Vec<Stream> = [
        child.stdout.take().map(|stream| OwnedFd::from(stream).into()),
        child.stderr.take().map(|stream| OwnedFd::from(stream).into()),
    ]
    .into_iter()
    .flatten()
    .collect();
    while !streams.is_empty() {
        // A program that goes on in the background keeps the streams open; the shell is what is waited for.
        if let Some(status) = child.try_wait()? {
            for stream in streams {
                stream.take_the_rest(listener);
            }
            return Ok(status);
        }
        wait(&streams, LOOK.as_nanos() as i64)?;
        streams.retain_mut(|stream| stream.is_silent() || stream.hear(listener));
    }
    child.wait()
}

/// Waits until one of the streams has something, or for so long.
fn wait(streams: &[Stream], nanoseconds: i64) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> =
        streams.iter().map(|stream| PollFd::new(&stream.file, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// What a program writes.
struct Stream {
    file: std::fs::File,
    /// The line that has not ended.
    line: Vec<u8>,
}

impl From<OwnedFd> for Stream {
    fn from(stream: OwnedFd) -> Self {
        Self { file: stream.into(), line: Vec::new() }
    }
}

impl Stream {
    /// Whether there is nothing to be read, not even the end.
    fn is_silent(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN)];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut polled, Some(&none)), Ok(1..))
    }

    /// Reads once and tells the lines that have ended. Whether there may be more.
    fn hear(&mut self, listener: &dyn Listener) -> bool {
        let mut bytes = [0; MOST_LINE_BYTES];
        let count = match self.file.read(&mut bytes) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return true,
            Ok(count) => count,
            Err(_) => 0,
        };
        for &byte in &bytes[..count] {
            if byte == b'\n' {
                self.tell(listener);
                continue;
            }
            self.line.push(byte);
            if self.line.len() == MOST_LINE_BYTES {
                self.tell(listener);
            }
        }
        if count == 0 && !self.line.is_empty() {
            self.tell(listener);
        }
        count > 0
    }

    fn tell(&mut self, listener: &dyn Listener) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        listener.output(&String::from_utf8_lossy(line));
        self.line.clear();
    }

    /// Tells what the shell has left. What a program in the background writes later is read, so that it does not wait, and thrown away.
    fn take_the_rest(mut self, listener: &dyn Listener) {
        for _ in 0..PIPE_BYTES.div_ceil(MOST_LINE_BYTES) {
            if self.is_silent() {
                break;
            }
            if !self.hear(listener) {
                return;
            }
        }
        if !self.line.is_empty() {
            self.tell(listener);
        }
        let mut file = self.file;
        let throw_away = move || drop(io::copy(&mut file, &mut io::sink()));
        // Without a thread the stream is closed, and the program ends when it writes.
        drop(std::thread::Builder::new().name("system".to_owned()).spawn(throw_away));
    }
}
