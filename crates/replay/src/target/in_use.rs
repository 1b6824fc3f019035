//! Refuses what somebody else uses.

use std::path::Path;

use nestor_kernel::in_use;

use crate::error::ReplayError;

/// Refuses a device that is mounted, is swap, or on which something else is built, in itself or one of its partitions.
/// The kernel refuses as well when it is opened; this says by what.
pub(super) fn refuse_device(path: &Path, number: u64) -> Result<(), ReplayError> {
    let Some(used) = in_use::of_device(number) else { return Ok(()) };
    let why = format!("it is in use: {used}; nothing was written. Unmount it first, or name another device");
    Err(ReplayError::Refused { path: path.to_path_buf(), why })
}

/// Refuses a file that has a loop device.
pub(super) fn refuse_loop_file(path: &Path) -> Result<(), ReplayError> {
    let Some(device) = in_use::loop_device_of(path) else { return Ok(()) };
    let device = device.display();
    let why = format!("it is in use as the loop device {device}; `losetup --detach {device}` detaches it");
    Err(ReplayError::Refused { path: path.to_path_buf(), why })
}
