//! `file:`: file of the machine, used through a loop device.

use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec, MediumKind, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "file",
    summary: "file of the machine, used through a loop device",
    options: &[OptionSpec {
        name: "path",
        summary: "absolute path; it runs to the end of the stack",
        kind: OptionKind::Path,
        default: None,
    }],
    definition: LayerDefinition::Medium(MediumKind::File),
    packages: &["mount"],
    check: no_conflicts,
    not_buildable: None,
};
