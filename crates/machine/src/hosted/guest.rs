//! What a machine of a hosted hypervisor is told on its kernel's command line, and reads there: by what it knows the disk with its root, and the
//! serial port with the agent's stream.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::init::GUEST_MARK;

/// Begins the word with the first bytes of the root. The programs give their disks no serial numbers, or each of its own, so the disk is known by
/// what it holds: the lab image begins with the time it was made and its sizes (`struct squashfs_super_block` in the kernel's
/// fs/squashfs/squashfs_fs.h).
const ROOT: &str = "nestor.root=";

/// Begins the word with the serial port.
const PORT: &str = "nestor.port=";

/// So many bytes of the root: the header of a squashfs.
const HEAD_BYTES: usize = 96;

/// The second serial port is the agent's; the first is the console.
const AGENTS_PORT: &str = "ttyS1";

/// What a kernel is told besides. Its processors are what they are: the program may use the host's or emulate them.
const KERNEL_COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic random.trust_cpu=on mitigations=off nmi_watchdog=0 rdinit=/init";

/// What Linux says of a disk that is none: a CD-ROM drive (`TYPE_ROM` in include/scsi/scsi_proto.h).
const DISC_DRIVE: &str = "5";

/// The command line of a machine whose root is in that file.
///
/// # Errors
/// The file cannot be read.
pub fn command_line(root: &Path) -> io::Result<String> {
    Ok(format!("{GUEST_MARK} {KERNEL_COMMAND_LINE} {PORT}{AGENTS_PORT} {ROOT}{}", head(root)?))
}

/// The device of the agent's stream, if this machine was told of one.
pub fn agent_port() -> Option<PathBuf> {
    let port = Path::new("/dev").join(told(PORT)?);
    port.exists().then_some(port)
}

/// Whether a disk, a directory below `/sys/block`, holds this machine's root.
pub fn is_root(disk: &Path) -> bool {
    told(ROOT).is_some_and(|root| holds(disk, &root))
}

/// Whether it is a disk and holds something else: the machine has two disks.
pub fn is_data(disk: &Path) -> bool {
    told(ROOT).is_some_and(|root| is_disk(disk) && !holds(disk, &root))
}

fn holds(disk: &Path, root: &str) -> bool {
    let Some(name) = disk.file_name() else { return false };
    head(&Path::new("/dev").join(name)).is_ok_and(|head| head == root)
}

/// Devices that the kernel makes itself, such as loop devices, have none of their own; a drive for discs says what it is.
fn is_disk(disk: &Path) -> bool {
    let kind = fs::read_to_string(disk.join("device/type")).unwrap_or_default();
    disk.join("device").exists() && kind.trim() != DISC_DRIVE
}

fn told(word: &str) -> Option<String> {
    said(&fs::read_to_string("/proc/cmdline").ok()?, word)
}

fn said(command_line: &str, word: &str) -> Option<String> {
    let value = command_line.split_whitespace().find_map(|one| one.strip_prefix(word))?;
    (!value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric())).then(|| value.to_owned())
}

fn head(path: &Path) -> io::Result<String> {
    let mut bytes = [0; HEAD_BYTES];
    File::open(path)?.read_exact(&mut bytes)?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reads_what_it_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::write(&root, [0xab; 200]).unwrap();
        let line = command_line(&root).unwrap();
        assert_eq!(said(&line, PORT).as_deref(), Some("ttyS1"));
        assert_eq!(said(&line, ROOT), Some("ab".repeat(HEAD_BYTES)));
        assert!(line.starts_with(GUEST_MARK));
        fs::write(&root, "short").unwrap();
        assert!(command_line(&root).is_err());
    }

    #[test]
    fn a_word_that_is_no_name_is_not_believed() {
        assert_eq!(said("quiet nestor.port=../sda", PORT), None);
        assert_eq!(said("quiet nestor.port=", PORT), None);
        assert_eq!(said("quiet", PORT), None);
    }

    #[test]
    fn drives_for_discs_and_devices_of_the_kernels_own_are_no_disks() {
        let block = tempfile::tempdir().unwrap();
        for (name, kind) in [("sda", "0\n"), ("sr0", "5\n")] {
            fs::create_dir_all(block.path().join(name).join("device")).unwrap();
            fs::write(block.path().join(name).join("device/type"), kind).unwrap();
        }
        fs::create_dir_all(block.path().join("nvme0n1/device")).unwrap();
        fs::create_dir_all(block.path().join("loop0")).unwrap();
        let are = ["sda", "sr0", "nvme0n1", "loop0"].map(|name| is_disk(&block.path().join(name)));
        assert_eq!(are, [true, false, true, false]);
    }
}
