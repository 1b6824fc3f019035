//! Names of the files of a recording, besides those of relay files, which are numbered.

/// What blktrace says goes here.
pub(super) const BLKTRACE_LOG: &str = "blktrace.log";
/// The kernel's events, as tracefs gives them.
pub(super) const TRACEFS_TEXT: &str = "trace.txt";
/// What QEMU logs of its trace events.
pub(super) const QEMU_LOG: &str = "qemu.log";
