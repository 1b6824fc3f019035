//! What a block device has done since the machine booted: the `stat` file of its directory in `/sys/class/block`.

/// Bytes of the sectors in which the kernel counts, whatever those of the device are (`Documentation/block/stat.rst`).
const SECTOR_BYTES: u64 = 512;

/// What a block device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which requests were in flight, ns; the kernel counts it in ms.
    pub busy_ns: u64,
}

impl DiskStatistics {
    /// The file of a device, `/dev/…`.
    pub fn path(device: &str) -> String {
        let name = device.rsplit_once('/').map_or(device, |(_, name)| name);
        format!("/sys/class/block/{name}/stat")
    }

    /// Reads the file's text; `None` if it is another.
    pub fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let bytes = |index: usize| Some(fields.get(index)?.saturating_mul(SECTOR_BYTES));
        Some(Self {
            read_bytes: bytes(2)?,
            written_bytes: bytes(6)?,
            busy_ns: fields.get(9)?.saturating_mul(1_000_000),
        })
    }

    /// What came after an earlier moment.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_the_kernel_writes_it() {
        // Of Linux 6.1.
        let line = "     123       4     2048       99       50        6      800       70        0      160      169        0        0        0        0        9       12\n";
        let found = DiskStatistics::parse(line).unwrap();
        let expected =
            DiskStatistics { read_bytes: 2048 * 512, written_bytes: 800 * 512, busy_ns: 160_000_000 };
        assert_eq!(found, expected);
        assert_eq!(found.since(&found), DiskStatistics::default());
        assert_eq!(DiskStatistics::parse("1 2 3"), None);
        assert_eq!(DiskStatistics::parse("nothing of the kind"), None);
        assert_eq!(DiskStatistics::path("/dev/vda"), "/sys/class/block/vda/stat");
    }
}
