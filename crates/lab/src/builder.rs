//! Builds a stack from the medium upwards, and takes it down from the top.

use nestor_machine::{Command, Machine, MachineError};
use nestor_stack::{
    FileSystemSpec, ImageFormatSpec, Layer, LayerDefinition, LayerIndex, MachineIndex, Machines, MediumKind,
    MkfsTarget, Relation, Stack,
};

use crate::built::{
    BlockPoint, BuiltFileSystem, BuiltImage, BuiltMachine, BuiltStack, Top, Undo, UndoStep, VirtualDisk,
};
use crate::hypervisor::WriteCacheSwitch;
use crate::seed::{Before, Seed};
use crate::served_disk::{self, ServedDisk};
use crate::{BuildError, Lab, image, medium_class, user_medium};
use nestor_stack::UserMedium;

/// What the layers built so far offer to the next one, and the machine on which it lies.
pub(crate) struct Offered {
    pub(crate) on: MachineIndex,
    pub(crate) thing: Thing,
}

/// What a layer can be built on.
pub(crate) enum Thing {
    /// A block device; whether all of it reads as zero.
    Block { device: String, zeroed: bool },
    /// A directory, with its room for files in bytes.
    Directory { path: String, free_bytes: u64 },
    /// An image file, with its layer.
    Image { path: String, layer: LayerIndex },
}

/// A stack while it is built.
pub(crate) struct Progressing<'a> {
    pub(crate) stack: &'a Stack,
    seed: Seed,
    /// Whether no file systems but this stack's are at its place.
    alone: bool,
    pub(crate) machines: Machines<BuiltMachine>,
    pub(crate) points: Vec<BlockPoint>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) undo: Vec<Undo>,
    pub(crate) modelled: bool,
    pub(crate) user_medium: Option<UserMedium>,
    pub(crate) file_systems: Vec<BuiltFileSystem>,
    pub(crate) images: Vec<BuiltImage>,
    pub(crate) virtual_disks: Vec<VirtualDisk>,
    pub(crate) write_caches: Vec<WriteCacheSwitch>,
}

impl Progressing<'_> {
    /// The way to a machine.
    pub(crate) fn machine(&self, on: MachineIndex) -> Machine {
        self.machines[on].machine.clone()
    }

    /// Notes an undo step on a machine, to run before those noted so far.
    pub(crate) fn note_undo(&mut self, on: MachineIndex, step: UndoStep) {
        self.undo.push(Undo { on, step });
    }

    pub(crate) fn note(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.settings.push((key.into(), value.into()));
    }

    /// A directory for a layer's own files in a machine.
    fn mount_point(&self, on: MachineIndex, layer: LayerIndex) -> String {
        format!("{}/mount-{}", self.machines[on].facts.work_directory, layer.position())
    }
}

impl Lab {
    /// Builds a stack.
    ///
    /// # Errors
    /// Which layer could not be made and why; the layers made before it have been taken down.
    pub fn build(&mut self, stack: &Stack) -> Result<BuiltStack, BuildError> {
        stack.require_buildable()?;
        if self.place.is_in_virtual_time() {
            // Every cell begins in the same state.
            self.stop_host();
        }
        let mut progressing = Progressing {
            stack,
            seed: self.seed,
            alone: self.place.is_emulated(),
            machines: Machines::default(),
            points: Vec::new(),
            settings: Vec::new(),
            undo: Vec::new(),
            modelled: false,
            user_medium: None,
            file_systems: Vec::new(),
            images: Vec::new(),
            virtual_disks: Vec::new(),
            write_caches: Vec::new(),
        };
        match self.build_layers(&mut progressing) {
            Ok((top_index, top)) => Ok(BuiltStack {
                stack: stack.clone(),
                machines: progressing.machines,
                points: progressing.points,
                top,
                top_index,
                modelled: progressing.modelled,
                time: self.place.host_time().unwrap_or_default(),
                settings: progressing.settings,
                undo: progressing.undo,
                user_medium: progressing.user_medium,
                file_systems: progressing.file_systems,
                images: progressing.images,
                virtual_disks: progressing.virtual_disks,
                write_caches: progressing.write_caches,
            }),
            Err(e) => {
                if let Err(problems) = self.undo_all(progressing.undo) {
                    (self.progress)(&format!("taking down what was built so far: {}", problems.join("; ")));
                }
                Err(e)
            }
        }
    }

    fn build_layers(&mut self, progressing: &mut Progressing<'_>) -> Result<(MachineIndex, Top), BuildError> {
        let stack = progressing.stack;
        let medium = stack.medium_index();
        let mut offered = self.build_medium(progressing, medium)?;
        for (index, layer) in stack.indexed_layers().rev().skip(1) {
            (self.progress)(&format!("building {layer}"));
            let Offered { on, thing } = offered;
            offered = match (layer.definition(), thing) {
                (LayerDefinition::FileSystem(spec), Thing::Block { device, zeroed }) => {
                    self.load_modules(&progressing.machine(on), spec.kernel_modules);
                    build_file_system(progressing, index, spec, on, &device, zeroed)?
                }
                (LayerDefinition::ImageFormat(spec), Thing::Directory { path, free_bytes }) => {
                    build_image(progressing, index, spec, on, &path, free_bytes)?
                }
                (LayerDefinition::Loop, Thing::Image { path, .. }) => {
                    self.load_modules(&progressing.machine(on), &["loop"]);
                    build_loop(progressing, index, on, &path)?
                }
                (LayerDefinition::Hypervisor(spec), thing) => {
                    self.build_guest(progressing, index, spec, Offered { on, thing })?
                }
                _ => {
                    return Err(refused(
                        layer,
                        "it does not fit on the layer below it; the parser should have refused this stack",
                    ));
                }
            };
        }
        match offered.thing {
            Thing::Directory { path, .. } => Ok((offered.on, Top::Directory(path))),
            Thing::Block { device, .. } => Ok((offered.on, Top::Device(device))),
            Thing::Image { .. } => Err(refused(
                &stack.layers()[0],
                "a workload needs a directory or a block device, not an image",
            )),
        }
    }

    fn build_medium(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
    ) -> Result<Offered, BuildError> {
        let layer = progressing.stack.layer(index);
        let LayerDefinition::Medium(kind) = layer.definition() else {
            return Err(refused(layer, "it is not a medium"));
        };
        let modelled = kind.is_modelled();
        if modelled && !self.place.is_emulated() {
            let what =
                "a modelled disk needs the emulated host; use `--on emulated`, or dev:/dev/… or file:/… here";
            return Err(refused(layer, what));
        }
        if !modelled && self.place.is_emulated() {
            let what = "a device or file of yours needs your own kernel; use `--on this` or `--on ssh:HOST`, \
                        or a modelled disk (hdd, ssd, raid0, null) here";
            return Err(refused(layer, what));
        }
        let stack = progressing.stack;
        let host = self.host(stack)?.built();
        let machine = host.machine.clone();
        let on = progressing.machines.push(Relation::Outermost, host);
        progressing.modelled = modelled;
        let (device, zeroed) = match kind {
            MediumKind::Device | MediumKind::File => self.open_user_medium(progressing, on, layer, *kind)?,
            _ => (self.serve_disk(&machine, layer)?, true),
        };
        tune(progressing, on, layer, &device)?;
        progressing.points.push(BlockPoint { offered_by: index, machine: on, device: device.clone() });
        Ok(Offered { on, thing: Thing::Block { device, zeroed } })
    }

    /// A fresh modelled disk in the host: the one that is already plugged in, emptied, or another one.
    fn serve_disk(&mut self, host: &Machine, layer: &Layer) -> Result<String, BuildError> {
        let failed = |source| BuildError::Layer { layer: layer.label(), source };
        let name = "host";
        if self.disk.as_ref().is_some_and(|disk| disk.key != served_disk::disk_key(layer)) {
            if let Some(attachment) = &self.disk_attachment {
                self.ground().detach_disk(name, attachment).map_err(failed)?;
                self.disk_attachment = None;
            }
            if let Some(disk) = self.disk.take() {
                disk.stop();
            }
        }
        if let Some(disk) = &self.disk {
            disk.set_timing(false)?;
            disk.reset()?;
        } else {
            (self.progress)(&format!("starting the modelled disk {layer}"));
            let work_directory = self.ground_facts.work_directory.clone();
            let time = self.place.host_time().unwrap_or_default();
            let disk = ServedDisk::start(self.ground(), &work_directory, layer, time, self.seed)?;
            let attachment = disk.attachment();
            if let Err(e) = self.ground().attach_disk(name, &attachment) {
                disk.stop();
                return Err(failed(e));
            }
            self.disk = Some(disk);
            self.disk_attachment = Some(attachment);
        }
        let device = host.find_disk(&served_disk::mark(), 20_000).map_err(failed)?;
        // The kernel still caches what the disk held before it was emptied.
        host.run_ok(Command::new(["blockdev", "--flushbufs", &device])).map_err(failed)?;
        Ok(device)
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
        medium_class::note(progressing, on, layer, kind);
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

    /// Takes a stack down, from the top to the medium. Machines and the modelled disk stay for the next one.
    ///
    /// # Errors
    /// The steps that could not be undone; machines that do not answer have been ended.
    pub fn take_down(&mut self, built: BuiltStack) -> Result<(), BuildError> {
        if built.time.is_virtual() {
            // All of it is in the host, and the next stack gets a new host.
            self.stop_host();
            return Ok(());
        }
        self.undo_all(built.undo).map_err(|problems| BuildError::Lab(problems.join("; ")))
    }

    fn undo_all(&mut self, undo: Vec<Undo>) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        // Without its timing the modelled disk does not slow down what is only cleaning.
        if let Some(disk) = &self.disk {
            let _ = disk.set_timing(false);
        }
        for Undo { on, step } in undo.into_iter().rev() {
            let Some(machine) = self.machines.get(on).map(|standing| standing.machine.clone()) else {
                continue;
            };
            let result = match step {
                UndoStep::Unmount(target) => machine.unmount(&target),
                UndoStep::DetachLoop(device) => machine.detach_loop(&device),
                UndoStep::DetachDisk(disk) => self.unplug(on, &disk),
                UndoStep::Stop => {
                    self.stop_guests(on);
                    Ok(())
                }
                UndoStep::Release(path) => machine.release(&path),
            };
            let Err(e) = result else { continue };
            // A guest that fails to undo a step is ended, which undoes everything in it. The host's own
            // failures are reported.
            if on == MachineIndex::OUTERMOST {
                problems.push(e.to_string());
            } else {
                self.stop_guests(on);
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        if self.place.is_emulated() {
            self.stop_host();
            return Ok(());
        }
        Err(problems)
    }

    /// Switches the modelled disk's timing, with its queue drained; nothing for other media.
    ///
    /// # Errors
    /// When the disk does not answer.
    pub fn set_disk_timing(&self, on: bool) -> Result<(), BuildError> {
        self.disk.as_ref().map_or(Ok(()), |disk| disk.set_timing(on))
    }

    /// The modelled disk in use, if any.
    pub fn served_disk(&self) -> Option<&ServedDisk> {
        self.disk.as_ref()
    }
}

pub(crate) fn refused(layer: &Layer, message: impl Into<String>) -> BuildError {
    BuildError::Refused { layer: layer.label(), message: message.into() }
}

fn build_file_system(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    spec: &FileSystemSpec,
    on: MachineIndex,
    device: &str,
    zeroed: bool,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let machine = progressing.machine(on);
    let height = progressing.stack.below(index).len();
    let drawn = progressing.alone.then(|| progressing.seed.drawn(height));
    let argv = (spec.mkfs)(layer, &MkfsTarget { device, zeroed, drawn });
    machine.run_ok(Command::new(argv).timeout_s(600)).map_err(failed)?;
    let target = progressing.mount_point(on, index);
    let options = (spec.mount_options)(layer);
    machine.mount(device, &target, spec.mount_type, &options).map_err(failed)?;
    progressing.note_undo(on, UndoStep::Unmount(target.clone()));
    progressing.file_systems.push(BuiltFileSystem {
        layer: index,
        machine: on,
        device: device.to_owned(),
        mount_point: target.clone(),
        kind: spec.mount_type,
        options,
    });
    let free_bytes = image::free_bytes(&machine, layer, &target)?;
    let before = progressing.seed.before(height).within(free_bytes);
    make_before(&machine, &target, before).map_err(failed)?;
    let path = format!("{target}/nestor");
    machine.make_directory(&path).map_err(failed)?;
    if layer.is_on("nocow") {
        machine.run_ok(Command::new(["chattr", "+C", "--", &path])).map_err(failed)?;
    }
    // The same for every seed, and so the size of an image.
    let free_bytes = free_bytes.saturating_sub(Before::MOST_BYTES);
    Ok(Offered { on, thing: Thing::Directory { path, free_bytes } })
}

/// Creates the first files of a new file system, so that with another seed all later ones are placed elsewhere.
fn make_before(machine: &Machine, root: &str, before: Before) -> Result<(), MachineError> {
    let directories = (0..before.directories).map(|number| format!("{root}/before-{number}"));
    let argv: Vec<String> = ["mkdir", "--"].map(str::to_owned).into_iter().chain(directories).collect();
    if before.directories > 0 {
        machine.run_ok(Command::new(argv))?;
    }
    if before.pages > 0 {
        let (file, count) = (format!("of={root}/before"), format!("count={}", before.pages));
        // Synced, so that its blocks are chosen before those of anything else.
        let argv = ["dd", "if=/dev/zero", &file, "bs=4096", &count, "conv=fsync", "status=none"];
        machine.run_ok(Command::new(argv))?;
    }
    Ok(())
}

fn build_image(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    spec: &ImageFormatSpec,
    on: MachineIndex,
    directory: &str,
    free_bytes: u64,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let machine = progressing.machine(on);
    let size_bytes = image::size_bytes(layer, free_bytes)?;
    let path = format!("{directory}/disk.{}", spec.extension);
    let argv = (spec.create)(layer, &path, size_bytes);
    machine
        .run_ok(Command::new(argv).timeout_s(1800))
        .map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    progressing.note(format!("{} image", layer.name()), format!("{} MiB", size_bytes >> 20));
    progressing.images.push(BuiltImage {
        layer: index,
        machine: on,
        path: path.clone(),
        format: layer.name().to_owned(),
        has_tables: spec.has_tables,
    });
    Ok(Offered { on, thing: Thing::Image { path, layer: index } })
}

fn build_loop(
    progressing: &mut Progressing<'_>,
    index: LayerIndex,
    on: MachineIndex,
    path: &str,
) -> Result<Offered, BuildError> {
    let layer = progressing.stack.layer(index);
    let machine = progressing.machine(on);
    let device = machine
        .attach_loop(path, layer.is_on("direct-io"))
        .map_err(|source| BuildError::Layer { layer: layer.label(), source })?;
    progressing.note_undo(on, UndoStep::DetachLoop(device.clone()));
    tune(progressing, on, layer, &device)?;
    progressing.points.push(BlockPoint { offered_by: index, machine: on, device: device.clone() });
    Ok(Offered { on, thing: Thing::Block { device, zeroed: true } })
}

/// Sets the I/O scheduler and the read-ahead of a block device where the layer that offers it says so, and notes what
/// is in force.
pub(crate) fn tune(
    progressing: &mut Progressing<'_>,
    on: MachineIndex,
    layer: &Layer,
    device: &str,
) -> Result<(), BuildError> {
    let failed = |source| BuildError::Layer { layer: layer.label(), source };
    let machine = progressing.machine(on);
    let queue = format!("/sys/block/{}/queue", device.trim_start_matches("/dev/"));
    let tuning = layer.block_tuning();
    if let Some(scheduler) = tuning.scheduler {
        let module = if scheduler == "kyber" { "kyber-iosched" } else { scheduler };
        let _ = machine.run(Command::new(["modprobe", "-q", module]));
        machine.set(&format!("{queue}/scheduler"), scheduler).map_err(failed)?;
    }
    if let Some(readahead) = tuning.readahead {
        machine
            .set(&format!("{queue}/read_ahead_kb"), &(readahead.get() >> 10).to_string())
            .map_err(failed)?;
    }
    if tuning.no_merges {
        // 2: not even with the request queued last (Documentation/block/queue-sysfs.rst).
        machine.set(&format!("{queue}/nomerges"), "2").map_err(failed)?;
    }
    let label = progressing.machines[on].label.clone();
    if tuning.no_merges {
        progressing.note(format!("{label} merges"), "off");
    }
    let scheduler = read_setting(&machine, &format!("{queue}/scheduler"));
    let chosen =
        scheduler.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |(s, _)| s);
    progressing.note(format!("{label} scheduler"), chosen);
    let readahead_kib = read_setting(&machine, &format!("{queue}/read_ahead_kb"));
    progressing.note(format!("{label} read-ahead"), format!("{readahead_kib} KiB"));
    Ok(())
}

/// A setting of the kernel; empty for a partition, which has none of its own.
fn read_setting(machine: &Machine, path: &str) -> String {
    machine.read_file(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).unwrap_or_default()
}
