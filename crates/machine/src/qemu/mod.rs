//! Machines run by QEMU: the command line, QMP, and a running machine with its agent.

pub mod accelerator;
pub mod arguments;
mod joining;
mod kept_state;
mod progress;
pub mod qmp;
mod running;
pub mod version;
mod virtual_time;

pub use arguments::TraceFiles;
pub use running::RunningMachine;

/// QEMU's program for the only architecture of the lab image.
pub const QEMU: &str = "qemu-system-x86_64";
