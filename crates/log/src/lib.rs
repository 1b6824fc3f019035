//! Logs of records of one length, which the servers of modelled devices write without delaying what they log.
//!
//! A log is a header and then records, all little-endian. What is in both, a [`Form`] says.

mod fields;
mod head;
mod reader;
mod writer;

use std::io::{self, Read};
use std::path::PathBuf;

pub use fields::{Cursor, Fields};
pub use head::{Head, HeadFault};
pub use reader::{Decode, ReadStep, Reader};
pub use writer::{Behind, Form, Limits, LogSummary, Writer};

/// A log that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {} {}: {source}", kind, path.display())]
pub struct LogError {
    /// What was tried, as a verb (`create`).
    pub action: &'static str,
    /// What kind of log it is: `the request log`.
    pub kind: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

/// Fills `bytes` as far as the source reaches; returns how far. Files of records are read so: the last record may be cut off.
///
/// # Errors
/// The source cannot be read.
pub fn read_up_to(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match source.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
