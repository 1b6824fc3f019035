//! `xfs`: allocation groups, extents, a log.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, Layer, LayerDefinition, LayerSpec, MkfsTarget, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "xfs",
    summary: "XFS: allocation groups, extents, delayed allocation and a log",
    options: &[
        OptionSpec {
            name: "block",
            summary: "block size",
            kind: OptionKind::Choice(&["1k", "2k", "4k"]),
            default: Some("4k"),
        },
        MOUNT,
        KERNEL,
    ],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "xfs",
        program: None,
        kernel_modules: &["crc32c_generic", "xfs"],
        mkfs,
        mount_options: written_mount_options,
        // xfsprogs 6.1: "Filesystem must be larger than 300MB."
        minimum_size: Bytes::mib(300),
        recovery: super::by_mount,
        may_compress: super::never,
    }),
    packages: &["xfsprogs"],
    check: no_conflicts,
    not_buildable: None,
};

fn mkfs(layer: &Layer, target: &MkfsTarget<'_>) -> Vec<String> {
    let mut command = argv(["mkfs.xfs", "-q", "-f"]);
    if let Some(block) = layer.size("block").filter(|_| layer.is_set("block")) {
        command.extend(["-b".to_owned(), format!("size={}", block.get())]);
    }
    if let Some(drawn) = target.drawn {
        command.extend(["-m".to_owned(), format!("uuid={}", drawn.uuid)]);
    }
    command.push(target.device.to_owned());
    command
}
