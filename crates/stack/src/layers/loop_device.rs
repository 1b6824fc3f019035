//! `loop`: a raw image as a block device in the same machine.

use super::options::{MERGES, READAHEAD, SCHED};
use crate::{Conflict, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec};

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "loop",
    summary: "loop device: a raw image as a block device of the same machine",
    options: &[
        OptionSpec {
            name: "direct-io",
            summary: "bypass the page cache of the machine when reading and writing the image",
            kind: OptionKind::Flag,
            default: Some("off"),
        },
        SCHED,
        READAHEAD,
        MERGES,
    ],
    definition: LayerDefinition::Loop,
    packages: &["mount"],
    check: needs_raw,
    not_buildable: None,
};

fn holds_the_bytes_unchanged(layer: &Layer) -> bool {
    matches!(layer.definition(), LayerDefinition::ImageFormat(format) if format.map.is_none())
}

/// The kernel's loop driver knows no image format.
fn needs_raw(_layer: &Layer, below: Option<&Layer>) -> Result<(), Conflict> {
    match below {
        Some(below) if !holds_the_bytes_unchanged(below) => Err(Conflict {
            option: None,
            message: format!(
                "loop presents the bytes of the file unchanged; {} has its own format",
                below.name()
            ),
            help: format!("use raw below loop, or kvm above {}", below.name()),
        }),
        _ => Ok(()),
    }
}
