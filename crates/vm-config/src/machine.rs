//! What is known of a virtual machine, whoever describes it.

use std::fmt;
use std::path::PathBuf;

use nestor_stack::Bytes;
use nestor_stack::layers::hypervisors::{CacheMode, XenGuest};
use serde::Serialize;

/// A virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualMachine {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What executes its instructions.
    pub accelerated: Accelerated,
    /// Its memory; `None` where the description does not say.
    pub memory: Option<Bytes>,
    /// Its virtual processors.
    pub cpus: Option<u64>,
    /// Its hard disks.
    pub disks: Vec<Disk>,
    /// What is left out of all stacks.
    pub left_out: Vec<LeftOut>,
}

/// What executes a machine's instructions, as far as stacks tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerated {
    /// KVM.
    #[default]
    Kvm,
    /// QEMU's emulation.
    Emulated,
    /// Xen, in one of its ways.
    Xen(XenGuest),
}

/// A hard disk of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// As its description calls it.
    pub name: String,
    /// Line of the description, where lines are.
    pub line: Option<usize>,
    /// The controller by its name in stacks; `None` if stacks have none like it.
    pub controller: Option<&'static str>,
    /// Where its data are.
    pub store: Store,
    /// The image's format as the description has it; `None` if it does not say.
    pub format: Option<String>,
    /// How it is cached.
    pub cache: CacheSwitches,
    /// How QEMU submits its I/O: a value of the option `aio`.
    pub aio: String,
    /// Whether a thread of its own serves it.
    pub iothread: bool,
    /// Whether discards are passed on.
    pub discard: bool,
    /// Memory for the tables of a qcow2 image.
    pub l2_cache: Option<Bytes>,
    /// The image below its image, if the description names one.
    pub backing: Option<String>,
    /// What is left out of its stack.
    pub left_out: Vec<LeftOut>,
}

/// Where a disk's data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// A file.
    File(PathBuf),
    /// A file that a server has, mounted by the host.
    FileOnServer(PathBuf),
    /// A block device.
    Device(PathBuf),
    /// An NVMe disk of the host that QEMU drives itself, in the description's words.
    Nvme(String),
    /// Something else, in the description's words.
    Other(String),
}

/// The three settings of which a cache mode consists (QEMU's manual, `-drive cache=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSwitches {
    /// Whether the guest's disk has a write cache.
    pub write_cache: bool,
    /// Whether the host's page cache is bypassed.
    pub direct: bool,
    /// Whether flushes are ignored.
    pub no_flush: bool,
}

impl CacheSwitches {
    /// Those of a mode.
    pub fn of(mode: CacheMode) -> Self {
        Self { write_cache: mode.write_cache(), direct: mode.direct(), no_flush: mode.no_flush() }
    }

    /// The mode with these settings, or the nearest one: of combinations without a name, what becomes of flushes counts most.
    pub fn mode(self) -> (CacheMode, bool) {
        let exact = CacheMode::ALL.into_iter().find(|mode| Self::of(*mode) == self);
        exact.map_or((CacheMode::Unsafe, false), |mode| (mode, true))
    }
}

/// Something of the machine that its stack has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// What, in the description's words.
    pub what: String,
    /// Why, or what the stack has instead.
    pub why: String,
}

impl LeftOut {
    /// Of these words.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
