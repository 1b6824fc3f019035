//! `dev:`: block device of the machine.

use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec, MediumKind, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "dev",
    summary: "block device of the machine",
    options: &[OptionSpec {
        name: "path",
        summary: "absolute path; it runs to the end of the stack",
        kind: OptionKind::Path,
        default: None,
    }],
    definition: LayerDefinition::Medium(MediumKind::Device),
    packages: &[],
    check: no_conflicts,
    not_buildable: None,
};
