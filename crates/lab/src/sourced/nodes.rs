//! The nodes of an image: the machine with the stack's medium, and for many instances others that are as that is.

use nestor_machine::Machine;
use nestor_stack::{LayerIndex, MachineIndex, Stack};

use super::TransferMachine;
use crate::built::UndoStep;
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::RootMachine;
use crate::{BuildError, Lab, memory};

/// A machine that an image is to come to.
pub(crate) struct PlannedNode {
    pub(super) index: MachineIndex,
    pub(super) machine: Machine,
    disk: Option<String>,
    /// Where the image goes.
    pub(super) directory: String,
}

impl PlannedNode {
    /// The machine with the stack's medium, or the one above that which has the image.
    pub(super) fn first(
        lab: &Lab,
        progressing: &Progressing<'_>,
        index: MachineIndex,
        directory: String,
    ) -> Self {
        let disk = lab.disk_of_medium(progressing, progressing.stack.medium_index(), index);
        Self { index, machine: progressing.machine(index), disk, directory }
    }

    /// With a directory for the transfer's own files.
    pub(super) fn with_own(self, own_directory: String) -> TransferMachine {
        let Self { index, machine, disk, .. } = self;
        TransferMachine { index, machine, disk, own_directory }
    }
}

impl Lab {
    /// Boots a machine as the one with the stack's medium, and makes there what is below the image: on a disk of its own. They are counted
    /// from 2. It is taken down with the stack.
    pub(super) fn build_other_node<'a>(
        &mut self,
        progressing: &mut Progressing<'a>,
        image: LayerIndex,
        number: u32,
    ) -> Result<(PlannedNode, Progressing<'a>), BuildError> {
        let stack = progressing.stack;
        let node = self.boot_other_host(progressing, number)?;
        let mut own = Progressing::new(stack, progressing.seed, progressing.alone, progressing.guests);
        own.machines = progressing.machines.clone();
        own.modelled = progressing.modelled;
        let standing = self.standing(node.index)?;
        let machine = standing.machine.clone();
        own.machines.insert(node.index, node.relation, standing.built(node.label));
        let built = self.build_node(&mut own, image, node.index);
        // Also where it is not complete.
        progressing.undo.append(&mut own.undo);
        let directory = built?;
        let disk = self.disk_of_medium(&own, stack.medium_index(), node.index);
        Ok((PlannedNode { index: node.index, machine, disk, directory }, own))
    }

    /// The directory in which an image is to be.
    fn build_node(
        &mut self,
        own: &mut Progressing<'_>,
        image: LayerIndex,
        on: MachineIndex,
    ) -> Result<String, BuildError> {
        let stack = own.stack;
        let medium = stack.medium_index();
        let offered = self.build_medium(own, medium, on)?;
        let Offered { thing, .. } = self.build_layers_where(own, |at| at < medium && at > image, offered)?;
        match thing {
            Thing::Directory { path, .. } => Ok(path),
            _ => Err(BuildError::refused(stack.layer(image), "it is not in a directory")),
        }
    }

    fn boot_other_host(
        &mut self,
        progressing: &mut Progressing<'_>,
        number: u32,
    ) -> Result<RootMachine, BuildError> {
        let stack = progressing.stack;
        let (_, booted) = self.emulated_host().ok_or_else(|| no_host(stack))?;
        let memory_bytes = memory::of_host(&booted.spec);
        let last = stack.machines().indexed().last().map_or(MachineIndex::OUTERMOST, |(index, _)| index);
        let index = self.machines.positions_after(last).next().ok_or_else(|| no_host(stack))?;
        let node = RootMachine::other_host(index, number, progressing.guests);
        self.other_hosts.push((index, node.label));
        progressing.note_undo(index, UndoStep::Stop);
        if self.place.is_in_virtual_time() {
            self.go_on_from_kept(stack, node, memory_bytes)?;
        } else {
            self.boot_root(stack, node, memory_bytes, None)?;
        }
        Ok(node)
    }
}

fn no_host(stack: &Stack) -> BuildError {
    BuildError::refused(stack.medium(), "only an emulated host has others beside it")
}
