//! File systems in partitions that sfdisk made, held against the same file systems without a table.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod trees;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nestor_layout::{Class, Extent, Layout, LayoutError, ReadAt, read};
use nestor_stack::{Layer, PartitionOptions};
use proptest::prelude::*;
use trees::{Scratch, has_program, sparse_file, succeeds};

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;

fn installed() -> bool {
    let found = has_program("sfdisk") && has_program("mke2fs") && has_program("mkfs.xfs");
    if !found {
        eprintln!("skipped: sfdisk, mke2fs or mkfs.xfs is not installed");
    }
    found
}

fn layout_of(image: &Path) -> Layout {
    read(&File::open(image).expect("the image")).expect("a layout")
}

/// Writes a table with the command of the laboratory.
fn partition(image: &Path, table: &str) {
    let command = PartitionOptions::write_table(image.to_str().expect("text"));
    let mut sfdisk = Command::new(&command[0]);
    let mut sfdisk = sfdisk.args(&command[1..]).stdin(Stdio::piped()).spawn().expect("it runs");
    sfdisk.stdin.take().expect("a pipe").write_all(table.as_bytes()).expect("it reads");
    assert!(sfdisk.wait().expect("it ends").success(), "{table}");
}

/// Puts the bytes of a file where a partition begins.
fn copy_to(image: &Path, from: &Path, start: u64) {
    let of_image = File::options().write(true).open(image).expect("the image");
    let bytes = fs::read(from).expect("a file system");
    // Images are sparse.
    for (number, block) in bytes.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|b| *b != 0)) {
        of_image.write_all_at(block, start + 4096 * number as u64).expect("there is room");
    }
}

/// An ext2 with files, and an XFS.
struct FileSystems {
    scratch: Scratch,
}

impl FileSystems {
    fn new() -> Self {
        let scratch = Scratch::new();
        let tree = scratch.path("tree");
        fs::create_dir(&tree).expect("a directory");
        for number in 0..50 {
            fs::write(tree.join(number.to_string()), vec![1; 9000 * (number % 4)]).expect("a file");
        }
        sparse_file(&scratch.path("ext2"), 12 * MIB);
        let tree = tree.to_str().expect("text");
        succeeds(
            Command::new("mke2fs")
                .args(["-q", "-F", "-t", "ext2", "-b", "4096", "-d", tree])
                .arg(scratch.path("ext2")),
        );
        sparse_file(&scratch.path("xfs"), 320 * MIB);
        succeeds(Command::new("mkfs.xfs").arg("-q").arg(scratch.path("xfs")));
        Self { scratch }
    }

    /// A device with a table, and file systems where its partitions begin.
    fn on(&self, bytes: u64, table: &str, of: &[(&str, u64)]) -> Layout {
        let image = self.scratch.path("image");
        sparse_file(&image, bytes);
        partition(&image, table);
        for (name, start) in of {
            copy_to(&image, &self.scratch.path(name), *start);
        }
        layout_of(&image)
    }

    fn alone(&self, name: &str) -> Layout {
        layout_of(&self.scratch.path(name))
    }
}

/// The extents as they lie so many bytes later.
fn later(layout: &Layout, by: u64) -> Vec<Extent> {
    layout.extents.iter().map(|extent| Extent { start: extent.start + by, ..*extent }).collect()
}

fn from(layout: &Layout, start: u64) -> Vec<Extent> {
    layout.extents.iter().copied().filter(|extent| extent.start >= start).collect()
}

#[test]
fn a_file_system_in_a_partition_lies_as_much_later_as_the_partition_begins() {
    if !installed() {
        return;
    }
    let made = FileSystems::new();
    let alone = made.alone("ext2");
    for (start, start_bytes) in [("63s", 63 * SECTOR), ("1M", MIB), ("1s", SECTOR), ("2048s", MIB)] {
        let part = Layer::parse(&format!("part:start={start}")).expect("a layer").partition();
        let bytes = start_bytes + 12 * MIB;
        let table =
            part.expect("a partition").table(SECTOR, bytes / SECTOR).expect("it begins with a sector");
        let found = made.on(bytes, &table, &[("ext2", start_bytes)]);
        assert_eq!(from(&found, start_bytes), later(&alone, start_bytes), "{start}");
        assert_eq!((found.file_system.as_str(), found.block_bytes), ("ext2", 4096), "{start}");
        assert_eq!(found.total_bytes, bytes, "{start}");
        // The table.
        let table = found.extents[0];
        assert_eq!((table.start, table.bytes, table.class), (0, SECTOR, Class::OtherMetadata), "{start}");
        assert_eq!(found.remarks, alone.remarks, "{start}");
    }
}

#[test]
fn a_table_of_a_large_device_is_read_from_either_end() {
    if !installed() {
        return;
    }
    let made = FileSystems::new();
    // What the laboratory makes of more than 2^32 sectors.
    let bytes = 3 << 40;
    let part = Layer::parse("part").expect("a layer").partition().expect("a partition");
    let table = part.table(SECTOR, bytes / SECTOR).expect("it begins with a sector");
    assert!(table.starts_with("label: gpt"), "{table}");
    let found = made.on(bytes, &table, &[("ext2", MIB)]);
    let of_file_system = later(&made.alone("ext2"), MIB);
    assert_eq!(from(&found, MIB)[..of_file_system.len()], of_file_system);
    let image = made.scratch.path("image");
    let file = File::options().write(true).open(&image).expect("the image");
    file.write_all_at(&[0; 512], SECTOR).expect("the header is there");
    assert_eq!(from(&layout_of(&image), MIB)[..of_file_system.len()], of_file_system);
}

#[test]
fn file_systems_in_several_partitions_are_one_layout() {
    if !installed() {
        return;
    }
    let made = FileSystems::new();
    // A primary partition, one without a file system, and two in a chain.
    let (ext2, empty, chain, xfs, second) = (MIB, 14 * MIB, 20 * MIB, 22 * MIB, 350 * MIB);
    let line = |start: u64, bytes: u64, kind: &str| {
        format!("start={}, size={}, type={kind}\n", start / SECTOR, bytes / SECTOR)
    };
    let table = [
        "label: dos\nunit: sectors\n".to_owned(),
        line(ext2, 12 * MIB, "L"),
        line(empty, 4 * MIB, "82"),
        line(chain, 380 * MIB, "5"),
        "\n".to_owned(),
        line(xfs, 320 * MIB, "L"),
        line(second, 12 * MIB, "L"),
    ];
    let found = made.on(400 * MIB, &table.concat(), &[("ext2", ext2), ("xfs", xfs), ("ext2", second)]);
    assert_eq!(found.file_system, "ext2, xfs");
    let class_at = |byte: u64| found.pieces(byte, 1).next().expect("it is on the device").class;
    for (name, start) in [("ext2", ext2), ("xfs", xfs), ("ext2", second)] {
        for piece in made.alone(name).pieces(0, made.alone(name).total_bytes) {
            assert_eq!(class_at(start + piece.start), piece.class, "{name} at {start}: {piece:?}");
        }
    }
    assert_eq!(class_at(empty), Class::Unknown);
    assert_eq!(class_at(chain), Class::OtherMetadata, "the first table of the chain");
    // The same numbers in both of ext2 are other files.
    assert!(found.extents.iter().all(|extent| extent.inode.is_none()));
    assert!(found.remarks.iter().any(|remark| remark.contains(&empty.to_string())), "{:?}", found.remarks);
}

#[test]
fn what_was_made_last_counts() {
    if !installed() {
        return;
    }
    let made = FileSystems::new();
    let image = made.scratch.path("image");
    let table = "label: dos\nfirst-lba: 1\nunit: sectors\nstart=2048, type=linux\n";
    // A table over an older file system that it does not wipe.
    sparse_file(&image, 400 * MIB);
    copy_to(&image, &made.scratch.path("xfs"), 0);
    partition(&image, table);
    copy_to(&image, &made.scratch.path("ext2"), MIB);
    assert_eq!(layout_of(&image).file_system, "ext2");
    // File systems over an older table, with the one in its partition still there.
    let again: [&[&str]; 5] = [
        &["mke2fs", "-q", "-F", "-t", "ext4"],
        &["mkfs.xfs", "-q", "-f"],
        &["mkfs.jfs", "-q"],
        &["mkfs.btrfs", "-q", "-f"],
        &["mkreiserfs", "-q", "-f", "-f"],
    ];
    for command in again {
        if !has_program(command[0]) {
            eprintln!("not tried: {} is not installed", command[0]);
            continue;
        }
        sparse_file(&image, 400 * MIB);
        partition(&image, table);
        copy_to(&image, &made.scratch.path("ext2"), MIB);
        succeeds(Command::new(command[0]).args(&command[1..]).arg(&image));
        assert_ne!(layout_of(&image).file_system, "ext2", "{command:?}");
    }
}

#[test]
fn a_table_without_a_file_system_has_no_layout() {
    if !installed() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    sparse_file(&image, 4 * MIB);
    partition(&image, "label: dos\nunit: sectors\nstart=2048, type=linux\n");
    let nothing = || read(&File::open(&image).expect("the image")).expect_err("nothing is in it");
    assert!(matches!(nothing(), LayoutError::NotKnown), "{}", nothing());
    // What was on the whole device before is gone, whatever its superblock says.
    let made = FileSystems::new();
    sparse_file(&image, 400 * MIB);
    copy_to(&image, &made.scratch.path("xfs"), 0);
    partition(&image, "label: dos\nfirst-lba: 1\nunit: sectors\nstart=2048, type=linux\n");
    assert!(matches!(nothing(), LayoutError::NotKnown), "{}", nothing());
}

#[test]
fn the_backup_counts_where_a_table_is_not_what_its_checksum_says() {
    if !installed() {
        return;
    }
    let made = FileSystems::new();
    let layout = made.on(16 * MIB, "label: gpt\nunit: sectors\nstart=2048\n", &[("ext2", MIB)]);
    let image = made.scratch.path("image");
    let file = File::options().write(true).open(&image).expect("the image");
    // The first sector of the only entry; the number of entries in the header.
    for at in [2 * SECTOR + 32, SECTOR + 80] {
        file.write_all_at(&[0xff], at).expect("there is room");
        assert_eq!(layout_of(&image).extents.len(), layout.extents.len(), "{at}");
    }
}

/// A device with a few bytes changed.
struct Changed<'a> {
    bytes: &'a [u8],
    changes: Vec<(usize, Vec<u8>)>,
}

impl ReadAt for Changed<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.bytes.read_at(offset, buffer)?;
        for (at, value) in &self.changes {
            for (place, byte) in (*at as u64..).zip(value) {
                let within = place.checked_sub(offset).and_then(|within| buffer.get_mut(within as usize));
                if let Some(changed) = within {
                    *changed = *byte;
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

#[test]
fn whatever_a_table_says_reading_it_ends_with_what_a_layout_promises() {
    if !installed() {
        return;
    }
    let made = FileSystems::new();
    let tables = [
        (
            "label: dos\nunit: sectors\nstart=2048, size=26000\nstart=30000, type=5\n\nstart=33000\n",
            0..512_usize,
        ),
        ("label: gpt\nunit: sectors\nstart=2048\n", 446..1536),
    ];
    for (table, within) in tables {
        made.on(24 * MIB, table, &[("ext2", MIB)]);
        let bytes = fs::read(made.scratch.path("image")).expect("the image");
        let value = prop_oneof![
            prop::collection::vec(any::<u8>(), 1..9),
            (0_u64..1 << 18).prop_map(|number| number.to_le_bytes().to_vec()),
        ];
        let changes = prop::collection::vec((within, value), 1..6);
        let mut runner = proptest::test_runner::TestRunner::default();
        let checked = runner.run(&changes, |changes| {
            let Ok(layout) = read(&Changed { bytes: &bytes, changes }) else { return Ok(()) };
            for pair in layout.extents.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].start, "{pair:?}");
            }
            let end = layout.extents.last().map_or(0, Extent::end);
            prop_assert!(end <= layout.total_bytes && layout.total_bytes <= 24 * MIB);
            Ok(())
        });
        checked.unwrap_or_else(|error| panic!("{table}: {error}"));
    }
}
