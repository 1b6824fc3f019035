//! NILFS2 against what its kernel said of every file and directory.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod lab;
mod trees;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use nestor_layout::{Class, Layout};
use trees::contents::{by_kernel, by_layout};
use trees::{Scratch, has_program, recorded, sparse_file, succeeds};

const BLOCK: u64 = 4096;
const SUPERBLOCK: u64 = 1024;

fn layout(image: &Path) -> Layout {
    nestor_layout::read(&File::open(image).expect("the image")).expect("a layout")
}

/// The blocks of files in their newest state: those of older ones have no position.
fn newest(mut layout: Layout) -> Layout {
    layout.extents.retain(|extent| extent.class != Class::FileData || extent.file_offset.is_some());
    layout
}

/// Blocks of directories by the kernel, each with its inode.
fn directories(said: &str) -> BTreeSet<(u64, u64)> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("directory "));
    let runs = lines.map(|line| {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        <[u64; 4]>::try_from(numbers).expect("four numbers")
    });
    runs.flat_map(|[inode, _, block, blocks]| (block..block + blocks).map(move |block| (inode, block)))
        .collect()
}

fn compare(image: &Path, said: &str) {
    let layout = layout(image);
    assert_eq!((layout.file_system.as_str(), &layout.remarks), ("nilfs2", &Vec::new()));
    for (inode, block) in directories(said) {
        let piece = layout.pieces(block * BLOCK, BLOCK).next().expect("it is not empty");
        let found = piece.extent.map(|extent| (extent.class, extent.inode));
        assert_eq!(found, Some((Class::Directory, Some(inode))), "block {block}");
    }
    for class in
        [Class::Directory, Class::Inode, Class::ExtentMap, Class::AllocationMap, Class::OtherMetadata]
    {
        assert!(layout.summary()[&class] > 0, "{class}");
    }
    let (kernel, ours) = (by_kernel(said), by_layout(&newest(layout)));
    assert!(kernel.len() > 1000);
    let differing: Vec<_> = kernel.symmetric_difference(&ours).take(10).collect();
    assert!(differing.is_empty(), "contents differ, such as {differing:?}");
    assert!(ours.iter().any(|(_, position, _)| *position == (9 << 30) / BLOCK));
}

#[test]
fn every_file_of_a_recorded_file_system_is_where_its_kernel_says() {
    let scratch = Scratch::new();
    let (image, files) = (scratch.path("image"), scratch.path("files"));
    recorded("nilfs2-used.img.gz", &image);
    recorded("nilfs2-used.files.gz", &files);
    compare(&image, &fs::read_to_string(files).expect("text"));
}

#[test]
#[ignore = "boots a machine from the lab image; part of `make test-long`"]
fn every_file_of_a_large_file_system_is_where_its_kernel_says() {
    if !has_program("mkfs.nilfs2") {
        eprintln!("not tried: this needs nilfs-tools");
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    sparse_file(&image, 1 << 30);
    succeeds(Command::new("mkfs.nilfs2").args(["-q", "-f"]).arg(&image));
    if let Some(said) = lab::exercise_in_lab("exercise-nilfs2", &[&image]) {
        compare(&image, &said);
    }
}

#[test]
fn a_new_file_system_has_its_root_whatever_was_on_the_device_before() {
    if !has_program("mkfs.nilfs2") {
        eprintln!("not tried: this needs nilfs-tools");
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    let befores =
        [&["true"][..], &["mkfs.ext4", "-q", "-F"], &["mkfs.xfs", "-q", "-f"], &["mkfs.btrfs", "-q", "-f"]];
    for (block_bytes, before) in [1024, 2048, 4096, 4096].into_iter().zip(befores) {
        sparse_file(&image, 400 << 20);
        if has_program(before[0]) {
            succeeds(Command::new(before[0]).args(&before[1..]).arg(&image));
        }
        let size = format!("{block_bytes}");
        succeeds(Command::new("mkfs.nilfs2").args(["-q", "-f", "-b", &size, "-B", "512"]).arg(&image));
        let made = layout(&image);
        assert_eq!((made.block_bytes, &made.remarks[..]), (block_bytes, &[][..]), "{before:?}");
        // Checkpoints, and the ifile's descriptors, bitmap and inodes, of which a small block does not hold all.
        let inodes = if block_bytes == 1024 { 5 } else { 4 };
        let blocks = |class| made.summary()[&class] / block_bytes;
        let found = (blocks(Class::Directory), blocks(Class::Inode), blocks(Class::AllocationMap));
        assert_eq!(found, (1, inodes, 1), "{size}");
        fs::remove_file(&image).expect("it was there");
    }
}

#[test]
fn a_device_without_its_first_superblock_is_not_taken_for_one() {
    let scratch = Scratch::new();
    let image = scratch.path("image");
    recorded("nilfs2-used.img.gz", &image);
    let file = File::options().read(true).write(true).open(&image).expect("the image");
    file.write_all_at(&[0; 280], SUPERBLOCK).expect("it can be written to");
    assert!(nestor_layout::read(&file).is_err());
}
