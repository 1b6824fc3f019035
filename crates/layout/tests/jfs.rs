//! JFS against its own map of used blocks and its debugger.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod lab;
mod trees;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nestor_layout::{Class, Layout};
use trees::contents::{by_kernel, by_layout};
use trees::{Scratch, has_program, recorded, sparse_file, succeeds};

const PAGE: u64 = 4096;

fn layout(image: &Path) -> Layout {
    nestor_layout::read(&File::open(image).expect("the image")).expect("a layout")
}

fn make(image: &Path, bytes: u64) {
    sparse_file(image, bytes);
    succeeds(Command::new("mkfs.jfs").arg("-q").arg(image));
}

/// Whether the tests can run here; says so if not.
fn can_run() -> bool {
    let tools = has_program("mkfs.jfs") && has_program("jfs_debugfs");
    if !tools {
        eprintln!("not tried: this needs jfsutils");
    }
    tools
}

/// The little-endian number of `N` bytes at a position of the image.
fn number<const N: usize>(image: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    image.read_exact_at(&mut bytes[..N], at).expect("the image is that long");
    u64::from_le_bytes(bytes)
}

/// The blocks that the file system's own map says are used, and how many it covers. Each page of the map has 8192 bits
/// in its last kilobyte, highest first in words of 32 (`struct dmap` in the kernel's `jfs_dmap.h`); the map's own place
/// is that of its inode, 2, whose first extents are in it. `BLKTODMAP` says which page is for a block.
fn used_blocks(image: &Path) -> (BTreeSet<u64>, u64) {
    let image = File::open(image).expect("the image");
    let inode = 0xb000 + 2 * 512;
    let mut pages = Vec::new();
    for entry in 2..number::<2>(&image, inode + 224 + 18) {
        let at = inode + 224 + entry * 16;
        let first = number::<4>(&image, at + 12);
        pages.extend(first..first + number::<3>(&image, at + 8));
    }
    let blocks = number::<8>(&image, pages[0] * PAGE);
    let used = (0..blocks).filter(|block| {
        let page = pages[((block >> 13) + (block >> 23) + (block >> 33) + 4) as usize];
        let word = page * PAGE + 3072 + block % 8192 / 32 * 4;
        number::<4>(&image, word) << (block % 32) & 0x8000_0000 != 0
    });
    (used.collect(), blocks)
}

/// Compares every block with the map; returns how many are used.
fn compare_with_map(image: &Path, layout: &Layout) -> usize {
    let (used, blocks) = used_blocks(image);
    assert!(blocks > 1000);
    let ours: BTreeSet<u64> = (0..blocks)
        .filter(|block| {
            let pieces: Vec<_> = layout.pieces(block * PAGE, PAGE).collect();
            assert_eq!(pieces.len(), 1, "block {block} has one use: {pieces:?}");
            pieces[0].class != Class::Free
        })
        .collect();
    let differing: Vec<_> = ours.symmetric_difference(&used).take(10).collect();
    assert!(differing.is_empty(), "the map and the layout differ in blocks such as {differing:?}");
    used.len()
}

/// What the debugger answers to commands.
fn debug(image: &Path, commands: &str) -> String {
    let mut debugger = Command::new("jfs_debugfs")
        .arg(image)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = debugger.stdin.take().expect("it is piped");
    let commands = format!("{commands}\nquit\n");
    let writer = std::thread::spawn(move || input.write_all(commands.as_bytes()));
    let output = debugger.wait_with_output().expect("it ends");
    writer.join().expect("it ends").expect("it reads");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_block_of_a_new_file_system_is_classed() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    for mebibytes in [16, 64, 1000, 40_000] {
        make(&image, mebibytes << 20);
        let layout = layout(&image);
        assert_eq!((layout.file_system.as_str(), &layout.remarks), ("jfs", &Vec::new()));
        assert_eq!(layout.total_bytes, mebibytes << 20);
        if mebibytes <= 1000 {
            compare_with_map(&image, &layout);
        }
        fs::remove_file(&image).expect("it was there");
    }
}

/// What of an inode is of a class.
fn of_inode(layout: &Layout, inode: u64, class: Class) -> Vec<(u64, u64)> {
    let extents = layout.extents.iter().filter(|extent| extent.inode == Some(inode) && extent.class == class);
    extents.map(|extent| (extent.start / PAGE, extent.bytes / PAGE)).collect()
}

/// The numbers behind a label in what the debugger says.
fn numbers_after(said: &str, label: &str) -> Vec<u64> {
    let rests = said.match_indices(label).map(|(at, _)| said[at + label.len()..].trim_start());
    rests
        .filter_map(|rest| {
            let word = rest.split_whitespace().next()?;
            match word.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => word.parse().ok(),
            }
        })
        .collect()
}

/// Compares what the debugger says about directories, attributes and links that the exercise makes.
fn compare_with_debugger(image: &Path, layout: &Layout) {
    let root = debug(image, "dir 2");
    let inode = |name: &str| -> u64 {
        let line = root
            .lines()
            .find(|line| line.split('\t').nth(1) == Some(name))
            .unwrap_or_else(|| panic!("{root}"));
        line.split('\t')
            .next()
            .expect("it has a first part")
            .trim_start_matches("> ")
            .parse()
            .expect("a number")
    };

    let attributes = inode("attributes-30000");
    let said = debug(image, &format!("inode {attributes}\nx"));
    let place = (numbers_after(&said, "di_ea.address:")[0], numbers_after(&said, "di_ea.len:")[0]);
    assert_eq!(of_inode(layout, attributes, Class::OtherMetadata), [place]);

    let link = inode("link-1000");
    let said = debug(image, &format!("xtree {link}\n\nx"));
    assert_eq!(of_inode(layout, link, Class::OtherMetadata), [(numbers_after(&said, "xad.addr\t")[0], 1)]);
    assert_eq!(of_inode(layout, inode("link-255"), Class::OtherMetadata), []);

    for (name, class, command, label) in [
        ("many", Class::Directory, "dtree", "addressPXD(xd)"),
        ("holes", Class::ExtentMap, "xtree", "xad.addr\t"),
    ] {
        let inode = inode(name);
        let children = numbers_after(&debug(image, &format!("{command} {inode}{}", "\n".repeat(30))), label);
        let ours = of_inode(layout, inode, class);
        let all_ours = children
            .iter()
            .all(|child| ours.iter().any(|(start, count)| (*start..start + count).contains(child)));
        assert!(!children.is_empty() && all_ours, "{name}: {children:?} {ours:?}");
    }
}

/// Compares everything of a file system that the exercise used.
fn compare(image: &Path, said: &str) {
    let layout = layout(image);
    assert_eq!(layout.remarks, Vec::<String>::new());
    assert!(compare_with_map(image, &layout) > 1000);
    let (kernel, ours) = (by_kernel(said), by_layout(&layout));
    assert!(kernel.len() > 1000);
    let differing: Vec<_> = kernel.symmetric_difference(&ours).take(10).collect();
    assert!(differing.is_empty(), "contents differ, such as {differing:?}");
    compare_with_debugger(image, &layout);
}

#[test]
fn every_block_of_a_recorded_file_system_is_what_its_map_its_kernel_and_its_debugger_say() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let (image, files) = (scratch.path("image"), scratch.path("files"));
    recorded("jfs-used.img.gz", &image);
    recorded("jfs-used.files.gz", &files);
    compare(&image, &fs::read_to_string(files).expect("text"));
}

#[test]
#[ignore = "boots a machine from the lab image; part of `make test-long`"]
fn every_block_of_a_large_file_system_is_what_its_map_its_kernel_and_its_debugger_say() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    make(&image, 600 << 20);
    if let Some(said) = lab::exercise_in_lab("exercise-jfs", &[&image]) {
        compare(&image, &said);
    }
}

#[test]
fn what_makes_a_layout_uncertain_is_remarked_on() {
    let scratch = Scratch::new();
    let image = scratch.path("image");
    recorded("jfs-used.img.gz", &image);
    let file = File::options().read(true).write(true).open(&image).expect("the image");
    // `s_state`: mounted.
    file.write_all_at(&[1], 0x8000 + 40).expect("it can be written to");
    let remarks = layout(&image).remarks;
    assert!(remarks[0].starts_with("the file system was not unmounted"), "{remarks:?}");
    // `s_flag` without `JFS_INLINELOG`.
    let flags = number::<4>(&file, 0x8000 + 36) as u32 & !0x800;
    file.write_all_at(&flags.to_le_bytes(), 0x8000 + 36).expect("it can be written to");
    assert!(layout(&image).remarks.contains(&"the log is on another device".to_owned()));
}
