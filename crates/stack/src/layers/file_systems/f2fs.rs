//! `f2fs`: a log for flash.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, Layer, LayerDefinition, LayerSpec, MkfsTarget};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "f2fs",
    summary: "F2FS: six logs, for flash",
    options: &[MOUNT, KERNEL],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "f2fs",
        program: None,
        kernel_modules: &["crc32_generic", "f2fs"],
        mkfs,
        mount_options: written_mount_options,
        // Found by trying mkfs.f2fs 1.15 on files of whole MiB.
        minimum_size: Bytes::mib(64),
        recovery: super::by_mount,
        may_compress: super::compress_option,
    }),
    packages: &["f2fs-tools"],
    check: no_conflicts,
    not_buildable: None,
};

fn mkfs(_: &Layer, target: &MkfsTarget<'_>) -> Vec<String> {
    let mut command = argv(["mkfs.f2fs", "-q", "-f"]);
    if let Some(drawn) = target.drawn {
        command.extend(["-U".to_owned(), drawn.uuid.to_string()]);
    }
    command.push(target.device.to_owned());
    command
}
