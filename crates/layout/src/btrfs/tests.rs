use std::sync::LazyLock;

use proptest::prelude::*;

use super::extents::{Purpose, purpose};
use super::files::{FileExtent, Replaced};
use super::superblock::crc32c;
use crate::hostile::{Changed, Recorded, assert_sound, blocks_by_class, changes};
use crate::layout::Class;
use crate::read;

static IMAGE: LazyLock<Recorded> = LazyLock::new(|| Recorded::unpack("btrfs-log.img.gz"));

const SUPERBLOCK: usize = 64 << 10;

/// Makes the superblock's checksum fit again.
fn sign(image: &mut Changed<'_>) {
    let checksum = crc32c(&image.part(SUPERBLOCK + 32, 4096 - 32));
    image.set(SUPERBLOCK, &checksum.to_le_bytes());
}

#[test]
fn the_checksum_is_that_of_the_standard() {
    // The check value of CRC-32C in RFC 3720's polynomial.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn a_recorded_image_has_everything() {
    let layout = read(&IMAGE.bytes()).unwrap();
    insta::assert_snapshot!(blocks_by_class(&layout), @"file data 395, journal 2, inode 1, directory 9, allocation map 2, superblock 6, other metadata 2, mixed metadata 27, free 9796");
    insta::assert_snapshot!(layout.remarks.join("\n"), @"there are several subvolumes or snapshots (5, 256), and inode numbers are unique in one only");
}

#[test]
fn what_is_not_understood_is_refused() {
    let refused = |bit: u32| {
        let mut image = IMAGE.changed(&[]);
        let at = SUPERBLOCK + 0xbc + bit as usize / 8;
        let features = image.part(at, 1)[0] | 1 << (bit % 8);
        image.set(at, &[features]);
        sign(&mut image);
        read(&image).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused(12), @"the btrfs file system uses zones (zoned), which is not supported");
    insta::assert_snapshot!(refused(40), @"the btrfs file system uses a feature that this version does not know (incompatible feature bits 0x10000000000), which is not supported");
}

#[test]
fn a_superblock_that_is_not_whole_is_an_error() {
    let mut image = IMAGE.changed(&[]);
    image.set(SUPERBLOCK + 0x50, &[1]);
    insta::assert_snapshot!(read(&image).unwrap_err(), @"the btrfs file system is damaged at byte 65536: the superblock's checksum does not match; check it with its fsck");
}

#[test]
fn trees_have_their_purposes() {
    assert_eq!(purpose(11), Purpose::One(Class::AllocationMap), "block groups");
    assert_eq!(purpose(7), Purpose::One(Class::OtherMetadata), "checksums");
    assert_eq!(purpose(6_u64.wrapping_neg()), Purpose::One(Class::Journal), "log");
    assert_eq!([5, 256, 9_u64.wrapping_neg()].map(purpose), [Purpose::Files; 3]);
}

proptest! {
    #[test]
    fn damaged_file_systems_are_read_to_an_end(changes in changes(), cut in 0_usize..40) {
        let mut image = IMAGE.changed(&changes);
        sign(&mut image);
        image.truncate(IMAGE.bytes().len() - (cut.saturating_sub(36) << 22));
        assert_sound(read(&image));
    }

    #[test]
    fn what_the_log_replaces_is_cut_out_byte_for_byte(
        ranges in prop::collection::btree_map(0_u64..100, 1_u64..30, 0..8),
        file_offset in 0_u64..100,
        file_bytes in 0_u64..60,
    ) {
        let extent = |file_offset, file_bytes| FileExtent {
            inode: 7, file_offset, file_bytes, address: None, bytes: 0, encoded: false,
        };
        let mut replaced = Replaced::default();
        // Eight items of 29 bytes after one another, the first of which starts at 99 at most.
        let mut truth = [false; 99 + 8 * 29];
        let mut end = 0;
        for (&start, &bytes) in &ranges {
            // Items of one file do not overlap.
            let start = start.max(end);
            replaced.add(5, &extent(start, bytes));
            truth[start as usize..(start + bytes) as usize].fill(true);
            end = start + bytes;
        }
        let mut position = file_offset;
        for (skipped, bytes, by_log) in replaced.parts(5, &extent(file_offset, file_bytes)) {
            prop_assert_eq!(file_offset + skipped, position);
            for byte in position..position + bytes {
                prop_assert_eq!(truth.get(byte as usize).copied().unwrap_or(false), by_log);
            }
            position += bytes;
        }
        prop_assert_eq!(position, file_offset + file_bytes);
        prop_assert_eq!(replaced.parts(6, &extent(0, 10)), [(0, 10, false)]);
    }
}
