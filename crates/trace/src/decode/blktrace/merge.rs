//! The files of all CPUs as one stream in the order of time.

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
    /// When the next event of each file is that has one, and which file it is: a heap, earliest first, so that after a
    /// row of events of one file a few comparisons find the next.
    next: Vec<Next>,
    started: bool,
    one: Vec<BlockEvent>,
}

/// The time of a file's next event, and below it the file's position: one number, so that which is first is found by
/// one comparison and without a branch. Which file comes next is as good as random.
type Next = u128;

fn next_of(time_ns: u64, index: usize) -> Next {
    u128::from(time_ns) << 64 | index as u128
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
        Self { files, next: Vec::new(), started: false, one: Vec::with_capacity(1) }
    }

    /// The next event of all files, or `None` at the end.
    ///
    /// # Errors
    /// A file cannot be read or is not blktrace's.
    pub fn next_event(&mut self) -> Result<Option<BlockEvent>, TraceError> {
        let mut one = std::mem::take(&mut self.one);
        let read = self.next_events(1, &mut one);
        self.one = one;
        read.map(|_| self.one.pop())
    }

    /// Replaces `events` by the next ones, `most` at most; says whether there were any.
    ///
    /// # Errors
    /// A file cannot be read or is not blktrace's; the events before that are in `events`.
    pub fn next_events(&mut self, most: usize, events: &mut Vec<BlockEvent>) -> Result<bool, TraceError> {
        events.clear();
        if !self.started {
            self.started = true;
            for (index, file) in self.files.iter_mut().enumerate() {
                if let Some(time_ns) = file.run(0, 0, events)? {
                    self.next.push(next_of(time_ns, index));
                }
            }
            self.next.sort_unstable();
        }
        while events.len() < most && !self.next.is_empty() {
            let index = self.next[0] as u64 as usize;
            // The second is one of the two behind the first.
            let second = match self.next[1..] {
                [] => Next::MAX,
                [one] => one,
                [one, other, ..] => one.min(other),
            };
            // Of equal times the file's position decides. Where the other one is first, its time is not 0.
            let is_first = u64::from((second as u64) < index as u64);
            let until_ns = ((second >> 64) as u64).saturating_sub(is_first);
            match self.files[index].run(until_ns, most, events)? {
                Some(time_ns) => self.set_first(next_of(time_ns, index)),
                None => {
                    self.next.swap_remove(0);
                    if let Some(&first) = self.next.first() {
                        self.set_first(first);
                    }
                }
            }
        }
        Ok(!events.is_empty())
    }

    /// Sets the first file anew and brings it to its place.
    fn set_first(&mut self, moved: Next) {
        let next = &mut self.next[..];
        let mut at = 0;
        while let Some(&left) = next.get(2 * at + 1) {
            let right = next.get(2 * at + 2).copied().unwrap_or(left);
            let (child, first) = (2 * at + 1 + usize::from(right < left), left.min(right));
            if moved <= first {
                break;
            }
            next[at] = first;
            at = child;
        }
        next[at] = moved;
    }

    /// The first wall clock note of any file.
    pub fn clock(&self) -> Option<ClockNote> {
        self.files.iter().find_map(FileReader::clock)
    }

    /// The name of a thread, as far as read.
    pub fn thread_name(&self, pid: u32) -> Option<&str> {
        self.files.iter().find_map(|file| file.thread_names().get(pid))
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
