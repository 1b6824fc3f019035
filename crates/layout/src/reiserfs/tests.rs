use std::sync::LazyLock;

use proptest::prelude::*;

use super::journal;
use super::superblock::Superblock;
use crate::hostile::{Recorded, assert_sound, blocks_by_class, changes};
use crate::layout::Class;
use crate::read;

static IMAGE: LazyLock<Recorded> = LazyLock::new(|| Recorded::unpack("reiserfs-power-loss.img.gz"));

#[test]
fn a_recorded_image_has_everything() {
    let layout = read(&IMAGE.bytes()).unwrap();
    insta::assert_snapshot!(blocks_by_class(&layout), @"file data 94, journal 513, directory 5, allocation map 1, superblock 1, other metadata 16, mixed metadata 10, free 3456");
    insta::assert_snapshot!(layout.remarks.join("\n"), @"50 transactions had not been written back from the journal; they were read from the journal");
    // A file with holes, in blocks: a block at 100, three at 700.
    let blocks: Vec<(u64, u64)> =
        layout.file(5).iter().map(|(at, _, bytes)| (at >> 12, bytes >> 12)).collect();
    assert_eq!(blocks, [(100, 1), (700, 3)]);
}

#[test]
fn what_only_the_bitmap_knows_is_unknown_and_what_it_does_not_know_is_remarked() {
    let mut image = IMAGE.changed(&[]);
    // The bitmap in block 17 is read from the journal if that has a newer one.
    let superblock = Superblock::read(&IMAGE.bytes()).unwrap();
    let newer = journal::committed(&IMAGE.bytes(), &superblock).unwrap().newer;
    let newest = newer.get(&17).copied().unwrap_or(17) as usize * 4096;
    let bitmap = image.part(newest, 4096);
    let (free, used) = (4000, 2050);
    assert_eq!((bitmap[free / 8] >> (free % 8) & 1, bitmap[used / 8] >> (used % 8) & 1), (0, 1));
    image.set(newest + free / 8, &[bitmap[free / 8] | 1 << (free % 8)]);
    image.set(newest + used / 8, &[bitmap[used / 8] & !(1 << (used % 8))]);
    let layout = read(&image).unwrap();
    let unknown: Vec<u64> =
        layout.extents.iter().filter(|e| e.class == Class::Unknown).map(|e| e.start >> 12).collect();
    assert_eq!(unknown, [free as u64]);
    insta::assert_snapshot!(layout.remarks[1..].join("\n"), @r"
    4096 bytes are marked as in use but belong to nothing: they are reserved for open files, or lost; reiserfsck shows which
    4096 bytes are in use but marked as free: the file system was in use or is damaged; check it with reiserfsck
    ");
}

proptest! {
    #[test]
    fn damaged_file_systems_are_read_to_an_end(changes in changes(), cut in 0_usize..40) {
        let mut image = IMAGE.changed(&changes);
        image.truncate(IMAGE.bytes().len() - (cut.saturating_sub(36) << 22));
        assert_sound(read(&image));
    }
}
