//! `raid5`: modelled rotating disks, striped with parity.

use super::super::options::{MERGES, READAHEAD, SCHED};
use super::{AT, HOST_MEMORY, PROFILE, SIZE, WCACHE};
use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec, MediumKind};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "raid5",
    summary: "modelled rotating disks, striped with parity",
    options: &[PROFILE, SIZE, AT, WCACHE, SCHED, READAHEAD, MERGES, HOST_MEMORY],
    definition: LayerDefinition::Medium(MediumKind::Raid5),
    packages: &[],
    check: no_conflicts,
    not_buildable: None,
};
