//! The life of an instance, step by step, for whoever takes the time of each.

use std::time::Duration;

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{LayerDefinition, LayerIndex, MachineIndex, Stack};

use super::{Serving, SourcedImage, Transferred};
use crate::built::{BuiltStack, Top, Undo, UndoStep};
use crate::hypervisor::KVM_MODULES;
use crate::lab_problem::LabProblem;
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::Guests;
use crate::{BuildError, Lab, Network};

/// How long a machine may take to power itself off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(60);

/// A stack of which the node stands, and the repository with the image; the virtual machine is not there yet. It has to be given back to
/// [`Lab::boot_instance`] or [`Lab::give_up_instance`].
pub struct Instance<'a> {
    progressing: Progressing<'a>,
    image: SourcedImage,
    serving: Option<Serving>,
    offered: Option<Offered>,
}

impl Instance<'_> {
    /// The repository and the node.
    pub fn machines(&self) -> &[Machine; 2] {
        &self.image.machines
    }

    /// Their positions among the machines of the stack.
    pub fn machine_indexes(&self) -> [MachineIndex; 2] {
        [self.image.repository, self.image.node]
    }

    /// The block devices of their media.
    pub fn disks(&self) -> &[String; 2] {
        &self.image.disks
    }

    /// Where the data set of the instance's workload is made at the repository, which goes into the image; `None` once that is complete.
    pub fn top_at_repository(&self) -> Option<&Top> {
        self.image.installed.as_ref().map(|installed| &installed.top)
    }

    /// What is known of its network.
    pub fn network(&self) -> Network<'_> {
        let Progressing { stack, machines, file_systems, .. } = &self.progressing;
        Network { stack, machines, file_systems }
    }

    /// The link between them.
    pub fn link(&self) -> Option<LayerIndex> {
        self.progressing.stack.indexed_source().find_map(|(at, layer)| layer.link().map(|_| at))
    }
}

impl Lab {
    /// Builds a stack up to the image, which is made at its repository.
    ///
    /// # Errors
    /// Which layer could not be made and why; what was made has been taken down.
    pub fn prepare_instance<'a>(&mut self, stack: &'a Stack) -> Result<Instance<'a>, BuildError> {
        stack.require_instance()?;
        let no_source = || BuildError::refused(stack.medium(), "the stack has no source");
        let sourced = stack.sourced_image().ok_or_else(no_source)?;
        let mut progressing = self.begin(stack, Guests::Fresh)?;
        let opened = self.build_below(&mut progressing, sourced).and_then(|Offered { on, thing }| {
            // Its boot is measured, and no other guest's memory.
            if let Some(guest) = virtual_machine(stack) {
                self.stop_guests(guest);
            }
            if self.place.is_emulated() {
                self.load_modules(&progressing.machine(on), KVM_MODULES);
            }
            let Thing::Directory { path, .. } = thing else {
                return Err(BuildError::refused(stack.layer(sourced), "it is not in a directory"));
            };
            self.open_source(&mut progressing, sourced, on, &path)
        });
        match opened {
            Ok(image) => Ok(Instance { progressing, image, serving: None, offered: None }),
            Err(e) => {
                self.give_up(progressing);
                Err(e)
            }
        }
    }

    /// Completes the image and serves it: caches are empty then, and disks and link have their timing.
    ///
    /// # Errors
    /// The image could not be made, or its server does not start.
    pub fn serve_instance(&mut self, instance: &mut Instance<'_>) -> Result<(), BuildError> {
        self.close_source(&mut instance.progressing, &mut instance.image)?;
        instance.serving = Some(self.serve_image(&mut instance.progressing, &instance.image)?);
        self.set_timing(true)
    }

    /// Has the node fetch the image, or open it where it is.
    ///
    /// # Errors
    /// It does not come.
    pub fn fetch_instance(&self, instance: &Instance<'_>) -> Result<Transferred, BuildError> {
        let stack = instance.progressing.stack;
        let layer = stack.layer(instance.image.index);
        let serving = instance.serving.as_ref();
        let serving = serving.ok_or_else(|| BuildError::refused(layer, "its image is not served yet"))?;
        self.fetch_image(stack, &instance.image, serving)
    }

    /// Ends what only copies, and checks what arrived; meanwhile disks and link have no timing.
    ///
    /// # Errors
    /// What arrived is not what left.
    pub fn settle_instance(
        &mut self,
        instance: &mut Instance<'_>,
        transferred: Transferred,
    ) -> Result<(), BuildError> {
        let Some(serving) = &instance.serving else { return Ok(()) };
        self.set_timing(false)?;
        let settled = self.settle_image(&mut instance.progressing, &instance.image, serving, Ok(transferred));
        instance.offered = Some(settled?);
        self.set_timing(true)
    }

    /// Boots the virtual machine, and all that is in it up to where its workload works.
    ///
    /// # Errors
    /// Which layer could not be made and why, with the instance as it is now.
    pub fn boot_instance<'a>(
        &mut self,
        mut instance: Instance<'a>,
    ) -> Result<BuiltStack, Box<(BuildError, Instance<'a>)>> {
        let Instance { progressing, image, offered, .. } = &mut instance;
        let built = match offered.take() {
            Some(offered) => self.build_above(progressing, image.index, offered),
            None => Err(BuildError::refused(progressing.stack.layer(image.index), "it has not come yet")),
        };
        match built {
            Ok(top) => Ok(instance.progressing.into_built(top, self.place.host_time().unwrap_or_default())),
            Err(e) => Err(Box::new((e, instance))),
        }
    }

    /// Takes down an instance that was not booted.
    pub fn give_up_instance(&mut self, instance: Instance<'_>) {
        // The machines may be lost, which also removes them.
        let _ = instance.image.clear();
        self.give_up(instance.progressing);
    }

    /// Has the virtual machine of an instance unmount what is mounted in it and power itself off.
    ///
    /// # Errors
    /// It does not, and was ended.
    pub fn shut_down_instance(&mut self, built: &mut BuiltStack) -> Result<(), BuildError> {
        let stack = built.stack.clone();
        let Some(guest) = virtual_machine(&stack) else { return Ok(()) };
        let inside = |on: MachineIndex| self.machines.with_joined(guest).contains(&on);
        let (of_guest, others) =
            std::mem::take(&mut built.undo).into_iter().partition::<Vec<Undo>, _>(|undo| inside(undo.on));
        built.undo = others;
        // Its disk goes with it.
        let steps = of_guest
            .into_iter()
            .filter(|undo| !matches!(undo.step, UndoStep::DetachDisk(_) | UndoStep::Stop))
            .collect();
        let problems = self.undo_steps(steps);
        // One that could not unmount was ended.
        self.standing(guest)?;
        let relation = self.machines.relation(guest);
        let parent = relation.and_then(|relation| self.machine_that_boots(relation).ok());
        let place = self.machines.get(guest).and_then(|standing| standing.machine.place());
        let ended = match (parent, place) {
            (Some(parent), Some(place)) => parent.shut_down_machine(place, POWER_OFF_LIMIT),
            _ => Ok(()),
        };
        // It has ended in any case.
        self.stop_guests(guest);
        ended?;
        if problems.is_empty() { Ok(()) } else { Err(LabProblem::NotUndone { problems }.into()) }
    }

    /// Removes the image of an instance from its node.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_instance(&self, built: &BuiltStack) -> Result<(), MachineError> {
        let image = built.stack.sourced_image().and_then(|at| built.image(at));
        let Some(image) = image else { return Ok(()) };
        let node = &built.machines[image.machine].machine;
        node.run_ok(Command::new(["rm", "--", &image.path])).map(drop)
    }
}

/// The outermost virtual machine of a stack.
fn virtual_machine(stack: &Stack) -> Option<MachineIndex> {
    let is_one = |at: &LayerIndex| matches!(stack.layer(*at).definition(), LayerDefinition::Hypervisor(_));
    let lowest = stack.indexed_layers().rev().map(|(at, _)| at).find(is_one)?;
    stack.machine_across(lowest)
}
