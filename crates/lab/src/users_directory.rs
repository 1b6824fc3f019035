//! Directories of the user's as media: a run has one of its own in them, on whatever file system they are on.

use nestor_machine::{Cause, FileKind};
use nestor_stack::{Layer, LayerIndex, MachineIndex, MediumKind};

use crate::built::UndoStep;
use crate::progressing::{Offered, Progressing, Thing};
use crate::user_medium::{not_there, wrong_kind};
use crate::{BuildError, Lab, image, medium_class};

impl Lab {
    /// A directory of the run's own in one of the user's.
    pub(crate) fn open_users_directory(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        on: MachineIndex,
    ) -> Result<Offered, BuildError> {
        let layer = progressing.stack.layer(index);
        let within = layer.path().map(|path| path.display().to_string()).unwrap_or_default();
        let machine = progressing.machine(on);
        let kept = vec![self.cache_directory.display().to_string()];
        let own = machine.make_own_directory(&within, kept).map_err(|e| match e.cause() {
            Cause::NotThere => BuildError::refused(layer, not_there(&within, FileKind::Directory)),
            Cause::OfAnotherKind { found } => {
                BuildError::refused(layer, wrong_kind(&within, found, FileKind::Directory))
            }
            Cause::NoSpace => BuildError::NoRoom { layer: layer.label(), message: e.to_string() },
            _ if e.machine_is_lost() => BuildError::Layer { layer: layer.label(), source: e },
            _ => BuildError::refused(layer, e.to_string()),
        })?;
        progressing.note_undo(on, UndoStep::RemoveOwnDirectory(own.path.clone()));
        if !own.takes_direct_io
            && let Some(bypassing) = bypassing(progressing, index)
        {
            let why = format!(
                "files on {} cannot bypass the page cache, as `{}` is to; name a directory on a file system of a disk, or use \
                 cache=writeback there",
                own.file_system,
                bypassing.label()
            );
            return Err(BuildError::refused(layer, why));
        }
        let machine_name = progressing.machines[on].label.stored();
        let file_system = format!("{} of {}, mounted at {}", own.file_system, own.source, own.mounted_at);
        progressing.note(format!("{machine_name} directory"), file_system);
        if on == MachineIndex::OUTERMOST {
            // That of a repository is no workload's.
            medium_class::note(progressing, on, layer, MediumKind::Directory);
        }
        let free_bytes = image::free_bytes(&machine, layer, &own.path)?;
        Ok(Offered { on, thing: Thing::Directory { path: own.path, free_bytes } })
    }
}

/// The virtual machine whose disk is a file on a medium and is to bypass the page cache of the machine that has it.
fn bypassing<'a>(progressing: &Progressing<'a>, medium: LayerIndex) -> Option<&'a Layer> {
    let stack = progressing.stack;
    if medium != stack.medium_index() {
        return None;
    }
    let crossing = stack.layers().iter().rev().find(|layer| layer.hypervisor().is_some())?;
    crossing.hypervisor().filter(|options| options.disk.cache().direct()).map(|_| crossing)
}
