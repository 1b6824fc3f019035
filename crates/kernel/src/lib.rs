//! The running kernel's view of its machine: mounts, and the users of a device or file.
//!
//! This crate reads the mounts itself because the crate `procfs` refuses a list in which a path is not UTF-8, and taking
//! stacks down depends on this list.

pub mod in_use;
pub mod mounts;
