//! `null`: a disk without timing.

use super::super::options::{MERGES, READAHEAD, SCHED};
use super::{HOST_MEMORY, SIZE};
use crate::spec::no_conflicts;
use crate::{LayerDefinition, LayerSpec, MediumKind};

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "null",
    summary: "disk without a timing model: stores data and serves requests as fast as it can",
    options: &[SIZE, SCHED, READAHEAD, MERGES, HOST_MEMORY],
    definition: LayerDefinition::Medium(MediumKind::Null),
    packages: &[],
    check: no_conflicts,
    not_buildable: None,
};
