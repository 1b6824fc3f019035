//! `reiserfs`: one balanced tree, packed tails, a journal.

use super::super::options::{KERNEL, MOUNT};
use super::{argv, written_mount_options};
use crate::spec::no_conflicts;
use crate::{Bytes, FileSystemSpec, Layer, LayerDefinition, LayerSpec, MkfsTarget, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "reiserfs",
    summary: "ReiserFS 3.6: one balanced tree, packed tails and a journal",
    options: &[
        OptionSpec {
            name: "journal",
            summary: "what the journal guarantees for file data: written before its metadata, nothing, or journalled as well",
            kind: OptionKind::Choice(&["ordered", "writeback", "data"]),
            default: Some("ordered"),
        },
        MOUNT,
        KERNEL,
    ],
    definition: LayerDefinition::FileSystem(FileSystemSpec {
        mount_type: "reiserfs",
        program: None,
        kernel_modules: &["reiserfs"],
        // Once -f allows a whole disk, twice asks nothing.
        mkfs,
        mount_options,
        // Found by trying mkfs.reiserfs 3.6.27 on files of whole MiB: the journal alone is 32 MiB.
        minimum_size: Bytes::mib(34),
        recovery: super::by_mount,
        may_compress: super::never,
    }),
    packages: &["reiserfsprogs"],
    check: no_conflicts,
    not_buildable: None,
};

fn mount_options(layer: &Layer) -> Vec<String> {
    let data = match layer.option("journal") {
        Some("writeback") => Some("data=writeback"),
        Some("data") => Some("data=journal"),
        _ => None,
    };
    let mut options = argv(data);
    options.extend(written_mount_options(layer));
    options
}

fn mkfs(_: &Layer, target: &MkfsTarget<'_>) -> Vec<String> {
    let mut command = argv(["mkfs.reiserfs", "-q", "-f", "-f"]);
    if let Some(drawn) = target.drawn {
        command.extend(["-u".to_owned(), drawn.uuid.to_string()]);
    }
    command.push(target.device.to_owned());
    command
}
