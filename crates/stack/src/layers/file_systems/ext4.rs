//! `ext4`: extents, delayed allocation, a journal.

use super::super::options::{KERNEL, MOUNT};
use super::ext;
use crate::spec::no_conflicts;
use crate::{
    FileSystemSpec, Layer, LayerDefinition, LayerSpec, MkfsTarget, OptionKind, OptionSpec, Recovery,
};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "ext4",
    summary: "ext4: extents, delayed allocation and a journal; mounted with noinit_itable",
    options: &[
        OptionSpec {
            name: "journal",
            summary: "what the journal guarantees for file data: written before its metadata, nothing, or journalled as well; \
                      none: no journal at all",
            kind: OptionKind::Choice(&["ordered", "writeback", "data", "none"]),
            default: Some("ordered"),
        },
        ext::BLOCK,
        ext::INODE_RATIO,
        MOUNT,
        KERNEL,
    ],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "ext4",
        program: None,
        kernel_modules: ext::KERNEL_MODULES,
        mkfs,
        // No kernel thread writes inode tables during a measurement: see `ext`.
        mount_options: |layer| ext::mount_options(layer, &["noinit_itable"]),
        minimum_size: ext::MINIMUM_SIZE,
        recovery,
        may_compress: super::never,
    }),
    packages: ext::PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

/// Whether the layer says that there is no journal.
fn has_no_journal(layer: &Layer) -> bool {
    layer.option("journal") == Some("none")
}

fn recovery(layer: &Layer) -> Recovery {
    if has_no_journal(layer) { Recovery::Check } else { Recovery::Mount }
}

fn mkfs(layer: &Layer, target: &MkfsTarget<'_>) -> Vec<String> {
    let features: &[&str] = if has_no_journal(layer) { &["^has_journal"] } else { &[] };
    ext::mke2fs("ext4", features, layer, target)
}
