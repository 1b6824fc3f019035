//! The running machines, kept from one stack to the next: the host, and guests at their positions in the stacks.

use std::collections::BTreeMap;

use nestor_machine::{DiskAttachment, Facts, InterfaceAttachment, Machine, MachineError, MachineSpec};
use nestor_stack::{Accelerator, MachineIndex, MachineLabel, Relation, Stack};

use crate::built::BuiltMachine;
use crate::lab::LabFiles;
use crate::lab_problem::LabProblem;
use crate::served_disk::ServedRoot;
use crate::served_link::ServedLink;
use crate::{BuildError, Lab, packages};

/// A running machine.
pub(crate) struct Standing {
    pub(crate) machine: Machine,
    pub(crate) accelerator: Accelerator,
    pub(crate) facts: Facts,
    /// See [`BuiltMachine::greeted_ns`].
    pub(crate) greeted_ns: Option<u64>,
    /// `None` of a machine of the user's, which was there before.
    pub(crate) booted: Option<Booted>,
}

/// The facts of a lab machine.
pub(crate) struct Booted {
    pub(crate) spec: MachineSpec,
    /// The lab image as the machine itself has it.
    pub(crate) files: LabFiles,
    /// Packages with their versions.
    pub(crate) packages: BTreeMap<String, String>,
}

impl Standing {
    /// What a built stack says of it, in which it has this label.
    pub(crate) fn built(&self, label: MachineLabel) -> BuiltMachine {
        BuiltMachine {
            label,
            machine: self.machine.clone(),
            facts: self.facts.clone(),
            greeted_ns: self.greeted_ns,
            accelerator: self.accelerator,
        }
    }
}

impl Lab {
    /// The running machines that are as the outermost host, for other instances of a stack.
    pub(crate) fn other_hosts(&self) -> impl Iterator<Item = (MachineIndex, MachineLabel, &Standing)> {
        let standing = |(index, label): &(MachineIndex, MachineLabel)| {
            Some((*index, *label, self.machines.get(*index)?))
        };
        self.other_hosts.iter().filter_map(standing)
    }

    /// The outermost host, if it is the lab's own virtual machine.
    pub(crate) fn emulated_host(&self) -> Option<(&Standing, &Booted)> {
        let host = self.machines.get(MachineIndex::OUTERMOST)?;
        host.booted.as_ref().map(|booted| (host, booted))
    }

    /// A running machine.
    ///
    /// # Errors
    /// It was ended.
    pub(crate) fn standing(&self, index: MachineIndex) -> Result<&Standing, BuildError> {
        self.machines.get(index).ok_or_else(|| LabProblem::MachineEnded.into())
    }

    /// Whether a machine was there before, so that ending it is not a way to undo what was made on it.
    pub(crate) fn is_users(&self, index: MachineIndex) -> bool {
        self.machines.get(index).is_some_and(|standing| standing.machine.place().is_none())
    }

    /// The machine whose agent boots and ends a machine with this relation.
    ///
    /// # Errors
    /// It was ended.
    pub(crate) fn machine_that_boots(&self, relation: Relation) -> Result<Machine, BuildError> {
        match self.machines.parent_across(relation) {
            Some(parent) => Ok(self.standing(parent)?.machine.clone()),
            None => Ok(self.ground().clone()),
        }
    }

    /// Unplugs a disk from a guest.
    pub(crate) fn unplug(&self, guest: MachineIndex, disk: &DiskAttachment) -> Result<(), MachineError> {
        let parent = self.machines.parent(guest).and_then(|parent| self.machines.get(parent));
        let booted = self.machines.get(guest).and_then(|guest| guest.booted.as_ref());
        // A machine that is gone has no disks.
        let (Some(parent), Some(booted)) = (parent, booted) else { return Ok(()) };
        parent.machine.detach_disk(booted.spec.place, disk)
    }

    /// Unplugs a network interface from a machine.
    pub(crate) fn disconnect(
        &self,
        on: MachineIndex,
        interface: &InterfaceAttachment,
    ) -> Result<(), MachineError> {
        let booted = self.machines.get(on).and_then(|standing| standing.booted.as_ref());
        let boots = self.machines.relation(on).and_then(|relation| self.machine_that_boots(relation).ok());
        // A machine that is gone has no interfaces.
        let (Some(boots), Some(booted)) = (boots, booted) else { return Ok(()) };
        boots.detach_interface(booted.spec.place, interface)
    }

    /// Ends the servers of links, which nothing uses any more.
    pub(crate) fn end_links(&mut self) {
        std::mem::take(&mut self.links).into_iter().for_each(ServedLink::stop);
        // Its interfaces end with the client.
        self.kernel_links.clear();
    }

    /// The lab image as a machine has it that boots others of a stack.
    pub(crate) fn files_in(&mut self, stack: &Stack, index: MachineIndex) -> Result<LabFiles, BuildError> {
        match (&self.standing(index)?.booted, stack.lab_pack_of_guests()) {
            (Some(booted), _) => Ok(booted.files.clone()),
            (None, Some(pack)) => self.pack(pack),
            (None, None) => match stack.added_qemu() {
                Some(name) => Ok(self.added_qemu(name)?.image.clone()),
                None => self.ground_files(),
            },
        }
    }

    /// Packages that matter, with their versions, of a running machine of the stack.
    pub fn packages(&mut self, index: MachineIndex) -> BTreeMap<String, String> {
        if let Some(booted) = self.machines.get(index).and_then(|standing| standing.booted.as_ref()) {
            return booted.packages.clone();
        }
        if let Some(own) = self.machines.get(index).filter(|_| self.client_ground.is_some()) {
            return packages::of_debian_machine(&own.machine);
        }
        let ground = self.ground().clone();
        self.ground_packages.get_or_insert_with(|| packages::of_debian_machine(&ground)).clone()
    }

    /// Ends a guest with all machines that cannot go on without it, those first.
    pub(crate) fn stop_guests(&mut self, guest: MachineIndex) {
        let all = self.machines.with_joined(guest);
        for &index in &all {
            // What is inside a machine ends with it. That machine may stand still (its state was kept) and could not be asked to end it.
            let ends_with_another = self.machines.parent(index).is_some_and(|runs_it| all.contains(&runs_it));
            let relation = self.machines.relation(index).filter(|_| !ends_with_another);
            let boots = relation.and_then(|relation| self.machine_that_boots(relation).ok());
            let ended = self.machines.take(index).and_then(|standing| standing.machine.place());
            self.other_hosts.retain(|(other, _)| *other != index);
            if let Some(root) = self.roots.remove(&index) {
                root.stop();
            }
            if let (Some(boots), Some(place)) = (boots, ended) {
                // A machine that has already ended needs no further step.
                let _ = boots.stop_machine(place);
            }
            if let Some(plugged) = self.disks.remove(&index) {
                plugged.disk.stop();
            }
        }
    }

    /// Ends all guests at once, because one of them does not answer and would only delay the others. If the emulated host
    /// does not answer either, it is ended too, and booted again for the next stack.
    pub fn give_up_guests(&mut self) {
        let guests = self.machines.with_joined(MachineIndex::OUTERMOST);
        for guest in guests.into_iter().filter(|index| *index != MachineIndex::OUTERMOST) {
            self.stop_guests(guest);
        }
        if self.emulated_host().is_some_and(|(host, _)| host.machine.facts().is_err()) {
            self.stop_host();
        }
    }

    /// Ends the emulated host with everything in it, and its disk.
    pub fn stop_host(&mut self) {
        // What is inside a machine ends with it.
        let roots = self.machines.indexed().rev().filter(|(index, _)| self.machines.parent(*index).is_none());
        for place in roots.filter_map(|(_, standing)| standing.machine.place()) {
            let _ = self.ground().stop_machine(place);
        }
        self.machines.clear();
        self.other_hosts.clear();
        std::mem::take(&mut self.disks).into_values().for_each(|plugged| plugged.disk.stop());
        self.end_links();
        std::mem::take(&mut self.roots).into_values().for_each(ServedRoot::stop);
    }
}
