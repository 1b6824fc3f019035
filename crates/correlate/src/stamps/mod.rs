//! Joins held against the truth: a writer marks what it writes, a modelled disk notes the marks that arrive, and what
//! was joined is compared with them.

mod check;
mod write;

pub use crate::agreement::Agreement;
pub use check::{StampCheck, Truth, correlate_checked};
pub use write::{StampWriteOptions, fill, write_stamped};

use std::io::{BufRead, Write};

use nestor_trace::Operation;
use serde::{Deserialize, Serialize};

/// One operation of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampedOperation {
    /// Its mark: of a write, what every sector of it carries.
    pub stamp: u64,
    /// Read or write.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// `CLOCK_MONOTONIC` before it was submitted.
    pub started_ns: u64,
    /// `CLOCK_MONOTONIC` after it returned.
    pub ended_ns: u64,
}

/// Writes operations, one JSON object a line.
///
/// # Errors
/// When the writer fails.
pub fn write_operations(operations: &[StampedOperation], out: &mut impl Write) -> std::io::Result<()> {
    for operation in operations {
        serde_json::to_writer(&mut *out, operation)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reads what [`write_operations`] wrote.
///
/// # Errors
/// When the reader fails or gives something else.
pub fn read_operations(from: impl BufRead) -> std::io::Result<Vec<StampedOperation>> {
    from.lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}
