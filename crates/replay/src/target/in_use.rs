//! Refuses what somebody else uses.

use std::path::Path;

use nestor_kernel::in_use;

use crate::error::ReplayError;

/// Refuses a device that is mounted, is swap, or on which something else is built, in itself or one of its partitions.
/// The kernel refuses as well when it is opened; this says by what.
pub(super) fn refuse_device(path: &Path, number: u64) -> Result<(), ReplayError> {
    in_use::refusal_of_device(number).map_or(Ok(()), |why| Err(refused(path, &why)))
}

/// Refuses a file that has a loop device.
pub(super) fn refuse_loop_file(path: &Path) -> Result<(), ReplayError> {
    in_use::refusal_of_file(path).map_or(Ok(()), |why| Err(refused(path, &why)))
}

/// The error for a device that the kernel refuses, because somebody has it.
pub(super) fn busy(path: &Path) -> ReplayError {
    refused(path, in_use::BUSY)
}

fn refused(path: &Path, why: &str) -> ReplayError {
    ReplayError::Refused { path: path.to_path_buf(), why: format!("it is {why}") }
}
