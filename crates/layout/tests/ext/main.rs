//! Each block of real ext2, ext3 and ext4 file systems, held against what e2fsprogs says of it.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

#[path = "../trees/mod.rs"]
mod trees;
mod truth;

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nestor_layout::{Class, Layout, LayoutError, read};
use proptest::prelude::*;
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, setxattr};
use truth::{Truth, run};

fn installed() -> bool {
    let found = Command::new("mke2fs").arg("-V").stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: e2fsprogs is not installed");
    }
    found
}

/// A directory with what makes each kind of block: files with and without holes, many names, long links.
fn tree(directory: &Path) -> PathBuf {
    let root = directory.join("tree");
    fs::create_dir_all(root.join("many")).unwrap();
    for number in 0..600 {
        fs::write(root.join(format!("many/a-file-with-a-rather-long-name-{number}")), number.to_string())
            .unwrap();
    }
    fs::write(root.join("empty"), "").unwrap();
    fs::write(root.join("large"), vec![7; 700_000]).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    for number in 0..200_u64 {
        sparse.seek(SeekFrom::Start(number * 40_000)).unwrap();
        sparse.write_all(&[1; 5000]).unwrap();
    }
    drop(sparse);
    std::os::unix::fs::symlink("short", root.join("short-link")).unwrap();
    std::os::unix::fs::symlink("long/".repeat(50), root.join("long-link")).unwrap();
    root
}

fn make(directory: &Path, tree: Option<&Path>, bytes: u64, options: &str) -> PathBuf {
    let image = directory.join("image");
    File::create(&image).unwrap().set_len(bytes).unwrap();
    let mut arguments: Vec<&str> = vec!["-q", "-F"];
    arguments.extend(options.split_whitespace());
    if let Some(tree) = tree {
        arguments.extend(["-d", tree.to_str().unwrap()]);
    }
    arguments.push(image.to_str().unwrap());
    run("mke2fs", &arguments);
    image
}

/// Compares class, inode and position of every block.
fn compare(image: &Path, name: &str) -> Layout {
    let layout = read(&File::open(image).unwrap()).unwrap();
    let truth = Truth::ask(image);
    assert_eq!(layout.total_bytes, truth.blocks.len() as u64 * truth.block_bytes, "{name}");
    let mut wrong = Vec::new();
    for (block, used) in truth.blocks.iter().enumerate() {
        let start = block as u64 * truth.block_bytes;
        let pieces: Vec<_> = layout.pieces(start, truth.block_bytes).collect();
        let [piece] = pieces[..] else { panic!("{name}: block {block} has several uses: {pieces:?}") };
        let found = piece.extent.map(|extent| truth::Use {
            class: extent.class,
            inode: extent.inode,
            logical: extent.file_offset.map(|offset| (offset + start - extent.start) / truth.block_bytes),
        });
        let free_agrees = truth.clusters || truth.free[block] == (piece.class == Class::Free);
        if found != *used || !free_agrees {
            wrong.push(format!("block {block}: {found:?}, e2fsprogs: {used:?}, free {}", truth.free[block]));
        }
    }
    let shown = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{name}: {} of {} blocks differ\n{shown}", wrong.len(), truth.blocks.len());
    assert_eq!(layout.remarks, [""; 0], "{name}");
    layout
}

#[test]
fn every_block_is_what_e2fsprogs_says() {
    if !installed() {
        return;
    }
    let cases = [
        ("ext2", "-t ext2 -b 1024"),
        ("ext2", "-t ext2 -b 4096"),
        ("ext2", "-t ext2 -b 2048 -r 0 -O none"),
        ("ext2", "-t ext2 -b 1024 -O ^sparse_super,^resize_inode -g 2048"),
        ("ext2", "-t ext2 -b 1024 -O sparse_super2,^resize_inode -g 2048"),
        ("ext3", "-t ext3 -b 1024"),
        ("ext3", "-t ext3 -b 4096"),
        ("ext3", "-t ext3 -b 1024 -O meta_bg,^resize_inode -g 256 -N 4096"),
        ("ext4", "-t ext4 -b 1024"),
        ("ext4", "-t ext4 -b 4096"),
        ("ext4", "-t ext4 -b 4096 -I 128 -O ^metadata_csum,uninit_bg -g 2048"),
        ("ext4", "-t ext4 -b 1024 -O ^flex_bg,^64bit -g 1024"),
        ("ext4", "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 256 -N 4096"),
        ("ext4", "-t ext4 -b 4096 -O sparse_super2 -E num_backup_sb=2 -g 2048"),
        ("ext4", "-t ext4 -b 4096 -O bigalloc -C 16384"),
        ("ext4", "-t ext4 -b 1024 -O bigalloc,^resize_inode -C 8192"),
        ("ext4", "-t ext4 -b 4096 -O inline_data,ea_inode,quota,project,mmp,orphan_file"),
        ("ext4", "-t ext4 -b 4096 -O ^extents,^64bit,^flex_bg"),
        ("ext4", "-t ext4 -b 4096 -E packed_meta_blocks=1 -J size=4"),
    ];
    let directory = tempfile::tempdir().unwrap();
    let tree = tree(directory.path());
    for (name, options) in cases {
        let image = make(directory.path(), Some(&tree), 48 << 20, options);
        let layout = compare(&image, options);
        assert_eq!(layout.file_system, name, "{options}");
    }
}

/// The tree has everything that the comparison is meant to see.
#[test]
fn the_tree_makes_every_class() {
    if !installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = tree(directory.path());
    for options in ["-t ext3 -b 1024", "-t ext4 -b 1024"] {
        let image = make(directory.path(), Some(&tree), 48 << 20, options);
        let summary = read(&File::open(image).unwrap()).unwrap().summary();
        let classes: Vec<Class> = summary.keys().copied().collect();
        let expected = [
            Class::FileData,
            Class::Journal,
            Class::Inode,
            Class::Directory,
            Class::AllocationMap,
            Class::ExtentMap,
            Class::Superblock,
            Class::OtherMetadata,
            Class::Free,
        ];
        assert_eq!(classes, expected, "{options}");
    }
}

#[test]
fn the_ranges_of_a_file_hold_its_contents() {
    if !installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = tree(directory.path());
    for options in ["-t ext2 -b 1024", "-t ext4 -b 4096"] {
        let image = make(directory.path(), Some(&tree), 48 << 20, options);
        let device = File::open(&image).unwrap();
        let mut layout = read(&device).unwrap();
        let stat = run("debugfs", &["-R", "stat sparse", image.to_str().unwrap()]);
        let inode = stat.split_whitespace().nth(1).unwrap().parse().unwrap();
        let expected = fs::read(tree.join("sparse")).unwrap();
        let mut found = vec![0; expected.len()];
        for (position, start, bytes) in layout.file(inode) {
            let mut part = vec![0; bytes as usize];
            device.read_exact_at(&mut part, start).unwrap();
            let length = part.len().min(found.len() - position as usize);
            found[position as usize..][..length].copy_from_slice(&part[..length]);
        }
        assert!(found == expected, "{options}: the contents differ");
        let data = layout.summary()[&Class::FileData];
        let renamed = layout.rename(inode, Class::ImageData);
        assert!(renamed >= 200 * 5000);
        assert_eq!(layout.summary()[&Class::ImageData], renamed);
        assert_eq!(layout.summary()[&Class::FileData], data - renamed);
        assert!(!layout.file(inode).is_empty());
    }
}

/// A loop mount, undone at the end.
struct Mount(PathBuf);

impl Mount {
    fn new(image: &Path, directory: &Path) -> Option<Self> {
        let point = directory.join("mounted");
        fs::create_dir_all(&point).unwrap();
        let mut command = Command::new("mount");
        command.args(["-o", "loop,user_xattr"]).arg(image).arg(&point).stderr(Stdio::null());
        let mounted = command.status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: nothing can be mounted here (needs root)");
            return None;
        }
        Some(Self(point))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        trees::unmount(&self.0);
    }
}

/// Creates, appends, renames, deletes, cuts off, preallocates.
fn exercise(root: &Path) {
    for number in 0..40 {
        let deep = root.join(format!("directory-{number}/inner/inner"));
        fs::create_dir_all(&deep).unwrap();
        for file in 0..20 {
            fs::write(deep.join(format!("file-{file}")), vec![number as u8; file * 700]).unwrap();
        }
    }
    let mut files: Vec<File> =
        (0..3).map(|n| File::create(root.join(format!("grown-{n}"))).unwrap()).collect();
    // Grown in turn and synced, so that their blocks interleave.
    for _ in 0..60 {
        for file in &mut files {
            file.write_all(&[5; 9000]).unwrap();
            file.sync_all().unwrap();
        }
    }
    files[0].set_len(100_000).unwrap();
    fs::rename(root.join("grown-1"), root.join("directory-1/renamed")).unwrap();
    fs::remove_file(root.join("grown-2")).unwrap();
    for number in (0..40).step_by(3) {
        fs::remove_dir_all(root.join(format!("directory-{number}"))).unwrap();
    }
    let mut sparse = File::create(root.join("holes")).unwrap();
    for number in 0..300_u64 {
        sparse.seek(SeekFrom::Start(number * number * 3000)).unwrap();
        sparse.write_all(b"not a hole").unwrap();
    }
    // Some equal, so that they share a block, and one too large for a block.
    for (number, file) in ["holes", "grown-0", "directory-1/renamed", "preallocated"].into_iter().enumerate()
    {
        let path = root.join(file);
        let file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let value = [b'v'; 500 + 100 * 4];
        setxattr(&path, "user.equal", &value, XattrFlags::empty()).unwrap();
        if number == 2 {
            setxattr(&path, "user.other", &value[..50], XattrFlags::empty()).unwrap();
            // Only with `ea_inode`.
            let _ = setxattr(&path, "user.large", &[b'l'; 9000], XattrFlags::empty());
        }
        // Not ext2 and ext3.
        let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 1 << 20, 300_000);
    }
    std::os::unix::fs::symlink("x".repeat(800), root.join("link")).unwrap();
}

#[test]
fn every_block_is_what_e2fsprogs_says_after_use() {
    if !installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        "-t ext2 -b 1024",
        "-t ext2 -b 4096",
        "-t ext3 -b 1024",
        "-t ext3 -b 4096",
        "-t ext4 -b 1024 -g 2048",
        "-t ext4 -b 4096",
        "-t ext4 -b 4096 -O bigalloc,ea_inode,inline_data,orphan_file -C 16384",
    ];
    for options in cases {
        let image = make(directory.path(), None, 96 << 20, options);
        let Some(mount) = Mount::new(&image, directory.path()) else { return };
        exercise(&mount.0);
        let journal = !options.contains("ext2");
        if journal {
            let busy = read(&File::open(&image).unwrap()).unwrap();
            assert!(busy.remarks[0].starts_with("the journal has not been replayed"), "{options}");
        }
        drop(mount);
        let summary = compare(&image, options).summary();
        for class in [Class::Directory, Class::ExtentMap, Class::OtherMetadata] {
            assert!(summary.contains_key(&class), "{options}: nothing of {class}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    if !installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(read(&&[0_u8; 100_000][..]), Err(LayoutError::NotKnown)));
    assert!(matches!(read(&&[][..]), Err(LayoutError::NotKnown)));
    insta::assert_snapshot!(
        LayoutError::NotKnown,
        @"the device has no file system whose layout can be read (ext2, ext3, ext4, xfs, jfs, reiserfs, btrfs, f2fs, nilfs2), and no partition with one"
    );
    let journal = make(directory.path(), None, 8 << 20, "-O journal_dev -b 4096");
    let error = read(&File::open(&journal).unwrap()).unwrap_err();
    insta::assert_snapshot!(error, @"the ext4 file system uses the whole device as the journal of another, which is not supported");
    let image = make(directory.path(), None, 8 << 20, "-t ext4 -b 1024");
    let file = fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    file.set_len(1 << 20).unwrap();
    insta::assert_snapshot!(read(&file).unwrap().remarks.join("\n"), @r"
    the file system has 8388608 bytes, the device only 1048576
    608256 bytes, the first at byte 625664, are claimed beyond the end of the file system: it is damaged or was in use; check it with its fsck
    ");
    file.write_all_at(&[0xff; 4], 1024 + 0x20).unwrap();
    insta::assert_snapshot!(read(&file).unwrap_err(), @"the ext4 file system is damaged at byte 1056: 4294967295 blocks per group; check it with its fsck");
}

/// A small file system for damage, with all that has pointers: 1 MiB in memory.
fn small_images() -> Vec<Vec<u8>> {
    if !installed() {
        return Vec::new();
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    fs::create_dir_all(root.join("inner")).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    for number in 0..60_u64 {
        sparse.seek(SeekFrom::Start(number * 9000)).unwrap();
        sparse.write_all(&[1; 2000]).unwrap();
    }
    let options = [
        "-t ext2 -b 1024 -N 64",
        "-t ext4 -b 1024 -N 64 -O ^has_journal",
        "-t ext4 -b 1024 -g 256 -O meta_bg,^resize_inode,^has_journal",
    ];
    options
        .iter()
        .map(|options| fs::read(make(directory.path(), Some(&root), 1 << 20, options)).unwrap())
        .collect()
}

#[test]
fn damage_never_panics_and_never_overlaps() {
    let images = small_images();
    if images.is_empty() {
        return;
    }
    // Where damage does something: superblock and descriptors, inode tables, and anywhere.
    let place = prop_oneof![1024_usize..1400, 2048_usize..4096, 0_usize..(1 << 20), 0_usize..(100 << 10)];
    let byte = prop_oneof![Just(0_u8), Just(0xff), any::<u8>()];
    let damage = prop::collection::vec((place, byte), 1..40);
    let configuration = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(configuration, |(which in 0..images.len(), damage in damage)| {
        let mut image = images[which].clone();
        for (place, byte) in damage {
            image[place] = byte;
        }
        if let Ok(layout) = read(&&image[..]) {
            prop_assert!(layout.total_bytes <= image.len() as u64);
            for pair in layout.extents.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].start, "{:?}", pair);
            }
            prop_assert!(layout.extents.last().is_none_or(|last| last.end() <= layout.total_bytes));
            prop_assert_eq!(layout.summary().values().sum::<u64>(), layout.total_bytes);
        }
    });
}
