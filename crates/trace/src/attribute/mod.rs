//! What block requests are for: file data, journal, inodes, …
//!
//! The place of a request shows it, by the [`Layout`] of the file system that made it. The layout is read after the
//! recording; where it is free, a file has been deleted since, or metadata given back: there the request's flags and
//! the thread that made it decide.

mod tally;
mod threads;

use nestor_layout::{Class, Layout};

use crate::event::Flags;
use crate::request::Operation;

pub use tally::ClassTally;
use threads::writes_only_metadata;

const CLASSES: usize = Class::ALL.len();

/// The uses of a device's bytes, ready to be looked up.
#[derive(Clone, Debug)]
pub struct Attribution {
    file_system: String,
    remarks: Vec<String>,
    /// Where the file system begins on the device that the requests are for.
    start: u64,
    /// The file system cut into runs of one class, without gaps: where each ends. Neighbouring files are one run, so
    /// there are far fewer than extents, and the search stays in few cache lines.
    ends: Vec<u64>,
    /// The class of each.
    classes: Vec<Class>,
}

/// What one request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributed {
    /// The class with most of its bytes; of equals the one that was met first. [`Class::Flush`] for a flush without
    /// data.
    pub class: Class,
    /// Bytes of those in [`Class::FileData`] that are so because nothing else was found there: data of files that
    /// have been deleted since, most likely.
    pub deleted_bytes: u64,
    bytes: [u64; CLASSES],
}

impl Attributed {
    /// The classes that it has bytes of, with how many; none for a flush.
    pub fn parts(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        Class::ALL.into_iter().zip(self.bytes).filter(|(_, bytes)| *bytes > 0)
    }
}

impl Attribution {
    /// Attribution by the layout of the file system on a device. `images` are the inodes of files that are virtual
    /// disks; inodes that the file system does not have are of no effect.
    pub fn new(mut layout: Layout, images: &[u64]) -> Self {
        for inode in images {
            layout.rename(*inode, Class::ImageData);
        }
        let mut ends: Vec<u64> = Vec::new();
        let mut classes: Vec<Class> = Vec::new();
        for piece in layout.pieces(0, layout.total_bytes) {
            let end = piece.start + piece.bytes;
            match (classes.last(), ends.last_mut()) {
                (Some(class), Some(last)) if *class == piece.class => *last = end,
                _ => {
                    ends.push(end);
                    classes.push(piece.class);
                }
            }
        }
        Self { file_system: layout.file_system, remarks: layout.remarks, start: 0, ends, classes }
    }

    /// For requests on a device of which the file system begins at `start` bytes: the disk of a partition.
    #[must_use]
    pub fn starting_at(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// Which file system it is: `ext4`, …
    pub fn file_system(&self) -> &str {
        &self.file_system
    }

    /// What makes the layout, and so what is attributed by it, less certain than it seems.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What a request is for. `comm` is the name of the thread that made it, where that is known.
    ///
    /// A request to free space counts as other metadata if the request is marked as metadata or its thread writes
    /// nothing else, and else for data of deleted files, which is said in [`Attributed::deleted_bytes`]. A discard is
    /// not: it is for free space.
    pub fn class_of(
        &self,
        operation: Operation,
        flags: Flags,
        offset: u64,
        bytes: u64,
        comm: Option<&str>,
    ) -> Attributed {
        let mut attributed = Attributed { class: Class::Unknown, deleted_bytes: 0, bytes: [0; CLASSES] };
        if operation == Operation::Flush || (bytes == 0 && flags.contains(Flags::FLUSH)) {
            attributed.class = Class::Flush;
            return attributed;
        }
        let mut most = 0;
        self.for_each_part(offset, bytes, |class, bytes| {
            let class = match class {
                Class::Free if operation == Operation::Discard => Class::Free,
                Class::Free if flags.contains(Flags::META) || comm.is_some_and(writes_only_metadata) => {
                    Class::OtherMetadata
                }
                Class::Free => {
                    attributed.deleted_bytes += bytes;
                    Class::FileData
                }
                class => class,
            };
            let sum = &mut attributed.bytes[class as usize];
            *sum += bytes;
            if *sum > most {
                most = *sum;
                attributed.class = class;
            }
        });
        attributed
    }

    /// Cuts a range of the device where the class changes; what is not in the file system is unknown.
    fn for_each_part(&self, offset: u64, bytes: u64, mut part: impl FnMut(Class, u64)) {
        let range_end = offset.saturating_add(bytes);
        let mut position = offset;
        if position < self.start {
            let outside = range_end.min(self.start);
            part(Class::Unknown, outside - position);
            position = outside;
        }
        let mut run = self.ends.partition_point(|end| self.start.saturating_add(*end) <= position);
        while position < range_end {
            let known = self.ends.get(run).zip(self.classes.get(run));
            let (end, class) =
                known.map_or((range_end, Class::Unknown), |(end, class)| (self.start + end, *class));
            let end = end.min(range_end);
            part(class, end - position);
            position = end;
            run += 1;
        }
    }
}

#[cfg(test)]
mod tests;
