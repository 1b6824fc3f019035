//! ReiserFS, block by block against `debugreiserfs`.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod lab;
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use lab::exercise_in_lab;
use nestor_layout::{Class, Layout};
use trees::{Scratch, has_program, recorded, sparse_file, succeeds};

/// What a block is for, by the tool: class, inode, position in the file in blocks.
type Use = (Class, Option<u64>, Option<u64>);

/// Everything the tool says.
#[derive(Debug, Default)]
struct Dump {
    block_bytes: u64,
    blocks: u64,
    uses: BTreeMap<u64, Use>,
    busy: Vec<Range<u64>>,
}

fn debugreiserfs(option: &str, image: &Path) -> String {
    let output = Command::new("/sbin/debugreiserfs").arg(option).arg(image).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The number after `label`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let rest = text.split_once(label)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

impl Dump {
    fn of(image: &Path) -> Self {
        let bitmaps = debugreiserfs("-m", image);
        let mut dump = Self {
            block_bytes: number_after(&bitmaps, "Blocksize:").expect("a block size"),
            blocks: number_after(&bitmaps, "Count of blocks on the device:").expect("a number of blocks"),
            ..Self::default()
        };
        dump.fixed_places(&bitmaps);
        dump.tree(&debugreiserfs("-d", image));
        dump
    }

    fn claim(&mut self, blocks: Range<u64>, class: Class) {
        for block in blocks {
            assert_eq!(self.uses.insert(block, (class, None, None)), None, "block {block} is claimed twice");
        }
    }

    fn fixed_places(&mut self, text: &str) {
        let superblock = number_after(text, "super block in block").expect("a superblock");
        self.claim(0..superblock, Class::OtherMetadata);
        self.claim(superblock..superblock + 1, Class::Superblock);
        for line in text.lines().filter(|line| line.starts_with('#')) {
            let bitmap = number_after(line, "block").expect("a bitmap's place");
            self.claim(bitmap..bitmap + 1, Class::AllocationMap);
            for busy in line.replace("Busy (", "Busy(").split("Busy(").skip(1) {
                let (first, rest) = busy.split_once('-').expect("a range");
                let (last, _) = rest.split_once(')').expect("a range's end");
                self.busy.push(first.parse().unwrap()..last.parse::<u64>().unwrap() + 1);
            }
        }
        let reserved = number_after(text, "Blocks reserved by journal:").expect("a number");
        let elsewhere = !text.contains("Device [0x0]");
        let journal = text.find("Size ").map(|at| &text[at..]).expect("a journal");
        let blocks = number_after(journal, "Size").expect("its size");
        let first = number_after(journal, "(first block").expect("its place");
        if reserved > 0 {
            self.claim(superblock + 2..superblock + 2 + reserved, Class::Journal);
        }
        if !elsewhere && !self.uses.contains_key(&first) {
            self.claim(first..first + blocks, Class::Journal);
        }
    }

    fn tree(&mut self, text: &str) {
        let mut leaf = None;
        let mut kinds: Vec<&str> = Vec::new();
        let mut item = (0, 0);
        for line in text.lines().chain(["LEAF NODE (0)"]) {
            let is_internal = line.starts_with("INTERNAL NODE (");
            if line.starts_with("LEAF NODE (") || is_internal {
                if let Some(leaf) = leaf.take() {
                    self.claim(leaf..leaf + 1, leaf_class(&kinds));
                }
                kinds.clear();
                let block = number_after(line, "NODE (").expect("a block");
                match is_internal {
                    true => self.claim(block..block + 1, Class::MixedMetadata),
                    false if block != 0 => leaf = Some(block),
                    false => {}
                }
            } else if line.starts_with('|') && line.contains(", len ") {
                // |  5|2 4 0x1 IND (1), len 72, location …
                let words: Vec<&str> =
                    line.rsplit('|').find(|part| part.contains(", len ")).unwrap().split(' ').collect();
                let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
                kinds.push(match words[3] {
                    "SD" => "SD",
                    "IND" => "IND",
                    "DIR" => "DIR",
                    _ => "other",
                });
                let offset = u64::from_str_radix(words[2].trim_start_matches("0x"), 16).unwrap();
                item = (words[1].parse().unwrap(), offset);
            } else if let Some(list) =
                line.strip_prefix('[').and_then(|list| list.trim_end().strip_suffix(']'))
            {
                self.pointers(item.0, (item.1 - 1) / self.block_bytes, list);
            }
        }
    }

    /// `8212(18) 0(3) 8300`: 18 blocks from 8212 on, a hole of three, a block.
    fn pointers(&mut self, inode: u64, mut position: u64, list: &str) {
        for run in list.split_whitespace() {
            let (first, count) = run.split_once('(').unwrap_or((run, "1)"));
            let first: u64 = first.parse().expect("a block");
            let count: u64 = count.trim_end_matches(')').parse().expect("a number of blocks");
            for at in 0..count {
                if first != 0 {
                    let before =
                        self.uses.insert(first + at, (Class::FileData, Some(inode), Some(position + at)));
                    assert_eq!(before, None, "block {} is claimed twice", first + at);
                }
            }
            position += count;
        }
    }
}

fn leaf_class(kinds: &[&str]) -> Class {
    let all = |kind| kinds.iter().all(|&k| k == kind);
    match kinds {
        [] => Class::MixedMetadata,
        _ if all("SD") => Class::Inode,
        _ if all("DIR") => Class::Directory,
        _ if all("IND") => Class::ExtentMap,
        _ => Class::MixedMetadata,
    }
}

fn layout_of(image: &Path) -> Layout {
    nestor_layout::read(&File::open(image).expect("the image is there")).expect("it has a layout")
}

/// The layout as the tool shows it: one use for each block.
fn uses(layout: &Layout) -> BTreeMap<u64, Use> {
    let mut uses = BTreeMap::new();
    for extent in &layout.extents {
        assert_eq!(
            (extent.start % layout.block_bytes, extent.bytes % layout.block_bytes),
            (0, 0),
            "{extent:?}"
        );
        for at in 0..extent.bytes / layout.block_bytes {
            let position = extent.file_offset.map(|offset| offset / layout.block_bytes + at);
            uses.insert(extent.start / layout.block_bytes + at, (extent.class, extent.inode, position));
        }
    }
    uses
}

/// Compares every block; returns what the image had, for tests to see that it was worth comparing.
fn assert_agrees(image: &Path, truth: &Path) -> BTreeMap<Class, u64> {
    let layout = layout_of(image);
    let dump = Dump::of(truth);
    assert_eq!(layout.file_system, "reiserfs");
    assert_eq!(layout.block_bytes, dump.block_bytes);
    assert_eq!(layout.total_bytes, dump.block_bytes * dump.blocks);
    let found = uses(&layout);
    let busy: BTreeSet<u64> =
        dump.busy.iter().cloned().flatten().filter(|&block| block < dump.blocks).collect();
    let used: BTreeSet<u64> = found.keys().copied().collect();
    let differ: Vec<&u64> = used.symmetric_difference(&busy).take(10).collect();
    assert!(differ.is_empty(), "the bitmaps of {image:?} are of another opinion on {differ:?}");
    for block in 0..dump.blocks {
        assert_eq!(
            found.get(&block),
            dump.uses.get(&block),
            "block {block} of {image:?}; left: the layout, right: the tool"
        );
    }
    assert!(!found.values().any(|(class, ..)| *class == Class::Unknown));
    layout.summary()
}

/// An empty file system; none if the tools are not installed.
fn mkfs(image: &Path, bytes: u64, options: &[&str]) -> bool {
    if !has_program("mkfs.reiserfs") || !has_program("debugreiserfs") {
        eprintln!("not tried: reiserfsprogs is not installed");
        return false;
    }
    sparse_file(image, bytes);
    succeeds(Command::new("/sbin/mkfs.reiserfs").args(["-q", "-ff"]).args(options).arg(image));
    true
}

#[test]
fn empty_file_systems_of_every_shape_agree_with_debugreiserfs() {
    let scratch = Scratch::new();
    let shapes: [(&str, u64, &[&str]); 6] = [
        ("standard", 64 << 20, &[]),
        ("3.5", 64 << 20, &["--format", "3.5"]),
        ("small-journal", 64 << 20, &["-s", "513"]),
        ("three-bitmaps", 300 << 20, &[]),
        ("small-blocks", 64 << 20, &["-b", "1024", "-s", "600"]),
        ("many-bitmaps", 140 << 20, &["-b", "1024"]),
    ];
    for (name, bytes, options) in shapes {
        let image = scratch.path(name);
        if !mkfs(&image, bytes, options) {
            return;
        }
        assert_agrees(&image, &image);
        assert_eq!(layout_of(&image).remarks, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_journal_on_another_device_leaves_its_place_reserved() {
    let scratch = Scratch::new();
    let (image, journal) = (scratch.path("image"), scratch.path("journal"));
    sparse_file(&journal, 40 << 20);
    let option = journal.display().to_string();
    if !mkfs(&image, 64 << 20, &["-j", &option]) {
        return;
    }
    assert_agrees(&image, &image);
}

/// Classes that an image must have for a comparison to say something.
fn assert_has(summary: &BTreeMap<Class, u64>, classes: &[Class]) {
    for class in classes {
        assert!(summary.get(class).is_some_and(|&bytes| bytes > 0), "no {class}: {summary:?}");
    }
}

const IN_A_USED_ONE: [Class; 4] = [Class::FileData, Class::Directory, Class::MixedMetadata, Class::Journal];

/// A used file system whose last transactions are in the journal only: what a mount would see is what it has after the
/// tool has replayed them in a copy.
fn assert_agrees_after_replay(image: &Path, copy: &Path) {
    succeeds(Command::new("cp").arg("--sparse=always").args([image, copy]));
    let before = debugreiserfs("-d", copy);
    succeeds(Command::new("/sbin/reiserfsck").args(["--check", "--yes", "--quiet"]).arg(copy));
    assert!(before != debugreiserfs("-d", copy), "there was nothing to replay");
    assert_has(&assert_agrees(image, copy), &IN_A_USED_ONE);
    let remarks = layout_of(image).remarks;
    assert!(remarks.len() == 1 && remarks[0].contains("read from the journal"), "{remarks:?}");
}

#[test]
fn a_recorded_file_system_that_lost_power_is_read_as_a_mount_would_see_it() {
    if !has_program("debugreiserfs") {
        eprintln!("not tried: reiserfsprogs is not installed");
        return;
    }
    let scratch = Scratch::new();
    let (image, copy) = (scratch.path("image"), scratch.path("copy"));
    recorded("reiserfs-power-loss.img.gz", &image);
    assert_agrees_after_replay(&image, &copy);
}

#[test]
#[ignore = "boots a machine from the lab image; part of `make test-long`"]
fn file_systems_used_by_a_kernel_agree_with_debugreiserfs() {
    let scratch = Scratch::new();
    let (unmounted, lost_power, small) = (scratch.path("a"), scratch.path("b"), scratch.path("c"));
    if !mkfs(&unmounted, 300 << 20, &[]) {
        return;
    }
    mkfs(&lost_power, 64 << 20, &[]);
    mkfs(&small, 64 << 20, &["-s", "513"]);
    if exercise_in_lab("exercise-reiserfs", &[&unmounted, &lost_power, &small]).is_none() {
        return;
    }
    assert_has(&assert_agrees(&unmounted, &unmounted), &IN_A_USED_ONE);
    assert_eq!(layout_of(&unmounted).remarks, Vec::<String>::new());
    assert_agrees_after_replay(&lost_power, &scratch.path("copy of b"));
    assert_agrees_after_replay(&small, &scratch.path("copy of c"));
}
