//! How QEMU accesses the layer below a virtual disk.

use serde_json::{Value, json};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl HostBlockOptions {
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
