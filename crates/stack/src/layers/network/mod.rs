//! Network file systems: a directory of one machine in another.

pub(super) mod nfs;
