//! `vdi`: VirtualBox's format.

use super::super::options::IMAGE_SIZE;
use super::{PACKAGES, format_node, qemu_img_create, qemu_img_map};
use crate::spec::no_conflicts;
use crate::{ImageFormatSpec, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "vdi",
    summary: "vdi image: VirtualBox's format, one table of blocks of 1M",
    options: &[
        OptionSpec {
            name: "prealloc",
            summary: "what is allocated when the image is made: nothing, or every block in the table (a static image)",
            kind: OptionKind::Choice(&["off", "metadata"]),
            default: Some("off"),
        },
        IMAGE_SIZE,
    ],
    definition: LayerDefinition::ImageFormat(ImageFormatSpec {
        extension: "vdi",
        create,
        blockdev: |_, node, file, host| format_node("vdi", node, file, host),
        map: Some(|path| qemu_img_map("vdi", path)),
        in_one_file: |_| true,
        libvirt: true,
    }),
    packages: PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

fn create(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String> {
    // QEMU's vdi has no `preallocation=metadata`; `static=on` is the same thing.
    let options: &[(&str, String)] =
        if layer.is_set("prealloc") { &[("static", "on".to_owned())] } else { &[] };
    qemu_img_create("vdi", options, path, size_bytes)
}
