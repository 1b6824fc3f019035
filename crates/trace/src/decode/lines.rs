//! Lines of a text, of any length, in constant memory.

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::path::PathBuf;

use super::MOST_GARBAGE_BYTES;
use crate::error::TraceError;

/// The longest line that is read whole; no known trace has longer lines.
const LONGEST_LINE: u64 = 16 * 1024;

/// Reads one line after the other and gives up where too much in a row makes no sense.
pub(super) struct Lines<R> {
    source: R,
    path: PathBuf,
    line: Vec<u8>,
    /// Where in the file `line` begins and where the next one does.
    offset: u64,
    next_offset: u64,
    /// Whether `line` is all of it.
    whole: bool,
    /// Where the last line ended that made sense.
    senseless_from: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads from `source`; `path` is what errors call it.
    pub fn new(source: R, path: impl Into<PathBuf>) -> Self {
        Self {
            source,
            path: path.into(),
            line: Vec::new(),
            offset: 0,
            next_offset: 0,
            whole: true,
            senseless_from: 0,
        }
    }

    /// Goes to the next line; `false` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or no line was accepted for [`MOST_GARBAGE_BYTES`].
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        if self.next_offset - self.senseless_from > MOST_GARBAGE_BYTES {
            return Err(TraceError::Format {
                path: self.path.clone(),
                offset: self.senseless_from,
                reason: super::garbage("a line of the trace"),
            });
        }
        self.line.clear();
        self.offset = self.next_offset;
        let read = (&mut self.source)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut self.line)
            .map_err(TraceError::io("read the trace", &self.path))? as u64;
        self.next_offset += read;
        self.whole = self.line.ends_with(b"\n") || read < LONGEST_LINE;
        if !self.whole {
            self.line.clear();
            self.skip_rest_of_line()?;
        }
        while self.line.last().is_some_and(u8::is_ascii_whitespace) {
            self.line.pop();
        }
        Ok(read > 0)
    }

    /// The line without its end and other white space there; nothing where it was too long.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.line)
    }

    /// Whether the line was read whole.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The line was understood. Empty lines and comments do not count, because a file of only those is garbage as well.
    pub fn accept(&mut self) {
        if self.line.first().is_some_and(|first| *first != b'#') {
            self.senseless_from = self.next_offset;
        }
    }

    /// An error at this line.
    pub fn error(&self, reason: impl Into<String>) -> TraceError {
        TraceError::Format { path: self.path.clone(), offset: self.offset, reason: reason.into() }
    }

    fn skip_rest_of_line(&mut self) -> Result<(), TraceError> {
        loop {
            let buffer = self.source.fill_buf().map_err(TraceError::io("read the trace", &self.path))?;
            let newline = buffer.iter().position(|&b| b == b'\n');
            let used = newline.map_or(buffer.len(), |at| at + 1);
            let ended = newline.is_some() || used == 0;
            self.source.consume(used);
            self.next_offset += used as u64;
            let skipped = self.next_offset - self.offset;
            if ended || skipped > MOST_GARBAGE_BYTES {
                return Ok(());
            }
        }
    }
}
