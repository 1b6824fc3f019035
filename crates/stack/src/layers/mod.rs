//! Every layer there is, one file each, and the registry that lists them.

mod dom0;
pub mod file_systems;
pub mod hypervisors;
pub mod images;
mod loop_device;
pub mod media;
pub mod network;
mod options;
mod partition;
pub mod sourced;

use crate::LayerSpec;
pub use options::{AVAILABLE_OPTION, HOST_MEMORY_OPTION};
pub use partition::PartitionOptions;

/// The registry: one line per layer, in the order in which help and messages list them.
static REGISTRY: &[&LayerSpec] = &[
    &file_systems::ext2::LAYER,
    &file_systems::ext3::LAYER,
    &file_systems::ext4::LAYER,
    &file_systems::xfs::LAYER,
    &file_systems::jfs::LAYER,
    &file_systems::reiserfs::LAYER,
    &file_systems::btrfs::LAYER,
    &file_systems::f2fs::LAYER,
    &file_systems::nilfs2::LAYER,
    &file_systems::ntfs::LAYER,
    &images::raw::LAYER,
    &images::qcow2::LAYER,
    &images::vmdk::LAYER,
    &images::vdi::LAYER,
    &images::vhdx::LAYER,
    &images::qed::LAYER,
    &sourced::copy::LAYER,
    &sourced::overlay::LAYER,
    &loop_device::LAYER,
    &partition::LAYER,
    &hypervisors::kvm::LAYER,
    &hypervisors::tcg::LAYER,
    &hypervisors::xen::LAYER,
    &hypervisors::hosted::vbox::LAYER,
    &hypervisors::hosted::vmware::LAYER,
    &dom0::LAYER,
    network::NFS,
    network::NBD,
    network::LINK,
    &media::hdd::LAYER,
    &media::ssd::LAYER,
    &media::nvme::LAYER,
    &media::raid0::LAYER,
    &media::raid5::LAYER,
    &media::null::LAYER,
    &media::dev::LAYER,
    &media::file::LAYER,
    &media::dir::LAYER,
];

/// A layer that is suggested where others do not fit together.
#[derive(Debug)]
pub(crate) struct Joint {
    pub(crate) layer: &'static LayerSpec,
    /// What it is called in the suggestion.
    pub(crate) words: &'static str,
}

/// Together they lead from anything that a layer offers to anything that one needs.
pub(crate) static JOINTS: [Joint; 7] = [
    Joint { layer: &file_systems::ext4::LAYER, words: "a file system" },
    Joint { layer: &images::raw::LAYER, words: "an image" },
    Joint { layer: &hypervisors::kvm::LAYER, words: "a virtual machine" },
    Joint { layer: &loop_device::LAYER, words: "a loop device" },
    Joint { layer: network::LINK, words: "a link" },
    Joint { layer: network::NFS, words: "nfs" },
    Joint { layer: network::NBD, words: "nbd" },
];

/// Every layer a stack can have.
pub fn registry() -> &'static [&'static LayerSpec] {
    REGISTRY
}
