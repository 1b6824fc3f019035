//! `vhdx`: Hyper-V's format.

use super::super::options::IMAGE_SIZE;
use super::{PACKAGES, format_node, qemu_img_create, qemu_img_map};
use crate::spec::no_conflicts;
use crate::{Bytes, ImageFormatSpec, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, SizeRule};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "vhdx",
    summary: "vhdx image: Hyper-V's format, one table of blocks and a log of its metadata",
    options: &[
        OptionSpec {
            name: "subformat",
            summary: "when blocks are allocated: each when it is first written, or all when the image is made",
            kind: OptionKind::Choice(&["dynamic", "fixed"]),
            default: Some("dynamic"),
        },
        OptionSpec {
            name: "block",
            summary: "unit of allocation (unset: QEMU's choice, 8M up to 32G)",
            kind: OptionKind::Size { min: Bytes::mib(1), max: Bytes::mib(256), rule: SizeRule::PowerOfTwo },
            default: None,
        },
        IMAGE_SIZE,
    ],
    definition: LayerDefinition::ImageFormat(ImageFormatSpec {
        extension: "vhdx",
        create,
        blockdev: |_, node, file, host| format_node("vhdx", node, file, host),
        map: Some(|path| qemu_img_map("vhdx", path)),
        in_one_file: |_| true,
        libvirt: false,
    }),
    packages: PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

fn create(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(subformat) = layer.option("subformat") {
        options.push(("subformat", subformat.to_owned()));
    }
    if let Some(block) = layer.size("block") {
        options.push(("block_size", block.get().to_string()));
    }
    qemu_img_create("vhdx", &options, path, size_bytes)
}
