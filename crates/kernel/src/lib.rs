//! What the running kernel says of the machine it runs on: what is mounted where, and what uses a device or file.
//!
//! Mounts are read here and not by the crate `procfs`: it refuses a list in which a path is not UTF-8, and what is taken down
//! depends on this list.

pub mod in_use;
pub mod mounts;
