//! The disk of a hypervisor layer as QEMU's arguments.

use nestor_stack::Layer;
use nestor_stack::layers::hypervisors::GuestDisk;
use nestor_stack::layers::hypervisors::HostTarget;
use nestor_stack::layers::hypervisors::devices::{Controller, Disk};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hypervisor::{DiskSource, OwnDisk};
use crate::spec::{DiskAttachment, DiskBackend};

/// The I/O thread of every machine that has [`MachineSpec::disk_thread`](crate::MachineSpec).
pub(super) const IOTHREAD: &str = "io0";

/// What QEMU makes a disk of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskObjects {
    /// Nodes of its block layer: `blockdev-add` arguments, lowest first; each has a `node-name`.
    pub(super) nodes: Vec<Value>,
    /// `device_add` arguments, in order (a controller first where the model needs one). Unplugged in reverse.
    pub(super) devices: Vec<Value>,
    /// Its uppermost node, if what is in that node's backing file is copied into it while the machine runs.
    pub(super) prefetched: Option<String>,
}

/// The disk of a layer, of that name.
pub(super) fn of_layer(layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment> {
    let GuestDisk::Qemu(options) = layer.hypervisor()?.disk else { return None };
    let file = format!("{name}-file");
    let (nodes, top, prefetch) = match source {
        DiskSource::Device(device) => {
            (vec![options.block.file_node(&file, HostTarget::BlockDevice(device))], file, false)
        }
        DiskSource::Image { path, layer: image, prefetch } => {
            let format = image.image_format()?;
            let node = format!("{name}-node");
            let nodes = vec![
                options.block.file_node(&file, HostTarget::File(path)),
                (format.blockdev)(image, &node, &file, &options.block),
            ];
            (nodes, node, prefetch)
        }
    };
    let controller = format!("{name}-controller");
    let iothread = options.iothread.then_some(IOTHREAD);
    let mut devices = Vec::new();
    if let Some(make) = options.device.controller {
        devices.push(make(&Controller { id: &controller, pci_bus: None, iothread }));
    }
    devices.push((options.device.disk)(&Disk {
        id: name,
        node: &top,
        serial: name,
        write_cache: options.block.cache.write_cache(),
        controller: &controller,
        slot: 0,
        pci_bus: None,
        iothread,
    }));
    Some(DiskAttachment {
        serial: name.to_owned(),
        backend: DiskBackend::Own(OwnDisk::Qemu(DiskObjects {
            nodes,
            devices,
            prefetched: prefetch.then_some(top),
        })),
    })
}

#[cfg(test)]
mod tests {
    use nestor_stack::Stack;

    use super::*;

    fn objects(stack: &str, path: &str) -> DiskObjects {
        let stack = Stack::parse(stack).unwrap();
        let layer = &stack.layers()[0];
        let source = match stack.layers()[1].image_format() {
            Some(_) => DiskSource::Image { path, layer: &stack.layers()[1], prefetch: false },
            None => DiskSource::Device(path),
        };
        match of_layer(layer, "nestor-disk", source).unwrap().backend {
            DiskBackend::Own(OwnDisk::Qemu(objects)) => objects,
            _ => panic!("a layer's disk is QEMU's own"),
        }
    }

    #[test]
    fn a_device_is_one_node_and_an_image_two_with_the_disk_on_the_upper_one() {
        let device = objects("kvm/hdd", "/dev/vda");
        assert_eq!(device.nodes.len(), 1);
        assert_eq!(device.nodes[0]["filename"], "/dev/vda");
        assert_eq!(device.devices[0]["drive"], "nestor-disk-file");
        let image = objects("kvm/qcow2/xfs/hdd", "/images/disk.qcow2");
        let names: Vec<&Value> = image.nodes.iter().map(|node| &node["node-name"]).collect();
        assert_eq!(names, ["nestor-disk-file", "nestor-disk-node"]);
        assert_eq!(image.devices[0]["drive"], "nestor-disk-node");
        assert_eq!(image.devices[0]["serial"], "nestor-disk");
    }

    #[test]
    fn the_node_that_is_filled_is_the_one_of_the_disk() {
        let stack = Stack::parse("kvm/qcow2/xfs/hdd").unwrap();
        let [layer, image, ..] = stack.layers() else { panic!("four layers") };
        let source = DiskSource::Image { path: "/disk.qcow2", layer: image, prefetch: true };
        let disk = of_layer(layer, "nestor-disk", source).unwrap();
        let DiskBackend::Own(OwnDisk::Qemu(objects)) = disk.backend else { panic!("of another hypervisor") };
        assert_eq!(objects.prefetched.as_deref(), Some("nestor-disk-node"));
        assert_eq!(objects.devices[0]["drive"], "nestor-disk-node");
    }

    #[test]
    fn a_controller_comes_before_its_disk() {
        let scsi = objects("kvm:disk=virtio-scsi:iothread/hdd", "/dev/vda");
        assert_eq!(scsi.devices.len(), 2);
        assert_eq!(scsi.devices[0]["iothread"], IOTHREAD);
        assert_eq!(scsi.devices[1]["bus"], "nestor-disk-controller.0");
    }
}
