//! Media that others use, with real programs where there are any.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::*;

/// Claims what is there; what a refusal says, which is always that it is in use.
fn claim(path: &str) -> Result<File, String> {
    let kind = FileKind::of(fs::metadata(path).unwrap().file_type());
    super::claim(path, kind).map_err(|refusal| {
        assert_eq!(refusal.cause, Cause::InUse, "{refusal}");
        refusal.message
    })
}

/// A program that runs while a test looks at what it uses, and is ended with it.
struct Beside(Child);

impl Beside {
    /// Starts it and waits until it has printed something.
    fn after_its_first_word(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        Self(child)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("not tried: {program} is not installed");
    }
    there
}

fn made(directory: &Path, format: &str) -> String {
    let path = directory.join(format!("disk.{format}")).display().to_string();
    let made = Command::new("qemu-img").args(["create", "-q", "-f", format, &path, "8M"]).status().unwrap();
    assert!(made.success());
    path
}

#[test]
fn a_file_is_claimed_once_at_a_time() {
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let path = file.to_str().unwrap();
    let first = claim(path).unwrap();
    assert!(claim(path).unwrap_err().contains("another run of nestor"));
    drop(first);
    claim(path).unwrap();
    let nowhere = super::claim("/nonexistent/disk.img", FileKind::File);
    assert_eq!(nowhere.unwrap_err().cause, Cause::NotThere);
    let no_device = super::claim(path, FileKind::BlockDevice).unwrap_err();
    assert_eq!(no_device.cause, Cause::OfAnotherKind { found: FileKind::File });
    let directory = super::claim("/", FileKind::File).unwrap_err();
    assert_eq!(directory.cause, Cause::OfAnotherKind { found: FileKind::Directory });
}

#[test]
fn an_image_that_qemu_serves_is_refused_and_the_other_way_round() {
    if !is_there("qemu-storage-daemon") || !is_there("qemu-io") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = made(directory.path(), "qcow2");
    {
        // It says that it is ready by the greeting of its monitor.
        let _qemu = Beside::after_its_first_word(
            Command::new("qemu-storage-daemon")
                .args(["--blockdev", &format!("driver=file,node-name=f,filename={path}")])
                .args(["--blockdev", "driver=qcow2,node-name=q,file=f"])
                .args(["--chardev", "stdio,id=m", "--monitor", "chardev=m"]),
        );
        let refused = claim(&path).unwrap_err();
        assert!(refused.contains("is in use: another program has locked it"), "{refused}");
        assert!(refused.contains("open in qemu-storage-da"), "it is named: {refused}");
    }
    let ours = claim(&path).unwrap();
    let theirs = Command::new("qemu-io").args(["-c", "write 0 4k", &path]).output().unwrap();
    let said = String::from_utf8_lossy(&theirs.stderr).into_owned();
    assert!(!theirs.status.success() && said.contains("lock"), "QEMU sees that it is ours: {said}");
    drop(ours);
    let theirs = Command::new("qemu-io").args(["-c", "write 0 4k", &path]).output().unwrap();
    assert!(theirs.status.success(), "and that it no longer is");
}

#[test]
fn one_locked_byte_is_enough() {
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let path = file.to_str().unwrap();
    // As QEMU takes them, and as SQLite does.
    for byte in [100, 201, 0x4000_0000] {
        let theirs = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut lock = users::tests_lock(byte);
        // SAFETY: the structure outlives the call.
        let taken = unsafe {
            libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&theirs), libc::F_OFD_SETLK, &raw mut lock)
        };
        assert_eq!(taken, 0);
        let refused = claim(path).unwrap_err();
        assert!(refused.contains("another program has locked it"), "byte {byte}: {refused}");
    }
}

#[test]
fn a_file_that_is_open_elsewhere_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let path = file.to_str().unwrap();
    for (how, named) in [("exec 3<>", "open for writing in sh"), ("exec 3<", "open in sh")] {
        let script = format!("{how}\"$1\"; echo ready; read -r end");
        let beside = Beside::after_its_first_word(Command::new("sh").args(["-c", &script, "sh", path]));
        let refused = claim(path).unwrap_err();
        assert!(refused.contains(named), "{refused}");
        drop(beside);
        claim(path).unwrap();
    }
}

#[test]
fn a_program_that_is_just_being_started_uses_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let path = file.to_str().unwrap().to_owned();
    let earlier = claim(&path).unwrap();
    let (mut begun, mut begins) = std::io::pipe().unwrap();
    let (mut go, mut goes) = std::io::pipe().unwrap();
    let starting = std::thread::spawn(move || {
        let mut command = Command::new("true");
        let hold = move || begins.write_all(b"b").and_then(|()| go.read_exact(&mut [0]));
        // SAFETY: the closure only writes to and reads from pipes.
        unsafe { command.pre_exec(hold) }.status().unwrap()
    });
    begun.read_exact(&mut [0]).unwrap();
    drop(earlier);
    let again = std::thread::spawn(move || claim(&path).map(drop));
    std::thread::sleep(MOMENT * 3);
    goes.write_all(b"g").unwrap();
    again.join().unwrap().unwrap();
    assert!(starting.join().unwrap().success());
}

#[test]
fn what_begins_as_other_programs_files_do_is_data() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    fs::write(&text, "not a disk\n".repeat(1000)).unwrap();
    let mut files = vec![(text.display().to_string(), "text")];
    if is_there("qemu-img") {
        for (format, named) in
            [("qcow2", "qcow2"), ("vmdk", "VMDK"), ("vdi", "VDI"), ("vhdx", "VHDX"), ("qed", "QED")]
        {
            files.push((made(directory.path(), format), named));
        }
    }
    let tar = directory.path().join("all.tar");
    let archived = Command::new("tar").arg("-cf").arg(&tar).arg(&text).stderr(Stdio::null()).status();
    assert!(archived.unwrap().success());
    files.push((tar.display().to_string(), "tar"));
    for (path, named) in files {
        let before = fs::read(&path).unwrap();
        let found = found_in(&claim(&path).unwrap()).unwrap().unwrap();
        assert!(found.contains(named), "{path}: {found}");
        assert_eq!(fs::read(&path).unwrap(), before, "{path}: looked at, not touched");
    }
}

/// A loop device of a file, with options; `None` where none can be made.
struct LoopDevice(String);

impl LoopDevice {
    fn of(file: &Path, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tried: this needs root");
            return None;
        }
        let made =
            Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output().unwrap();
        if !made.status.success() {
            eprintln!("not tried: no loop device can be made here");
            return None;
        }
        Some(Self(BufReader::new(made.stdout.as_slice()).lines().next().unwrap().unwrap()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn backing(bytes: u64) -> tempfile::NamedTempFile {
    let backing = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    backing.as_file().set_len(bytes).unwrap();
    backing
}

/// Needs root, as loop devices do.
#[test]
fn a_device_that_somebody_writes_to_or_that_holds_anything_is_noticed() {
    let backing = backing(3 << 30);
    let Some(device) = LoopDevice::of(backing.path(), &[]) else { return };
    let script = "exec 3<>\"$1\"; echo ready; read -r end";
    let beside = Beside::after_its_first_word(Command::new("sh").args(["-c", script, "sh", &device.0]));
    let in_use = claim(&device.0).unwrap_err();
    assert!(in_use.contains("open for writing in sh"), "{in_use}");
    drop(beside);
    let medium = claim(&device.0).unwrap();
    assert_eq!(found_in(&medium).unwrap(), None, "its file is known to be all holes");
    // Between two samples, seen in the file; and in a sample.
    for at in [1_500_123_456, (3 << 30) - 4096] {
        let write = OpenOptions::new().write(true).open(&device.0).unwrap();
        write.write_all_at(&[7], at).unwrap();
        let found = found_in(&medium).unwrap().unwrap();
        assert_eq!(found, format!("holds data: the first byte that is not zero is at {at}"));
    }
}

/// Needs root, as loop devices do.
#[test]
fn a_large_device_that_is_only_sampled_is_not_called_empty() {
    let named = backing(3 << 30);
    let may = "may hold data: of its 2 GiB only the first and the last 32 MiB and 1024 blocks of 64 KiB between were \
               looked at, and nothing was found there";
    let Some(device) = LoopDevice::of(named.path(), &["--offset", "512"]) else { return };
    let at = 1_500_123_456;
    named.as_file().write_all_at(&[7; 4096], at).unwrap();
    assert_eq!(found_in(&claim(&device.0).unwrap()).unwrap().as_deref(), Some(may));
    drop(device);
    // The file is not to be reached, and another one has its name.
    let moved = backing(3 << 30);
    let device = LoopDevice::of(named.path(), &[]).unwrap();
    fs::rename(moved.path(), named.path()).unwrap();
    let may = may.replace("2 GiB only", "3 GiB only");
    assert_eq!(found_in(&claim(&device.0).unwrap()).unwrap(), Some(may));
}
