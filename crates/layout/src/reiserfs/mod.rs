//! ReiserFS 3.5 and 3.6.
//!
//! Everything but the journal and the bitmaps is in one tree, so most of the metadata is mixed. What is called what:
//!
//! | on the device | class |
//! |---|---|
//! | the first 64 KiB (3.5: 8 KiB), left to boot loaders | other metadata |
//! | superblock | superblock |
//! | journal, and what stays reserved for it when it lies elsewhere | journal |
//! | bitmaps | allocation map |
//! | internal nodes of the tree | mixed metadata |
//! | leaves with nothing but stat data | inode |
//! | leaves with nothing but directory items | directory |
//! | leaves with nothing but indirect items (pointers to blocks) | extent map |
//! | other leaves; tails, symbolic links and small files are in them | mixed metadata |
//! | blocks that indirect items point to | file data, with inode (object id) and position |
//! | bad blocks set aside by `reiserfsck` | other metadata |
//! | in use by the bitmap, but part of nothing (set aside for a file that is open, or lost) | unknown |
//!
//! Extended attributes are files in a hidden directory here, and count as file data where they have blocks of their
//! own. Transactions that are in the journal but not yet in their places are taken from the journal, as a mount would.
//!
//! Structures: `fs/reiserfs/reiserfs.h` of Linux 6.12, the last with this file system.

mod bitmap;
mod blocks;
mod journal;
mod superblock;
#[cfg(test)]
mod tests;
mod tree;

use crate::builder::LayoutBuilder;
use crate::file_systems::FileSystem;
use crate::layout::{Class, Layout};
use crate::read_at::{LayoutError, ReadAt};

use blocks::Blocks;
use superblock::Superblock;

const NAME: &str = "reiserfs";

pub(crate) static FILE_SYSTEM: FileSystem =
    FileSystem { name: NAME, names: &[NAME], recognise: |device| superblock::find(device).is_some(), read };

fn read(device: &dyn ReadAt) -> Result<Layout, LayoutError> {
    let on_disk = Superblock::read(device)?;
    let journal = journal::committed(device, &on_disk)?;
    let mut blocks = Blocks::new(device, &on_disk);
    let transactions = journal.transactions;
    blocks.replace(journal.newer);
    // The journal may hold a newer superblock, with another root.
    let superblock = on_disk.newest(&blocks)?;
    let total = superblock.block_count * superblock.block_bytes;
    let device_bytes = device.bytes().map_err(|source| LayoutError::Io { offset: 0, source })?;
    let mut builder = LayoutBuilder::new(NAME, superblock.block_bytes, total.min(device_bytes));
    if total > device_bytes {
        builder.remark(format!(
            "the device has {device_bytes} bytes, but the file system has {total}: its end is missing"
        ));
    }
    if transactions > 0 {
        builder.remark(format!(
            "{transactions} transactions had not been written back from the journal; they were read from \
             the journal"
        ));
    }
    if superblock.journal_elsewhere {
        builder.remark("the journal is on another device: changes that are only there are not known");
    }
    add_fixed_places(&mut builder, &superblock);
    tree::walk(&blocks, &superblock, &mut builder);
    let mut layout = builder.finish();
    bitmap::compare(&blocks, &superblock, &mut layout);
    Ok(layout)
}

/// What is where mkfs put it.
fn add_fixed_places(builder: &mut LayoutBuilder, superblock: &Superblock) {
    let mut add = |class, first: u64, blocks: u64| {
        let bytes = superblock.block_bytes;
        builder.add(class, first.saturating_mul(bytes), blocks.saturating_mul(bytes));
    };
    add(Class::OtherMetadata, 0, superblock.block);
    add(Class::Superblock, superblock.block, 1);
    for bitmap in 0..superblock.bitmap_count() {
        add(Class::AllocationMap, superblock.bitmap_block(bitmap), 1);
    }
    for part in superblock.journal_parts() {
        add(Class::Journal, part.start, part.end - part.start);
    }
}
