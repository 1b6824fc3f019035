//! `nvme`: modelled NVMe flash disk.

use super::super::options::{MERGES, READAHEAD, SCHED};
use super::{AT, HOST_MEMORY, PROFILE, SIZE, WCACHE};
use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec, MediumKind};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "nvme",
    summary: "modelled NVMe flash disk",
    options: &[PROFILE, SIZE, AT, WCACHE, SCHED, READAHEAD, MERGES, HOST_MEMORY],
    definition: LayerDefinition::Medium(MediumKind::Nvme),
    packages: &[],
    check: no_conflicts,
    not_buildable: None,
};
