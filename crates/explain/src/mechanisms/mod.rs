//! The mechanisms, one file each, in the order in which they claim parts of the time.
//!
//! A mechanism whose sign is unmistakable comes before one that would claim the same time with less proof.

mod amplification;
mod cpu_bound;
mod flushes;
mod fragmentation;
mod host_cache;
mod image_metadata;
mod link_bound;
mod merging;
mod metadata_rpc;
mod misalignment;
mod path_length;
mod read_ahead;
mod read_modify_write;
mod readahead_over_nfs;
mod seeks_to_log;
mod single_queue;
mod synchronous_write;

use nestor_stack::Stack;

use crate::case::{Case, Left};
use crate::finding::{Finding, MechanismName};

/// A way in which a layer makes a workload slower or faster.
pub struct Mechanism {
    /// Its name.
    pub name: MechanismName,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Whether a stack has what it needs to act. It is named only where the stack has, or its baseline.
    pub acts_in: fn(&Stack) -> bool,
    /// Claims its part of the time, if it was at work.
    pub find: fn(&Case<'_>, &mut Left) -> Option<Finding>,
}

/// All of them, in the order in which they claim.
pub static MECHANISMS: &[&Mechanism] = &[
    // It causes reads for writes too, and then the cause is not their size.
    &misalignment::MECHANISM,
    &read_modify_write::MECHANISM,
    &image_metadata::MECHANISM,
    &host_cache::MECHANISM,
    &read_ahead::MECHANISM,
    &readahead_over_nfs::MECHANISM,
    &link_bound::MECHANISM,
    &synchronous_write::MECHANISM,
    &metadata_rpc::MECHANISM,
    &amplification::JOURNAL_OF_JOURNAL,
    &amplification::HOST,
    &amplification::GUEST,
    &flushes::MECHANISM,
    &seeks_to_log::MECHANISM,
    &fragmentation::MECHANISM,
    &single_queue::MECHANISM,
    &merging::MECHANISM,
    &path_length::MECHANISM,
    &cpu_bound::MECHANISM,
];
