//! Whether what the guests of a built stack read ahead from a repository still comes.

use nestor_machine::{Cause, MachineError, Prefetch};
use nestor_stack::MachineLabel;

use crate::built::VirtualDisk;
use crate::hypervisor::DISK;
use crate::{BuiltStack, Lab};

/// A prefetch that ended before all of its image was there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the prefetch of `{layer}` on the {machine} has failed: {why}; the rest of {image} did not come, so that what was measured after that is of \
     another stack"
)]
pub struct FailedPrefetch {
    /// The layer in its canonical notation.
    pub layer: String,
    /// The machine that has the overlay.
    pub machine: MachineLabel,
    /// The overlay's file there.
    pub image: String,
    /// What kind of thing went wrong.
    pub cause: Cause,
    /// What the hypervisor says of it.
    pub why: String,
    /// When, on the `CLOCK_MONOTONIC` of that machine, ns; `None` if that is not known.
    pub at_ns: Option<u64>,
}

impl Lab {
    /// The first prefetch of a built stack that has failed; `None` if all go on or are complete, or if there is none.
    ///
    /// # Errors
    /// A machine does not answer.
    pub fn failed_prefetch(&self, built: &BuiltStack) -> Result<Option<FailedPrefetch>, MachineError> {
        for disk in &built.virtual_disks {
            if let Some(failed) = failed(built, disk)? {
                return Ok(Some(failed));
            }
        }
        Ok(None)
    }
}

fn failed(built: &BuiltStack, disk: &VirtualDisk) -> Result<Option<FailedPrefetch>, MachineError> {
    let overlay = disk.image.map(|image| built.stack.layer(image));
    let Some(layer) = overlay.filter(|layer| layer.overlay().is_some_and(|overlay| overlay.prefetch)) else {
        return Ok(None);
    };
    let node = &built.machines[disk.machine];
    let Prefetch::Failed { cause, why, at_ns } = node.machine.prefetch(disk.guest, DISK)? else {
        return Ok(None);
    };
    let image = built.image_of(disk).map(|image| image.path.clone()).unwrap_or_default();
    Ok(Some(FailedPrefetch { layer: layer.label(), machine: node.label, image, cause, why, at_ns }))
}
