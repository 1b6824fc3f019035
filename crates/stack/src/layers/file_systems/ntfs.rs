//! `ntfs`: Windows' file system, by ntfs-3g.
//!
//! Debian's kernels are built without Linux's own driver (`CONFIG_NTFS3_FS`), so the file system is a program behind the kernel's
//! FUSE. It reads and writes the device through the page cache of the machine that has it, whatever its callers ask for, and a
//! `fsync` of any file writes all of the device out. It keeps no journal: at each mount it empties the one that Windows keeps.
//! Options of mount that it does not know it ignores.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, LayerDefinition, LayerSpec, Recovery};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "ntfs",
    summary: "NTFS by ntfs-3g, a program behind FUSE: a table of files, extents; no journal",
    options: &[MOUNT, KERNEL],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "fuseblk",
        program: Some("ntfs-3g"),
        kernel_modules: &["fuse"],
        // Without -Q it writes zeros to the whole device, without -F it refuses a whole disk. It has no option for the serial number.
        mkfs: |_, target| argv(["mkntfs", "-q", "-Q", "-F", target.device]),
        mount_options: written_mount_options,
        // mkntfs 2022.10.3: "Minimum NTFS volume size is 1MiB", but of 1 MiB it leaves out the last sector and refuses the rest.
        minimum_size: Bytes::mib(2),
        recovery: |_| Recovery::Check,
        may_compress: super::never,
    }),
    packages: &["ntfs-3g"],
    check: no_conflicts,
    not_buildable: None,
};
