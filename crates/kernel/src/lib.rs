//! A kernel's view of its machine: memory, mounts, the users of a device or file, disks, processes, their processor time and their
//! waiting for it, programs ended for want of memory, and what block devices and back ends of virtual disks
//! have done.
//!
//! This crate reads the mounts itself because the crate `procfs` refuses a list in which a path is not UTF-8, and taking
//! stacks down depends on this list.

pub mod block_stack;
mod disk_statistics;
pub mod disks;
pub mod in_use;
pub mod memory;
pub mod mounts;
pub mod out_of_memory;
pub mod processes;
pub mod processor_time;
mod served;
pub mod virtual_machines;
pub mod waiting;

pub use disk_statistics::DiskStatistics;
pub use served::ServedRequests;
