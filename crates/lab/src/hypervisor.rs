//! A guest for a hypervisor layer: booted once for many stacks, its disk plugged in and out.

use std::time::Instant;

use nestor_machine::{
    Command, DiskAttachment, DiskMark, DiskSource, FeaturesLeftOut, HardwareTrial, Machine, MachineError,
    MachinePlace, MachineSpec, MachineTime, RootDisk, hypervisor,
};
use nestor_stack::layers::hypervisors::HypervisorOptions;
use nestor_stack::layers::hypervisors::devices::Attach;
use nestor_stack::{
    Accelerator, Depth, HypervisorKind, HypervisorSpec, Layer, LayerIndex, MachineIndex, MachineLabel,
    Relation, Stack,
};

use crate::built::{BuiltMachine, UndoStep, VirtualDisk};
use crate::held_memory::hold_memory;
use crate::lab::LabFiles;
use crate::progressing::{Offered, Progressing, Remote, Thing};
use crate::root_machine::Guests;
use crate::standing::{Booted, Standing};
use crate::time_limits::{boot_limit_ms, probe_limit_ms};
use crate::tuning::tune;
use crate::write_cache::WriteCacheSwitch;
use crate::{BuildError, Lab, memory};

/// The name of a guest's disk.
pub(crate) const DISK: &str = "nestor-disk";

/// Milliseconds a guest gets to notice a disk.
const FIND_LIMIT_MS: u64 = 20_000;

/// Makes SCSI hosts look for disks. No part of it is input.
const SCAN: &str = "for host in /sys/class/scsi_host/host*; do echo '- - -' > $host/scan; done";

/// How often they scan, a second apart: their driver takes a moment to see a new controller.
const SCANS: u32 = 20;

/// Modules with which a kernel runs virtual machines.
pub(crate) const KVM_MODULES: &[&str] = &["kvm_amd", "kvm_intel"];

/// What is below a virtual machine.
enum Below {
    /// A disk, and what it is made of.
    Disk(Box<DiskAttachment>, Thing),
    /// What is over a link.
    Network(Box<Thing>, Remote),
}

impl Below {
    fn disk(&self) -> Option<&DiskAttachment> {
        match self {
            Self::Disk(disk, _) => Some(disk),
            Self::Network(..) => None,
        }
    }
}

impl Lab {
    /// The machine of a hypervisor layer with its disk on top of what was built so far.
    pub(crate) fn build_guest(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        spec: &HypervisorSpec,
        below: Offered,
    ) -> Result<Offered, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(index);
        let refused = |why: &str| BuildError::refused(layer, why);
        let starts_none = || refused("it does not start a machine");
        let options = layer.hypervisor().ok_or_else(|| refused("it is not a virtual machine"))?;
        let parent = below.on;
        let relation = Relation::across(layer.crossing(), parent).ok_or_else(starts_none)?;
        let below = match below.thing {
            Thing::Remote { thing, remote } => Below::Network(thing, remote),
            other => Below::Disk(Box::new(attachment(stack, layer, options.kind, &other)?), other),
        };
        let on = progressing.machine_across(index).ok_or_else(starts_none)?;
        let at_start = options.disk.attach() == Attach::AtStart;
        let disk_at_start = below.disk().filter(|_| at_start);
        let place = self.boot_guest(progressing, index, (spec, &options), (on, relation), disk_at_start)?;
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let (disk, source) = match below {
            Below::Disk(disk, source) => (*disk, source),
            Below::Network(thing, remote) => {
                let remote =
                    self.join_guest(progressing, index, (parent, on), place, remote).map_err(failed)?;
                return Ok(Offered { on, thing: Thing::Remote { thing, remote } });
            }
        };
        let image = if let Thing::Image { layer, .. } = source { Some(layer) } else { None };
        let zeroed = image.is_some() || matches!(source, Thing::Block { zeroed: true, .. });
        let device = self.give_disk(progressing, (parent, on), place, &options, disk).map_err(failed)?;
        progressing.virtual_disks.push(VirtualDisk {
            layer: index,
            machine: parent,
            guest: place,
            hypervisor: options.kind,
            model: options.disk.model(),
            image,
        });
        tune(progressing, on, layer, &device)?;
        Ok(progressing.offer_device(index, on, device, zeroed))
    }

    /// Boots the machine of a hypervisor layer, or takes the one that stands, with a disk if it must have one from the start.
    fn boot_guest(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        (spec, options): (&HypervisorSpec, &HypervisorOptions<'_>),
        (on, relation): (MachineIndex, Relation),
        disk_at_start: Option<&DiskAttachment>,
    ) -> Result<MachinePlace, BuildError> {
        let stack = progressing.stack;
        let layer = stack.layer(index);
        let files =
            self.files_in(stack, self.machines.parent_across(relation).unwrap_or(MachineIndex::OUTERMOST))?;
        let of_stack = stack.machine_across(index).unwrap_or(on);
        let place = MachinePlace::Guest(on);
        let guest_spec = MachineSpec {
            place,
            ..self.guest_spec(stack, (of_stack, relation), spec, options, files, disk_at_start)
        };
        let is_new = disk_at_start.is_some();
        let label = stack.machines()[of_stack].label;
        let guest = self.guest(label, (on, relation), guest_spec, (is_new, progressing.guests)).map_err(
            |e| match e {
                BuildError::Machine(source) => BuildError::Layer { layer: layer.label(), source },
                other => other,
            },
        )?;
        let is_emulated_instead = guest.accelerator.is_emulation() && !spec.accelerator.is_emulation();
        progressing.machines.insert(on, relation, guest);
        if is_emulated_instead {
            let label = progressing.machines[on].label.stored();
            progressing.note(format!("{label} processors"), "emulated (TCG): KVM does not work here");
        }
        if let Some(available) = options.available {
            hold_memory(progressing, on, layer, available)?;
        }
        Ok(place)
    }

    /// Gives a guest its disk, unless it had it from the start; returns the block device in the guest.
    fn give_disk(
        &mut self,
        progressing: &mut Progressing<'_>,
        (parent, on): (MachineIndex, MachineIndex),
        place: MachinePlace,
        options: &HypervisorOptions<'_>,
        disk: DiskAttachment,
    ) -> Result<String, MachineError> {
        let guest = progressing.machine(on);
        let mark = disk.mark();
        if options.disk.attach() == Attach::AtStart {
            progressing.note_undo(on, UndoStep::Stop);
            self.load_modules(&guest, options.disk.kernel_modules());
        } else {
            self.plug_in(progressing, (parent, on), place, options, &disk)?;
        }
        let device = guest.find_disk(&mark, FIND_LIMIT_MS)?;
        if options.disk.guest_is_to_write_through() {
            let switch = WriteCacheSwitch::of(guest, &device);
            if switch.set(true).is_ok() {
                progressing.write_caches.push(switch);
            }
        }
        Ok(device)
    }

    pub(crate) fn guest_spec(
        &self,
        stack: &Stack,
        (index, relation): (MachineIndex, Relation),
        spec: &HypervisorSpec,
        options: &HypervisorOptions<'_>,
        files: LabFiles,
        disk_at_start: Option<&DiskAttachment>,
    ) -> MachineSpec {
        let depth = self.machines.depth_across(relation);
        let files = Self::with_its_kernel(stack, index, files);
        let accelerator = match spec.accelerator {
            // It may not work here.
            written if written.is_hardware_assisted() => self.recall(&self.guest_identity(depth)),
            written => Some(written),
        };
        // What was found before is not known in virtual time, and the KVM of the emulated host works nearly always: a probe would boot
        // a second guest for each kept host.
        let (hardware_trial, probe_timeout_ms) =
            match self.place.is_in_virtual_time() && depth == Depth::GUEST {
                true => (HardwareTrial::Itself, 4 * probe_limit_ms(depth)),
                false => (HardwareTrial::Probe, probe_limit_ms(depth)),
            };
        MachineSpec {
            place: MachinePlace::Guest(index),
            memory_bytes: memory::guest_needs(stack, index),
            cpus: options.cpus,
            hypervisor: options.kind,
            qemu: stack.machines()[index]
                .crossing
                .and_then(|at| self.command_of_qemu(stack.layer(at), depth)),
            accelerator,
            under_xen: None,
            left_out: FeaturesLeftOut::default(),
            xen_guest: options.disk.xen_guest(),
            kernel: files.kernel,
            modules_cpio: files.modules_cpio,
            root: RootDisk::Opened { path: files.root },
            time: MachineTime::Real,
            kept_state: None,
            shared_memory: false,
            // Whether a stack uses it or not: it cannot be added without booting again.
            disk_thread: true,
            disks_at_start: disk_at_start.cloned().into_iter().collect(),
            hardware_trial,
            probe_timeout_ms,
            boot_timeout_ms: boot_limit_ms(depth, accelerator, &self.slowest_boot_ms),
        }
    }

    /// The guest at a position: the one that is booted, if it fits and none has to be new, otherwise a new one.
    pub(crate) fn guest(
        &mut self,
        label: MachineLabel,
        (index, relation): (MachineIndex, Relation),
        spec: MachineSpec,
        (is_new, guests): (bool, Guests),
    ) -> Result<BuiltMachine, BuildError> {
        let is_kept = self.machines.relation(index) == Some(relation)
            && self.machines.get(index).is_some_and(|standing| fits(standing, &spec));
        if is_new || matches!(guests, Guests::Fresh(_)) || !is_kept {
            self.stop_guests(index);
            (self.progress)(&format!("booting the {label}"));
            let outer = self.machine_that_boots(relation)?;
            let depth = self.machines.depth_across(relation);
            // Two hypervisors cannot share what processors have for them.
            let uses_kvm = spec.accelerator != Some(Accelerator::VirtualBox);
            if uses_kvm && (self.place.is_emulated() || depth > Depth::GUEST) {
                // The lab's machines have no udev, so KVM has to be loaded here.
                self.load_modules(&outer, KVM_MODULES);
            }
            let identity = self.guest_identity(depth);
            let begun = Instant::now();
            let guest = self.boot(&outer, spec, (label, guests), &identity)?;
            self.note_boot(depth, begun.elapsed());
            self.machines.insert(index, relation, guest);
        }
        Ok(self.standing(index)?.built(label))
    }

    /// Plugs the disk in and makes the guest see it, in the order its driver needs. It is unplugged again also where the guest does
    /// not see it.
    fn plug_in(
        &mut self,
        progressing: &mut Progressing<'_>,
        (parent, on): (MachineIndex, MachineIndex),
        place: MachinePlace,
        options: &HypervisorOptions<'_>,
        disk: &DiskAttachment,
    ) -> Result<(), MachineError> {
        let (parent, guest) = (progressing.machine(parent), &progressing.machine(on));
        let mut attach = || {
            parent.attach_disk(place, disk)?;
            progressing.note_undo(on, UndoStep::DetachDisk(Box::new(disk.clone())));
            Ok::<_, MachineError>(())
        };
        let modules = options.disk.kernel_modules();
        if options.disk.attach() == Attach::BeforeDriver {
            for module in modules.iter().rev() {
                // Loaded for an earlier stack; `sd_mod` may be in use and stay.
                let _ = guest.run(Command::new(["modprobe", "--remove", "--quiet", module]));
                self.forget_module(guest, module);
            }
            attach()?;
            self.load_modules(guest, modules);
            return Ok(());
        }
        self.load_modules(guest, modules);
        attach()?;
        if options.disk.attach() == Attach::RunningThenScan {
            scan_until_found(guest, &disk.mark())?;
        }
        Ok(())
    }
}

/// Makes the guest's SCSI hosts look for the disk until it is there.
fn scan_until_found(guest: &Machine, disk: &DiskMark) -> Result<(), MachineError> {
    for _ in 1..SCANS {
        // There may be no host yet to look.
        guest.run(Command::new(["sh", "-c", SCAN]))?;
        if guest.find_disk(disk, 1000).is_ok() {
            return Ok(());
        }
    }
    guest.find_disk(disk, 1000).map(|_| ())
}

/// Whether a running guest can be used for a layer.
fn fits(standing: &Standing, wanted: &MachineSpec) -> bool {
    let Some(Booted { spec: kept, .. }) = &standing.booted else { return false };
    let same_accelerator = match wanted.accelerator {
        Some(wanted) => standing.accelerator == wanted,
        None => !kept.accelerator.is_some_and(Accelerator::is_emulation),
    };
    same_accelerator
        && kept.hypervisor == wanted.hypervisor
        && kept.xen_guest == wanted.xen_guest
        && kept.qemu == wanted.qemu
        && kept.kernel == wanted.kernel
        && kept.memory_bytes == wanted.memory_bytes
        && kept.cpus == wanted.cpus
        && kept.disks_at_start.is_empty()
}

/// The disk of a hypervisor layer, made of what is below it.
fn attachment(
    stack: &Stack,
    layer: &Layer,
    kind: HypervisorKind,
    below: &Thing,
) -> Result<DiskAttachment, BuildError> {
    let image = match below {
        Thing::Image { layer, .. } => Some(stack.opened_image(*layer)),
        _ => None,
    };
    let prefetch = match below {
        Thing::Image { layer, .. } => stack.layer(*layer).overlay().is_some_and(|overlay| overlay.prefetch),
        _ => false,
    };

    let source = match (below, &image) {
        (Thing::Block { device, .. }, _) => DiskSource::Device(device),
        (Thing::Image { path, .. }, Some(image)) => DiskSource::Image { path, layer: image, prefetch },
        (Thing::Directory { .. } | Thing::Image { .. }, _) => {
            return Err(BuildError::refused(layer, "the layer below it is a directory, not a disk"));
        }
        (Thing::Remote { .. }, _) => {
            return Err(BuildError::refused(layer, "the layer below it is on a network, and no disk"));
        }
    };
    hypervisor(kind)
        .disk(layer, DISK, source)
        .ok_or_else(|| BuildError::refused(layer, "the layer below it is not a disk"))
}
