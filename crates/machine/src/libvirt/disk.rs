//! The disk of a hypervisor's layer, as libvirt has it (<https://libvirt.org/formatdomain.html#hard-drives-floppy-disks-cdroms>).

use nestor_stack::layers::hypervisors::devices::Disk;
use nestor_stack::layers::hypervisors::{GuestDisk, HostBlockOptions};
use nestor_stack::{HypervisorKind, Layer};
use serde::{Deserialize, Serialize};

use super::live::LiveDevice;
use super::xml::Element;
use crate::hypervisor::{DiskSource, OwnDisk};
use crate::spec::{DiskAttachment, DiskBackend};

/// The I/O thread of every domain that has one.
pub(super) const IOTHREAD: &str = "1";

/// What libvirt makes a disk of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainDisk {
    source: Source,
    block: HostBlockOptions,
    /// By what the guest finds it.
    serial: String,
    /// `bus` of `<target>`.
    bus: String,
    /// `dev` of `<target>`: what libvirt calls it.
    target: String,
    /// `model` of the SCSI controller that it is on.
    scsi_controller: Option<String>,
    /// A name of 64 bits, where the model needs one.
    world_wide_name: Option<u64>,
    has_iothread: bool,
}

/// Where its data is, in the machine around.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Device(String),
    Image { path: String, format: String, l2_cache_bytes: Option<u64> },
}

/// The disk of a layer, of that name.
pub(super) fn of_layer(layer: &Layer, name: &str, source: DiskSource<'_>) -> Option<DiskAttachment> {
    let options = layer.hypervisor().filter(|options| options.kind == HypervisorKind::Libvirt)?;
    let GuestDisk::Qemu(disk) = options.disk else { return None };
    let words = disk.device.libvirt?;
    let source = match source {
        DiskSource::Device(device) => Source::Device(device.to_owned()),
        DiskSource::Image { path, layer: image, .. } => Source::Image {
            path: path.to_owned(),
            format: image.name().to_owned(),
            l2_cache_bytes: image.size("l2-cache").map(|size| size.get()),
        },
    };
    // As the device model describes itself: for one that is not seen without a name, there it is.
    let described = (disk.device.disk)(&Disk {
        id: name,
        node: name,
        serial: name,
        write_cache: disk.block.cache.write_cache(),
        controller: name,
        slot: 0,
        pci_bus: None,
        iothread: None,
    });
    let disk = DomainDisk {
        source,
        block: disk.block,
        serial: name.to_owned(),
        bus: words.bus.to_owned(),
        target: words.target.to_owned(),
        scsi_controller: words.controller.map(str::to_owned),
        world_wide_name: described["wwn"].as_u64(),
        has_iothread: disk.iothread,
    };
    Some(DiskAttachment {
        serial: name.to_owned(),
        backend: DiskBackend::Own(OwnDisk::Libvirt(Box::new(disk))),
    })
}

impl DomainDisk {
    /// What a domain has as long as it has the disk.
    pub(super) fn live(&self) -> LiveDevice {
        LiveDevice::Disk { target: self.target.clone() }
    }

    /// The controller that it needs, to be there before it.
    pub(super) fn controller(&self) -> Option<Element> {
        let model = self.scsi_controller.as_ref()?;
        let controller =
            Element::new("controller").with("type", "scsi").with("index", "0").with("model", model);
        Some(match self.has_iothread {
            true => controller.holding([Element::new("driver").with("iothread", IOTHREAD)]),
            false => controller,
        })
    }

    /// Itself.
    pub(super) fn element(&self) -> Element {
        let (kind, attribute, path, format) = match &self.source {
            Source::Device(path) => ("block", "dev", path, "raw"),
            Source::Image { path, format, .. } => ("file", "file", path, format.as_str()),
        };
        let name = self.world_wide_name.map(|name| Element::new("wwn").text(format!("{name:016x}")));
        Element::new("disk").with("type", kind).with("device", "disk").holding(
            [
                self.driver(format),
                Element::new("source").with(attribute, path),
                Element::new("target").with("dev", &self.target).with("bus", &self.bus),
                Element::new("serial").text(&self.serial),
            ]
            .into_iter()
            .chain(name),
        )
    }

    /// A failed request is the guest's to handle, as on a real disk.
    fn driver(&self, format: &str) -> Element {
        let driver = Element::new("driver")
            .with("name", "qemu")
            .with("type", format)
            .with("cache", self.block.cache.name())
            .with("io", self.block.aio.name())
            .with("discard", self.block.discard.name())
            .with("error_policy", "report")
            .with("rerror_policy", "report");
        let driver = match self.has_iothread && self.scsi_controller.is_none() {
            true => driver.with("iothread", IOTHREAD),
            false => driver,
        };
        let Source::Image { l2_cache_bytes: Some(bytes), .. } = &self.source else { return driver };
        let size = Element::new("max_size").with("unit", "bytes").text(bytes.to_string());
        driver.holding([Element::new("metadata_cache").holding([size])])
    }
}

#[cfg(test)]
mod tests {
    use nestor_stack::Stack;

    use super::*;

    fn disk(stack: &str, path: &str) -> DomainDisk {
        let stack = Stack::parse(stack).unwrap();
        let [layer, below] = [&stack.layers()[0], &stack.layers()[1]];
        let source = match below.image_format() {
            Some(_) => DiskSource::Image { path, layer: below, prefetch: false },
            None => DiskSource::Device(path),
        };
        match of_layer(layer, "nestor-disk", source).unwrap().backend {
            DiskBackend::Own(OwnDisk::Libvirt(disk)) => *disk,
            _ => panic!("it is libvirt's own"),
        }
    }

    #[test]
    fn a_device_is_a_block_disk() {
        let disk = disk("kvm:by=libvirt/hdd", "/dev/vdb");
        assert_eq!(disk.controller(), None);
        assert_eq!(
            disk.element().to_string(),
            "<disk type='block' device='disk'><driver name='qemu' type='raw' cache='none' io='threads' discard='ignore' \
             error_policy='report' rerror_policy='report'/><source dev='/dev/vdb'/><target dev='vda' bus='virtio'/>\
             <serial>nestor-disk</serial></disk>"
        );
    }

    #[test]
    fn an_image_has_its_format_and_what_is_said_of_it() {
        let stack = "kvm:by=libvirt:disk=virtio-scsi:iothread:cache=writeback:discard=unmap/qcow2:l2-cache=8M/xfs/hdd";
        let disk = disk(stack, "/mnt/a&'b.qcow2");
        assert_eq!(
            disk.controller().unwrap().to_string(),
            "<controller type='scsi' index='0' model='virtio-scsi'><driver iothread='1'/></controller>"
        );
        assert_eq!(
            disk.element().to_string(),
            "<disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='writeback' io='threads' discard='unmap' \
             error_policy='report' rerror_policy='report'><metadata_cache><max_size unit='bytes'>8388608</max_size>\
             </metadata_cache></driver><source file='/mnt/a&amp;&#39;b.qcow2'/><target dev='sda' bus='scsi'/>\
             <serial>nestor-disk</serial></disk>"
        );
    }

    #[test]
    fn a_model_that_needs_a_name_has_one() {
        assert!(disk("kvm:by=libvirt:disk=mptsas/hdd", "/dev/vdb").element().to_string().contains("<wwn>3"));
    }

    #[test]
    fn other_layers_disks_are_not_libvirts() {
        let stack = Stack::parse("kvm/hdd").unwrap();
        assert!(of_layer(&stack.layers()[0], "nestor-disk", DiskSource::Device("/dev/vdb")).is_none());
    }
}
