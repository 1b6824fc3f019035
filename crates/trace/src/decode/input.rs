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
    /// What was looked at and is yet to be read from `read` on.
    head: Vec<u8>,
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
        Self { path: path.into(), head: Vec::new(), read: 0, source: Box::new(source), ended: false }
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
        let have = self.head.len();
        if !self.ended && have < most {
            self.head.resize(most, 0);
            let got = read_some(&mut self.source, &mut self.head[have..]);
            let got = got.map_err(TraceError::io("read the trace", &self.path))?;
            self.head.truncate(have + got);
            self.ended = got == 0;
        }
        Ok((&self.head, self.ended))
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = &self.head[self.read..];
        if ready.is_empty() {
            return self.source.read(buffer);
        }
        let taken = ready.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&ready[..taken]);
        self.read += taken;
        if self.read == self.head.len() {
            (self.head, self.read) = (Vec::new(), 0);
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
