//! The life of instances of one image, step by step, for whoever takes the time of each.

use std::time::Duration;

use nestor_machine::{Command, Machine, MachineError, Timed, run_together, shut_down_machines};
use nestor_stack::{LayerDefinition, LayerIndex, MachineIndex, MachineLabel, Stack};

use super::{BootedInstance, PlannedNode, Serving, SourcedImage, Span, TransferMachine, Transferred, dealt};
use crate::built::Top;
use crate::hypervisor::KVM_MODULES;
use crate::memory::AtOnce;
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::Guests;
use crate::{BuildError, Lab, Network};

/// How long a machine may take to power itself off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(60);

/// A stack of which the nodes stand, and the repository with the image; the virtual machines of its instances are not there yet. It has to be
/// given back to [`Lab::boot_instances`] or [`Lab::give_up_instance`].
pub struct Instance<'a> {
    pub(super) progressing: Progressing<'a>,
    /// The same on the nodes beside the first. What is undone there is undone with the first.
    pub(super) beside: Vec<Progressing<'a>>,
    pub(super) image: SourcedImage,
    serving: Option<Serving>,
    pub(super) offered: Option<Offered>,
}

/// A machine that has to do with lives.
#[derive(Clone, Copy)]
pub struct LifeMachine<'a> {
    /// What it is called.
    pub label: MachineLabel,
    /// Its position among the machines.
    pub index: MachineIndex,
    /// The way to it.
    pub machine: &'a Machine,
    /// The block device of its medium; `None` where the file system of a directory of the user's is on none.
    pub disk: Option<&'a str>,
}

impl Instance<'_> {
    /// The repository.
    pub fn repository(&self) -> LifeMachine<'_> {
        self.described(&self.image.repository.end, MachineLabel::Repository)
    }

    /// The nodes, to which instances are [dealt](dealt).
    pub fn nodes(&self) -> Vec<LifeMachine<'_>> {
        let label = |number: usize| match number {
            0 => MachineLabel::Host,
            _ => MachineLabel::OtherHost(u32::try_from(number + 1).unwrap_or(u32::MAX)),
        };
        let nodes = self.image.nodes.iter().enumerate();
        nodes.map(|(number, node)| self.described(&node.end, label(number))).collect()
    }

    fn described<'b>(&'b self, end: &'b TransferMachine, usual: MachineLabel) -> LifeMachine<'b> {
        let label = self.progressing.machines.get(end.index).map_or(usual, |machine| machine.label);
        let TransferMachine { index, machine, disk, .. } = end;
        LifeMachine { label, index: *index, machine, disk: disk.as_deref() }
    }

    /// Where the data set of the instance's workload is made at the repository, which goes into the image; `None` once that is complete.
    pub fn top_at_repository(&self) -> Option<&Top> {
        self.image.installed.as_ref().map(|installed| &installed.top)
    }

    /// What is known of its network.
    pub fn network(&self) -> Network<'_> {
        self.progressing.network()
    }

    /// The link between repository and nodes.
    pub fn link(&self) -> Option<LayerIndex> {
        self.progressing.stack.indexed_source().find_map(|(at, layer)| layer.link().map(|_| at))
    }
}

impl Lab {
    /// Builds a stack up to the image, which is made at its repository, with room on its nodes for so many instances.
    ///
    /// # Errors
    /// Which layer could not be made and why; what was made has been taken down.
    pub fn prepare_instances<'a>(
        &mut self,
        stack: &'a Stack,
        at_once: AtOnce,
    ) -> Result<Instance<'a>, BuildError> {
        stack.require_instances(at_once.instances, at_once.nodes)?;
        stack.require_nodes_at(at_once.nodes, &self.place)?;
        let no_source = || BuildError::refused(stack.medium(), "the stack has no source");
        let sourced = stack.sourced_image().ok_or_else(no_source)?;
        let mut progressing = self.begin(stack, Guests::Fresh(at_once.on_a_node()))?;
        match self.open_instances(&mut progressing, sourced, at_once) {
            Ok((image, beside)) => Ok(Instance { progressing, beside, image, serving: None, offered: None }),
            Err(e) => {
                self.give_up(progressing);
                Err(e)
            }
        }
    }

    fn open_instances<'a>(
        &mut self,
        progressing: &mut Progressing<'a>,
        sourced: LayerIndex,
        at_once: AtOnce,
    ) -> Result<(SourcedImage, Vec<Progressing<'a>>), BuildError> {
        let stack = progressing.stack;
        let Offered { on, thing } = self.build_below(progressing, sourced)?;
        // Its boot is measured, and no other guest's memory.
        if let Some(guest) = virtual_machine(stack) {
            self.stop_guests(guest);
        }
        let Thing::Directory { path, .. } = thing else {
            return Err(BuildError::refused(stack.layer(sourced), "it is not in a directory"));
        };
        let mut nodes = vec![PlannedNode::first(self, progressing, on, path)];
        let mut beside = Vec::new();
        for number in 2..=at_once.nodes {
            let (node, own) = self.build_other_node(progressing, sourced, number)?;
            nodes.push(node);
            beside.push(own);
        }
        if self.place.is_emulated() {
            nodes.iter().for_each(|node| self.load_modules(&node.machine, KVM_MODULES));
        }
        let image = self.open_source(progressing, sourced, nodes, at_once.instances)?;
        Ok((image, beside))
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

    /// Has the nodes fetch the image for each instance, or open it where it is, all at the same time.
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
        let nodes = self.nodes_of(booted)?;
        let places = dealt::deal(booted.iter().map(BootedInstance::place), nodes.len());
        let limit = POWER_OFF_LIMIT * u32::try_from(booted.len()).unwrap_or(u32::MAX);
        let ended = shut_down_machines(nodes.iter().zip(places).collect(), limit)?;
        // They have ended in any case, and with them all that was made in them.
        booted.iter().for_each(|instance| self.stop_guests(instance.guest));
        Ok(spans(dealt::gather(ended))?.into_iter().map(|(span, ())| span).collect())
    }

    /// Removes the images of instances from their nodes.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove_instances(&self, booted: &[BootedInstance]) -> Result<Vec<Span>, BuildError> {
        let nodes = self.nodes_of(booted)?;
        let remove = |instance: &BootedInstance| Command::new(["rm", "--", &instance.image]);
        let commands: Vec<Command> = booted.iter().map(remove).collect();
        let lines = dealt::deal(commands.iter().map(|command| vec![command.clone()]), nodes.len());
        let ran = dealt::gather(run_together(nodes.iter().zip(lines).collect())?);
        let removed = spans(ran.into_iter().flatten().collect())?;
        let each = removed.into_iter().zip(&commands).enumerate();
        let checked = each.map(|(instance, ((span, finished), command))| {
            let (node, _) = dealt::place(instance, nodes.len());
            nodes[node].succeeded(command, finished).map(|_| span)
        });
        Ok(checked.collect::<Result<_, MachineError>>()?)
    }

    /// The machines that instances run on, to which they were [dealt](dealt).
    fn nodes_of(&self, booted: &[BootedInstance]) -> Result<Vec<Machine>, BuildError> {
        let mut nodes: Vec<MachineIndex> = Vec::new();
        for instance in booted {
            if !nodes.contains(&instance.node) {
                nodes.push(instance.node);
            }
        }
        nodes.into_iter().map(|node| Ok(self.standing(node)?.machine.clone())).collect()
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
