use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::checkpoint::Checkpoint;
use super::superblock::Superblock;
use super::table::NodeTable;
use crate::hostile::{Recorded, assert_sound, blocks_by_class, changes};
use crate::read;

static IMAGE: LazyLock<Recorded> = LazyLock::new(|| Recorded::unpack("f2fs-used.img.gz"));

#[test]
fn a_recorded_image_has_everything() {
    let layout = read(&IMAGE.bytes()).unwrap();
    assert_eq!(layout.remarks, Vec::<String>::new());
    insta::assert_snapshot!(blocks_by_class(&layout), @"file data 1522, inode 2887, directory 43, allocation map 1024, extent map 105, superblock 1026, other metadata 521, free 9256");
}

/// The file system counts the blocks of its main area that are in use.
#[test]
fn as_many_blocks_are_used_as_the_checkpoint_says() {
    let image = IMAGE.bytes();
    let superblock = Superblock::read(&image).unwrap();
    let checkpoint = Checkpoint::read(&image, &superblock).unwrap();
    let layout = read(&image).unwrap();
    let main = superblock.main * layout.block_bytes;
    let classed: u64 = layout.extents.iter().filter(|e| e.start >= main).map(|e| e.bytes).sum();
    let of_nodes = super::segments::of_nodes(&image, &superblock, &checkpoint).unwrap();
    let table = NodeTable::read(&image, &superblock, &checkpoint).unwrap();
    let named: BTreeSet<u32> = table.entries().map(|(_, entry)| entry.block).collect();
    let is_replaced = |block: &u64| {
        let within = (block * 4096).checked_sub(main).map(|bytes| bytes / (512 * 4096));
        let is_classed = layout.extents.iter().any(|e| (e.start..e.end()).contains(&(block * 4096)));
        within.is_some_and(|segment| of_nodes.contains(&segment))
            && is_classed
            && !named.contains(&(*block as u32))
    };
    let replaced = (0..superblock.blocks).filter(is_replaced).count() as u64;
    assert_eq!(classed / layout.block_bytes - replaced, checkpoint.valid_blocks);
    assert!(replaced > 0, "the image was made by writing some inodes again");
    assert!(checkpoint.unmounted);
}

#[test]
fn an_older_checkpoint_counts_where_the_newer_is_cut_off() {
    let places = |image: &dyn crate::ReadAt| {
        let superblock = Superblock::read(image).unwrap();
        let checkpoint = Checkpoint::read(image, &superblock).unwrap();
        (superblock.checkpoints, checkpoint.journal.0)
    };
    let (first, newer) = places(&IMAGE.bytes());
    let place = if newer < first + 512 { first } else { first + 512 };
    let mut changed = IMAGE.changed(&[]);
    changed.set(place as usize * 4096, &[0xff; 8]);
    let (_, older) = places(&changed);
    assert_ne!(older < first + 512, newer < first + 512);
}

#[test]
fn other_block_sizes_are_not_understood() {
    let mut changed = IMAGE.changed(&[]);
    changed.set(1024 + 16, &14_u32.to_le_bytes());
    insta::assert_snapshot!(read(&changed).unwrap_err().to_string(), @"the f2fs file system uses blocks of 2^14 bytes and segments of 2^9 blocks, which is not supported");
}

#[test]
fn what_does_not_fit_the_device_is_damage() {
    let mut short = IMAGE.changed(&[]);
    short.truncate(1 << 20);
    insta::assert_snapshot!(read(&short).unwrap_err().to_string(), @"the f2fs file system is damaged at byte 1060: it has 16384 blocks, more than the device; check it with its fsck");
}

proptest! {
    #[test]
    fn any_damage_gives_an_error_or_a_layout(changes in changes()) {
        assert_sound(read(&IMAGE.changed(&changes)));
    }
}
