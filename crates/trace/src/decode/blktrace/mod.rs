//! blktrace's binary files: one per CPU, records of `struct blk_io_trace` in the byte order of the machine that
//! recorded them (`include/uapi/linux/blktrace_api.h`).

mod encode;
mod file;
mod merge;
mod record;

pub use encode::Encoder;
pub use file::{ClockNote, FileReader};
pub use merge::MergedReader;
pub use record::{ByteOrder, Version};

/// Whether a file that begins with these bytes begins with a record.
pub(super) fn begins(word: [u8; 4]) -> bool {
    record::recognise(word).is_some()
}
