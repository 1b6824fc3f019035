//! Virtual machines as other tools describe them, and the stacks that they are.
//!
//! A reader for each tool ([`qemu`], [`proxmox`], [`libvirt`]) makes a [`VirtualMachine`] of its text. [`twins`] makes a stack of each disk of
//! it, with what [`HostFacts`] say of the machine around, and lists what the stack leaves out. Nothing here touches files or processes.

mod error;
mod host;
pub mod libvirt;
mod machine;
mod properties;
pub mod proxmox;
pub mod qemu;
mod twin;

pub use error::ConfigError;
pub use host::{HostFacts, ImageFacts, Under, image_facts};
pub use machine::{Accelerated, CacheSwitches, Disk, LeftOut, Store, VirtualMachine};
pub use twin::{Twin, twins};

#[cfg(test)]
mod tests;
