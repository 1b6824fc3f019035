//! A stack while it is built.

use nestor_machine::Machine;
use nestor_stack::{HostTime, LayerIndex, MachineIndex, Machines, Stack, UserMedium};

use crate::Network;
use crate::built::{
    BlockPoint, BuiltFileSystem, BuiltImage, BuiltMachine, BuiltStack, NetworkDisk, ServingProgram, Top,
    Undo, UndoStep, VirtualDisk,
};
use crate::root_machine::Guests;
use crate::seed::Seed;
use crate::write_cache::WriteCacheSwitch;

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
    /// Something of the machine at the other end of a link.
    Remote { thing: Box<Thing>, remote: Remote },
}

/// The ends of a link.
pub(crate) struct Remote {
    /// The machine below it.
    pub(crate) server: MachineIndex,
    pub(crate) server_address: String,
    pub(crate) client_address: String,
    /// What the machine that has the client's address calls its interface.
    pub(crate) interface: String,
    /// The largest packet, in bytes.
    pub(crate) mtu: u16,
}

/// A stack while it is built.
pub(crate) struct Progressing<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) seed: Seed,
    /// Whether virtual machines may have been booted before.
    pub(crate) guests: Guests,
    /// Where its virtual machine stands, if that is not its position in the stack: an instance beside the first.
    pub(crate) instance_at: Option<MachineIndex>,
    /// Whether no file systems but this stack's are at its place.
    pub(crate) alone: bool,
    pub(crate) machines: Machines<BuiltMachine>,
    pub(crate) points: Vec<BlockPoint>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) undo: Vec<Undo>,
    pub(crate) modelled: bool,
    pub(crate) user_medium: Option<UserMedium>,
    pub(crate) file_systems: Vec<BuiltFileSystem>,
    pub(crate) images: Vec<BuiltImage>,
    pub(crate) virtual_disks: Vec<VirtualDisk>,
    pub(crate) network_disks: Vec<NetworkDisk>,
    pub(crate) image_server: Option<ServingProgram>,
    pub(crate) write_caches: Vec<WriteCacheSwitch>,
}

impl<'a> Progressing<'a> {
    /// Nothing is built yet.
    pub(crate) fn new(stack: &'a Stack, seed: Seed, alone: bool, guests: Guests) -> Self {
        Self {
            stack,
            seed,
            guests,
            instance_at: None,
            alone,
            machines: Machines::default(),
            points: Vec::new(),
            settings: Vec::new(),
            undo: Vec::new(),
            modelled: false,
            user_medium: None,
            file_systems: Vec::new(),
            images: Vec::new(),
            virtual_disks: Vec::new(),
            network_disks: Vec::new(),
            image_server: None,
            write_caches: Vec::new(),
        }
    }

    /// The same stack for another instance on the same machines, whose virtual machine stands at another position. What is undone with the
    /// first is not undone with it.
    pub(crate) fn beside(&self, instance_at: MachineIndex) -> Self {
        Self {
            instance_at: Some(instance_at),
            guests: Guests::Started,
            machines: self.machines.clone(),
            points: self.points.clone(),
            modelled: self.modelled,
            user_medium: self.user_medium,
            file_systems: self.file_systems.clone(),
            ..Self::new(self.stack, self.seed, self.alone, Guests::Started)
        }
    }

    /// What is known of its network.
    pub(crate) fn network(&self) -> Network<'_> {
        Network {
            stack: self.stack,
            machines: &self.machines,
            file_systems: &self.file_systems,
            network_disks: &self.network_disks,
            image_server: self.image_server.as_ref(),
        }
    }

    /// The machine that a layer of the stack makes.
    pub(crate) fn machine_across(&self, layer: LayerIndex) -> Option<MachineIndex> {
        let of_stack = self.stack.machine_across(layer)?;
        Some(self.instance_at.unwrap_or(of_stack))
    }

    /// The machine has a block device, which is recorded as the layer's.
    pub(crate) fn offer_device(
        &mut self,
        offered_by: LayerIndex,
        machine: MachineIndex,
        device: String,
        zeroed: bool,
    ) -> Offered {
        self.offer_point(BlockPoint { offered_by, machine, device, begins_at: None }, zeroed)
    }

    /// The same of a device that may begin somewhere on another.
    pub(crate) fn offer_point(&mut self, point: BlockPoint, zeroed: bool) -> Offered {
        let offered =
            Offered { on: point.machine, thing: Thing::Block { device: point.device.clone(), zeroed } };
        self.points.push(point);
        offered
    }

    /// It is complete: its top is on this machine.
    pub(crate) fn into_built(self, (top_index, top): (MachineIndex, Top), time: HostTime) -> BuiltStack {
        BuiltStack {
            stack: self.stack.clone(),
            machines: self.machines,
            points: self.points,
            top,
            top_index,
            modelled: self.modelled,
            time,
            settings: self.settings,
            undo: self.undo,
            user_medium: self.user_medium,
            file_systems: self.file_systems,
            images: self.images,
            virtual_disks: self.virtual_disks,
            network_disks: self.network_disks,
            image_server: self.image_server,
            write_caches: self.write_caches,
        }
    }

    /// Whether what a layer is made of came with the image from the repository, so that it is there and is not made.
    pub(crate) fn came_with_image(&self, index: LayerIndex, on: MachineIndex) -> bool {
        let in_image = self.stack.layers_in_image().any(|(at, _)| at == index);
        in_image && Some(on) != self.stack.repository()
    }

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
    pub(crate) fn mount_point(&self, on: MachineIndex, layer: LayerIndex) -> String {
        format!("{}/mount-{}", self.machines[on].facts.work_directory, layer.position())
    }
}
