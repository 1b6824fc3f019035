//! The files of all CPUs as one stream in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use super::file::{ClockNote, FileReader};
use crate::decode::ReadWarnings;
use crate::error::TraceError;
use crate::event::BlockEvent;

/// Reads several files and merges their events by time (then by position in the list of files).
///
/// Memory is one buffer per file. Each file is taken to be in order; where one is not, its events come as they
/// stand and are counted in [`ReadWarnings::out_of_order`].
pub struct MergedReader<R> {
    files: Vec<FileReader<R>>,
    /// The next event of each file but `current`, earliest first.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    heads: Vec<Option<BlockEvent>>,
    /// The file that the last event came from: the next is mostly from there too.
    current: Option<usize>,
    started: bool,
}

impl MergedReader<File> {
    /// Opens the files of all CPUs.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn open(paths: &[PathBuf]) -> Result<Self, TraceError> {
        Ok(Self::new(paths.iter().map(|p| FileReader::open(p)).collect::<Result<_, _>>()?))
    }
}

impl<R: Read> MergedReader<R> {
    /// Merges what `files` yield.
    pub fn new(files: Vec<FileReader<R>>) -> Self {
        let heads = vec![None; files.len()];
        Self { files, waiting: BinaryHeap::new(), heads, current: None, started: false }
    }

    /// The next event of all files, or `None` at the end.
    ///
    /// # Errors
    /// A file cannot be read or is not blktrace's.
    pub fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        if !self.started {
            self.started = true;
            for index in 0..self.files.len() {
                self.advance(index)?;
            }
        }
        if let Some(index) = self.current.take()
            && let Some(event) = self.files[index].next_event()?
        {
            if self.waiting.peek().is_none_or(|Reverse(w)| (event.time_ns, index) <= *w) {
                self.current = Some(index);
                return Ok(Some(event));
            }
            self.heads[index] = Some(event);
            self.waiting.push(Reverse((event.time_ns, index)));
        }
        let Some(Reverse((_, index))) = self.waiting.pop() else { return Ok(None) };
        self.current = Some(index);
        Ok(self.heads[index].take())
    }

    fn advance(&mut self, index: usize) -> Result<(), TraceError> {
        if let Some(event) = self.files[index].next_event()? {
            self.heads[index] = Some(event);
            self.waiting.push(Reverse((event.time_ns, index)));
        }
        Ok(())
    }

    /// The first wall clock note of any file.
    pub fn clock(&self) -> Option<ClockNote> {
        self.files.iter().find_map(FileReader::clock)
    }

    /// What was odd so far, all files together.
    pub fn warnings(&self) -> ReadWarnings {
        let mut all = ReadWarnings::default();
        for file in &self.files {
            all.add(file.warnings());
        }
        all
    }
}
