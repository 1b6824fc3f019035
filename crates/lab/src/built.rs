//! A built stack: its machines, its trace points, and its undo steps.

use nestor_machine::{
    Command, DiskAttachment, Facts, InterfaceAttachment, Machine, MachineError, MachinePlace, Mounting,
    NfsExport,
};
use nestor_stack::{Accelerator, HypervisorKind, LayerIndex, MachineIndex, MachineLabel, Machines, Stack};

use crate::write_cache::WriteCacheSwitch;
use nestor_stack::{HostTime, UserMedium};

/// What a workload works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Top {
    /// A directory on the topmost file system.
    Directory(String),
    /// A block device, for a stack without a file system at the top.
    Device(String),
}

/// One machine of a built stack.
#[derive(Clone)]
pub struct BuiltMachine {
    /// What it is called.
    pub label: MachineLabel,
    /// The machine.
    pub machine: Machine,
    /// What it is.
    pub facts: Facts,
    /// When its agent greeted the machine that booted it, on that machine's clock, ns; only of a machine whose boot is measured.
    pub greeted_ns: Option<u64>,
    /// What executes its instructions.
    pub accelerator: Accelerator,
}

/// A block device in one of the machines, where requests can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPoint {
    /// The layer that offers the device.
    pub offered_by: LayerIndex,
    /// The machine that uses it.
    pub machine: MachineIndex,
    /// `/dev/…`.
    pub device: String,
    /// Where it begins in bytes on the device of the layer below, if it is a part of that. Its requests are recorded there: the kernel
    /// reports them as the whole device's (`blk_partition_remap` in `block/blk-core.c`) and records one of the two at a time.
    pub begins_at: Option<u64>,
}

/// A mounted file system of the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltFileSystem {
    /// Its layer.
    pub layer: LayerIndex,
    /// The machine that mounts it.
    pub machine: MachineIndex,
    /// What is mounted where, by whom.
    pub mounting: Mounting,
    /// What it shows of another machine; `None` of a local file system.
    pub exported: Option<Exported>,
}

/// A directory of a machine that others mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The machine that has it.
    pub machine: MachineIndex,
    /// What it is called there.
    pub path: String,
    /// The address of the machine that mounts it.
    pub(crate) client: String,
}

impl BuiltFileSystem {
    /// Whether a path of a machine lies on it.
    fn has(&self, machine: MachineIndex, path: &str) -> bool {
        self.machine == machine
            && path.strip_prefix(&self.mounting.target).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// The image file of a virtual disk or a loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltImage {
    /// Its layer.
    pub layer: LayerIndex,
    /// The machine that has it.
    pub machine: MachineIndex,
    /// The file.
    pub path: String,
    /// `raw`, `qcow2`, …
    pub format: String,
    /// The command that prints as JSON where in the file each part of the virtual disk lies; `None` where a position is the same in both.
    pub map_command: Option<Vec<String>>,
    /// Whether all of it lies in the file.
    pub in_one_file: bool,
}

/// A guest's disk as the hypervisor around it has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualDisk {
    /// The hypervisor's layer.
    pub layer: LayerIndex,
    /// The machine that the hypervisor runs on.
    pub machine: MachineIndex,
    /// By what the agent there knows the guest.
    pub guest: MachinePlace,
    /// What runs the guest.
    pub hypervisor: HypervisorKind,
    /// The device model (`virtio-blk`, …).
    pub model: &'static str,
    /// The layer of its image; `None` for a disk that is a block device of the machine.
    pub image: Option<LayerIndex>,
}

/// A network disk as its server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkDisk {
    /// Its layer.
    pub layer: LayerIndex,
    /// The machine that serves it.
    pub server: MachineIndex,
    /// The layer of its image; `None` for a disk that is a block device of the machine.
    pub image: Option<LayerIndex>,
    pub(crate) program: ServingProgram,
}

/// A program that serves a layer until the stack is taken down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServingProgram {
    /// Its process on its machine.
    pub(crate) process: u32,
    /// What it has printed, as a file.
    pub(crate) log: String,
}

/// A built stack. It has to be given back to [`crate::Lab::take_down`].
pub struct BuiltStack {
    /// What was built.
    pub stack: Stack,
    /// Its machines, as the stack has them.
    pub machines: Machines<BuiltMachine>,
    /// Its block devices, the medium's first.
    pub points: Vec<BlockPoint>,
    /// Where the workload works.
    pub top: Top,
    /// The machine it works in.
    pub top_index: MachineIndex,
    /// Whether the medium is a modelled disk.
    pub modelled: bool,
    /// The time that its machines live in. In virtual time they get one request after the other, because parallel requests
    /// would arrive in an unpredictable order.
    pub time: HostTime,
    /// The settings that the stack leaves open: sizes, schedulers, read-ahead.
    pub settings: Vec<(String, String)>,
    /// What the kernel says of the medium, if it is the user's.
    pub user_medium: Option<UserMedium>,
    /// Its mounted file systems, the lowest first.
    pub file_systems: Vec<BuiltFileSystem>,
    /// Its image files, the lowest first.
    pub images: Vec<BuiltImage>,
    /// The disks of its guests, the outermost first.
    pub virtual_disks: Vec<VirtualDisk>,
    /// Its network disks, the lowest first.
    pub network_disks: Vec<NetworkDisk>,
    /// What serves the image that stays at the repository, if a program does.
    pub(crate) image_server: Option<ServingProgram>,
    pub(crate) undo: Vec<Undo>,
    pub(crate) write_caches: Vec<WriteCacheSwitch>,
}

impl BuiltStack {
    /// Ends the preparation: disks that write through were laid out with their caches on, and now write through.
    ///
    /// # Errors
    /// When a machine does not answer.
    pub fn end_preparation(&self) -> Result<(), MachineError> {
        self.write_caches.iter().try_for_each(|switch| switch.set(false))
    }

    /// Writes out and empties every cache of the stack, from the application to the medium.
    ///
    /// The file system that the workload uses is mounted anew, which empties exactly its caches; the machine keeps its
    /// programs in memory. The machines around it drop all of theirs: what lies below a running guest cannot be
    /// unmounted.
    ///
    /// # Errors
    /// When a machine does not answer or a file system does not mount again.
    pub fn empty_caches(&self) -> Result<(), MachineError> {
        let top = self.top_index;
        for (index, machine) in self.machines.indexed().rev() {
            let machine = &machine.machine;
            let mounted = self.file_systems.iter().rfind(|m| m.machine == top);
            match mounted {
                Some(mounted) if index == top && matches!(self.top, Top::Directory(_)) => {
                    machine.unmount(&mounted.mounting.target)?;
                    machine.mount(mounted.mounting.clone())?;
                    let below_a_loop = self.file_systems.iter().filter(|m| m.machine == top).count() > 1;
                    if below_a_loop {
                        drop_caches(machine)?;
                    }
                }
                _ => drop_caches(machine)?,
            }
        }
        Ok(())
    }

    /// The block device that a layer offers.
    pub fn point(&self, layer: LayerIndex) -> Option<&BlockPoint> {
        self.points.iter().find(|point| point.offered_by == layer)
    }

    /// Where the requests of the block device that a layer offers are recorded, and the byte there at which it begins: a partition's on its
    /// disk.
    pub fn recorded_at(&self, layer: LayerIndex) -> Option<(&BlockPoint, u64)> {
        whole(&self.points, self.point(layer)?)
    }

    /// The same of the device that a file system is on.
    pub fn recorded_below(&self, file_system: &BuiltFileSystem) -> Option<(&BlockPoint, u64)> {
        let on_it =
            |p: &&BlockPoint| (p.machine, &p.device) == (file_system.machine, &file_system.mounting.source);
        whole(&self.points, self.points.iter().find(on_it)?)
    }

    /// The local file system that has an image's blocks, and what the file is called there. Of a file on a network file system, that is the
    /// server's.
    pub fn local_place_of(&self, image: &BuiltImage) -> Option<(&BuiltFileSystem, String)> {
        self.local_place(image.machine, image.path.clone())
    }

    /// The local file system that has the blocks of the files of another one: itself, unless it is a network file system.
    pub fn local_file_system_of(&self, file_system: &BuiltFileSystem) -> Option<&BuiltFileSystem> {
        let root = format!("{}/", file_system.mounting.target);
        self.local_place(file_system.machine, root).map(|(local, _)| local)
    }

    fn local_place(&self, mut machine: MachineIndex, mut path: String) -> Option<(&BuiltFileSystem, String)> {
        loop {
            let file_system =
                self.file_systems.iter().rfind(|file_system| file_system.has(machine, &path))?;
            let Some(exported) = &file_system.exported else { return Some((file_system, path)) };
            path = format!("{}{}", exported.path, path.strip_prefix(&file_system.mounting.target)?);
            machine = exported.machine;
        }
    }

    /// The disk of the guest that a hypervisor layer runs.
    pub fn virtual_disk(&self, layer: LayerIndex) -> Option<&VirtualDisk> {
        self.virtual_disks.iter().find(|disk| disk.layer == layer)
    }

    /// The image file of a layer.
    pub fn image(&self, layer: LayerIndex) -> Option<&BuiltImage> {
        self.images.iter().find(|image| image.layer == layer)
    }

    /// The image of a guest's disk; `None` for a disk that is a block device of the machine.
    pub fn image_of(&self, disk: &VirtualDisk) -> Option<&BuiltImage> {
        self.image(disk.image?)
    }

    /// The machine the workload runs in.
    pub fn top_machine(&self) -> &BuiltMachine {
        &self.machines[self.top_index]
    }
}

/// The whole device that a block device is, or is a part of, and the byte there at which it begins.
fn whole<'a>(points: &'a [BlockPoint], mut point: &'a BlockPoint) -> Option<(&'a BlockPoint, u64)> {
    let mut start = 0_u64;
    while let Some(begins_at) = point.begins_at {
        start = start.checked_add(begins_at)?;
        point = points.iter().find(|other| other.offered_by == point.offered_by.below())?;
    }
    Some((point, start))
}

/// The undo steps, in reverse order, each with its machine. Steps on a machine that has ended count as done.
pub(crate) struct Undo {
    pub(crate) on: MachineIndex,
    pub(crate) step: UndoStep,
}

/// How it is undone.
pub(crate) enum UndoStep {
    /// Unmount what was mounted there.
    Unmount(String),
    /// Remove a loop device.
    DetachLoop(String),
    /// Make the kernel forget the partition of a device.
    ForgetPartition(String),
    /// Take the block device of a network disk away from its client.
    DetachNetworkDisk(String),
    /// Unplug a disk of the machine.
    DetachDisk(Box<DiskAttachment>),
    /// Unplug a network interface of the machine.
    DetachInterface(InterfaceAttachment),
    /// Remove an interface that was made in a machine.
    RemoveInterface(String),
    /// End a program that was started.
    EndProcess(u32),
    /// Withdraw an export of a machine's kernel, and end the NFS server that was started for it.
    EndNfsServer(NfsExport),
    /// End the machine, whose disk cannot be unplugged.
    Stop,
    /// Remove the run's own directory in one of the user's.
    RemoveOwnDirectory(String),
    /// Erase the data on a user's medium and release it.
    Release(String),
}

/// Writes out what is dirty and drops the page, inode and directory caches.
pub(crate) fn drop_caches(machine: &Machine) -> Result<(), MachineError> {
    machine.run_ok(Command::new(["sync"]).timeout_s(600))?;
    machine.write_file("/proc/sys/vm/drop_caches", b"3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_of_a_partition_are_recorded_at_its_disk() {
        let point = |offered_by, begins_at| BlockPoint {
            offered_by,
            machine: MachineIndex::OUTERMOST,
            device: "/dev/vda".to_owned(),
            begins_at,
        };
        let (part, disk) = (LayerIndex::TOP.below(), LayerIndex::TOP.below().below());
        let points = [point(disk, None), point(part, Some(32_256))];
        assert_eq!(whole(&points, &points[1]), Some((&points[0], 32_256)));
        assert_eq!(whole(&points, &points[0]), Some((&points[0], 0)));
        assert_eq!(whole(&points[1..], &points[1]), None);
    }
}
