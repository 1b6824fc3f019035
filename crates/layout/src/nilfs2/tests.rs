use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::entries::{EntryFile, Role};
use super::log::Log;
use super::superblock::{Checksum, OFFSET, Superblock, second_copy};
use crate::hostile::{Changed, Recorded, assert_sound, blocks_by_class, changes};
use crate::layout::Class;
use crate::{ReadAt, read};

static IMAGE: LazyLock<Recorded> = LazyLock::new(|| Recorded::unpack("nilfs2-used.img.gz"));

/// All logs of all segments, whether in use or not.
fn logs(image: &dyn ReadAt, superblock: &Superblock) -> Vec<Log> {
    let mut logs = Vec::new();
    for segment in 0..superblock.segments {
        let mut start = superblock.segment_start(segment);
        let end = superblock.segment_end(start);
        while start < end
            && let Some(log) = Log::read(image, superblock, start).unwrap()
        {
            start = log.end();
            logs.push(log);
        }
    }
    logs
}

#[test]
fn a_recorded_image_has_everything() {
    let layout = read(&IMAGE.bytes()).unwrap();
    assert_eq!(layout.remarks, Vec::<String>::new());
    insta::assert_snapshot!(blocks_by_class(&layout), @"file data 2538, inode 375, directory 35, allocation map 82, extent map 831, superblock 84, other metadata 141, free 12298");
}

/// The summaries are written with the blocks; trees and the DAT file name them from elsewhere.
#[test]
fn every_block_is_of_whom_the_summary_of_its_log_says() {
    let image = IMAGE.bytes();
    let superblock = Superblock::read(&image).unwrap();
    let layout = read(&image).unwrap();
    let mut written = BTreeMap::new();
    for log in logs(&image, &superblock) {
        log.for_each_block(&superblock, |block| _ = written.insert(block.block, block)).unwrap();
    }
    let mut held = 0;
    for extent in layout.extents.iter().filter(|extent| extent.inode.is_some()) {
        for block in extent.start / layout.block_bytes..extent.end() / layout.block_bytes {
            let written = written[&block];
            assert_eq!(extent.inode, Some(written.inode), "block {block}");
            assert_eq!(written.is_node, extent.class == Class::ExtentMap, "block {block}");
            held += 1;
        }
    }
    assert!(held > 1000, "{held}");
}

#[test]
fn blocks_of_older_states_have_no_position() {
    let layout = read(&IMAGE.bytes()).unwrap();
    let data = layout.extents.iter().filter(|extent| extent.class == Class::FileData);
    let (newest, older): (Vec<_>, Vec<_>) = data.partition(|extent| extent.file_offset.is_some());
    let blocks = |extents: &[&crate::Extent]| extents.iter().map(|extent| extent.bytes).sum::<u64>() / 4096;
    assert_eq!((blocks(&newest), blocks(&older)), (1863, 675));
}

#[test]
fn a_checkpoint_behind_that_of_the_superblock_counts() {
    let image = IMAGE.bytes();
    let superblock = Superblock::read(&image).unwrap();
    let newest = logs(&image, &superblock).into_iter().filter(|log| log.has_super_root);
    let mut newest: Vec<Log> = newest.filter(|log| log.sequence + 1 >= superblock.last_sequence).collect();
    newest.sort_by_key(|log| log.checkpoint);
    let [.., older, newest] = &newest[..] else { panic!("there are more") };
    assert_eq!(newest.start, superblock.last_log);
    let mut changed = IMAGE.changed(&[]);
    set_superblock(&mut changed, 0x40, &older.start.to_le_bytes());
    set_superblock(&mut changed, 0x48, &older.sequence.to_le_bytes());
    assert!(read(&changed).unwrap() == read(&image).unwrap());
    // A log that is not whole does not count.
    changed.set((newest.end() as usize - 1) * 4096 + 2000, &[0xff]);
    assert!(read(&changed).unwrap().extents != read(&image).unwrap().extents);
}

/// Changes both copies of the superblock, and their checksums.
fn set_superblock(changed: &mut Changed<'_>, at: usize, value: &[u8]) {
    for copy in [OFFSET, second_copy(IMAGE.bytes().len() as u64)].map(|copy| copy as usize) {
        changed.set(copy + at, value);
        changed.set(copy + 16, &[0; 4]);
        let bytes = changed.part(copy, 1024);
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut sum = Checksum::new(number(12));
        sum.add(&bytes[..number(8) as usize & 0xffff]);
        changed.set(copy + 16, &sum.value().to_le_bytes());
    }
}

#[test]
fn the_other_superblock_counts_where_the_first_is_damaged() {
    let mut changed = IMAGE.changed(&[]);
    changed.set(OFFSET as usize + 0x40, &[0xff; 8]);
    // It was written while the file system was mounted, and names an older log.
    let layout = read(&changed).unwrap();
    assert!(layout.extents == read(&IMAGE.bytes()).unwrap().extents);
    assert!(layout.remarks[0].starts_with("the file system was not unmounted"), "{:?}", layout.remarks);
}

#[test]
fn a_file_system_that_was_not_unmounted_has_a_remark() {
    let mut changed = IMAGE.changed(&[]);
    set_superblock(&mut changed, 0x74, &[0; 2]);
    insta::assert_snapshot!(read(&changed).unwrap().remarks.join("\n"), @"the file system was not unmounted: unless it is mounted read-only, what was written since its last checkpoint is missing");
}

#[test]
fn what_is_not_understood_is_said() {
    let mut changed = IMAGE.changed(&[]);
    set_superblock(&mut changed, 0x110, &[4]);
    insta::assert_snapshot!(read(&changed).unwrap_err().to_string(), @"the nilfs2 file system uses incompatible features 0x4, which is not supported");
    let mut changed = IMAGE.changed(&[]);
    set_superblock(&mut changed, 0x30, &[0xff; 4]);
    insta::assert_snapshot!(read(&changed).unwrap_err().to_string(), @"the nilfs2 file system is damaged at byte 1048: its segments do not fit the device; check it with its fsck");
    let mut short = IMAGE.changed(&[]);
    short.truncate(1 << 20);
    insta::assert_snapshot!(read(&short).unwrap_err().to_string(), @"the nilfs2 file system is damaged at byte 1056: it has 67108864 bytes, more than the device; check it with its fsck");
}

proptest! {
    #[test]
    fn an_entry_is_in_the_block_that_has_it(number in any::<u64>(), entry_bytes in 32..1025_usize) {
        let superblock = Superblock::read(&IMAGE.bytes()).unwrap();
        let file = EntryFile::new(&superblock, entry_bytes);
        let (position, at) = file.place(number);
        let Role::Entries { first, bit } = file.role(position) else { panic!("block {position} has no entries") };
        let slot = number - first;
        prop_assert_eq!(file.in_block().nth(slot as usize), Some((slot, at)));
        prop_assert_eq!((number % (8 * 4096)) as usize, bit + slot as usize);
    }

    #[test]
    fn any_damage_gives_an_error_or_a_layout(changes in changes()) {
        assert_sound(read(&IMAGE.changed(&changes)));
    }
}
