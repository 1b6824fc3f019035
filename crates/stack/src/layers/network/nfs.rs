//! `nfs`: a directory exported by one machine and mounted by another.

use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "nfs",
    summary: "NFS: a directory of this machine, mounted by another",
    options: &[],
    definition: LayerDefinition::NetworkFileSystem,
    packages: &["nfs-kernel-server", "nfs-common"],
    check: no_conflicts,
    not_buildable: Some("Nestor cannot connect machines by a network yet; use local file systems"),
};
