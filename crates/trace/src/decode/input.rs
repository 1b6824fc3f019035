//! A file or standard input, whose beginning can be looked at before it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::error::TraceError;

/// What names standard input among the files.
pub const STANDARD_INPUT: &str = "-";

/// Bytes from a file, from standard input, or from memory.
pub struct Input {
    path: PathBuf,
    /// What was looked at is at the beginning of it, up to `looked_at`; from `read` on it is yet to be read.
    head: Vec<u8>,
    looked_at: usize,
    read: usize,
    source: Box<dyn Read + Send>,
    ended: bool,
}

impl Input {
    /// Opens a file, or standard input where the path is [`STANDARD_INPUT`].
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        if path == Path::new(STANDARD_INPUT) {
            let own = io::stdin().as_fd().try_clone_to_owned();
            let own = own.map_err(TraceError::io("read the trace from", "standard input"))?;
            return Ok(Self::new(File::from(own), "standard input"));
        }
        let file = File::open(path).map_err(TraceError::io("open the trace", path))?;
        Ok(Self::new(file, path))
    }

    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: impl Read + Send + 'static, path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            head: Vec::new(),
            looked_at: 0,
            read: 0,
            source: Box::new(source),
            ended: false,
        }
    }

    /// What errors call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first bytes: all that came with one more reading than before, and whether that is everything.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look_further(&mut self, most: usize) -> Result<(&[u8], bool), TraceError> {
        if self.head.len() < most {
            self.head.resize(most, 0);
        }
        if !self.ended && self.looked_at < most {
            let got = read_some(&mut self.source, &mut self.head[self.looked_at..most]);
            let got = got.map_err(TraceError::io("read the trace", &self.path))?;
            self.looked_at += got;
            self.ended = got == 0;
        }
        Ok((&self.head[..self.looked_at], self.ended))
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = &self.head[self.read..self.looked_at];
        if ready.is_empty() {
            return self.source.read(buffer);
        }
        let taken = ready.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&ready[..taken]);
        self.read += taken;
        if self.read == self.looked_at {
            (self.head, self.looked_at, self.read) = (Vec::new(), 0, 0);
        }
        Ok(taken)
    }
}

fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
