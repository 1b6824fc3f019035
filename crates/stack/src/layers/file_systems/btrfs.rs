//! `btrfs`: copy on write.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, Layer, LayerDefinition, LayerSpec, MkfsTarget, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "btrfs",
    summary: "Btrfs: copy on write, checksums",
    options: &[
        OptionSpec {
            name: "metadata",
            summary: "copies of metadata on the device",
            kind: OptionKind::Choice(&["dup", "single"]),
            default: Some("dup"),
        },
        OptionSpec {
            name: "nocow",
            summary: "files and images are overwritten in place, without checksums (chattr +C on their directory)",
            kind: OptionKind::Flag,
            default: Some("off"),
        },
        MOUNT,
        KERNEL,
    ],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "btrfs",
        program: None,
        kernel_modules: &["crc32c_generic", "btrfs"],
        mkfs,
        mount_options: written_mount_options,
        // Found by trying mkfs.btrfs 6.2 on files of whole MiB.
        minimum_size: Bytes::mib(109),
        recovery: super::by_mount,
        may_compress: super::compress_option,
    }),
    packages: &["btrfs-progs"],
    check: no_conflicts,
    not_buildable: None,
};

fn mkfs(layer: &Layer, target: &MkfsTarget<'_>) -> Vec<String> {
    let mut command = argv(["mkfs.btrfs", "-q", "-f"]);
    if let Some(metadata) = layer.option("metadata").filter(|_| layer.is_set("metadata")) {
        command.extend(argv(["-m", metadata]));
    }
    if let Some(drawn) = target.drawn {
        command.extend(["-U".to_owned(), drawn.uuid.to_string()]);
    }
    command.push(target.device.to_owned());
    command
}
