//! F2FS against what its kernel said of every file, and against its checker.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod lab;
mod trees;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use nestor_layout::{Class, Layout};
use trees::contents::{by_kernel, by_layout};
use trees::{Scratch, has_program, recorded, sparse_file, succeeds};

const BLOCK: u64 = 4096;

fn layout(image: &Path) -> Layout {
    nestor_layout::read(&File::open(image).expect("the image")).expect("a layout")
}

fn compare(image: &Path, said: &str) {
    let layout = layout(image);
    assert_eq!((layout.file_system.as_str(), &layout.remarks), ("f2fs", &Vec::new()));
    let (kernel, ours) = (by_kernel(said), by_layout(&layout));
    assert!(kernel.len() > 1000);
    let differing: Vec<_> = kernel.symmetric_difference(&ours).take(10).collect();
    assert!(differing.is_empty(), "contents differ, such as {differing:?}");
    // A file of 9 GiB has its last blocks behind the list of lists of lists.
    assert!(ours.iter().any(|(_, position, _)| *position == (9 << 30) / BLOCK));
    for class in [Class::Directory, Class::Inode, Class::ExtentMap] {
        assert!(layout.summary()[&class] > 0, "{class}");
    }
}

#[test]
fn every_file_of_a_recorded_file_system_is_where_its_kernel_says() {
    let scratch = Scratch::new();
    let (image, files) = (scratch.path("image"), scratch.path("files"));
    recorded("f2fs-used.img.gz", &image);
    recorded("f2fs-used.files.gz", &files);
    compare(&image, &fs::read_to_string(files).expect("text"));
}

#[test]
#[ignore = "boots a machine from the lab image; part of `make test-long`"]
fn every_file_of_a_large_file_system_is_where_its_kernel_says() {
    if !has_program("mkfs.f2fs") {
        eprintln!("not tried: this needs f2fs-tools");
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    sparse_file(&image, 1 << 30);
    succeeds(Command::new("mkfs.f2fs").arg("-q").arg(&image));
    if let Some(said) = lab::exercise_in_lab("exercise-f2fs", &[&image]) {
        compare(&image, &said);
    }
}

#[test]
fn a_new_file_system_has_its_root_and_what_makes_it_uncertain_is_remarked_on() {
    if !has_program("mkfs.f2fs") {
        eprintln!("not tried: this needs f2fs-tools");
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.path("image");
    for (mebibytes, features) in [(64, ""), (600, ""), (600, "extra_attr,flexible_inline_xattr")] {
        sparse_file(&image, mebibytes << 20);
        succeeds(Command::new("mkfs.f2fs").args(["-q", "-O", features]).arg(&image));
        let made = layout(&image);
        assert_eq!(made.remarks, Vec::<String>::new());
        assert_eq!(made.summary()[&Class::Directory], BLOCK, "{features}");
        let file = File::options().read(true).write(true).open(&image).expect("the image");
        let mut place = [0; 4];
        file.read_exact_at(&mut place, 1024 + 76).expect("the superblock");
        // `ckpt_flags` of both checkpoints: not unmounted, and so with summaries of data alone.
        for segment in 0..2 {
            let at = (u64::from(u32::from_le_bytes(place)) + 512 * segment) * BLOCK + 132;
            let mut flags = [0; 4];
            file.read_exact_at(&mut flags, at).expect("a checkpoint");
            flags[0] &= !1;
            file.write_all_at(&flags, at).expect("it can be written to");
        }
        let remarks = layout(&image).remarks;
        assert!(remarks[0].starts_with("the file system was not unmounted"), "{remarks:?}");
        fs::remove_file(&image).expect("it was there");
    }
}
