//! What is in the segments beside the newest state: the summaries of the logs, and blocks of older states. These stay until the
//! cleaner frees their segment, because a checkpoint may still be mounted; so they are classed as what they were written for.

use std::collections::BTreeMap;

use super::files::{Inodes, Usages};
use super::log::{Log, Written};
use super::superblock::Superblock;
use super::{INODE_FILE, NAME};
use crate::builder::LayoutBuilder;
use crate::damage::PassedOver;
use crate::layout::{Class, Extent, Layout};
use crate::read_at::{LayoutError, ReadAt};

/// Adds them to the layout of the newest state.
pub(super) fn add(
    device: &dyn ReadAt,
    superblock: &Superblock,
    newest: Layout,
    inodes: Option<&Inodes>,
    usages: &Usages,
) -> Result<Layout, LayoutError> {
    let mut builder = LayoutBuilder::new(NAME, newest.block_bytes, newest.total_bytes);
    newest.remarks.iter().for_each(|remark| builder.remark(remark));
    newest.extents.iter().for_each(|extent| builder.add_extent(*extent));
    let mut segments = Vec::new();
    for segment in 0..superblock.segments {
        let start = superblock.segment_start(segment);
        if usages.is_written(device, superblock, segment)?
            && let Some(log) = Log::read(device, superblock, start)?
        {
            segments.push((log.sequence, start));
        }
    }
    // In the order in which they were written.
    segments.sort_unstable();
    let mut older = Older {
        device,
        superblock,
        newest: &newest,
        inodes,
        builder,
        passed_over: PassedOver::default(),
        checkpoint: 0,
        blocks: Vec::new(),
        inode_blocks: BTreeMap::new(),
    };
    for (sequence, start) in segments {
        older.add_segment(sequence, start)?;
    }
    older.add_checkpoint()?;
    older.passed_over.remark(&mut older.builder);
    Ok(older.builder.finish())
}

struct Older<'a> {
    device: &'a dyn ReadAt,
    superblock: &'a Superblock,
    newest: &'a Layout,
    inodes: Option<&'a Inodes>,
    builder: LayoutBuilder,
    passed_over: PassedOver,
    /// The checkpoint whose logs are gone through, and its blocks, which are classed by the inodes that it ends with.
    checkpoint: u64,
    blocks: Vec<Written>,
    /// The blocks of the ifile as of that checkpoint: position and place.
    inode_blocks: BTreeMap<u64, u64>,
}

impl Older<'_> {
    /// Goes through the logs of a segment, one behind the other. Behind those are logs from before the segment was freed, of
    /// another number.
    fn add_segment(&mut self, sequence: u64, mut start: u64) -> Result<(), LayoutError> {
        let end = self.superblock.segment_end(start);
        while start < end
            && let Some(log) = Log::read(self.device, self.superblock, start)?
            && log.sequence == sequence
        {
            if log.checkpoint != self.checkpoint {
                self.add_checkpoint()?;
                self.checkpoint = log.checkpoint;
            }
            self.add_own(Class::OtherMetadata, log.start, log.summary_blocks);
            if log.has_super_root {
                self.add_own(Class::Superblock, log.end() - 1, 1);
            }
            let read = self.read_blocks(&log);
            self.passed_over.note(read)?;
            start = log.end();
        }
        Ok(())
    }

    fn add_own(&mut self, class: Class, block: u64, blocks: u64) {
        let bytes = blocks << self.superblock.block_bits;
        self.builder.add(class, self.superblock.offset_of(block), bytes);
    }

    fn read_blocks(&mut self, log: &Log) -> Result<(), LayoutError> {
        log.for_each_block(self.superblock, |written| {
            if let (INODE_FILE, Some(position)) = (written.inode, written.position) {
                self.inode_blocks.insert(position, written.block);
            }
            let start = self.superblock.offset_of(written.block);
            let mut pieces = self.newest.pieces(start, self.newest.block_bytes);
            if pieces.all(|piece| piece.class == Class::Free) {
                self.blocks.push(written);
            }
        })
    }

    /// Classes the blocks of a checkpoint.
    fn add_checkpoint(&mut self) -> Result<(), LayoutError> {
        let mut of_inode = None;
        for written in std::mem::take(&mut self.blocks) {
            let class = match of_inode {
                Some((inode, class)) if inode == written.inode => class,
                _ => self.class_of(written.inode)?,
            };
            of_inode = Some((written.inode, class));
            self.add_block(written, class);
        }
        Ok(())
    }

    fn class_of(&self, inode: u64) -> Result<Class, LayoutError> {
        match (super::class_of_own_file(inode), self.inodes) {
            (Some(class), _) => Ok(class),
            (None, Some(inodes)) => inodes.class_of(self.device, self.superblock, &self.inode_blocks, inode),
            (None, None) => Ok(Class::FileData),
        }
    }

    /// Classes a block. It has no position in its file: what is there now is elsewhere.
    fn add_block(&mut self, written: Written, class: Class) {
        let is_own = super::class_of_own_file(written.inode).is_some();
        self.builder.add_extent(Extent {
            start: self.superblock.offset_of(written.block),
            bytes: self.newest.block_bytes,
            class: if written.is_node { Class::ExtentMap } else { class },
            inode: (!is_own).then_some(written.inode),
            file_offset: None,
        });
    }
}
