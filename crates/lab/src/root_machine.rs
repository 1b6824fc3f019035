//! Machines of the lab that are in no other: the emulated host, and those that links join to it.

use std::time::Instant;

use nestor_machine::{HardwareTrial, LAB_HYPERVISOR, MachinePlace, MachineSpec, MachineTime, RootDisk};
use nestor_stack::{Accelerator, Depth, MachineIndex, MachineLabel, Relation, Stack};

use crate::accelerators::MachineIdentity;
use crate::beforehand::require_memory;
use crate::lab::LabFiles;
use crate::lab_problem::LabProblem;
use crate::served_disk::ServedRoot;
use crate::time_limits::{boot_limit_ms, probe_limit_ms};
use crate::{BuildError, Lab, memory};

/// The seed of machines that are booted to be kept.
const SEED_OF_KEPT: u64 = 1;

/// Processors of the host in real time: one for its guest, one for itself.
const ROOT_CPUS: u32 = 2;

/// A machine of the lab that is in no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootMachine {
    pub(crate) index: MachineIndex,
    /// The machine of the stack that it is like, in most cases itself.
    pub(crate) like: MachineIndex,
    pub(crate) label: MachineLabel,
    pub(crate) relation: Relation,
    pub(crate) guests: Guests,
}

/// When the virtual machines in a machine in virtual time are booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guests {
    /// Before its state is kept, as far as they need no disk to boot.
    Kept,
    /// When their layer is built: their boot is measured. So many instances of the stack's virtual machine are to run at the same time.
    Fresh(u32),
    /// They have been started for this stack alone.
    Started,
}

impl Guests {
    /// How many instances of its virtual machine a machine has to have room for.
    pub(crate) const fn at_once(self) -> u32 {
        match self {
            Self::Fresh(instances) => instances,
            Self::Kept | Self::Started => 1,
        }
    }
}

impl RootMachine {
    /// The one with the medium.
    pub(crate) const fn host(guests: Guests) -> Self {
        let index = MachineIndex::OUTERMOST;
        Self { index, like: index, label: MachineLabel::Host, relation: Relation::Outermost, guests }
    }

    /// One of a stack beside another.
    pub(crate) fn beside(stack: &Stack, index: MachineIndex, other: MachineIndex) -> Self {
        let (label, relation) = (stack.machines()[index].label, Relation::Beside(other));
        Self { index, like: index, label, relation, guests: Guests::Kept }
    }

    /// One that is as the one with the medium, for other instances, at a position that no machine of the stack has. They are counted from 2.
    pub(crate) const fn other_host(index: MachineIndex, number: u32, guests: Guests) -> Self {
        let host = MachineIndex::OUTERMOST;
        let label = MachineLabel::OtherHost(number);
        Self { index, like: host, label, relation: Relation::Beside(host), guests }
    }

    /// By what the ground knows it.
    pub(crate) fn place(self) -> MachinePlace {
        MachinePlace::Root(self.index)
    }
}

impl Lab {
    /// Boots a root machine, or has it go on from a kept state.
    pub(crate) fn boot_root(
        &mut self,
        stack: &Stack,
        root: RootMachine,
        memory_bytes: u64,
        kept_state: Option<String>,
    ) -> Result<(), BuildError> {
        self.check_memory(stack, root, memory_bytes)?;
        let files = self.files_for(stack, root.like)?;
        let identity = MachineIdentity::of_ground(&self.ground_facts, files.hash.as_ref());
        if self.place.is_in_virtual_time() {
            let directory = format!("{}/{}-root", self.ground_facts.work_directory, root.place());
            let served = ServedRoot::start(self.ground(), &directory, &files.root)?;
            self.roots.insert(root.index, served);
        }
        let remembered = self.memory.recall(&identity);
        let size = (memory_bytes, self.root_cpus(stack, root));
        let spec = self.root_spec(stack, root, size, kept_state, files, remembered);
        let label = root.label;
        if spec.kept_state.is_none() {
            (self.progress)(&format!("booting the emulated {label}"));
        }
        let begun = Instant::now();
        let machine = self.boot(&self.ground().clone(), spec, (label, Guests::Kept), &identity);
        let machine = machine.inspect_err(|_| self.stop_root(root.index))?;
        self.machines.insert(root.index, root.relation, machine);
        self.note_boot(Depth::ROOT, begun.elapsed());
        Ok(())
    }

    /// Refuses a root machine that with the other ones of its stack asks for more memory than the ground has.
    fn check_memory(&self, stack: &Stack, root: RootMachine, memory_bytes: u64) -> Result<(), LabProblem> {
        let available_bytes = self.ground_facts.memory_bytes;
        let labels = stack.machines();
        let demand = |(index, needed)| {
            // One that stands may have more than this stack needs.
            let stands = self.machines.get(index).and_then(|standing| standing.booted.as_ref());
            let other = stands.map_or(needed, |booted| booted.spec.memory_bytes);
            (labels[index].label, if index == root.index { memory_bytes } else { other })
        };
        // Those beside the stack's stand, or are to.
        let others = self.other_hosts().filter(|(index, ..)| *index != root.index);
        let others =
            others.filter_map(|(_, label, other)| Some((label, other.booted.as_ref()?.spec.memory_bytes)));
        let own = (root.like != root.index).then_some((root.label, memory_bytes));
        let of_stack = memory::roots_need(stack).into_iter().map(demand);
        require_memory(of_stack.chain(others).chain(own).collect(), available_bytes)
    }

    /// Processors of a root machine: of one beside another, what its link says.
    pub(crate) fn root_cpus(&self, stack: &Stack, root: RootMachine) -> u32 {
        let link = stack.machines()[root.like].crossing.and_then(|at| stack.layer(at).link());
        link.map_or(ROOT_CPUS.min(self.ground_facts.cpus.max(1)), |link| link.cpus)
    }

    /// `remembered`: what executes instructions here, if that was found in real time.
    fn root_spec(
        &self,
        stack: &Stack,
        root: RootMachine,
        (memory_bytes, cpus): (u64, u32),
        kept_state: Option<String>,
        files: LabFiles,
        remembered: Option<Accelerator>,
    ) -> MachineSpec {
        let is_virtual = self.place.is_in_virtual_time();
        // A kept machine serves every seed, so no seed may influence it.
        let seed = if kept_state.is_some() { self.seed.processor(root.index) } else { SEED_OF_KEPT };
        let xen = files.hypervisor.and_then(|hypervisor| memory::under_xen(stack, memory_bytes, hypervisor));
        MachineSpec {
            place: root.place(),
            memory_bytes: memory::with_xen(memory_bytes, xen.as_ref()),
            cpus,
            hypervisor: LAB_HYPERVISOR,
            qemu: None,
            accelerator: if is_virtual { Some(Accelerator::Tcg) } else { remembered },
            under_xen: xen,
            left_out: stack.unsuited_features().into(),
            xen_guest: None,
            kernel: files.kernel,
            modules_cpio: files.modules_cpio,
            root: match self.roots.get(&root.index) {
                Some(served) => RootDisk::Served { socket: served.socket.clone() },
                None => RootDisk::Opened { path: files.root },
            },
            kept_state,
            time: match self.place.modelled_processor() {
                Some(speed) => MachineTime::Virtual { seed, speed },
                None => MachineTime::Real,
            },
            shared_memory: true,
            disk_thread: false,
            disks_at_start: Vec::new(),
            hardware_trial: HardwareTrial::Probe,
            probe_timeout_ms: probe_limit_ms(Depth::ROOT),
            boot_timeout_ms: boot_limit_ms(Depth::ROOT, None, &self.slowest_boot_ms),
        }
    }

    /// Ends a root machine with everything in it and all that is joined to it.
    pub(crate) fn stop_root(&mut self, root: MachineIndex) {
        if root == MachineIndex::OUTERMOST {
            self.stop_host();
        } else {
            self.stop_guests(root);
            // It may not have come so far as to stand.
            if let Some(served) = self.roots.remove(&root) {
                served.stop();
            }
        }
    }
}
