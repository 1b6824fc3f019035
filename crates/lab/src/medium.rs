//! The media of a stack: modelled disks that are served to the lab's machines, and devices and files of the user's.

use std::collections::btree_map::Entry;

use nestor_machine::{Command, DiskAttachment, Machine, MachinePlace};
use nestor_stack::{
    Layer, LayerDefinition, LayerIndex, MachineIndex, MachineLabel, MediumKind, Place, Relation,
};

use crate::built::UndoStep;
use crate::progressing::{Offered, Progressing};
use crate::served_disk::{self, ServedDisk};
use crate::tuning::tune;
use crate::{BuildError, Lab, medium_class, user_medium, users_xen};

/// A modelled disk in its machine.
pub(crate) struct PluggedDisk {
    pub(crate) disk: ServedDisk,
    attachment: DiskAttachment,
}

impl Lab {
    /// Boots the machine with the stack's medium, unless it stands.
    pub(crate) fn boot_host(&mut self, progressing: &mut Progressing<'_>) -> Result<(), BuildError> {
        let stack = progressing.stack;
        let layer = stack.medium();
        let modelled = layer.medium_kind().is_some_and(MediumKind::is_modelled);
        if modelled && !self.place.is_emulated() {
            let what =
                "a modelled disk needs the emulated host; use `--on emulated`, or dev:/dev/… or file:/… here";
            return Err(BuildError::refused(layer, what));
        }
        if !modelled && self.place.is_emulated() {
            let what = "a device, file or directory of yours needs your own kernel; use `--on this` or \
                        `--on ssh:HOST`, or a modelled disk (hdd, ssd, raid0, raid5, null) here";
            return Err(BuildError::refused(layer, what));
        }
        let host = self.host(stack, progressing.guests)?.built(MachineLabel::Host);
        progressing.machines.push(Relation::Outermost, host);
        progressing.modelled = modelled;
        self.note_added_kernel(progressing)?;
        self.note_added_qemu(progressing)?;
        if self.place == Place::This {
            users_xen::note(progressing);
        }
        Ok(())
    }

    /// A medium of a machine that stands.
    pub(crate) fn build_medium(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        on: MachineIndex,
    ) -> Result<Offered, BuildError> {
        let layer = progressing.stack.layer(index);
        let LayerDefinition::Medium(kind) = layer.definition() else {
            return Err(BuildError::refused(layer, "it is not a medium"));
        };
        if *kind == MediumKind::Directory {
            return self.open_users_directory(progressing, index, on);
        }
        let (device, zeroed) = match kind {
            MediumKind::Device | MediumKind::File => self.open_user_medium(progressing, on, layer, *kind)?,
            _ => (self.serve_disk(&progressing.machine(on), on, layer)?, true),
        };
        tune(progressing, on, layer, &device)?;
        Ok(progressing.offer_device(index, on, device, zeroed))
    }

    /// A fresh modelled disk in a machine that is in no other: the one that is already plugged in, emptied, or another one.
    fn serve_disk(
        &mut self,
        machine: &Machine,
        on: MachineIndex,
        layer: &Layer,
    ) -> Result<String, BuildError> {
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let (ground, place) = (self.ground().clone(), MachinePlace::Root(on));
        if let Entry::Occupied(plugged) = self.disks.entry(on)
            && plugged.get().disk.key != served_disk::disk_key(layer)
        {
            ground.detach_disk(place, &plugged.get().attachment).map_err(failed)?;
            plugged.remove().disk.stop();
        }
        if let Some(plugged) = self.disks.get(&on) {
            plugged.disk.set_timing(false)?;
            plugged.disk.reset()?;
        } else {
            (self.progress)(&format!("starting the modelled disk {layer}"));
            let work_directory = &self.ground_facts.work_directory;
            let time = self.place.host_time().unwrap_or_default();
            let disk = ServedDisk::start(&ground, work_directory, (on, layer), time, self.seed)?;
            let attachment = disk.attachment();
            if let Err(e) = ground.attach_disk(place, &attachment) {
                disk.stop();
                return Err(failed(e));
            }
            self.disks.insert(on, PluggedDisk { disk, attachment });
        }
        let device = machine.find_disk(&served_disk::mark(), 20_000).map_err(failed)?;
        // The kernel still caches what the disk held before it was emptied.
        machine.run_ok(Command::new(["blockdev", "--flushbufs", &device])).map_err(failed)?;
        Ok(device)
    }

    /// The block device of a medium that was built; `None` where the file system of a directory of the user's is on none.
    pub(crate) fn disk_of_medium(
        &self,
        progressing: &Progressing<'_>,
        index: LayerIndex,
        on: MachineIndex,
    ) -> Option<String> {
        if let Some(point) = progressing.points.iter().find(|point| point.offered_by == index) {
            return Some(point.device.clone());
        }
        let path = progressing.stack.layer(index).path()?.display().to_string();
        let machine = progressing.machine(on);
        let device = medium_class::device_of_file(&machine, &path)?;
        // Volumes have other names than the kernel's.
        let real = machine.run_ok(Command::new(["readlink", "-f", "--", &device])).ok()?;
        Some(real.trim().to_owned())
    }

    fn open_user_medium(
        &mut self,
        progressing: &mut Progressing<'_>,
        on: MachineIndex,
        layer: &Layer,
        kind: MediumKind,
    ) -> Result<(String, bool), BuildError> {
        let path = layer.path().map(|p| p.display().to_string()).unwrap_or_default();
        let allowed = self.overwrite.iter().any(|p| p.as_os_str() == path.as_str());
        let machine = progressing.machine(on);
        user_medium::take(&machine, layer, &path, kind, allowed)?;
        progressing.note_undo(on, UndoStep::Release(path.clone()));
        if on == MachineIndex::OUTERMOST {
            // That of a repository is no workload's.
            medium_class::note(progressing, on, layer, kind);
        }
        if kind == MediumKind::Device {
            return Ok((path, false));
        }
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let device = machine.attach_loop(&path, true).map_err(failed)?;
        progressing.note_undo(on, UndoStep::DetachLoop(device.clone()));
        // A loop device discards by making holes in its file, which read as zeros.
        let discarded = machine.run(Command::new(["blkdiscard", "--force", &device])).map_err(failed)?;
        Ok((device, discarded.succeeded()))
    }
}
