//! Finding a disk in the machine that has it, whatever bus it is on.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::hosted;
use crate::refusal::{Cause, Refusal};
use crate::xen;

/// How a machine distinguishes a disk from its others. A hypervisor whose disks have no serial numbers marks them otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMark {
    /// Its serial number.
    Serial(String),
    /// The name that the kernel gives it, where the hypervisor says that.
    Name(String),
    /// The disk that holds the lab image's root, in every lab machine.
    Root,
    /// The other disk of a machine that has two and was told by what it knows its root.
    BesideRoot,
}

impl DiskMark {
    fn is_of(&self, disk: &Path) -> bool {
        match self {
            Self::Serial(serial) => has_serial(disk, serial),
            Self::Name(name) => disk.file_name().is_some_and(|own| own == name.as_str()),
            Self::Root => {
                has_serial(disk, ROOT_SERIAL)
                    || Self::Name(xen::ROOT_DISK.to_owned()).is_of(disk)
                    || hosted::is_root(disk)
            }
            Self::BesideRoot => hosted::is_data(disk),
        }
    }
}

impl fmt::Display for DiskMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial(serial) => write!(f, "the serial number {serial}"),
            Self::Name(name) => write!(f, "the name {name}"),
            Self::Root => f.write_str("the lab image"),
            Self::BesideRoot => f.write_str("other contents than the lab image"),
        }
    }
}

/// The serial number of the disk that holds the lab image's root.
pub const ROOT_SERIAL: &str = "nestor-root";

/// Where buses show a disk's serial number below `/sys/block/DISK`: virtio-blk, NVMe, and SCSI's and ATA's page 0x80.
const SERIAL_FILES: [&str; 3] = ["serial", "device/serial", "device/vpd_pg80"];

/// Where the kernel lists block devices.
const BLOCK_DEVICES: &str = "/sys/block";

/// Waits until the kernel has the disk; its device node.
///
/// # Errors
/// It does not appear in time.
pub fn find(mark: &DiskMark, limit: Duration) -> Result<String, Refusal> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(device) = look_for(Path::new(BLOCK_DEVICES), mark).filter(|d| Path::new(d).exists()) {
            return Ok(device);
        }
        if Instant::now() >= deadline {
            let message = format!(
                "no disk with {mark} appeared within {} s; its driver may be missing",
                limit.as_secs()
            );
            return Err(Refusal::new(Cause::NoDisk, message));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn look_for(block: &Path, mark: &DiskMark) -> Option<String> {
    let entries = fs::read_dir(block).ok()?;
    let found = entries.flatten().find(|entry| mark.is_of(&entry.path()));
    found.map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy()))
}

fn has_serial(disk: &Path, serial: &str) -> bool {
    SERIAL_FILES.iter().any(|file| {
        let bytes = fs::read(disk.join(file)).unwrap_or_default();
        // Page 0x80 has a header of four bytes, and buses pad with blanks or zeros.
        let text: String =
            bytes.iter().map(|&b| if b.is_ascii_graphic() { b as char } else { ' ' }).collect();
        text.split_whitespace().any(|word| word == serial)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bus_shows_its_serial_number_in_its_own_way() {
        let block = tempfile::tempdir().unwrap();
        let files: [(&str, &[u8]); 3] = [
            ("vdb/serial", b"nestor-medium"),
            ("nvme0n1/device/serial", b"nestor-disk         \n"),
            ("sda/device/vpd_pg80", b"\0\x80\0\x0bnestor-scsi"),
        ];
        for (file, bytes) in files {
            let path = block.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let find = |serial: &str| look_for(block.path(), &DiskMark::Serial(serial.to_owned()));
        assert_eq!(find("nestor-medium").as_deref(), Some("/dev/vdb"));
        assert_eq!(find("nestor-disk").as_deref(), Some("/dev/nvme0n1"));
        assert_eq!(find("nestor-scsi").as_deref(), Some("/dev/sda"));
        assert_eq!(find("nestor"), None, "a part of a serial number is another disk's");
    }
}
