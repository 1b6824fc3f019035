//! A stack as others' tools want it, ready to paste: libvirt's XML, a QEMU command line, mkfs and mount lines.
//!
//! The lines are made from the same data as the stacks that are measured. What only the user knows (paths, devices, sizes)
//! is a placeholder, and each output names its placeholders.

mod libvirt;
mod mkfs;
mod qemu;

use std::fmt;

use nestor_stack::layers::hypervisors::{GuestDisk, HypervisorOptions, QemuDisk};
use nestor_stack::{ImageFormatSpec, Layer, MediumKind, Stack};

pub use libvirt::libvirt_xml;
pub use mkfs::mkfs_lines;
pub use qemu::{QemuCommand, qemu_command};

/// Where images are, until the user says otherwise.
const IMAGE_DIRECTORY: &str = "/srv/images";
/// The host's disk, until the user says otherwise.
const HOST_DEVICE: &str = "/dev/YOUR-DISK";

/// Why a stack cannot be written in another tool's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasteError {
    /// Why, and what to do instead.
    message: String,
}

impl PasteError {
    fn new(stack: &Stack, what: &str, help: &str) -> Self {
        Self { message: format!("{stack} cannot be written in this form: {what}\n  {help}") }
    }
}

impl fmt::Display for PasteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PasteError {}

/// A stack of one virtual machine, taken apart.
struct Parts<'a> {
    stack: &'a Stack,
    /// The guest's file system; `None` if the guest offers its disk as it is.
    guest: Option<&'a Layer>,
    /// The virtual machine.
    machine: HypervisorOptions<'a>,
    /// Its disk.
    disk: QemuDisk,
    /// `None` if the disk is the medium itself.
    image: Option<Image<'a>>,
    medium: &'a Layer,
}

/// The image of a virtual disk.
#[derive(Clone, Copy)]
struct Image<'a> {
    layer: &'a Layer,
    format: &'static ImageFormatSpec,
    /// The file system that it lies on.
    host: &'a Layer,
}

const MORE_BELOW: &str = "there is more than an image and a file system below the virtual machine";

impl<'a> Parts<'a> {
    fn of(stack: &'a Stack) -> Result<Self, PasteError> {
        let refuse = |what: &str| {
            Err(PasteError::new(
                stack,
                what,
                "use a stack like ext4/kvm/raw/xfs/hdd: a guest, one virtual machine, an image on a host's \
                 file system",
            ))
        };
        let layers = stack.layers();
        let Some((at, machine)) =
            layers.iter().enumerate().find_map(|(at, layer)| Some((at, layer.hypervisor()?)))
        else {
            return refuse("it has no virtual machine");
        };
        let GuestDisk::Qemu(disk) = machine.disk else {
            return refuse("its virtual machine is not QEMU's");
        };
        let guest = match &layers[..at] {
            [] => None,
            [guest] if guest.file_system().is_some() => Some(guest),
            _ => return refuse("the guest has more than a file system"),
        };
        let image = match &layers[at + 1..layers.len() - 1] {
            [] => None,
            [layer, host] => match (layer.image_format(), host.file_system()) {
                (Some(format), Some(_)) => Some(Image { layer, format, host }),
                _ => return refuse(MORE_BELOW),
            },
            _ => return refuse(MORE_BELOW),
        };
        Ok(Self { stack, guest, machine, disk, image, medium: stack.medium() })
    }

    /// Path of the image, or of the device that is the disk.
    fn disk_path(&self) -> String {
        match self.image {
            Some(image) => format!("{IMAGE_DIRECTORY}/vm.{}", image.format.extension),
            None => self.host_device(),
        }
    }

    /// The host's disk: the user's own if the stack names it.
    fn host_device(&self) -> String {
        match self.medium.medium_kind() {
            Some(MediumKind::Device) => {
                self.medium.path().map_or_else(String::new, |path| path.display().to_string())
            }
            _ => HOST_DEVICE.to_owned(),
        }
    }

    /// What the user has to put in place of the placeholders.
    fn placeholders(&self) -> Vec<String> {
        let mut names = Vec::new();
        if self.image.is_some() {
            names.push(format!("{} is a placeholder for the path of your image", self.disk_path()));
        }
        if self.image.is_none() && self.host_device() == HOST_DEVICE {
            names.push(format!("{HOST_DEVICE} is a placeholder for your disk"));
        }
        names
    }
}

#[cfg(test)]
mod tests;
