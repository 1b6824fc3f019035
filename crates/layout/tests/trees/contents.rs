//! Where the contents of files are, by a kernel and by a layout, for file systems with blocks of 4096 bytes.

use std::collections::BTreeSet;

use nestor_layout::{Class, Layout};

const BLOCK: u64 = 4096;

/// Blocks of files, each with its inode and position.
pub type Contents = BTreeSet<(u64, u64, u64)>;

/// What the kernel said about the files: lines of `file INODE POSITION BLOCK BLOCKS`.
pub fn by_kernel(said: &str) -> Contents {
    let lines = said.lines().filter_map(|line| line.strip_prefix("file "));
    let runs = lines.map(|line| {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        <[u64; 4]>::try_from(numbers).expect("four numbers")
    });
    runs.flat_map(|[inode, position, block, blocks]| {
        (0..blocks).map(move |at| (inode, position + at, block + at))
    })
    .collect()
}

/// What the layout says about the files.
pub fn by_layout(layout: &Layout) -> Contents {
    let files = layout.extents.iter().filter(|extent| extent.class == Class::FileData);
    files
        .flat_map(|extent| {
            let inode = extent.inode.expect("contents have an inode");
            let offset = extent.file_offset.expect("contents have a position");
            (0..extent.bytes / BLOCK).map(move |at| (inode, offset / BLOCK + at, extent.start / BLOCK + at))
        })
        .collect()
}
