//! Images in a directory of their own, and the tools that the layouts are held against.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod contents;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A directory that goes with the test.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// An empty one, on a disk: images are large and sparse.
    pub fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").expect("/var/tmp can be written to"))
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Makes a file of so many bytes without storing any.
pub fn sparse_file(path: &Path, bytes: u64) {
    File::create(path).and_then(|file| file.set_len(bytes)).expect("a sparse file can be made");
}

/// Unmounts, as soon as nobody uses the mount any more: a child that another test's thread has just forked has every open file of this
/// process until it becomes its program, and whatever looks at new mounts may hold it for a moment.
pub fn unmount(mount_point: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let unmounted = Command::new("umount").arg(mount_point).output().expect("umount runs");
        if unmounted.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&unmounted.stderr).into_owned();
        assert!(said.contains("busy") && Instant::now() < deadline, "{said}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a program is in the usual places.
pub fn has_program(name: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|d| Path::new(d).join(name).exists())
}

/// Whether a test can mount file systems.
pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("it runs");
    id.stdout == b"0\n"
}

/// Runs a program that must succeed.
pub fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    output
}

/// Unpacks a recorded image.
pub fn recorded(name: &str, to: &Path) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let script = "gzip -dc \"$0\" | dd of=\"$1\" bs=64k conv=sparse iflag=fullblock status=none";
    succeeds(Command::new("sh").args(["-c", script]).arg(packed).arg(to));
}
