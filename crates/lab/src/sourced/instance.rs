//! The life of instances of one image, step by step, for whoever takes the time of each.

use std::time::Duration;

use nestor_machine::{Command, Machine, MachineError, MachinePlace, Timed};
use nestor_stack::{LayerDefinition, LayerIndex, MachineIndex, Stack};

use super::{BootedInstance, Serving, SourcedImage, Span, Transferred};
use crate::built::Top;
use crate::hypervisor::KVM_MODULES;
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::Guests;
use crate::{BuildError, Lab, Network};

/// How long a machine may take to power itself off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(60);

/// A stack of which the node stands, and the repository with the image; the virtual machines of its instances are not there yet. It has to be
/// given back to [`Lab::boot_instances`] or [`Lab::give_up_instance`].
pub struct Instance<'a> {
    pub(super) progressing: Progressing<'a>,
    pub(super) image: SourcedImage,
    serving: Option<Serving>,
    pub(super) offered: Option<Offered>,
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

    /// The block devices of their media; `None` where the file system of a directory of the user's is on none.
    pub fn disks(&self) -> &[Option<String>; 2] {
        &self.image.disks
    }

    /// Where the data set of the instance's workload is made at the repository, which goes into the image; `None` once that is complete.
    pub fn top_at_repository(&self) -> Option<&Top> {
        self.image.installed.as_ref().map(|installed| &installed.top)
    }

    /// What is known of its network.
    pub fn network(&self) -> Network<'_> {
        self.progressing.network()
    }

    /// The link between them.
    pub fn link(&self) -> Option<LayerIndex> {
        self.progressing.stack.indexed_source().find_map(|(at, layer)| layer.link().map(|_| at))
    }
}

impl Lab {
    /// Builds a stack up to the image, which is made at its repository, with room on its node for so many instances.
    ///
    /// # Errors
    /// Which layer could not be made and why; what was made has been taken down.
    pub fn prepare_instances<'a>(
        &mut self,
        stack: &'a Stack,
        instances: u32,
    ) -> Result<Instance<'a>, BuildError> {
        stack.require_instances(instances)?;
        let no_source = || BuildError::refused(stack.medium(), "the stack has no source");
        let sourced = stack.sourced_image().ok_or_else(no_source)?;
        let mut progressing = self.begin(stack, Guests::Fresh(instances))?;
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
            self.open_source(&mut progressing, (sourced, on), &path, instances)
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
    pub fn serve_instances(&mut self, instance: &mut Instance<'_>) -> Result<(), BuildError> {
        self.close_source(&mut instance.progressing, &mut instance.image)?;
        instance.serving = Some(self.serve_image(&mut instance.progressing, &instance.image)?);
        self.set_timing(true)
    }

    /// Has the node fetch the image for each instance, or open it where it is, all at the same time.
    ///
    /// # Errors
    /// It does not come.
    pub fn fetch_instances(&self, instance: &Instance<'_>) -> Result<Transferred, BuildError> {
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
    pub fn settle_instances(
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

    /// Takes down instances that were not booted.
    pub fn give_up_instance(&mut self, instance: Instance<'_>) {
        // The machines may be lost, which also removes them.
        let _ = instance.image.clear();
        self.give_up(instance.progressing);
    }

    /// Has the virtual machines of instances write out and unmount what is mounted in them and power themselves off, all at the same time.
    ///
    /// # Errors
    /// One of them does not, and was ended.
    pub fn shut_down_instances(&mut self, booted: &[BootedInstance]) -> Result<Vec<Span>, BuildError> {
        let places: Vec<MachinePlace> = booted.iter().map(BootedInstance::place).collect();
        let limit = POWER_OFF_LIMIT * u32::try_from(places.len()).unwrap_or(u32::MAX);
        let node = self.node_of(booted)?;
        let ended = node.shut_down_machines(&places, limit)?;
        // They have ended in any case, and with them all that was made in them.
        booted.iter().for_each(|instance| self.stop_guests(instance.guest));
        Ok(spans(ended)?.into_iter().map(|(span, ())| span).collect())
    }

    /// Removes the images of instances from their node.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove_instances(&self, booted: &[BootedInstance]) -> Result<Vec<Span>, BuildError> {
        let node = self.node_of(booted)?;
        let remove = |instance: &BootedInstance| Command::new(["rm", "--", &instance.image]);
        let commands: Vec<Command> = booted.iter().map(remove).collect();
        let ran = node.run_together(commands.iter().map(|command| vec![command.clone()]).collect())?;
        let removed = spans(ran.into_iter().flatten().collect())?;
        let each = removed.into_iter().zip(&commands);
        let checked = each.map(|((span, finished), command)| node.succeeded(command, finished).map(|_| span));
        Ok(checked.collect::<Result<_, MachineError>>()?)
    }

    /// The machine that instances run on.
    fn node_of(&self, booted: &[BootedInstance]) -> Result<Machine, BuildError> {
        let node = booted.first().map_or(MachineIndex::OUTERMOST, |instance| instance.node);
        Ok(self.standing(node)?.machine.clone())
    }
}

/// What was done at the same time; the first error, if something was not.
pub(super) fn spans<T>(done: Vec<Timed<T>>) -> Result<Vec<(Span, T)>, MachineError> {
    done.into_iter()
        .map(|Timed { begin_ns, end_ns, result }| Ok((Span { begin_ns, end_ns }, result?)))
        .collect()
}

/// The outermost virtual machine of a stack.
fn virtual_machine(stack: &Stack) -> Option<MachineIndex> {
    stack.machine_across(hypervisor_layer(stack)?)
}

/// The lowest layer of a stack that makes a virtual machine.
pub(super) fn hypervisor_layer(stack: &Stack) -> Option<LayerIndex> {
    let is_one = |at: &LayerIndex| matches!(stack.layer(*at).definition(), LayerDefinition::Hypervisor(_));
    stack.indexed_layers().rev().map(|(at, _)| at).find(is_one)
}
