//! Media: modelled disks, a device, a file, a directory.

pub(super) mod dev;
pub(super) mod dir;
pub(super) mod file;
pub(super) mod hdd;
pub(super) mod null;
pub(super) mod nvme;
pub(super) mod raid0;
pub(super) mod raid5;
pub(super) mod ssd;

use super::options::HOST_MEMORY_OPTION;
use crate::{Bytes, Layer, LayerDefinition, MediumKind, OptionKind, OptionSpec, SizeRule};

/// Name of a disk in the disk crate.
const PROFILE: OptionSpec = OptionSpec {
    name: "profile",
    summary: "which disk is modelled (`nestor disk` lists them; unset: the default of this kind)",
    kind: OptionKind::Positional,
    default: None,
};

/// How much of the disk is used.
const SIZE: OptionSpec = OptionSpec {
    name: "size",
    summary: "size of the disk that the machine sees: a region of the modelled disk",
    kind: OptionKind::Size {
        min: Bytes::mib(1),
        max: Bytes::gib(64 << 10),
        rule: SizeRule::MultipleOf(4096),
    },
    default: Some("16G"),
};

/// Where on the disk that region begins.
const AT: OptionSpec = OptionSpec {
    name: "at",
    summary: "where on the modelled disk the region begins; 0 is the outermost track",
    kind: OptionKind::Size { min: Bytes(0), max: Bytes::gib(64 << 10), rule: SizeRule::MultipleOf(4096) },
    default: Some("0"),
};

/// The disk's own write cache.
const WCACHE: OptionSpec = OptionSpec {
    name: "wcache",
    summary: "the disk's own write cache (unset: as in the profile)",
    kind: OptionKind::Flag,
    default: None,
};

/// Memory of the machine that has the disk, where no virtual machine is between it and the application.
const HOST_MEMORY: OptionSpec = OptionSpec {
    name: HOST_MEMORY_OPTION,
    summary: "memory of the machine that has this disk, in a stack without a virtual machine; only where that machine is made \
              for the stack (unset: 1G)",
    // The lab image's kernel and fio, as in a guest.
    kind: OptionKind::Size {
        min: Bytes::mib(192),
        max: Bytes::gib(1024),
        rule: SizeRule::MultipleOf(1 << 20),
    },
    default: None,
};

/// The options of a modelled disk; each is `None` or the whole disk's default where the kind does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelledDisk<'a> {
    /// Which kind.
    pub kind: MediumKind,
    /// Name of the disk; `None`: the default of this kind. Whether it exists is for the disk's crate to say, with
    /// [`StackError::at_option`](crate::StackError::at_option) and the option `profile`.
    pub profile: Option<&'a str>,
    /// Size the machine sees.
    pub size: Bytes,
    /// Offset of its first byte on the modelled disk.
    pub at: Bytes,
    /// Whether the disk's write cache is on; `None`: as the profile has it.
    pub write_cache: Option<bool>,
    /// Memory of the machine that has the disk; `None` for as much as it needs.
    pub host_memory: Option<Bytes>,
}

impl Layer {
    /// The options of `hdd`, `ssd`, `nvme`, `raid0`, `raid5` and `null`; `None` for other layers.
    pub fn modelled_disk(&self) -> Option<ModelledDisk<'_>> {
        match *self.definition() {
            LayerDefinition::Medium(kind) if kind.is_modelled() => Some(ModelledDisk {
                kind,
                profile: self.option("profile"),
                size: self.size("size")?,
                at: self.size("at").unwrap_or_default(),
                write_cache: self.flag("wcache"),
                host_memory: self.size(HOST_MEMORY_OPTION),
            }),
            _ => None,
        }
    }
}
