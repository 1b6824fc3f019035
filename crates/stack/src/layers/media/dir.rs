//! `dir:`: directory of the machine, on the file system that it is on.

use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec, MediumKind, OptionKind, OptionSpec};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "dir",
    summary: "directory of the machine, with the file system that it is on",
    options: &[OptionSpec {
        name: "path",
        summary: "absolute path; it runs to the end of the stack",
        kind: OptionKind::Path,
        default: None,
    }],
    definition: LayerDefinition::Medium(MediumKind::Directory),
    packages: &[],
    check: no_conflicts,
    not_buildable: None,
};
