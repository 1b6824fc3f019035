//! `nilfs2`: one log, with a checkpoint at every sync.
//!
//! What was overwritten or deleted stays in the log until NILFS2's cleaner, a daemon, frees its segments. The mount helper
//! `mount.nilfs2` would start the daemon. Nestor mounts without helpers, so nothing cleans, and a file system is full
//! once as much has been written as it holds.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, LayerDefinition, LayerSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "nilfs2",
    summary: "NILFS2: one log with checkpoints; its cleaner does not run",
    options: &[MOUNT, KERNEL],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "nilfs2",
        program: None,
        kernel_modules: &["nilfs2"],
        // mkfs.nilfs2 has no option for the UUID.
        mkfs: |_, target| argv(["mkfs.nilfs2", "-q", "-f", target.device]),
        mount_options: written_mount_options,
        // mkfs.nilfs2 2.2.9: "required size=134221824 bytes", which is 128 MiB and 4 KiB.
        minimum_size: Bytes::mib(129),
        recovery: super::by_mount,
        may_compress: super::never,
    }),
    packages: &["nilfs-tools"],
    check: no_conflicts,
    not_buildable: None,
};
