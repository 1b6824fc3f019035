//! blktrace's binary files: one per CPU, records of `struct blk_io_trace` in the byte order of the machine that
//! recorded them (`include/uapi/linux/blktrace_api.h`).

mod file;
mod merge;
mod record;

pub use file::{ClockNote, FileReader};
pub use merge::MergedReader;
pub use record::{ByteOrder, Encoder, Version};
