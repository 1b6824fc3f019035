//! The boot of instances: their virtual machines start at the same time, and then each gets its disk.

use nestor_machine::{Machine, MachinePlace, MachineSpec, start_machines};
use nestor_stack::layers::hypervisors::HypervisorOptions;
use nestor_stack::{HypervisorSpec, LayerDefinition, MachineIndex, MachineLabel, Relation};

use super::instance::{hypervisor_layer, spans};
use super::{Instance, SourcedImage, dealt};
use crate::built::{BuiltStack, Top};
use crate::progressing::{Offered, Progressing};
use crate::root_machine::Guests;
use crate::standing::Standing;
use crate::{BuildError, Lab};

/// An instance that runs.
pub struct BootedInstance {
    /// Its stack. That of the first has the machines that all of them share.
    pub built: BuiltStack,
    /// When its file systems were mounted, on its node's `CLOCK_MONOTONIC`, ns.
    pub booted_ns: u64,
    /// Its virtual machine.
    pub(super) guest: MachineIndex,
    /// The machine that runs it.
    pub(super) node: MachineIndex,
    /// The path of its image there.
    pub(super) image: String,
}

/// The virtual machine of a stack's instances.
struct Guest<'a> {
    spec: &'a HypervisorSpec,
    options: HypervisorOptions<'a>,
    /// Its position in the stack.
    index: MachineIndex,
    /// How it is joined to the first node.
    relation: Relation,
    label: MachineLabel,
}

impl BootedInstance {
    /// By what its node knows its virtual machine.
    pub fn place(&self) -> MachinePlace {
        MachinePlace::Guest(self.guest)
    }
}

impl<'a> Guest<'a> {
    /// `None` of a stack without one, or whose guest has another place.
    fn of(progressing: &Progressing<'a>, node: MachineIndex) -> Option<Self> {
        let stack = progressing.stack;
        let at = hypervisor_layer(stack)?;
        let layer = stack.layer(at);
        let LayerDefinition::Hypervisor(spec) = layer.definition() else { return None };
        let index = stack.machine_across(at)?;
        let (options, relation) = (layer.hypervisor()?, Relation::across(layer.crossing(), node)?);
        Some(Self { spec, options, index, relation, label: stack.machines()[index].label })
    }
}

/// What came up of an instance.
struct Up {
    guest: MachineIndex,
    top: (MachineIndex, Top),
    booted_ns: u64,
}

impl Lab {
    /// Boots the virtual machines of instances, and builds all that is in them up to where their workload works. What was booted has to be given
    /// back to [`Lab::take_down_instances`].
    ///
    /// # Errors
    /// Which layer could not be made and why, with the instances as they are now.
    pub fn boot_instances<'a>(
        &mut self,
        mut instance: Instance<'a>,
    ) -> Result<Vec<BootedInstance>, Box<(BuildError, Instance<'a>)>> {
        match self.boot_all(&mut instance) {
            Ok((first, others)) => {
                let first = self.booted(instance.progressing, &instance.image, 0, first);
                Ok([first].into_iter().chain(others).collect())
            }
            Err(e) => Err(Box::new((e, instance))),
        }
    }

    /// The layers of one instance above its image.
    fn build_instance(
        &mut self,
        progressing: &mut Progressing<'_>,
        image: &SourcedImage,
        guest: MachineIndex,
        offered: Offered,
    ) -> Result<Up, BuildError> {
        let node = self.standing(offered.on)?.machine.clone();
        let top = self.build_above(progressing, image.index, offered)?;
        Ok(Up { guest, top, booted_ns: node.read_clock(false)? })
    }

    fn boot_all(&mut self, instance: &mut Instance<'_>) -> Result<(Up, Vec<BootedInstance>), BuildError> {
        let Instance { progressing, beside, image, offered, .. } = instance;
        let refused = |why: &str| BuildError::refused(progressing.stack.layer(image.index), why);
        let node = image.nodes.first().ok_or_else(|| refused("it goes to no machine"))?.end.index;
        let guest = Guest::of(progressing, node).ok_or_else(|| refused("no virtual machine has it"))?;
        let offered = offered.take().ok_or_else(|| refused("it has not come yet"))?;
        if image.instances == 1 {
            // Its virtual machine is that of any stack, but fresh.
            return Ok((self.build_instance(progressing, image, guest.index, offered)?, Vec::new()));
        }
        let started = self.start_together(progressing, image, &guest)?;
        let built = self.build_each((progressing, beside), image, &started, offered);
        if built.is_err() {
            started.into_iter().for_each(|guest| self.stop_guests(guest));
        }
        built
    }

    /// Starts the virtual machines of all instances at the same time: where they stand, that of the first where its stack has it.
    fn start_together(
        &mut self,
        progressing: &Progressing<'_>,
        image: &SourcedImage,
        guest: &Guest<'_>,
    ) -> Result<Vec<MachineIndex>, BuildError> {
        let stack = progressing.stack;
        let files = self.files_in(stack, guest.relation.joined_to().unwrap_or(MachineIndex::OUTERMOST))?;
        let spec =
            self.guest_spec(stack, (guest.index, guest.relation), guest.spec, &guest.options, files, None);
        let instances = image.instances;
        let others = self.machines.positions_after(guest.index).take(instances as usize - 1);
        let guests: Vec<MachineIndex> = [guest.index].into_iter().chain(others).collect();
        // Each may have to wait for all others.
        let specs: Vec<MachineSpec> = guests
            .iter()
            .map(|index| MachineSpec {
                place: MachinePlace::Guest(*index),
                boot_timeout_ms: spec.boot_timeout_ms.saturating_mul(instances.into()),
                probe_timeout_ms: spec.probe_timeout_ms.saturating_mul(instances.into()),
                ..spec.clone()
            })
            .collect();
        (self.progress)(&format!("booting {instances} instances"));
        let nodes: Vec<(MachineIndex, Machine)> =
            image.nodes.iter().map(|node| (node.end.index, node.end.machine.clone())).collect();
        let started = self.stand_together(&nodes, guest, &guests, &specs);
        if started.is_err() {
            // One that stands ends with its position, others are known to the node alone.
            guests.iter().for_each(|guest| self.stop_guests(*guest));
            for ((_, node), specs) in nodes.iter().zip(dealt::deal(&specs, nodes.len())) {
                specs.iter().for_each(|spec| drop(node.stop_machine(spec.place)));
            }
        }
        started.map(|()| guests)
    }

    fn stand_together(
        &mut self,
        nodes: &[(MachineIndex, Machine)],
        guest: &Guest<'_>,
        guests: &[MachineIndex],
        specs: &[MachineSpec],
    ) -> Result<(), BuildError> {
        let dealt_specs = dealt::deal(specs.iter().cloned(), nodes.len());
        let machines = nodes.iter().map(|(_, node)| node);
        let started = spans(dealt::gather(start_machines(machines.zip(dealt_specs).collect())?))?;
        for (number, ((index, spec), (span, boot))) in guests.iter().zip(specs).zip(started).enumerate() {
            let (node_index, node) = &nodes[dealt::place(number, nodes.len()).0];
            let machine = node.machine_inside(spec.place, &label_of(guest.label, number));
            let standing = self.look_at(machine, spec.clone(), boot.accelerator)?;
            let standing = Standing { greeted_ns: Some(span.end_ns), ..standing };
            self.machines.insert(*index, Relation::Inside(*node_index), standing);
        }
        Ok(())
    }

    /// Builds what is above the image of each instance, one after the other, on the first node and those `beside` it.
    fn build_each(
        &mut self,
        (progressing, beside): (&mut Progressing<'_>, &[Progressing<'_>]),
        image: &SourcedImage,
        guests: &[MachineIndex],
        offered: Offered,
    ) -> Result<(Up, Vec<BootedInstance>), BuildError> {
        progressing.guests = Guests::Started;
        // None of them has the virtual machine of another.
        let others: Vec<_> = (1..guests.len())
            .map(|number| match dealt::place(number, image.nodes.len()) {
                (0, _) => progressing.beside(guests[number]),
                (node, _) => beside[node - 1].beside(guests[number]),
            })
            .collect();
        let first = guests.first().copied().unwrap_or(MachineIndex::OUTERMOST);
        let first = self.build_instance(progressing, image, first, offered)?;
        let mut booted = Vec::new();
        for (number, (mut other, guest)) in others.into_iter().zip(&guests[1..]).enumerate() {
            let offered = image.offer(&mut other, number + 1)?;
            let up = self.build_instance(&mut other, image, *guest, offered)?;
            booted.push(self.booted(other, image, number + 1, up));
        }
        Ok((first, booted))
    }

    fn booted(
        &self,
        progressing: Progressing<'_>,
        image: &SourcedImage,
        number: usize,
        up: Up,
    ) -> BootedInstance {
        let Up { guest, top, booted_ns } = up;
        let built = progressing.into_built(top, self.place.host_time().unwrap_or_default());
        let (node, path) = image.of_instance(number).map_or_else(
            || (MachineIndex::OUTERMOST, String::new()),
            |(node, path)| (node.end.index, path.clone()),
        );
        BootedInstance { built, booted_ns, guest, node, image: path }
    }

    /// Ends instances that were booted, and takes their stack down.
    ///
    /// # Errors
    /// The steps that could not be undone; machines that do not answer have been ended.
    pub fn take_down_instances(&mut self, booted: Vec<BootedInstance>) -> Result<(), BuildError> {
        let mut booted = booted.into_iter();
        let Some(first) = booted.next() else { return Ok(()) };
        // What is undone with the first needs nothing of theirs.
        booted.for_each(|other| self.stop_guests(other.guest));
        self.take_down(first.built)
    }
}

/// The name of the virtual machine of an instance, counted from 0.
fn label_of(label: MachineLabel, number: usize) -> String {
    match number {
        0 => label.to_string(),
        _ => format!("{label} of instance {}", number + 1),
    }
}
