//! `raw`: the disk's bytes in a file.

use super::super::options::IMAGE_SIZE;
use super::{PACKAGES, format_node, qemu_img_create};
use crate::spec::no_conflicts;
use crate::{ImageFormatSpec, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "raw",
    summary: "raw image: the bytes of the disk in a file",
    options: &[
        OptionSpec {
            name: "alloc",
            summary: "how space is allocated: on write, with fallocate, by writing zeros, or in many pieces as on an aged file system",
            kind: OptionKind::Choice(&["sparse", "falloc", "full", "scattered"]),
            default: Some("sparse"),
        },
        IMAGE_SIZE,
    ],
    definition: LayerDefinition::ImageFormat(ImageFormatSpec {
        extension: "raw",
        create,
        blockdev: |_, node, file, host| format_node("raw", node, file, host),
        map: None,
        in_one_file: |_| true,
        libvirt: true,
    }),
    packages: PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

fn create(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String> {
    let options: &[(&str, String)] = match layer.option("alloc") {
        Some("scattered") => {
            let size = size_bytes.to_string();
            return ["{nestor}", "lab", "scattered-image", path, &size].map(str::to_owned).into();
        }
        Some(mode @ ("falloc" | "full")) => &[("preallocation", mode.to_owned())],
        _ => &[],
    };
    qemu_img_create("raw", options, path, size_bytes)
}
