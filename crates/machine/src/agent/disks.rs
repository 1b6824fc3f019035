//! Finding a disk by its serial number, whatever bus it is on.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::requests::Obeyed;
use crate::message::Answer;

/// Where buses show a disk's serial number below `/sys/block/DISK`: virtio-blk, NVMe, and SCSI's and ATA's page 0x80.
const SERIAL_FILES: [&str; 3] = ["serial", "device/serial", "device/vpd_pg80"];

/// Waits until the kernel has the disk and its device node.
pub(super) fn find(serial: &str, limit: Duration) -> Obeyed {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(device) = look_for(Path::new("/sys/block"), serial).filter(|d| Path::new(d).exists()) {
            return Ok(Answer::Device(device));
        }
        if Instant::now() >= deadline {
            return Err(format!(
                "no disk with the serial number {serial} appeared within {} s; its driver may be missing",
                limit.as_secs()
            )
            .into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn look_for(block: &Path, serial: &str) -> Option<String> {
    let entries = fs::read_dir(block).ok()?;
    entries.flatten().find_map(|entry| {
        let has_serial = SERIAL_FILES.iter().any(|file| {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            // Page 0x80 has a header of four bytes, and buses pad with blanks or zeros.
            let text: String =
                bytes.iter().map(|&b| if b.is_ascii_graphic() { b as char } else { ' ' }).collect();
            text.split_whitespace().any(|word| word == serial)
        });
        has_serial.then(|| format!("/dev/{}", entry.file_name().to_string_lossy()))
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
        let find = |serial| look_for(block.path(), serial);
        assert_eq!(find("nestor-medium").as_deref(), Some("/dev/vdb"));
        assert_eq!(find("nestor-disk").as_deref(), Some("/dev/nvme0n1"));
        assert_eq!(find("nestor-scsi").as_deref(), Some("/dev/sda"));
        assert_eq!(find("nestor"), None, "a part of a serial number is another disk's");
    }
}
