//! `vmdk`: VMware's format.

use super::super::options::IMAGE_SIZE;
use super::{PACKAGES, format_node, qemu_img_create, qemu_img_map};
use crate::spec::no_conflicts;
use crate::{ImageFormatSpec, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec};

/// The layouts QEMU can write to at random places: not `streamOptimized`.
const SUBFORMATS: &[&str] =
    &["monolithicSparse", "monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat"];

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "vmdk",
    summary: "vmdk image: VMware's format, grains of 64k",
    options: &[
        OptionSpec {
            name: "subformat",
            summary: "one file or files of 2G, sparse or flat",
            kind: OptionKind::Choice(SUBFORMATS),
            default: Some("monolithicSparse"),
        },
        IMAGE_SIZE,
    ],
    definition: LayerDefinition::ImageFormat(ImageFormatSpec {
        extension: "vmdk",
        create,
        blockdev: |_, node, file, host| format_node("vmdk", node, file, host),
        map: Some(|path| qemu_img_map("vmdk", path)),
        in_one_file: |layer| !has_extent_files(layer),
        libvirt: true,
    }),
    packages: PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};

/// Whether the disk's data is in other files than the one that is opened. QEMU opens those by itself.
pub(in crate::layers) fn has_extent_files(layer: &Layer) -> bool {
    layer.name() == LAYER.name && layer.is_set("subformat")
}

fn create(layer: &Layer, path: &str, size_bytes: u64) -> Vec<String> {
    let subformat = layer.option("subformat").unwrap_or(SUBFORMATS[0]).to_owned();
    qemu_img_create("vmdk", &[("subformat", subformat)], path, size_bytes)
}

#[cfg(test)]
mod tests {
    use super::SUBFORMATS;
    use crate::Stack;

    #[test]
    fn only_a_monolithic_sparse_image_is_in_one_file() {
        let is_in_one = |subformat: &&&str| {
            let stack = Stack::parse(&format!("ext3/kvm/vmdk:subformat={subformat}/ntfs/hdd")).unwrap();
            let image = &stack.layers()[2];
            (image.image_format().unwrap().in_one_file)(image)
        };
        assert_eq!(SUBFORMATS.iter().filter(is_in_one).collect::<Vec<_>>(), [&"monolithicSparse"]);
    }
}
