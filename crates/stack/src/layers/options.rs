//! Options that several layers share.

use crate::{Bytes, Conflict, OptionKind, OptionSpec, SizeRule};

/// Mount options of a file system.
pub(super) const MOUNT: OptionSpec = OptionSpec {
    name: "mount",
    summary: "mount options, joined with `+`, as in noatime+nodiratime",
    kind: OptionKind::List,
    default: None,
};

/// Kernel of the machine that has a file system.
pub(super) const KERNEL: OptionSpec = OptionSpec {
    name: crate::added_kernel::KERNEL_OPTION,
    summary: "kernel of the machine that has this file system mounted, by the name under which `nestor lab kernel` added it (unset: the \
              lab image's)",
    kind: OptionKind::Added { command: "nestor lab kernel NAME FILE" },
    default: None,
};

/// I/O scheduler of the block device a layer offers.
pub(super) const SCHED: OptionSpec = OptionSpec {
    name: "sched",
    summary: "I/O scheduler of this block device in the machine that uses it (unset: the kernel's choice)",
    kind: OptionKind::Choice(&["none", "mq-deadline", "bfq", "kyber"]),
    default: None,
};

/// Read-ahead of the block device a layer offers. A page is the smallest the kernel can do.
pub(super) const READAHEAD: OptionSpec = OptionSpec {
    name: "readahead",
    summary: "read-ahead of this block device in the machine that uses it (unset: the kernel's choice)",
    kind: OptionKind::Size { min: Bytes(0), max: Bytes::gib(1), rule: SizeRule::MultipleOf(4096) },
    default: None,
};

/// Merging in the block device a layer offers.
pub(super) const MERGES: OptionSpec = OptionSpec {
    name: "merges",
    summary: "whether neighbouring requests to this block device are merged in the machine that uses it",
    kind: OptionKind::Choice(&["on", "off"]),
    default: Some("on"),
};

/// Option of hypervisors and media that says what memory the machine has in which they are.
pub const HOST_MEMORY_OPTION: &str = "host-memory";

/// Option of hypervisors and links that says how much of its memory their machine has when the stack is built.
pub const AVAILABLE_OPTION: &str = "available";

/// Memory of the machine that begins above a layer.
pub(super) const MEMORY: OptionSpec = OptionSpec {
    name: "memory",
    summary: "memory of the guest",
    kind: OptionKind::Size {
        // With 160M the lab image's kernel boots, but fio does not fit beside it.
        min: Bytes::mib(192),
        max: Bytes::gib(1024),
        rule: SizeRule::MultipleOf(1 << 20),
    },
    default: Some("256M"),
};

/// What is left of the memory of the machine that begins above a layer.
pub(super) const AVAILABLE: OptionSpec = OptionSpec {
    name: AVAILABLE_OPTION,
    summary: "how much of its memory the guest has for programs and the page cache when the stack is built; the rest is taken \
              up (unset: what its kernel leaves)",
    kind: OptionKind::Size {
        min: Bytes::mib(16),
        max: Bytes::gib(1024),
        rule: SizeRule::MultipleOf(1 << 20),
    },
    default: None,
};

/// Refuses more available memory than a machine has.
pub(super) fn check_available(
    machine: &str,
    memory: Bytes,
    available: Option<Bytes>,
) -> Result<(), Conflict> {
    if available.is_none_or(|available| available < memory) {
        return Ok(());
    }
    Err(Conflict {
        option: Some(AVAILABLE.name),
        message: format!("a {machine} with {memory} cannot have as much available"),
        help: "use a larger memory, or a smaller available".to_owned(),
    })
}

/// Processors of the machine that begins above a layer.
pub(super) const CPUS: OptionSpec = OptionSpec {
    name: "cpus",
    summary: "virtual CPUs",
    kind: OptionKind::Number { min: 1, max: 64 },
    default: Some("1"),
};

/// Virtual size of an image.
pub(super) const IMAGE_SIZE: OptionSpec = OptionSpec {
    name: "size",
    summary: "size of the virtual disk in the image (unset: as much as fits below, decided when the stack is built)",
    kind: OptionKind::Size { min: Bytes::mib(1), max: Bytes::gib(64 << 10), rule: SizeRule::MultipleOf(512) },
    default: None,
};
