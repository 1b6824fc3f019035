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
    not_buildable: Some("Nestor cannot write partition tables yet; use the whole block device"),
};

/// The options of a partition, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Where it begins on the block device below.
    pub start: Sectors,
}

impl Layer {
    /// The options of `part`; `None` for other layers.
    pub fn partition(&self) -> Option<PartitionOptions> {
        let LayerDefinition::Partition = self.definition() else { return None };
        Some(PartitionOptions { start: self.value("start")? })
    }
}
