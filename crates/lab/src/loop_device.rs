//! Makes the loop devices of a stack.

use nestor_stack::{LayerIndex, MachineIndex};

use crate::BuildError;
use crate::built::UndoStep;
use crate::progressing::{Offered, Progressing};
use crate::tuning::tune;

/// Makes a block device of an image file.
pub(crate) fn build_loop(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    on: MachineIndex,
    path: &str,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let machine = progressing.machine(on);
    let device = machine
        .attach_loop(path, layer.is_on("direct-io"))
        .map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    progressing.note_undo(on, UndoStep::DetachLoop(device.clone()));
    tune(progressing, on, layer, &device)?;
    Ok(progressing.offer_device(index, on, device, true))
}
