//! `ext2`: no journal.

use super::super::options::{KERNEL, MOUNT};
use super::ext;
use crate::spec::no_conflicts;
use crate::{FileSystemSpec, LayerDefinition, LayerSpec, Recovery};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "ext2",
    summary: "ext2: block maps, no journal",
    options: &[ext::BLOCK, ext::INODE_RATIO, MOUNT, KERNEL],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "ext2",
        program: None,
        kernel_modules: ext::KERNEL_MODULES,
        mkfs: |layer, target| ext::mke2fs("ext2", &[], layer, target),
        mount_options: |layer| ext::mount_options(layer, &[]),
        minimum_size: ext::MINIMUM_SIZE,
        recovery: |_| Recovery::Check,
        may_compress: super::never,
    }),
    packages: ext::PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};
