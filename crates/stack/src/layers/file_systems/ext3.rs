//! `ext3`: ext2 with a journal.

use super::super::options::{KERNEL, MOUNT};
use super::ext;
use crate::spec::no_conflicts;
use crate::{FileSystemSpec, LayerDefinition, LayerSpec, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "ext3",
    summary: "ext3: block maps and a journal",
    options: &[
        OptionSpec {
            name: "journal",
            summary: "what the journal guarantees for file data: written before its metadata, nothing, or journalled as well",
            kind: OptionKind::Choice(&["ordered", "writeback", "data"]),
            default: Some("ordered"),
        },
        ext::BLOCK,
        ext::INODE_RATIO,
        MOUNT,
        KERNEL,
    ],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "ext3",
        program: None,
        kernel_modules: ext::KERNEL_MODULES,
        mkfs: |layer, target| ext::mke2fs("ext3", &[], layer, target),
        mount_options: |layer| ext::mount_options(layer, &[]),
        minimum_size: ext::MINIMUM_SIZE,
        recovery: super::by_mount,
        may_compress: super::never,
    }),
    packages: ext::PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};
