//! What an array has asked its disks for.

use serde::{Deserialize, Serialize};

/// Requests to an array and what they became at its disks, since the array was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberWork {
    /// Requests to the array, flushes included.
    pub requests: u64,
    /// Requests to the disks.
    pub operations: u64,
    /// Of these, reads of old data or parity: what a write needs to compute the new parity (read-modify-write, reconstruct-write).
    pub parity_reads: u64,
    /// Bytes of those reads.
    pub parity_read_bytes: u64,
    /// Writes of the array that needed such reads.
    pub partial_writes: u64,
    /// From the arrival of those writes until all that they needed was read, summed up, in nanoseconds.
    pub parity_wait_ns: u64,
}

impl MemberWork {
    /// What was done after an earlier count of the same array.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            operations: self.operations.saturating_sub(earlier.operations),
            parity_reads: self.parity_reads.saturating_sub(earlier.parity_reads),
            parity_read_bytes: self.parity_read_bytes.saturating_sub(earlier.parity_read_bytes),
            partial_writes: self.partial_writes.saturating_sub(earlier.partial_writes),
            parity_wait_ns: self.parity_wait_ns.saturating_sub(earlier.parity_wait_ns),
        }
    }
}
