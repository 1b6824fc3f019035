//! Builds a stack from the medium upwards, and takes it down from the top.

use nestor_link::LinkStatistics;
use nestor_link::log::LogEnd;
use nestor_machine::{Cause, MachineError, Refusal};
use nestor_stack::{Layer, LayerDefinition, LayerIndex, MachineIndex, Stack};

use crate::built::{BuiltStack, Top, Undo, UndoStep};
use crate::file_system::build_file_system;
use crate::guest_network::remove_interface;
use crate::image::build_image;
use crate::lab_problem::LabProblem;
use crate::loop_device::build_loop;
use crate::partition::{build_partition, forget_partition};
use crate::progressing::{Offered, Progressing, Thing};
use crate::root_machine::Guests;
use crate::served_disk::ServedDisk;
use crate::served_link::ServedLink;
use crate::users_xen::require_users_xen;
use crate::{BuildError, Lab, Network, network_disk};

impl Lab {
    /// Builds a stack.
    ///
    /// # Errors
    /// Which layer could not be made and why; the layers made before it have been taken down.
    pub fn build(&mut self, stack: &Stack) -> Result<BuiltStack, BuildError> {
        let mut progressing = self.begin(stack, Guests::Kept)?;
        match self.build_layers(&mut progressing) {
            Ok(top) => Ok(progressing.into_built(top, self.place.host_time().unwrap_or_default())),
            Err(e) => {
                let e = self.with_ended_servers(progressing.network(), e);
                self.give_up(progressing);
                Err(e)
            }
        }
    }

    /// An error with what the servers said that have ended on a network, if any has.
    fn with_ended_servers(&self, of: Network<'_>, error: BuildError) -> BuildError {
        // The machines may not answer.
        if error.machine_is_lost() {
            return error;
        }
        let ended = self.ended_servers(of);
        if ended.is_empty() {
            return error;
        }
        BuildError::ServerEnded { source: Box::new(error), ended: ended.join("\n") }
    }

    /// Checks that a stack can be built here, and makes nothing yet.
    pub(crate) fn begin<'a>(
        &mut self,
        stack: &'a Stack,
        guests: Guests,
    ) -> Result<Progressing<'a>, BuildError> {
        stack.require_buildable()?;
        stack.require_place(&self.place)?;
        require_users_xen(stack, &self.place)?;
        if self.place.is_in_virtual_time() {
            // Every cell begins in the same state.
            self.stop_host();
        }
        Ok(Progressing::new(stack, self.seed, self.place.is_emulated(), guests))
    }

    /// Takes down what was built of a stack that will not be complete.
    pub(crate) fn give_up(&mut self, progressing: Progressing<'_>) {
        if let Err(left) = self.undo_all(progressing.undo) {
            (self.progress)(&format!("taking down what was built so far: {left}"));
        }
    }

    fn build_layers(&mut self, progressing: &mut Progressing<'_>) -> Result<(MachineIndex, Top), BuildError> {
        let medium = progressing.stack.medium_index();
        let offered = self.build_below(progressing, medium)?;
        self.build_above(progressing, medium, offered)
    }

    /// The medium of a stack and the layers above it, below another one; the medium alone if that is the other one.
    pub(crate) fn build_below(
        &mut self,
        progressing: &mut Progressing<'_>,
        end: LayerIndex,
    ) -> Result<Offered, BuildError> {
        self.prepare_kernel_link(progressing)?;
        self.boot_host(progressing)?;
        let medium = progressing.stack.medium_index();
        let offered = self.build_medium(progressing, medium, MachineIndex::OUTERMOST)?;
        self.build_layers_where(progressing, |at| at < medium && at > end, offered)
    }

    /// The layers above one of a stack, and where a workload works then.
    pub(crate) fn build_above(
        &mut self,
        progressing: &mut Progressing<'_>,
        below: LayerIndex,
        offered: Offered,
    ) -> Result<(MachineIndex, Top), BuildError> {
        let offered = self.build_layers_where(progressing, |at| at < below, offered)?;
        match offered.thing {
            Thing::Directory { path, .. } => Ok((offered.on, Top::Directory(path))),
            Thing::Block { device, .. } => Ok((offered.on, Top::Device(device))),
            Thing::Image { .. } | Thing::Remote { .. } => Err(BuildError::refused(
                &progressing.stack.layers()[0],
                "a workload needs a directory or a block device of its own machine",
            )),
        }
    }

    /// Some layers of a stack, from the lowest to the topmost.
    pub(crate) fn build_layers_where(
        &mut self,
        progressing: &mut Progressing<'_>,
        is_one: impl Fn(LayerIndex) -> bool,
        mut offered: Offered,
    ) -> Result<Offered, BuildError> {
        for (index, layer) in progressing.stack.indexed_layers().rev().filter(|(at, _)| is_one(*at)) {
            (self.progress)(&format!("building {layer}"));
            offered = self.build_layer(progressing, index, layer, offered)?;
        }
        Ok(offered)
    }

    /// A layer on what the one below it offers.
    pub(crate) fn build_layer(
        &mut self,
        progressing: &mut Progressing<'_>,
        index: LayerIndex,
        layer: &Layer,
        Offered { on, thing }: Offered,
    ) -> Result<Offered, BuildError> {
        match (layer.definition(), thing) {
            (LayerDefinition::FileSystem(spec), Thing::Block { device, zeroed }) => {
                self.load_modules(&progressing.machine(on), spec.kernel_modules);
                build_file_system(progressing, index, spec, on, &device, zeroed)
            }
            (LayerDefinition::ImageFormat(spec), Thing::Directory { path, free_bytes }) => {
                build_image(progressing, index, spec, on, &path, free_bytes)
            }
            (LayerDefinition::SourcedImage(_), Thing::Directory { path, .. }) => {
                self.build_sourced_image(progressing, index, on, &path)
            }
            (LayerDefinition::Loop, Thing::Image { path, .. }) => {
                self.load_modules(&progressing.machine(on), &["loop"]);
                build_loop(progressing, index, on, &path)
            }
            (LayerDefinition::Partition, Thing::Block { device, zeroed }) => {
                build_partition(progressing, index, on, &device, zeroed)
            }
            // The machine was booted under Xen, or is, and has the same device.
            (LayerDefinition::PrivilegedDomain, thing @ Thing::Block { .. }) => Ok(Offered { on, thing }),
            (LayerDefinition::Link, thing) => self.build_link(progressing, index, Offered { on, thing }),
            (LayerDefinition::NetworkFileSystem, thing) => {
                self.build_network_file_system(progressing, index, Offered { on, thing })
            }
            (LayerDefinition::NetworkDisk, thing) => {
                self.build_network_disk(progressing, index, Offered { on, thing })
            }
            (LayerDefinition::Hypervisor(spec), thing) => {
                self.build_guest(progressing, index, spec, Offered { on, thing })
            }
            _ => Err(BuildError::refused(
                layer,
                "it does not fit on the layer below it; the parser should have refused this stack",
            )),
        }
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
        Ok(self.undo_all(built.undo)?)
    }

    fn undo_all(&mut self, undo: Vec<Undo>) -> Result<(), LabProblem> {
        // Without its timing the modelled disk does not slow down what is only cleaning.
        for plugged in self.disks.values() {
            let _ = plugged.disk.set_timing(false);
        }
        let problems = self.undo_steps(undo);
        self.end_links();
        if problems.is_empty() {
            return Ok(());
        }
        if self.place.is_emulated() {
            self.stop_host();
            return Ok(());
        }
        Err(LabProblem::NotUndone { problems })
    }

    /// Undoes steps, the last one first: what could not be undone on machines that are not ended for it.
    pub(crate) fn undo_steps(&mut self, undo: Vec<Undo>) -> Vec<MachineError> {
        let mut problems = Vec::new();
        for Undo { on, step } in undo.into_iter().rev() {
            let Some(machine) = self.machines.get(on).map(|standing| standing.machine.clone()) else {
                continue;
            };
            let result = match step {
                UndoStep::Unmount(target) => machine.unmount(&target),
                UndoStep::DetachLoop(device) => machine.detach_loop(&device),
                UndoStep::ForgetPartition(device) => forget_partition(&machine, &device),
                UndoStep::DetachNetworkDisk(device) => network_disk::detach(&machine, &device),
                UndoStep::DetachDisk(disk) => self.unplug(on, &disk),
                UndoStep::DetachInterface(interface) => self.disconnect(on, &interface),
                UndoStep::RemoveInterface(name) => remove_interface(&machine, &name),
                UndoStep::EndProcess(process) => machine.stop_process(process, 5_000).map(|_| ()),
                UndoStep::EndNfsServer(export) => machine.end_nfs_server(export),
                UndoStep::Stop => {
                    self.stop_guests(on);
                    Ok(())
                }
                UndoStep::RemoveOwnDirectory(path) => machine.remove_own_directory(&path),
                UndoStep::Release(path) => machine.release(&path),
            };
            let Err(e) = result else { continue };
            // A guest that fails to undo a step is ended, which undoes everything in it. The host's own
            // failures are reported.
            if on == MachineIndex::OUTERMOST || self.is_users(on) {
                problems.push(e);
            } else {
                self.stop_guests(on);
            }
        }
        problems
    }

    /// Switches the timing of the modelled disks, with their queues drained, and of the modelled links; nothing for others.
    ///
    /// # Errors
    /// When the disk or a link does not answer.
    pub fn set_timing(&self, on: bool) -> Result<(), BuildError> {
        self.links.iter().try_for_each(|link| link.set_timing(on)).map_err(BuildError::Machine)?;
        self.disks.values().try_for_each(|plugged| plugged.disk.set_timing(on))
    }

    /// The modelled disk that the stack's medium is, if it is one.
    pub fn served_disk(&self) -> Option<&ServedDisk> {
        self.disks.get(&MachineIndex::OUTERMOST).map(|plugged| &plugged.disk)
    }

    /// What has gone over a link of the stack since it was built.
    ///
    /// # Errors
    /// There is no such link, or its server does not answer.
    pub fn link_statistics(&self, link: LayerIndex) -> Result<LinkStatistics, MachineError> {
        match self.kernel_link(link) {
            Some(link) => link.statistics(),
            None => self.served_link(link)?.statistics(),
        }
    }

    /// Starts to log the frames of a link of the stack; what had gone over it until then.
    ///
    /// # Errors
    /// There is no such link, or its server does not answer or cannot log.
    pub fn start_link_log(&self, link: LayerIndex) -> Result<LinkStatistics, MachineError> {
        self.served_link(link)?.start_log()
    }

    /// Ends the log of the frames of a link of the stack: the log's path on the ground, and how it ended.
    ///
    /// # Errors
    /// There is no such link, or its server does not answer or could not write all of the log.
    pub fn stop_link_log(&self, link: LayerIndex) -> Result<(String, LogEnd), MachineError> {
        self.served_link(link)?.stop_log()
    }

    fn served_link(&self, link: LayerIndex) -> Result<&ServedLink, MachineError> {
        self.links.iter().find(|served| served.is_at(link)).ok_or_else(|| {
            let refusal = Refusal::new(Cause::NotThere, "the link is not served");
            MachineError::Refused { machine: self.ground().label().to_owned(), refusal }
        })
    }
}
