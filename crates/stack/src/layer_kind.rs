//! What kind of layer a layer is, and what layers of its kind do with the requests that pass them.

use crate::layers::hypervisors::{CacheMode, XenGuest};
use crate::offer::offered;
use crate::{
    FileSystemSpec, ImageFormatSpec, Layer, LayerDefinition, LayerIndex, LayerSpec, MediumKind, Offer, Stack,
    registry,
};

impl LayerSpec {
    /// Of a file system on a block device.
    pub const fn file_system(&self) -> Option<&FileSystemSpec> {
        match &self.definition {
            LayerDefinition::FileSystem(spec) => Some(spec),
            _ => None,
        }
    }

    /// Of an image.
    pub const fn image_format(&self) -> Option<&ImageFormatSpec> {
        match &self.definition {
            LayerDefinition::ImageFormat(spec) => Some(spec),
            _ => None,
        }
    }
}

/// The image format of that name.
pub fn image_format(name: &str) -> Option<&'static ImageFormatSpec> {
    registry().iter().find(|spec| spec.name == name)?.image_format()
}

/// What told a file system to put the contents of files into its journal, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataJournal {
    /// The layer's option `journal=data`.
    Layer,
    /// `data=journal` among the options of mount.
    Mount,
}

impl Layer {
    /// Of a file system on a block device.
    pub fn file_system(&self) -> Option<&'static FileSystemSpec> {
        self.spec.file_system()
    }

    /// Of an image.
    pub fn image_format(&self) -> Option<&'static ImageFormatSpec> {
        self.spec.image_format()
    }

    /// What makes a file system put the contents of files into its journal, too; `None` where it does not. The options of mount come last,
    /// so the last of them decides.
    pub fn data_journal(&self) -> Option<DataJournal> {
        self.file_system()?;
        match self.list("mount").filter_map(|option| option.strip_prefix("data=")).last() {
            Some("journal") => Some(DataJournal::Mount),
            Some(_) => None,
            None => (self.option("journal") == Some("data")).then_some(DataJournal::Layer),
        }
    }

    /// Whether a file system is mounted so that reading a file may write the time of it.
    pub fn keeps_access_times(&self) -> bool {
        self.file_system().is_some() && self.list("mount").all(|option| option != "noatime")
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

    /// Whether its machine runs in the processor's mode for guests, which tells its instructions from those around it: not a paravirtualised
    /// domain of Xen.
    pub fn uses_guest_mode(&self) -> bool {
        self.hypervisor().is_some_and(|options| options.disk.xen_guest() != Some(XenGuest::Pv))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_decides_whether_contents_of_files_are_journalled() {
        let journal = |layer: &str| Layer::parse(layer).unwrap().data_journal();
        assert_eq!(journal("ext4:journal=data"), Some(DataJournal::Layer));
        assert_eq!(journal("ext4:journal=data:mount=noatime"), Some(DataJournal::Layer));
        assert_eq!(journal("ext3:mount=data=journal"), Some(DataJournal::Mount));
        assert_eq!(journal("ext3:journal=data:mount=data=journal"), Some(DataJournal::Mount));
        assert_eq!(journal("ext3:journal=data:mount=data=ordered"), None);
        assert_eq!(journal("ext3:mount=data=journal+data=writeback"), None);
        for without in ["ext4", "xfs", "kvm", "hdd"] {
            assert_eq!(journal(without), None, "{without}");
        }
    }

    #[test]
    fn only_file_systems_keep_times_of_access() {
        let keeps = |layer: &str| Layer::parse(layer).unwrap().keeps_access_times();
        assert!(keeps("ext4") && keeps("xfs:mount=nodiratime"));
        assert!(!keeps("ext4:mount=noatime") && !keeps("hdd"));
    }

    #[test]
    fn image_formats_are_found_by_their_names() {
        assert!(image_format("raw").unwrap().map.is_none() && image_format("qcow2").unwrap().map.is_some());
        assert!(image_format("ext4").is_none() && image_format("vpc").is_none());
    }
}
