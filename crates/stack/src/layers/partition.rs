//! `part`: a partition of a block device.

use crate::spec::no_conflicts;
use crate::{Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, Sectors};

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "part",
    summary: "partition: a block device from some sector to its end",
    options: &[OptionSpec {
        name: "start",
        summary: "where it begins, in sectors of 512 bytes or as a size; 63s is that of old partitioners, which is no multiple of a \
                  disk's blocks of 4k",
        // Before it is the partition table; 1M is where partitioners of today begin.
        kind: OptionKind::Sectors { min: Sectors(1), max: Sectors(1 << 31) },
        default: Some("1M"),
    }],
    definition: LayerDefinition::Partition,
    packages: &["fdisk"],
    check: no_conflicts,
    not_buildable: None,
};

/// A DOS table counts sectors in 32 bits (`struct msdos_partition` in the kernel's `include/linux/msdos_partition.h`).
const MOST_DOS_SECTORS: u64 = u32::MAX as u64;

/// Sectors of a table for larger devices: one for the DOS table that protects it, its header, and 128 entries of 128 bytes in sectors of
/// 512 (UEFI specification 2.10, section 5.3).
const GPT_SECTORS: u64 = 34;

/// The identifier of a DOS table, which sfdisk would draw: a stack that is built again is the same to the byte.
const DOS_IDENTIFIER: &str = "0x6e657374";

/// The options of a partition, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Where it begins on the block device below.
    pub start: Sectors,
}

impl PartitionOptions {
    /// The number of the partition in its table, which has no other.
    pub const NUMBER: u32 = 1;

    /// The command that reads a [`Self::table`] and writes it to a device, and tells nobody: the kernel refuses to read the tables of some
    /// loop devices.
    pub fn write_table(device: &str) -> Vec<String> {
        let argv = ["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", "--wipe", "never"];
        argv.into_iter().chain(["--wipe-partitions", "never", "--", device]).map(str::to_owned).collect()
    }

    /// The partition table of a device with so many sectors of so many bytes, as sfdisk(8) reads it. `None` if the partition would begin
    /// within a sector.
    pub fn table(&self, sector_bytes: u64, sectors: u64) -> Option<String> {
        let start = self.start.bytes().get();
        if sector_bytes == 0 || !start.is_multiple_of(sector_bytes) {
            return None;
        }
        // sfdisk would not let a partition begin before 1 MiB. The first sector that is free is the one after the table.
        let header = if sectors > MOST_DOS_SECTORS {
            format!("label: gpt\nfirst-lba: {GPT_SECTORS}\n")
        } else {
            format!("label: dos\nlabel-id: {DOS_IDENTIFIER}\nfirst-lba: 1\n")
        };
        Some(format!("{header}unit: sectors\nstart={}, type=linux\n", start / sector_bytes))
    }
}

impl Layer {
    /// The options of `part`; `None` for other layers.
    pub fn partition(&self) -> Option<PartitionOptions> {
        let LayerDefinition::Partition = self.definition() else { return None };
        Some(PartitionOptions { start: self.value("start")? })
    }
}
