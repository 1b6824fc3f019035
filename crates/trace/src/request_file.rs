//! The request file: the requests of one trace point, in the order of completion, as they travel from the machine
//! that recorded them to the machine that joins them with those of other trace points.
//!
//! A file is a header of [`HEADER_BYTES`] and then records of [`RECORD_BYTES`], all little-endian:
//!
//! | bytes | header field |
//! |---|---|
//! | 8 | `NSTRREQS` |
//! | 4 × 4 | version 1, header length, record length, bit 0: the clock's realtime is known, bit 1: the file was closed |
//! | 8 × 5 | realtime and monotonic clock at one moment, bytes of the space, records, dropped |
//! | 512, 128, 256 | layer, kind, machine: UTF-8, filled with zeros |
//!
//! | bytes | record field |
//! |---|---|
//! | 8 × 6 | id, offset, bytes, queued, issued, completed |
//! | 4 × 2 | bios, pid |
//! | 1 × 3, 5 | operation, flags, class, zeros |

mod codec;
mod disk_log;
mod fault;
mod reader;
mod writer;

pub(crate) use codec::HEAD;
pub use disk_log::DiskLogRequests;
pub(crate) use disk_log::request_of;
pub use fault::RequestFault;
pub use reader::{RequestFile, RequestReader};
pub use writer::RequestWriter;

use serde::{Deserialize, Serialize};

/// Bytes of a request file's header.
pub const HEADER_BYTES: usize = 1024;
/// Bytes of a request file's record.
pub const RECORD_BYTES: usize = 64;

/// Two clocks of one machine, read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// `CLOCK_REALTIME` in nanoseconds since 1970; `None` if it was not read.
    pub realtime_ns: Option<u64>,
    /// `CLOCK_MONOTONIC`, the clock of the requests' times, at that moment.
    pub monotonic_ns: u64,
}

/// The header of a request file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeader {
    /// The layer at whose lower edge the trace point is, as written in the stack (`ext4`, `kvm`, `hdd:wd-7200`); at
    /// most 512 bytes are kept.
    pub layer: String,
    /// What was recorded there: `guest block`, `hypervisor`, `host block`, `medium`; at most 128 bytes are kept.
    pub kind: String,
    /// The machine whose clock the times are on; two trace points with the same name share one clock. At most 256
    /// bytes are kept.
    pub machine: String,
    /// That machine's clocks when the recording began.
    pub clock: ClockReading,
    /// Bytes of the space that offsets point into (a disk, an image file); 0 where unknown.
    pub space_bytes: u64,
    /// Requests that are missing because a recorder could not keep up. At least this many events were lost.
    pub dropped: u64,
    /// Requests in the file; 0 if it was never closed. [`RequestWriter`] counts them.
    pub records: u64,
}

/// The words for [`RequestHeader::kind`]. They are part of the file's form, whatever tables call it.
impl RequestHeader {
    /// An application's own operations.
    pub const APPLICATION: &str = "application";
    /// What ends the words for a block device; the machine's are before it.
    pub const BLOCK: &str = " block";
    /// What ends the words for calls of a network file system on a file; those of the machine at whose end they were seen are before it.
    pub const CALLS: &str = " calls";
    /// A hypervisor's requests on a virtual disk.
    pub const HYPERVISOR: &str = "hypervisor";
    /// A hypervisor's requests on the file that holds a virtual disk in an image format.
    pub const IMAGE_FILE: &str = "image file";
    /// The disk itself.
    pub const MEDIUM: &str = "medium";
}
