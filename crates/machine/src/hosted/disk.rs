//! The disk of a layer of a hosted hypervisor.

use std::path::{Path, PathBuf};

use nestor_stack::layers::hypervisors::{CacheMode, GuestDisk};
use nestor_stack::{HypervisorKind, Layer};
use serde::{Deserialize, Serialize};

use super::descriptor::{self, Extent};
use crate::hypervisor::{DiskSource, OwnDisk};
use crate::refusal::Refusal;
use crate::spec::{DiskAttachment, DiskBackend};

/// What such a program makes a disk of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedDisk {
    source: Source,
    /// What the program calls the bus.
    pub bus: String,
    /// What it calls the controller.
    pub model: String,
    /// How it opens the disk.
    pub cache: CacheMode,
    /// Whether it ignores the guest's flushes unless it is told otherwise.
    pub may_ignore_flushes: bool,
}

/// Where its data is, in the machine around.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Device(String),
    RawImage(String),
    Image(String),
}

/// The disk of a layer of that kind.
pub fn of_layer(
    kind: HypervisorKind,
    layer: &Layer,
    name: &str,
    source: DiskSource<'_>,
) -> Option<DiskAttachment> {
    let options = layer.hypervisor().filter(|options| options.kind == kind)?;
    let GuestDisk::Hosted(disk) = options.disk else { return None };
    let source = match source {
        DiskSource::Device(path) => Source::Device(path.to_owned()),
        // A format without tables has the guest's bytes as they are.
        DiskSource::Image { path, layer, .. } if layer.image_format()?.map.is_none() => {
            Source::RawImage(path.to_owned())
        }
        DiskSource::Image { path, .. } => Source::Image(path.to_owned()),
    };
    let disk = HostedDisk {
        source,
        bus: disk.controller.bus.to_owned(),
        model: disk.controller.model.to_owned(),
        cache: disk.cache,
        may_ignore_flushes: disk.controller.may_ignore_flushes,
    };
    let backend = DiskBackend::Own(OwnDisk::Hosted(Box::new(disk)));
    Some(DiskAttachment { serial: name.to_owned(), backend })
}

impl HostedDisk {
    /// What the program opens: an image of a format of its own, or a descriptor of what is raw, which is written into `directory`.
    ///
    /// # Errors
    /// The descriptor cannot be written.
    pub fn medium(&self, directory: &Path) -> Result<PathBuf, Refusal> {
        let (path, extent) = match &self.source {
            Source::Image(path) => return Ok(PathBuf::from(path)),
            Source::RawImage(path) => (path, Extent::File),
            Source::Device(path) => (path, Extent::Device),
        };
        let descriptor = directory.join("disk.vmdk");
        descriptor::write(&descriptor, path, extent)?;
        Ok(descriptor)
    }
}
