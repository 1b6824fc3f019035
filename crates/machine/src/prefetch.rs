//! How far the copying of a backing file into a machine's disk is.

use serde::{Deserialize, Serialize};

use crate::refusal::Cause;

/// What has become of copying what the backing file of a disk has into the disk while its machine runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetch {
    /// It goes on.
    Running,
    /// All is there.
    Complete,
    /// It has ended before all was there.
    Failed {
        /// What kind of thing went wrong.
        cause: Cause,
        /// What the hypervisor says of it.
        why: String,
        /// When, on `CLOCK_MONOTONIC` of the machine that runs the hypervisor, ns; `None` if that is not known.
        at_ns: Option<u64>,
    },
}
