//! Btrfs that was really used, sector by sector against `btrfs inspect-internal dump-tree` and FIEMAP.

#![allow(clippy::print_stdout, clippy::print_stderr)] // For who runs it, not for who uses the program.

mod btrfs_truth;
mod trees;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use btrfs_truth::{Dump, Positions};
use nestor_layout::{Class, DirectDevice, Layout};
use trees::{Scratch, has_program, is_root, sparse_file, succeeds, unmount};

/// A file system over image files, mounted or not.
struct Volume {
    scratch: Scratch,
    images: Vec<PathBuf>,
    loops: Vec<String>,
    mounted: bool,
}

impl Volume {
    /// mkfs on so many devices; none if this cannot be tried here.
    fn make(devices: usize, bytes: u64, options: &[&str]) -> Option<Self> {
        if !is_root() || !has_program("mkfs.btrfs") {
            eprintln!("not tried: this needs root and btrfs-progs");
            return None;
        }
        let scratch = Scratch::new();
        let images: Vec<PathBuf> =
            (0..devices).map(|device| scratch.path(&format!("image{device}"))).collect();
        images.iter().for_each(|image| sparse_file(image, bytes));
        succeeds(Command::new("mkfs.btrfs").args(["-q", "-f"]).args(options).args(&images));
        std::fs::create_dir(scratch.path("mounted")).expect("a directory");
        Some(Self { scratch, images, loops: Vec::new(), mounted: false })
    }

    fn directory(&self) -> PathBuf {
        self.scratch.path("mounted")
    }

    fn mount(&mut self, options: &str) {
        for image in &self.images {
            let made = succeeds(Command::new("losetup").args(["--find", "--show"]).arg(image));
            self.loops.push(String::from_utf8_lossy(&made.stdout).trim().to_owned());
        }
        // No commit but those asked for: the log is to stay until it was looked at.
        let mut options = format!("{options},commit=3000");
        self.loops.iter().for_each(|device| options.push_str(&format!(",device={device}")));
        let options = options.trim_start_matches(',').to_owned();
        succeeds(
            Command::new("mount").args(["-t", "btrfs", "-o", &options, &self.loops[0]]).arg(self.directory()),
        );
        self.mounted = true;
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            unmount(&self.directory());
        }
        for device in self.loops.drain(..) {
            succeeds(Command::new("losetup").args(["--detach", &device]));
        }
    }

    /// Runs a script in the mounted file system.
    fn run(&self, script: &str) {
        succeeds(Command::new("bash").args(["-euc", script]).current_dir(self.directory()));
    }

    fn layout(&self, device: usize) -> Layout {
        nestor_layout::read(&File::open(&self.images[device]).expect("the image")).expect("a layout")
    }

    /// Compares every device; where it is mounted the positions in files too.
    fn assert_agrees(&self) -> BTreeMap<Class, u64> {
        // The tool follows the identity of the devices, which it finds by their loop devices while these are there.
        let devices: Vec<PathBuf> = match self.mounted {
            true => self.loops.iter().map(PathBuf::from).collect(),
            false => self.images.clone(),
        };
        let dump = Dump::of(&devices[0]);
        let mut summary = BTreeMap::new();
        for device in 0..self.images.len() {
            let layout = self.layout(device);
            assert_eq!(layout.file_system, "btrfs");
            dump.assert_agrees(&layout, device as u64 + 1);
            if self.mounted {
                let direct = DirectDevice::open(self.loops[device].as_ref()).expect("a device");
                assert!(
                    nestor_layout::read(&direct).expect("a layout") == layout,
                    "read past the cache it differs"
                );
                let positions = Positions::of(&self.directory());
                positions.assert_agrees(&layout, &dump, device as u64 + 1);
            }
            for (class, bytes) in layout.summary() {
                *summary.entry(class).or_default() += bytes;
            }
        }
        summary
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let directory = self.scratch.path("mounted");
        if self.mounted {
            let _ = Command::new("umount").arg(directory).status();
        }
        for device in &self.loops {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

/// Creates, appends, overwrites, deletes, renames, punches, reserves.
const USE: &str = r#"
    dd if=/dev/urandom of=large bs=1M count=9 status=none
    dd if=/dev/urandom of=holes bs=4k count=1 seek=100 status=none
    dd if=/dev/urandom of=holes bs=4k count=3 seek=700 conv=notrunc status=none
    for turn in 1 2 3 4 5 6; do
        dd if=/dev/urandom bs=4k count=3 status=none >>left
        dd if=/dev/urandom bs=4k count=5 status=none >>right
        sync -f .
    done
    mkdir -p many deep/deeper
    for number in $(seq 1 400); do echo "contents of file $number" >"many/a file with a rather long name $number"; done
    sync -f .
    perl -e 'unlink "many/a file with a rather long name " . 3 * $_ for 1 .. 100'
    perl -e 'mkdir "deep/$_" and symlink("large", "deep/$_/link") for 1 .. 300'
    mv left renamed
    fallocate -l 3M reserved
    dd if=/dev/urandom of=reserved bs=4k count=7 seek=11 conv=notrunc status=none
    for at in 3 90 200 201; do dd if=/dev/urandom of=large bs=4k count=2 seek=$at conv=notrunc status=none; done
    fallocate --punch-hole -o 1M -l 64k large
    truncate -s 5000000 large
    head -c 30000 /dev/zero | tee odd >>renamed
    setfattr -n user.note -v "something to keep" odd 2>/dev/null || true
    rm right
    sync -f .
"#;

/// Classes that a used file system must have for a comparison to say something.
fn assert_has(summary: &BTreeMap<Class, u64>, classes: &[Class]) {
    for class in classes {
        assert!(summary.get(class).is_some_and(|&bytes| bytes > 0), "no {class}: {summary:?}");
    }
}

const IN_A_USED_ONE: [Class; 5] =
    [Class::FileData, Class::MixedMetadata, Class::AllocationMap, Class::Superblock, Class::OtherMetadata];

/// A used file system of a shape agrees, while mounted and after.
fn used(devices: usize, bytes: u64, mkfs: &[&str], mount: &str, more: &str) {
    let Some(mut volume) = Volume::make(devices, bytes, mkfs) else { return };
    volume.assert_agrees();
    volume.mount(mount);
    volume.run(USE);
    volume.run(more);
    volume.run("sync -f .");
    assert_has(&volume.assert_agrees(), &IN_A_USED_ONE);
    volume.unmount();
    volume.assert_agrees();
}

const MIB: u64 = 1 << 20;

#[test]
fn the_usual_shape_agrees_with_the_tool_and_the_kernel() {
    used(1, 400 * MIB, &["-d", "single", "-m", "dup"], "", "true");
}

#[test]
fn small_nodes_and_single_metadata_agree() {
    used(1, 400 * MIB, &["-d", "single", "-m", "single", "-n", "4096"], "", "true");
}

#[test]
fn large_nodes_another_checksum_and_older_features_agree() {
    let options =
        ["-n", "65536", "--csum", "xxhash", "-O", "^no-holes,^skinny-metadata", "-R", "^free-space-tree"];
    used(1, 400 * MIB, &options, "space_cache=v1", "true");
}

#[test]
fn mixed_block_groups_agree() {
    used(1, 100 * MIB, &["--mixed", "-n", "4096"], "", "true");
}

#[test]
fn doubled_data_and_quotas_agree() {
    used(1, 900 * MIB, &["-d", "dup", "-m", "dup"], "", "btrfs quota enable . && btrfs quota rescan -w .");
}

#[test]
fn snapshots_reflinks_and_what_is_left_of_overwritten_extents_agree() {
    let more = r#"
        btrfs -q subvolume create sub
        cp --reflink=always large sub/copy
        cp --reflink=always reserved reserved-copy
        dd if=/dev/urandom of=sub/own bs=64k count=20 status=none
        btrfs -q subvolume snapshot . snapshot
        btrfs -q subvolume snapshot -r sub read-only
        for at in 10 20 30; do dd if=/dev/urandom of=sub/copy bs=4k count=3 seek=$at conv=notrunc status=none; done
        rm holes
        sync -f .
        rm -r snapshot/deep
        for turn in $(seq 1 30); do dd if=/dev/urandom of=churn bs=16k count=50 status=none; done
        dd if=/dev/urandom of=churn bs=4k count=5 seek=20 conv=notrunc status=none
    "#;
    used(1, 500 * MIB, &[], "", more);
}

#[test]
fn compressed_files_agree() {
    let more = r#"
        for file in text other; do
            for number in $(seq 1 40000); do echo "line $number of a file that can be made smaller"; done >$file
        done
        sync -f .
        dd if=/dev/zero of=text bs=4k count=3 seek=40 conv=notrunc status=none
        cp --reflink=always other again
    "#;
    used(1, 400 * MIB, &[], "compress=zstd", more);
}

#[test]
fn stripes_and_copies_over_several_devices_agree_on_each() {
    used(2, 400 * MIB, &["-d", "raid0", "-m", "raid1"], "", "true");
    used(4, 400 * MIB, &["-d", "raid10", "-m", "raid1c4"], "", "true");
}

#[test]
fn stripes_with_parity_agree_but_for_the_parity() {
    used(3, 400 * MIB, &["-d", "raid5", "-m", "raid1c3"], "", "true");
    used(4, 400 * MIB, &["-d", "raid6", "-m", "raid1c4"], "", "true");
}

#[test]
fn trees_on_other_devices_are_an_error_or_a_remark() {
    let Some(volume) = Volume::make(4, 400 * MIB, &["-d", "single", "-m", "raid0"]) else { return };
    for image in &volume.images {
        match nestor_layout::read(&File::open(image).expect("the image")) {
            Ok(layout) => {
                assert!(layout.remarks.iter().any(|r| r.contains("4 devices")), "{:?}", layout.remarks)
            }
            Err(error) => assert!(error.to_string().contains("several devices"), "{error}"),
        }
    }
}

#[test]
fn what_fsync_wrote_to_the_log_is_read() {
    let Some(mut volume) = Volume::make(1, 400 * MIB, &[]) else { return };
    volume.mount("");
    volume.run(USE);
    volume.run(
        r#"
        mkdir logged
        dd if=/dev/urandom of=logged/again bs=64k count=10 status=none
        sync -f .
        dd if=/dev/urandom of=logged/first bs=4k count=7 conv=fsync status=none
        dd if=/dev/urandom of=logged/again bs=4k count=9 seek=30 conv=notrunc,fsync status=none
        dd if=/dev/urandom of=large bs=4k count=2 seek=500 conv=notrunc,fsync status=none
        "#,
    );
    assert_has(&volume.assert_agrees(), &[Class::Journal]);
    // A new extent of a file that was there before: the old one is still in use, but not that part of the file.
    let layout = volume.layout(0);
    let large = std::os::unix::fs::MetadataExt::ino(&volume.directory().join("large").metadata().unwrap());
    let position = 500 << 12;
    let covers = |range: &&(u64, u64, u64)| (range.0..range.0 + range.2).contains(&position);
    let file = layout.file(large);
    assert_eq!(file.iter().filter(covers).count(), 1, "{file:?}");
    volume.unmount();
    let after = volume.assert_agrees();
    assert_eq!(after.get(&Class::Journal), None, "a clean unmount leaves no log");
}
