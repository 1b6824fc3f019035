//! What is below a virtual disk, as the machine around says: facts that somebody else has gathered.

use nestor_stack::{Bytes, MediumClass};
use serde::Deserialize;

/// What is known of the image, and of what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// The image; `None` if nothing is known.
    pub image: Option<ImageFacts>,
    /// What is below the image, or the block device.
    pub under: Under,
    /// What could not be found out, and why.
    pub unknown: Vec<String>,
}

/// What is below an image or block device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Under {
    /// Kind of the file system as the kernel has it; `None` of a block device, and if nothing is known.
    pub file_system: Option<String>,
    /// Class of the disks; `None` if nothing is known.
    pub class: Option<MediumClass>,
    /// Kinds of devices between file system and disks, as `lsblk` calls them: `lvm`, `crypt`, `raid1`.
    pub between: Vec<String>,
}

/// What `qemu-img info` says of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// Format.
    pub format: String,
    /// Size of the disk in it.
    pub virtual_size: Bytes,
    /// How much of the host's file system it takes.
    pub allocated: Bytes,
    /// Unit of allocation.
    pub cluster: Option<Bytes>,
    /// The image that has what this one has not.
    pub backing: Option<String>,
    /// Reference counts of a qcow2 image are written late.
    pub lazy_refcounts: bool,
    /// Layout of a vmdk image.
    pub create_type: Option<String>,
    /// How it is encrypted.
    pub encrypted: bool,
}

/// The output of `qemu-img info --output=json` (`ImageInfo` of QEMU's qapi/block-core.json).
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Info {
    format: String,
    virtual_size: u64,
    #[serde(default)]
    actual_size: u64,
    cluster_size: Option<u64>,
    backing_filename: Option<String>,
    #[serde(default)]
    encrypted: bool,
    format_specific: Option<Specific>,
}

#[derive(Deserialize)]
struct Specific {
    #[serde(default)]
    data: SpecificData,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SpecificData {
    #[serde(default)]
    lazy_refcounts: bool,
    create_type: Option<String>,
}

/// Reads what `qemu-img info --output=json` prints.
///
/// # Errors
/// It is not that.
pub fn image_facts(json: &str) -> Result<ImageFacts, serde_json::Error> {
    let info: Info = serde_json::from_str(json)?;
    let specific = info.format_specific.map(|specific| specific.data).unwrap_or_default();
    Ok(ImageFacts {
        format: info.format,
        virtual_size: Bytes(info.virtual_size),
        allocated: Bytes(info.actual_size),
        cluster: info.cluster_size.map(Bytes),
        backing: info.backing_filename,
        lazy_refcounts: specific.lazy_refcounts,
        create_type: specific.create_type,
        encrypted: info.encrypted,
    })
}
