//! `f2fs`: a log for flash.

use super::super::options::MOUNT;
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, LayerDefinition, LayerSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "f2fs",
    summary: "F2FS: six logs, for flash",
    options: &[MOUNT],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "f2fs",
        kernel_modules: &["crc32_generic", "f2fs"],
        mkfs: |_, target| argv(["mkfs.f2fs", "-q", "-f", target.device]),
        mount_options: written_mount_options,
        // Found by trying mkfs.f2fs 1.15 on files of whole MiB.
        minimum_size: Bytes::mib(64),
    }),
    packages: &["f2fs-tools"],
    check: no_conflicts,
    not_buildable: None,
};
