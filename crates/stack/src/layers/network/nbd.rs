//! `nbd`: a disk of one machine in another, by the protocol of the kernel's network block device.

use super::super::options::{MERGES, READAHEAD, SCHED};
use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec};

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "nbd",
    summary: "NBD: a block device or an image over a link, as a block device of this machine",
    options: &[SCHED, READAHEAD, MERGES],
    definition: LayerDefinition::NetworkDisk,
    // qemu-nbd serves images of every format.
    packages: &["qemu-utils", "nbd-client"],
    check: no_conflicts,
    not_buildable: super::NOT_BUILDABLE,
};
