//! Names of the files of a recording, besides those of relay files, which are numbered.

/// What blktrace says goes here.
pub(super) const BLKTRACE_LOG: &str = "blktrace.log";
/// The kernel's events, as tracefs gives them.
pub const TRACEFS_TEXT: &str = "trace.txt";
/// What the kernel had counted of calls of network file systems when recording began, and when it ended.
pub const COUNTERS: [&str; 2] = ["counters-before", "counters-after"];
/// What QEMU logs of its trace events.
pub(super) const QEMU_LOG: &str = "qemu.log";
