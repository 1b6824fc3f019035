use std::sync::LazyLock;

use proptest::prelude::*;

use super::descriptor::{Blocks, Mapped};
use crate::fields::Fields;
use crate::hostile::{Recorded, assert_sound, blocks_by_class, changes};
use crate::read;

/// Its log was emptied after the unmount, for the image's size.
static IMAGE: LazyLock<Recorded> = LazyLock::new(|| Recorded::unpack("jfs-used.img.gz"));

#[test]
fn a_recorded_image_has_everything() {
    let layout = read(&IMAGE.bytes()).unwrap();
    assert_eq!(layout.remarks, Vec::<String>::new());
    insta::assert_snapshot!(blocks_by_class(&layout), @"file data 1239, journal 256, inode 98, directory 27, allocation map 6, extent map 7, superblock 2, other metadata 78, free 2383");
}

#[test]
fn places_have_forty_bits() {
    let bytes = [0, 0, 0, 9, 8, 7, 6, 5, 3, 2, 1, 0xff, 0xfe, 0xfd, 0xfc, 0xfb];
    let mapped = Mapped::read(&Fields::new("jfs", 0, &bytes), 0).unwrap();
    assert_eq!(mapped.position, 0x09_0506_0708);
    assert_eq!(mapped.blocks, Blocks { first: 0xff_fbfc_fdfe, count: 0x01_0203 });
    assert_eq!(mapped.blocks.checked(1 << 39), None);
}

#[test]
fn what_does_not_fit_the_device_is_damage() {
    let mut short = IMAGE.changed(&[]);
    short.truncate(1 << 20);
    let error = read(&short).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the jfs file system is damaged at byte 32776: it has 16777216 bytes, more than the device; check it with its fsck");
}

#[test]
fn other_block_sizes_are_not_understood() {
    let mut changed = IMAGE.changed(&[]);
    changed.set(0x8000 + 16, &1024_u32.to_le_bytes());
    insta::assert_snapshot!(read(&changed).unwrap_err().to_string(), @"the jfs file system uses blocks of 1024 bytes, which is not supported");
}

#[test]
fn a_damaged_page_of_inodes_does_not_keep_the_rest_from_being_read() {
    let whole = read(&IMAGE.bytes()).unwrap();
    let mut changed = IMAGE.changed(&[]);
    // The first page of the map of the files' inodes: the second that its inode, 16, names. Its number.
    let place = IMAGE.bytes()[0xb000 + 16 * 512 + 224 + 32 + 12..][..4].try_into().unwrap();
    let page = (u32::from_le_bytes(place) as usize + 1) * 4096;
    changed.set(page + 8, &[0xff; 4]);
    let damaged = read(&changed).unwrap();
    insta::assert_snapshot!(damaged.remarks.join("\n"), @"damaged structures were skipped: 1, the first at byte 135176: page 0 of an inode map is missing; check the file system with its fsck");
    let metadata = |layout: &crate::Layout| layout.summary()[&crate::Class::AllocationMap];
    assert_eq!(metadata(&damaged), metadata(&whole));
    assert!(!damaged.summary().contains_key(&crate::Class::FileData));
}

proptest! {
    #[test]
    fn any_damage_gives_an_error_or_a_layout(changes in changes()) {
        assert_sound(read(&IMAGE.changed(&changes)));
    }
}
