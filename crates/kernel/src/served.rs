//! What the back end of a virtual disk says it has served.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// Bytes of a sector of Xen's protocol for disks (xen/interface/io/blkif.h).
const SECTOR_BYTES: u64 = 512;

/// Requests that a back end took from a virtual machine, since it was connected or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedRequests {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, and writes before which all others had to be finished.
    pub flushes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

impl ServedRequests {
    /// Those of the kernel's back end of a disk of a domain of Xen (`xen_vbdstat_attrs` in drivers/block/xen-blkback/xenbus.c), which counts
    /// a request when it takes it.
    ///
    /// # Errors
    /// There is no such back end.
    pub fn of_xen(domain: u32, disk: u32) -> io::Result<Self> {
        Self::read(Path::new(&format!("/sys/bus/xen-backend/devices/vbd-{domain}-{disk}/statistics")))
    }

    fn read(directory: &Path) -> io::Result<Self> {
        let count = |name: &str| {
            let text = fs::read_to_string(directory.join(name))?;
            text.trim()
                .parse()
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{name} is no number")))
        };
        let bytes = |name: &str| Ok::<u64, io::Error>(u64::saturating_mul(count(name)?, SECTOR_BYTES));
        Ok(Self {
            reads: count("rd_req")?,
            writes: count("wr_req")?,
            flushes: count("f_req")?,
            read_bytes: bytes("rd_sect")?,
            written_bytes: bytes("wr_sect")?,
        })
    }

    /// What was served since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            flushes: self.flushes.saturating_sub(before.flushes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_of_a_back_end_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let numbers =
            [("rd_req", "7"), ("wr_req", "3"), ("f_req", "2"), ("rd_sect", "56"), ("wr_sect", "24")];
        for (name, number) in numbers {
            assert!(ServedRequests::read(directory.path()).is_err());
            fs::write(directory.path().join(name), format!("{number}\n")).unwrap();
        }
        let all =
            ServedRequests { reads: 7, writes: 3, flushes: 2, read_bytes: 56 * 512, written_bytes: 24 * 512 };
        let served = ServedRequests::read(directory.path()).unwrap();
        assert_eq!(served, all);
        let before = ServedRequests { reads: 5, read_bytes: 512, ..ServedRequests::default() };
        assert_eq!(served.since(&before), ServedRequests { reads: 2, read_bytes: 55 * 512, ..all });
        fs::write(directory.path().join("f_req"), "-1").unwrap();
        assert!(ServedRequests::read(directory.path()).is_err());
    }
}
