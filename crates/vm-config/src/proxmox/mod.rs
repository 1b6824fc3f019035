//! A virtual machine of Proxmox VE: `/etc/pve/qemu-server/VMID.conf` (qm.conf(5)) and `/etc/pve/storage.cfg` (pvesm(1)).

mod config;
mod drive;
mod storages;

use crate::{ConfigError, VirtualMachine};
pub use storages::Storages;

/// Where Proxmox VE has its storages.
pub const STORAGE_CFG: &str = "/etc/pve/storage.cfg";

/// Reads a configuration. `source_name` is the file's name in errors; `storages` is what `storage.cfg` says, if there is one.
///
/// # Errors
/// A line that is none of such a file, a value that Proxmox VE would not take, or a disk on a storage that `storages` has not.
pub fn read(
    source_name: &str,
    text: &str,
    storages: Option<&Storages>,
) -> Result<VirtualMachine, ConfigError> {
    config::read(source_name, text, storages)
}
