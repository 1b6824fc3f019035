//! The write caches of guests' disks.

use nestor_machine::{Machine, MachineError};

/// The write cache of a guest's virtio-blk disk, which the guest can switch while the disk is in use.
///
/// A disk that is to write through is laid out with its cache on: under an emulated processor that is ten times
/// faster, and what is on the disk afterwards is the same.
pub(crate) struct WriteCacheSwitch {
    guest: Machine,
    path: String,
}

impl WriteCacheSwitch {
    /// That of a device in the guest.
    pub(crate) fn of(guest: Machine, device: &str) -> Self {
        let path = format!("/sys/block/{}/cache_type", device.trim_start_matches("/dev/"));
        Self { guest, path }
    }

    /// Switches it; off writes out what is in it.
    pub(crate) fn set(&self, on: bool) -> Result<(), MachineError> {
        let word: &[u8] = if on { b"write back" } else { b"write through" };
        self.guest.write_file(&self.path, word)
    }
}
