//! A guest for a hypervisor layer: booted once for many stacks, its disk plugged in and out.

use std::collections::BTreeMap;
use std::time::Instant;

use nestor_machine::{Accelerator, Command, DiskAttachment, DiskBackend, Machine, MachineSpec, MachineTime};
use nestor_stack::layers::hypervisors::devices::{Attach, Controller, Disk};
use nestor_stack::layers::hypervisors::{self, HostTarget, HypervisorOptions};
use nestor_stack::{HypervisorSpec, ImageFormatSpec, Layer, LayerDefinition, Stack};

use crate::builder::{Offered, Progressing, refused, tune};
use crate::built::{BlockPoint, BuiltMachine, Undo, VirtualDisk};
use crate::lab::LabFiles;
use crate::{BuildError, Lab, memory};

/// The serial number of a guest's disk, by which it finds it.
const SERIAL: &str = "nestor-disk";

/// The I/O thread every guest has, whether a stack uses it or not: it cannot be added without booting again.
const IOTHREAD: &str = "io0";

/// Milliseconds a guest gets to boot: ten seconds is usual in an emulated host, minutes when emulated in emulation.
const BOOT_LIMIT_MS: u64 = 240_000;

/// The same for a guest in a guest: every exit of it is several exits of each machine around it.
const DEEP_BOOT_LIMIT_MS: u64 = 900_000;

/// A guest that has booted here before gets so many times what the slowest took: one that hangs, as guests in an emulated host do at
/// times, is then given up sooner.
const TIMES_SLOWEST: u64 = 10;

/// Before any has booted here, a guest under KVM gets so many times what its emulated host took: both boot the same kernel, the guest
/// about as fast to three times as slowly.
const TIMES_HOST: u64 = 20;

/// But no less than this.
const LEAST_BOOT_LIMIT_MS: u64 = 30_000;

/// Milliseconds a probe of KVM gets in a guest.
const DEEP_PROBE_LIMIT_MS: u64 = 300_000;

/// Milliseconds a guest gets to notice a disk.
const FIND_LIMIT_MS: u64 = 20_000;

/// Makes SCSI hosts look for disks. No part of it is input.
const SCAN: &str = "for host in /sys/class/scsi_host/host*; do echo '- - -' > $host/scan; done";

/// How often they are made to look, a second apart: their driver takes a moment to see a new controller.
const SCANS: u32 = 20;

impl Lab {
    /// The machine of a hypervisor layer with its disk on top of what was built so far.
    pub(crate) fn build_guest(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: usize,
        spec: &HypervisorSpec,
        below: Offered,
    ) -> Result<Offered, BuildError> {
        let layer = &progressing.stack.layers()[index];
        let options = layer.hypervisor().ok_or_else(|| refused(layer, "it is not a virtual machine"))?;
        let parent = progressing.machine();
        let depth = progressing.machines.len();
        let zeroed = !matches!(below, Offered::Block { zeroed: false, .. });
        let disk = attachment(progressing, layer, &options, &below)?;
        let image = match &below {
            Offered::Image { layer, .. } => Some(*layer),
            _ => None,
        };
        let files = self.files_in(&progressing.machines)?;
        let at_start = options.device.attach == Attach::AtStart;
        let guest_spec =
            self.guest_spec(progressing.stack, spec, &options, files, depth, at_start.then_some(&disk));
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let guest =
            self.guest(progressing.stack, &parent, guest_spec, depth, at_start).map_err(|e| match e {
                BuildError::Machine(source) => failed(source),
                other => other,
            })?;
        if at_start {
            progressing.undo.push(Undo::StopGuest { depth });
            self.load_modules(&guest.machine, options.device.kernel_modules);
        } else {
            let name = self.guests[depth - 1].spec.name.clone();
            self.plug_in(&parent, &name, &guest.machine, &options, &disk).map_err(failed)?;
            progressing.undo.push(Undo::DetachDisk { parent, guest: name, disk: Box::new(disk), depth });
        }
        let device = guest.machine.find_disk(SERIAL, FIND_LIMIT_MS).map_err(failed)?;
        progressing.virtual_disks.push(VirtualDisk {
            layer: index,
            machine: depth - 1,
            guest: self.guests[depth - 1].spec.name.clone(),
            model: options.device.name,
            image: image.and_then(|layer| progressing.images.iter().position(|i| i.layer == layer)),
        });
        if options.device.name == "virtio-blk" && !options.block.cache.write_cache() {
            let switch = WriteCacheSwitch { machine: guest.machine.clone(), path: cache_type_file(&device) };
            if switch.set(true).is_ok() {
                progressing.write_caches.push(switch);
            }
        }
        if guest.accelerator == "tcg" && spec.accelerator == hypervisors::Accelerator::Kvm {
            progressing.note(format!("{} processors", guest.label), "emulated (TCG): KVM does not work here");
        }
        progressing.machines.push(guest);
        tune(progressing, layer, &device)?;
        progressing.points.push(BlockPoint { offered_by: index, machine: depth, device: device.clone() });
        Ok(Offered::Block { device, zeroed })
    }

    /// The lab image as the innermost machine built so far has it.
    fn files_in(&mut self, machines: &[BuiltMachine]) -> Result<LabFiles, BuildError> {
        match machines.len() {
            0 | 1 => match &self.host {
                Some(host) => Ok(host.files.clone()),
                None => self.ground_files(),
            },
            depth => Ok(self.guests[depth - 2].files.clone()),
        }
    }

    pub(crate) fn guest_spec(
        &self,
        stack: &Stack,
        spec: &HypervisorSpec,
        options: &HypervisorOptions<'_>,
        files: LabFiles,
        depth: usize,
        cold_disk: Option<&DiskAttachment>,
    ) -> MachineSpec {
        let accelerator = match spec.accelerator {
            hypervisors::Accelerator::Tcg => Accelerator::Tcg,
            hypervisors::Accelerator::Kvm => self.recall(&self.guest_identity(depth)),
        };
        let memory_bytes = memory::guests_need(stack).get(depth - 1).copied();
        MachineSpec {
            name: if depth == 1 { "guest".into() } else { format!("guest-{depth}") },
            memory_bytes: memory_bytes.unwrap_or_else(|| options.memory.get()),
            cpus: options.cpus,
            accelerator,
            kernel: files.kernel,
            modules_cpio: files.modules_cpio,
            root: files.root,
            served_root: None,
            time: MachineTime::Real,
            kept_state: None,
            shared_memory: false,
            iothreads: vec![IOTHREAD.into()],
            cold_disks: cold_disk.cloned().into_iter().collect(),
            probe_timeout_ms: if depth > 1 { DEEP_PROBE_LIMIT_MS } else { crate::lab::PROBE_LIMIT_MS },
            boot_timeout_ms: crate::lab::boot_limit_ms(usual_boot_limit_ms(
                depth,
                accelerator,
                &self.slowest_boot_ms,
            )),
        }
    }

    /// The guest at `depth`: the one that is booted, if it fits, otherwise a new one.
    pub(crate) fn guest(
        &mut self,
        stack: &Stack,
        parent: &Machine,
        spec: MachineSpec,
        depth: usize,
        fresh: bool,
    ) -> Result<BuiltMachine, BuildError> {
        if fresh || self.guests.get(depth - 1).is_some_and(|kept| !fits(&kept.spec, &kept.accelerator, &spec))
        {
            self.stop_guests_from(depth - 1);
        }
        if self.guests.len() < depth {
            let label =
                stack.machines().get(depth).map_or_else(|| spec.name.clone(), |m| m.label.to_string());
            (self.progress)(&format!("booting the {label}"));
            if self.place.is_emulated() || depth > 1 {
                // The lab's machines have no udev: nothing else loads KVM.
                self.load_modules(parent, &["kvm_amd", "kvm_intel"]);
            }
            let identity = self.guest_identity(depth);
            let begun = Instant::now();
            let guest = self.boot(parent, spec, &label, &identity)?;
            self.booted(depth, begun.elapsed());
            self.guests.push(guest);
        }
        let guest = &self.guests[depth - 1];
        Ok(BuiltMachine {
            label: guest.machine.label().to_owned(),
            machine: guest.machine.clone(),
            facts: guest.facts.clone(),
            accelerator: guest.accelerator.clone(),
        })
    }

    /// Plugs the disk in and makes the guest see it, in the order its driver needs.
    fn plug_in(
        &mut self,
        parent: &Machine,
        name: &str,
        guest: &Machine,
        options: &HypervisorOptions<'_>,
        disk: &DiskAttachment,
    ) -> Result<(), nestor_machine::MachineError> {
        let modules = options.device.kernel_modules;
        if options.device.attach == Attach::BeforeDriver {
            for module in modules.iter().rev() {
                // Loaded for an earlier stack; `sd_mod` may be in use and stay.
                let _ = guest.run(Command::new(["modprobe", "--remove", "--quiet", module]));
                self.forget_module(guest, module);
            }
            parent.attach_disk(name, disk)?;
            self.load_modules(guest, modules);
            return Ok(());
        }
        self.load_modules(guest, modules);
        parent.attach_disk(name, disk)?;
        if options.device.attach == Attach::RunningThenScan {
            scan_until_found(guest)?;
        }
        Ok(())
    }
}

/// Milliseconds a guest gets to boot, by what the slowest machines took so far; at depth 0 the emulated host.
fn usual_boot_limit_ms(depth: usize, accelerator: Accelerator, slowest_ms: &BTreeMap<usize, u64>) -> u64 {
    let most = if depth > 1 { DEEP_BOOT_LIMIT_MS } else { BOOT_LIMIT_MS };
    let seen = slowest_ms.get(&depth).map(|slowest_ms| slowest_ms * TIMES_SLOWEST);
    // One that is emulated, or may be, takes much longer than its host; so does a guest in a guest.
    let is_like_its_host = depth == 1 && accelerator == Accelerator::Kvm;
    let host = slowest_ms.get(&0).filter(|_| is_like_its_host).map(|host_ms| host_ms * TIMES_HOST);
    seen.or(host).map_or(most, |limit_ms| limit_ms.clamp(LEAST_BOOT_LIMIT_MS, most))
}

/// Makes the guest's SCSI hosts look for the disk until it is there.
fn scan_until_found(guest: &Machine) -> Result<(), nestor_machine::MachineError> {
    for _ in 1..SCANS {
        // There may be no host yet to look.
        guest.run(Command::new(["sh", "-c", SCAN]))?;
        if guest.find_disk(SERIAL, 1000).is_ok() {
            return Ok(());
        }
    }
    guest.find_disk(SERIAL, 1000).map(|_| ())
}

/// The write cache of a guest's virtio-blk disk, which the guest can switch while the disk is in use.
///
/// A disk that is to write through is laid out with its cache on: under an emulated processor that is ten times
/// faster, and what is on the disk afterwards is the same.
pub(crate) struct WriteCacheSwitch {
    machine: Machine,
    path: String,
}

impl WriteCacheSwitch {
    /// Switches it; off writes out what is in it.
    pub(crate) fn set(&self, on: bool) -> Result<(), nestor_machine::MachineError> {
        let word: &[u8] = if on { b"write back" } else { b"write through" };
        self.machine.write_file(&self.path, word)
    }
}

fn cache_type_file(device: &str) -> String {
    format!("/sys/block/{}/cache_type", device.trim_start_matches("/dev/"))
}

/// Whether a booted guest can be used for what is wanted.
fn fits(kept: &MachineSpec, accelerator: &str, wanted: &MachineSpec) -> bool {
    let same_accelerator = match wanted.accelerator {
        Accelerator::Tcg => accelerator == "tcg",
        Accelerator::Kvm => accelerator == "kvm",
        Accelerator::Auto => kept.accelerator != Accelerator::Tcg,
    };
    same_accelerator
        && kept.memory_bytes == wanted.memory_bytes
        && kept.cpus == wanted.cpus
        && kept.cold_disks.is_empty()
}

/// QEMU's nodes and devices for the disk of a hypervisor layer.
fn attachment(
    progressing: &Progressing<'_>,
    layer: &Layer,
    options: &HypervisorOptions<'_>,
    below: &Offered,
) -> Result<DiskAttachment, BuildError> {
    let file = format!("{SERIAL}-file");
    let node = format!("{SERIAL}-node");
    let (nodes, top) = match below {
        Offered::Block { device, .. } => {
            (vec![options.block.file_node(&file, HostTarget::BlockDevice(device))], file)
        }
        Offered::Image { path, layer: image } => {
            let image = &progressing.stack.layers()[*image];
            let format =
                image_format(image).ok_or_else(|| refused(layer, "the layer below it is not an image"))?;
            let nodes = vec![
                options.block.file_node(&file, HostTarget::File(path)),
                (format.blockdev)(image, &node, &file, &options.block),
            ];
            (nodes, node)
        }
        Offered::Directory { .. } => {
            return Err(refused(layer, "the layer below it is a directory, not a disk"));
        }
    };
    let controller = format!("{SERIAL}-controller");
    let iothread = options.iothread.then_some(IOTHREAD);
    let mut devices = Vec::new();
    if let Some(make) = options.device.controller {
        devices.push(make(&Controller { id: &controller, pci_bus: None, iothread }));
    }
    devices.push((options.device.disk)(&Disk {
        id: SERIAL,
        node: &top,
        serial: SERIAL,
        write_cache: options.block.cache.write_cache(),
        controller: &controller,
        slot: 0,
        pci_bus: None,
        iothread,
    }));
    Ok(DiskAttachment { serial: SERIAL.into(), backend: DiskBackend::Blockdev { nodes }, devices })
}

fn image_format(layer: &Layer) -> Option<&'static ImageFormatSpec> {
    match layer.definition() {
        LayerDefinition::ImageFormat(spec) => Some(spec),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_gets_as_long_as_what_booted_before_lets_expect() {
        let limit = |depth, accelerator, seen: &[(usize, u64)]| {
            usual_boot_limit_ms(depth, accelerator, &BTreeMap::from_iter(seen.iter().copied()))
        };
        let kvm = Accelerator::Kvm;
        assert_eq!(limit(1, kvm, &[]), BOOT_LIMIT_MS, "nothing is known");
        assert_eq!(limit(1, kvm, &[(0, 6_000)]), 120_000, "its host booted");
        assert_eq!(limit(1, kvm, &[(0, 6_000), (1, 9_000)]), 90_000, "a guest booted");
        assert_eq!(limit(1, kvm, &[(0, 400), (1, 500)]), LEAST_BOOT_LIMIT_MS);
        assert_eq!(limit(1, kvm, &[(0, 60_000)]), BOOT_LIMIT_MS);
        // Emulated in an emulated host, or perhaps: minutes.
        assert_eq!(limit(1, Accelerator::Tcg, &[(0, 6_000)]), BOOT_LIMIT_MS);
        assert_eq!(limit(1, Accelerator::Auto, &[(0, 6_000)]), BOOT_LIMIT_MS);
        assert_eq!(limit(2, kvm, &[(0, 6_000), (1, 9_000)]), DEEP_BOOT_LIMIT_MS);
    }
}
