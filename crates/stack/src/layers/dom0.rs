//! `dom0`: the machine with the medium runs under Xen, as its privileged domain.

use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec};

pub(super) static LAYER: LayerSpec = LayerSpec {
    name: "dom0",
    summary: "the machine with the medium, but as the privileged domain of a Xen",
    options: &[],
    definition: LayerDefinition::PrivilegedDomain,
    packages: super::hypervisors::XEN_PACKAGES,
    check: no_conflicts,
    not_buildable: None,
};
