//! What kind of layer a layer is, and what layers of its kind do with the requests that pass them.

use crate::layers::hypervisors::CacheMode;
use crate::offer::offered;
use crate::{
    FileSystemSpec, ImageFormatSpec, Layer, LayerDefinition, LayerIndex, LayerSpec, MediumKind, Offer, Stack,
};

impl LayerSpec {
    /// Of a file system on a block device.
    pub const fn file_system(&self) -> Option<&FileSystemSpec> {
        match &self.definition {
            LayerDefinition::FileSystem(spec) => Some(spec),
            _ => None,
        }
    }
}

impl Layer {
    /// Of a file system on a block device.
    pub fn file_system(&self) -> Option<&'static FileSystemSpec> {
        self.spec.file_system()
    }

    /// Of an image.
    pub fn image_format(&self) -> Option<&'static ImageFormatSpec> {
        match &self.spec.definition {
            LayerDefinition::ImageFormat(spec) => Some(spec),
            _ => None,
        }
    }

    /// Of a medium.
    pub fn medium_kind(&self) -> Option<MediumKind> {
        match self.spec.definition {
            LayerDefinition::Medium(kind) => Some(kind),
            _ => None,
        }
    }

    /// Whether it is a hypervisor, also one whose guest has an interface on a network in the place of a disk.
    pub fn is_hypervisor(&self) -> bool {
        matches!(self.spec.definition, LayerDefinition::Hypervisor(_))
    }

    /// Whether it is a link.
    pub fn is_link(&self) -> bool {
        matches!(self.spec.definition, LayerDefinition::Link)
    }

    /// Whether it is a network file system.
    pub fn is_network_file_system(&self) -> bool {
        matches!(self.spec.definition, LayerDefinition::NetworkFileSystem)
    }

    /// Whether it is a loop device.
    pub fn is_loop_device(&self) -> bool {
        matches!(self.spec.definition, LayerDefinition::Loop)
    }

    /// Whether it is a loop device whose requests go through the page cache of its machine.
    pub fn is_cached_loop_device(&self) -> bool {
        self.is_loop_device() && self.is_cached_below()
    }

    /// How what serves the layer's requests goes through the page cache of its machine: QEMU around a guest, the server of a network disk or
    /// of a network file system, or the loop driver; `None` for layers whose requests go on as they are.
    pub fn cache_mode_below(&self) -> Option<CacheMode> {
        match self.spec.definition {
            LayerDefinition::Hypervisor(_) => Some(self.hypervisor()?.disk.cache()),
            LayerDefinition::NetworkDisk => Some(self.host_block()?.cache),
            LayerDefinition::NetworkFileSystem => Some(CacheMode::Writeback),
            LayerDefinition::Loop if self.is_on("direct-io") => Some(CacheMode::None),
            LayerDefinition::Loop => Some(CacheMode::Writeback),
            _ => None,
        }
    }

    /// Whether its requests go through the page cache of the machine that serves them.
    pub fn is_cached_below(&self) -> bool {
        self.cache_mode_below().is_some_and(|mode| !mode.direct())
    }

    /// Whether it ignores flushes.
    pub fn ignores_flushes(&self) -> bool {
        self.cache_mode_below().is_some_and(CacheMode::no_flush)
    }
}

impl Stack {
    /// Whether the layer is a virtual machine that has an interface on a network, and no disk.
    pub fn is_joined_to_network(&self, at: LayerIndex) -> bool {
        self.layer(at).is_hypervisor() && offered(&self.layers()[at.position()..]) != Some(Offer::Block)
    }

    /// [`Layer::cache_mode_below`] of a layer that serves something: a virtual machine without a disk does not.
    pub fn cache_mode_below(&self, at: LayerIndex) -> Option<CacheMode> {
        self.layer(at).cache_mode_below().filter(|_| !self.is_joined_to_network(at))
    }

    /// Whether a page cache lies between the application's machine, or a loop device there, and the medium: that of a machine around a guest,
    /// of a server, or of the file below a loop device.
    pub fn has_cache_below(&self) -> bool {
        self.indexed_layers().any(|(at, _)| self.cache_mode_below(at).is_some_and(|mode| !mode.direct()))
    }
}
