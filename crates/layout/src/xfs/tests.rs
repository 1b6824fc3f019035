use std::sync::LazyLock;

use proptest::prelude::*;

use super::geometry::Geometry;
use crate::hostile::{Recorded, assert_sound, changes};
use crate::{LayoutError, read};

/// Without checksums, with trees of several levels; and with checksums, reverse maps and shared extents. Their logs were
/// formatted anew after the unmount, for the images' size.
static IMAGES: LazyLock<[Recorded; 2]> =
    LazyLock::new(|| ["xfs-without-checksums.img.gz", "xfs-shared.img.gz"].map(Recorded::unpack));

#[test]
fn recorded_images_have_everything() {
    let summaries = IMAGES.each_ref().map(|image| {
        let layout = read(&image.bytes()).unwrap();
        assert_eq!(layout.remarks, Vec::<String>::new());
        let summary = layout.summary().into_iter();
        let summary: Vec<String> =
            summary.map(|(class, bytes)| format!("{class} {}", bytes / layout.block_bytes)).collect();
        summary.join(", ")
    });
    insta::assert_snapshot!(summaries.join("\n"), @r"
file data 13967, journal 3072, inode 242, directory 76, allocation map 12, extent map 37, superblock 4, other metadata 104, free 15254
file data 529, journal 6144, inode 66, directory 16, allocation map 28, extent map 8, superblock 2, other metadata 66, free 17717
");
}

#[test]
fn features_that_are_not_understood_are_named() {
    let image = &IMAGES[1];
    // `sb_features_incompat`, `sb_versionnum`.
    for (at, value, says) in [
        (216, [0x80, 0, 0, 0].as_slice(), "incompatible features 0x80000000"),
        (216, &[0, 0, 2, 0], "zones on its own device"),
        (100, &[0xb4, 0xa6], "version 6 of its format"),
    ] {
        let mut changed = image.changed(&[]);
        changed.set(at, value);
        let error = read(&changed).unwrap_err();
        assert!(matches!(&error, LayoutError::Unsupported { feature, .. } if feature == says), "{error}");
    }
}

#[test]
fn what_does_not_fit_the_device_is_damage() {
    let mut short = IMAGES[0].changed(&[]);
    short.truncate(1 << 20);
    let error = read(&short).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the xfs file system is damaged at byte 8: it has 32768 blocks, more than fit on the device; check it with its fsck");
}

#[test]
fn a_damaged_group_does_not_keep_the_others_from_being_read() {
    let image = &IMAGES[0];
    let whole = read(&image.bytes()).unwrap();
    let second = Geometry::read(&image.bytes()).unwrap().ag_byte(1, 0) as usize;
    let mut changed = image.changed(&[]);
    // The inode header's name.
    changed.set(second + 1024, b"....");
    let damaged = read(&changed).unwrap();
    insta::assert_snapshot!(damaged.remarks.join("\n"), @"damaged structures were skipped: 1, the first at byte 16778240: the header XAGI of allocation group 1 is missing; check the file system with its fsck");
    let of_first = |layout: &crate::Layout| {
        let extents = layout.extents.iter().filter(|extent| extent.class == crate::Class::Inode);
        extents.filter(|extent| extent.end() <= second as u64).count()
    };
    assert_eq!(of_first(&damaged), of_first(&whole));
}

proptest! {
    #[test]
    fn any_damage_gives_an_error_or_a_layout(which in 0_usize..2, changes in changes()) {
        assert_sound(read(&IMAGES[which].changed(&changes)));
    }
}
