//! `qed`: QEMU's format between qcow and qcow2, two levels of tables without reference counts.

use super::super::options::IMAGE_SIZE;
use super::{PACKAGES, format_node, qemu_img_create, qemu_img_map};
use crate::spec::no_conflicts;
use crate::{Bytes, ImageFormatSpec, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, SizeRule};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "qed",
    summary: "qed image: two levels of tables, no reference counts",
    options: &[
        OptionSpec {
            name: "cluster",
            summary: "unit of allocation; an image with 4k is smaller than 16G",
            // Two levels of tables of four clusters each reach cluster³ / 4 bytes, which QEMU 7.2 computes in 64
            // bits: from 4M on it overflows and qemu-img refuses every size.
            kind: OptionKind::Size { min: Bytes::kib(4), max: Bytes::mib(2), rule: SizeRule::PowerOfTwo },
            default: Some("64k"),
        },
        IMAGE_SIZE,
    ],
    definition: LayerDefinition::ImageFormat(ImageFormatSpec {
        extension: "qed",
        create,
        blockdev: |_, node, file, host| format_node("qed", node, file, host),
        map: Some(|path| qemu_img_map("qed", path)),
        in_one_file: |_| true,
        libvirt: true,
    }),
    packages: PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

fn create(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String> {
    let cluster = layer.size("cluster").unwrap_or(Bytes::kib(64));
    qemu_img_create("qed", &[("cluster_size", cluster.get().to_string())], path, size_bytes)
}
