//! A stack taken apart by what its layers are to the application.

use crate::{Crossing, HOST_MEMORY_OPTION, Layer, LayerDefinition, MediumKind, Stack};

/// The layers of a stack by what they are to the application.
#[derive(Clone, Copy, Debug)]
pub struct Anatomy<'a> {
    /// What the application works on, down to its virtual machine; without one all layers above the medium.
    pub above: &'a [Layer],
    /// The application's virtual machine: the topmost hypervisor.
    pub virtual_machine: Option<&'a Layer>,
    /// What is below the virtual machine, down to the medium; empty without a virtual machine, and where it has the medium itself.
    pub below: &'a [Layer],
    /// The last layer.
    pub medium: &'a Layer,
    /// What carries the disk of the virtual machine, down to the machine around it: below that is the disk of another. `None` without
    /// a virtual machine, and for one that has an interface on a network in the place of a disk.
    disk: Option<&'a [Layer]>,
}

impl<'a> Anatomy<'a> {
    /// The file system that the application uses.
    pub fn guest_file_system(&self) -> Option<&'a Layer> {
        first(self.above, is_file_system)
    }

    /// The file system that holds the virtual machine's image.
    pub fn host_file_system(&self) -> Option<&'a Layer> {
        first(self.disk?, is_file_system)
    }

    /// The image that is the virtual machine's disk.
    pub fn image(&self) -> Option<&'a Layer> {
        first(self.disk?, |layer| {
            matches!(layer, LayerDefinition::ImageFormat(_) | LayerDefinition::SourcedImage(_))
        })
    }

    /// The layers, topmost first, without a method of their own here: those of further machines, loop devices,
    /// a second file system or image.
    pub fn others(&self) -> impl Iterator<Item = &'a Layer> {
        let named = [self.guest_file_system(), self.image(), self.host_file_system()];
        let is_named = move |layer: &&Layer| named.iter().flatten().any(|named| std::ptr::eq(*named, *layer));
        self.above.iter().chain(self.below).filter(move |layer| !is_named(layer))
    }
}

/// A medium without what it says of the machine that has it: another stack has another machine there.
fn without_machine(medium: &Layer) -> Layer {
    medium.clone().without(HOST_MEMORY_OPTION)
}

/// Why layers of a stack still fit together with less between them.
const SAME_OFFER: &str = "a block device replaces a block device";

/// Whether a layer is mounted where it is.
fn is_file_system(layer: &LayerDefinition) -> bool {
    matches!(layer, LayerDefinition::FileSystem(_) | LayerDefinition::NetworkFileSystem)
}

fn first(layers: &[Layer], is: impl Fn(&LayerDefinition) -> bool) -> Option<&Layer> {
    layers.iter().find(|layer| is(layer.definition()))
}

/// Whether a medium is a disk that a guest or an application could have.
fn is_disk(medium: &Layer) -> bool {
    medium.medium_kind() != Some(MediumKind::Directory)
}

impl Stack {
    /// Takes the stack apart.
    pub fn anatomy(&self) -> Anatomy<'_> {
        let (medium, layers) = self.layers().split_last().expect("a stack was checked to end with a medium");
        let Some(hypervisor) = self.innermost_hypervisor() else {
            return Anatomy { above: layers, virtual_machine: None, below: &[], medium, disk: None };
        };
        let at = hypervisor.position();
        let below = &layers[at + 1..];
        let end = below.iter().position(|layer| layer.crossing() == Crossing::Inside).unwrap_or(below.len());
        let disk = (!self.is_joined_to_network(hypervisor)).then_some(&below[..end]);
        Anatomy { above: &layers[..at], virtual_machine: Some(&layers[at]), below, medium, disk }
    }

    /// Whether what the application uses comes from another machine over a link, and not from the disk of its own virtual machine:
    /// the application's machine is beside that one, or inside a client that only passes the link on.
    pub fn is_beside(&self) -> bool {
        match self.crossings().next() {
            Some((_, Crossing::Beside)) => true,
            Some((_, Crossing::Inside)) => self.anatomy().disk.is_none(),
            Some((_, Crossing::None)) | None => false,
        }
    }

    /// The same virtual machine with the medium itself as its disk: `ext3/kvm/hdd` for `ext3/kvm/raw/jfs/hdd`. A stack without a
    /// virtual machine is its own, and so is one whose virtual machine has no disk, or whose medium is a directory.
    #[must_use]
    pub fn on_raw_disk(&self) -> Self {
        let Anatomy { above, virtual_machine, below, medium, disk } = self.anatomy();
        let has_other_disk = disk.is_some() && !below.is_empty() && is_disk(medium);
        let Some(virtual_machine) = virtual_machine.filter(|_| has_other_disk) else {
            return self.clone();
        };
        let kept = above.iter().chain([virtual_machine]).cloned();
        Self::of(kept.chain([without_machine(medium)])).expect(SAME_OFFER)
    }

    /// What the application works on, on the medium without a virtual machine: `ext3/hdd` for `ext3/kvm/raw/jfs/hdd`. Where the
    /// virtual machine says what memory its host has, so that memory is part of the question, the native machine has as
    /// much as the guest had. A stack without a virtual machine is its own, and so is one whose virtual machine has no disk, or whose medium is
    /// a directory.
    #[must_use]
    pub fn native(&self) -> Self {
        let Anatomy { above, virtual_machine, medium, disk, .. } = self.anatomy();
        let disk = disk.filter(|_| is_disk(medium));
        let Some(options) = disk.and(virtual_machine).and_then(Layer::hypervisor) else {
            return self.clone();
        };
        let mut on_medium = without_machine(medium);
        if options.host_memory.is_some() && medium.modelled_disk().is_some() {
            let as_much = on_medium.with(HOST_MEMORY_OPTION, &options.memory.to_string());
            on_medium = as_much.expect("a medium's host may have as much memory as a guest");
        }
        Self::of(above.iter().cloned().chain([on_medium])).expect(SAME_OFFER)
    }
}

#[cfg(test)]
mod tests {
    use crate::Stack;

    fn stack(text: &str) -> Stack {
        Stack::parse(text).unwrap()
    }

    #[test]
    fn the_raw_disk_of_a_guest_is_its_baseline() {
        let raw_disk = |text| stack(text).on_raw_disk().to_string();
        assert_eq!(raw_disk("ext3/kvm/raw/jfs/hdd"), "ext3/kvm/hdd");
        assert_eq!(
            raw_disk("ext3/kvm:cache=writethrough/hdd:wd-re3"),
            "ext3/kvm:cache=writethrough/hdd:wd-re3"
        );
        assert_eq!(raw_disk("ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"), "ext4/kvm/null");
        assert_eq!(raw_disk("ext4/hdd"), "ext4/hdd");
        assert_eq!(raw_disk("ext4/kvm/raw/ext4/file:/tmp/x y"), "ext4/kvm/file:/tmp/x y");
        assert_eq!(raw_disk("ext4/kvm/raw/dir:/srv/lab"), "ext4/kvm/raw/dir:/srv/lab");
    }

    #[test]
    fn natively_its_file_system_is_on_the_medium() {
        let native = |text| stack(text).native().to_string();
        assert_eq!(native("ext3/kvm:disk=lsi:memory=192M/raw/jfs/hdd:st336938lw"), "ext3/hdd:st336938lw");
        assert_eq!(native("ext4/kvm/qcow2/xfs/kvm/raw/ext4/null"), "ext4/null");
        assert_eq!(native("kvm/raw/ext4/hdd"), "hdd");
        assert_eq!(native("ext4/hdd"), "ext4/hdd");
        assert_eq!(
            native("ext4/kvm:memory=512M:host-memory=2G/raw/jfs/hdd:size=8G"),
            "ext4/hdd:size=8G:host-memory=512M"
        );
        assert_eq!(native("ext4/kvm:host-memory=2G/null"), "ext4/null:host-memory=256M");
    }

    #[test]
    fn a_stack_is_taken_apart() {
        let nested = stack("ext4/kvm/qcow2/xfs/kvm/raw/ext4/loop/raw/jfs/hdd");
        let parts = nested.anatomy();
        let name = |layer: Option<&crate::Layer>| layer.map(crate::Layer::name);
        assert_eq!(name(parts.guest_file_system()), Some("ext4"));
        assert_eq!(name(parts.image()), Some("qcow2"));
        assert_eq!(name(parts.host_file_system()), Some("xfs"));
        assert_eq!(parts.medium.name(), "hdd");
        let others: Vec<&str> = parts.others().map(crate::Layer::name).collect();
        assert_eq!(others, ["kvm", "raw", "ext4", "loop", "raw", "jfs"]);
    }

    #[test]
    fn a_guest_on_the_raw_disk_of_a_guest_has_no_image() {
        let nested = stack("ext4/kvm/kvm/raw/xfs/hdd");
        let parts = nested.anatomy();
        assert_eq!((parts.image(), parts.host_file_system()), (None, None));
        let others: Vec<&str> = parts.others().map(crate::Layer::name).collect();
        assert_eq!(others, ["kvm", "raw", "xfs"]);
        let on_a_server = stack("ext4/kvm/raw/nfs/link/jfs/hdd");
        assert_eq!(on_a_server.anatomy().host_file_system().map(crate::Layer::name), Some("nfs"));
        let mounted = stack("nfs/link/ext4/hdd");
        assert_eq!(mounted.anatomy().guest_file_system().map(crate::Layer::name), Some("nfs"));
    }

    #[test]
    fn who_uses_another_machine_over_a_link_is_beside_it() {
        for beside in ["nfs/link/ext4/hdd", "nfs/kvm/link/xfs/hdd", "nfs/link/xfs/part/kvm/raw/ext4/hdd"] {
            assert!(stack(beside).is_beside(), "{beside}");
        }
        for other in ["ext4/hdd", "kvm/hdd", "ext4/kvm/raw/xfs/hdd", "ext2/kvm/raw/nfs/link/xfs/hdd"] {
            assert!(!stack(other).is_beside(), "{other}");
        }
    }

    #[test]
    fn a_guest_that_mounts_a_directory_itself_has_no_disk_to_replace() {
        let mounts = stack("nfs/kvm/link/ext2/loop/raw/xfs/hdd");
        let parts = mounts.anatomy();
        assert_eq!((parts.image(), parts.host_file_system()), (None, None));
        assert_eq!(parts.guest_file_system().map(crate::Layer::name), Some("nfs"));
        assert_eq!((mounts.on_raw_disk(), mounts.native()), (mounts.clone(), mounts));
        let said_of_the_server = stack("ext4/kvm:host-memory=2G/raw/nfs/link/xfs/hdd:at=1G:host-memory=4G");
        assert_eq!(said_of_the_server.on_raw_disk().to_string(), "ext4/kvm:host-memory=2G/hdd:at=1G");
        assert_eq!(said_of_the_server.native().to_string(), "ext4/hdd:at=1G:host-memory=256M");
        let served = stack("nfs/link/xfs/part/kvm/raw/ext4/hdd");
        assert_eq!(served.on_raw_disk().to_string(), "nfs/link/xfs/part/kvm/hdd");
        assert_eq!(served.native().to_string(), "nfs/link/xfs/part/hdd");
    }
}
