//! `jfs`: extents, a log of metadata.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, LayerDefinition, LayerSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "jfs",
    summary: "JFS: extents, trees of inodes and a log of metadata",
    options: &[MOUNT, KERNEL],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "jfs",
        program: None,
        kernel_modules: &["jfs"],
        mkfs: |_, target| argv(["mkfs.jfs", "-q", target.device]),
        mount_options: written_mount_options,
        // jfsutils 1.1.15: "Partition must be at least 16 megabytes."
        minimum_size: Bytes::mib(16),
        recovery: super::by_mount,
        may_compress: super::never,
    }),
    packages: &["jfsutils"],
    check: no_conflicts,
    not_buildable: None,
};
