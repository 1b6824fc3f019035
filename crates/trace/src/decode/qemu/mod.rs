//! QEMU's own trace events, as two of its trace back ends write them (`docs/devel/tracing.rst` of QEMU's sources):
//! `simple`, a binary file, and `log`, text.

mod event;
mod log;
mod signature;
mod simpletrace;

pub use event::{Argument, QemuEvent, Value};
pub use log::LogReader;
pub use signature::Signatures;
pub use simpletrace::SimpletraceReader;

pub(super) use log::is_event_line;
pub(super) use simpletrace::begins as begins_simpletrace;
