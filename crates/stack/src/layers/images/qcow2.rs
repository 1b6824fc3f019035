//! `qcow2`: QEMU's own format, with two levels of tables and reference counts.

use serde_json::{Value, json};

use super::super::hypervisors::HostBlockOptions;
use super::super::options::IMAGE_SIZE;
use super::{PACKAGES, format_node, qemu_img_create, qemu_img_map};
use crate::spec::no_conflicts;
use crate::{Bytes, ImageFormatSpec, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, SizeRule};

pub(crate) static LAYER: LayerSpec = LayerSpec {
    name: "qcow2",
    summary: "qcow2 image: QEMU's format, two levels of tables and reference counts",
    options: &[
        OptionSpec {
            name: "cluster",
            summary: "unit of allocation",
            kind: OptionKind::Size { min: Bytes(512), max: Bytes::mib(2), rule: SizeRule::PowerOfTwo },
            default: Some("64k"),
        },
        OptionSpec {
            name: "prealloc",
            summary: "what is allocated when the image is made: nothing, the tables, space with fallocate, or written zeros",
            kind: OptionKind::Choice(&["off", "metadata", "falloc", "full"]),
            default: Some("off"),
        },
        OptionSpec {
            name: "lazy-refcounts",
            summary: "write reference counts late; a crash needs a check of the image",
            kind: OptionKind::Flag,
            default: Some("off"),
        },
        OptionSpec {
            name: "l2-cache",
            summary: "memory for second-level tables (unset: QEMU's choice, enough for the image up to 32M)",
            kind: OptionKind::Size {
                min: Bytes::kib(1),
                max: Bytes::gib(1),
                rule: SizeRule::MultipleOf(512),
            },
            default: None,
        },
        IMAGE_SIZE,
    ],
    definition: LayerDefinition::ImageFormat(ImageFormatSpec {
        extension: "qcow2",
        create,
        blockdev,
        map: Some(|path| qemu_img_map("qcow2", path)),
        in_one_file: |_| true,
        libvirt: true,
    }),
    packages: PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

fn create(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(cluster) = layer.size("cluster") {
        options.push(("cluster_size", cluster.get().to_string()));
    }
    if let Some(mode) = layer.option("prealloc").filter(|_| layer.is_set("prealloc")) {
        options.push(("preallocation", mode.to_owned()));
    }
    if layer.is_on("lazy-refcounts") {
        options.push(("lazy_refcounts", "on".to_owned()));
    }
    qemu_img_create("qcow2", &options, path, size_bytes)
}

fn blockdev(layer: &Layer, node_name: &str, file_node: &str, host: &HostBlockOptions) -> Value {
    let mut node = format_node("qcow2", node_name, file_node, host);
    if let Some(size) = layer.size("l2-cache") {
        node["l2-cache-size"] = json!(size.get());
    }
    node
}
