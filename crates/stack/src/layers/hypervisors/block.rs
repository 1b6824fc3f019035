//! How QEMU accesses the layer below a virtual disk.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::images::vmdk;
use crate::{Conflict, Layer, LayerDefinition, OptionKind, OptionSpec};

/// The cache mode of a disk.
pub(in crate::layers) const CACHE: OptionSpec = OptionSpec {
    name: "cache",
    summary: "cache mode; none passes the guest's flushes on to the disk and bypasses the host's page cache",
    kind: OptionKind::Choice(CacheMode::NAMES),
    default: Some(CacheMode::NAMES[0]),
};

/// How a disk is accessed.
pub(in crate::layers) const AIO: OptionSpec = OptionSpec {
    name: "aio",
    summary: "how QEMU submits I/O; native needs cache=none or directsync",
    kind: OptionKind::Choice(Aio::NAMES),
    default: Some(Aio::NAMES[0]),
};

/// What becomes of discards of a disk.
pub(in crate::layers) const DISCARD: OptionSpec = OptionSpec {
    name: "discard",
    summary: "what QEMU does with the guest's discards: ignore them, or pass them on",
    kind: OptionKind::Choice(Discard::NAMES),
    default: Some(Discard::NAMES[0]),
};

/// QEMU's cache modes.
///
/// The default is `none`: a run should measure the disk, not the memory of the machine around the guest, and a
/// flush in the guest should be a flush of the disk.
///
/// Each combines three settings (QEMU's manual, `-drive cache=`):
///
/// | mode | disk's write cache | bypasses page cache | ignores flushes |
/// |---|---|---|---|
/// | `none` | on | yes | no |
/// | `writeback` | on | no | no |
/// | `writethrough` | off | no | no |
/// | `directsync` | off | yes | no |
/// | `unsafe` | on | no | yes |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// Bypasses the page cache; the guest flushes.
    None,
    /// Through the page cache; the guest flushes.
    Writeback,
    /// Through the page cache; every write is flushed.
    Writethrough,
    /// Bypasses the page cache; every write is flushed.
    Directsync,
    /// Through the page cache; flushes do nothing.
    Unsafe,
}

impl CacheMode {
    /// Their names, in the order of [`Self::ALL`].
    pub(super) const NAMES: &'static [&'static str] =
        &["none", "writeback", "writethrough", "directsync", "unsafe"];

    /// All of them, the default first.
    pub const ALL: [Self; Self::NAMES.len()] =
        [Self::None, Self::Writeback, Self::Writethrough, Self::Directsync, Self::Unsafe];

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Its name in the option `cache`, in QEMU's `-drive` and in libvirt.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// `cache.direct` of block nodes: whether the page cache of the machine around the guest is bypassed.
    pub const fn direct(self) -> bool {
        matches!(self, Self::None | Self::Directsync)
    }

    /// `cache.no-flush` of block nodes: whether flushes are ignored.
    pub const fn no_flush(self) -> bool {
        matches!(self, Self::Unsafe)
    }

    /// `write-cache` of the device: whether the guest sees a disk with a write cache, which it then has to flush.
    pub const fn write_cache(self) -> bool {
        !matches!(self, Self::Writethrough | Self::Directsync)
    }

    /// The `cache` member of a block node.
    pub(in crate::layers) fn json(self) -> Value {
        json!({ "direct": self.direct(), "no-flush": self.no_flush() })
    }
}

/// How QEMU submits I/O to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aio {
    /// A pool of threads with `preadv` and `pwritev`.
    Threads,
    /// Linux's native asynchronous I/O, which needs the page cache bypassed.
    Native,
    /// io_uring.
    IoUring,
}

impl Aio {
    pub(super) const NAMES: &'static [&'static str] = &["threads", "native", "io_uring"];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "threads" => Self::Threads,
            "native" => Self::Native,
            "io_uring" => Self::IoUring,
            _ => return None,
        })
    }

    /// As QEMU and the option `aio` have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Native => "native",
            Self::IoUring => "io_uring",
        }
    }
}

/// What becomes of the guest's discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discard {
    /// Nothing.
    Ignore,
    /// They are passed on.
    Unmap,
}

impl Discard {
    pub(super) const NAMES: &'static [&'static str] = &["ignore", "unmap"];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "ignore" => Self::Ignore,
            "unmap" => Self::Unmap,
            _ => return None,
        })
    }

    /// As QEMU and the option `discard` have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Unmap => "unmap",
        }
    }
}

/// What a hypervisor layer says about block nodes in the machine around the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostBlockOptions {
    /// Cache mode.
    pub cache: CacheMode,
    /// How I/O is submitted.
    pub aio: Aio,
    /// What becomes of discards.
    pub discard: Discard,
}

/// What a virtual disk is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTarget<'a> {
    /// An image: the path of its (first) file.
    File(&'a str),
    /// A block device: its path.
    BlockDevice(&'a str),
}

impl Layer {
    /// How the machine below opens the disk that the layer makes available above: of hypervisors and network disks; `None` for other
    /// layers.
    pub fn host_block(&self) -> Option<HostBlockOptions> {
        Some(HostBlockOptions {
            cache: CacheMode::from_name(self.option(CACHE.name)?)?,
            aio: Aio::from_name(self.option(AIO.name)?)?,
            discard: Discard::from_name(self.option(DISCARD.name)?)?,
        })
    }
}

impl HostBlockOptions {
    /// Refuses what QEMU refuses, or would silently not do, on what is below.
    pub(in crate::layers) fn check(&self, below: Option<&Layer>) -> Result<(), Conflict> {
        if self.aio == Aio::Native && !self.cache.direct() {
            return Err(Conflict {
                option: Some(AIO.name),
                message: format!(
                    "aio=native needs a cache mode that bypasses the page cache; cache is {}",
                    self.cache.name()
                ),
                help:
                    "use cache=none or cache=directsync with aio=native, or use aio=threads or aio=io_uring"
                        .to_owned(),
            });
        }
        if self.aio != Aio::Threads && below.is_some_and(vmdk::has_extent_files) {
            return Err(Conflict {
                option: Some(AIO.name),
                message: format!("QEMU does not use aio={} for the data files of this vmdk", self.aio.name()),
                help: "use aio=threads, or subformat=monolithicSparse for the vmdk".to_owned(),
            });
        }
        Ok(())
    }

    /// A disk in one: the node of an image's format with that of its file in it, or the node of a block device. QEMU's programs take it
    /// as a file name after `json:` (QEMU's manual, "QEMU block driver reference").
    pub fn disk(&self, image: Option<&Layer>, path: &str) -> Value {
        let (file, format) = ("file", image.map(Layer::definition));
        let Some((image, LayerDefinition::ImageFormat(format))) = image.zip(format) else {
            return self.file_node(file, HostTarget::BlockDevice(path));
        };
        let mut disk = (format.blockdev)(image, "disk", file, self);
        disk["file"] = self.file_node(file, HostTarget::File(path));
        disk
    }

    /// The argument of QMP's `blockdev-add` for the lowest node, which opens the file or block device. Over a block
    /// device this node is the disk; over an image, [`ImageFormatSpec::blockdev`](crate::ImageFormatSpec::blockdev)
    /// makes the node to put on top.
    pub fn file_node(&self, node_name: &str, target: HostTarget<'_>) -> Value {
        let (driver, filename) = match target {
            HostTarget::File(path) => ("file", path),
            HostTarget::BlockDevice(path) => ("host_device", path),
        };
        json!({
            "driver": driver,
            "node-name": node_name,
            "filename": filename,
            "aio": self.aio.name(),
            "cache": self.cache.json(),
            "discard": self.discard.name(),
        })
    }
}
