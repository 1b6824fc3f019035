//! What was done below the requests that a log has: by the disks of an array, and by arms.

use serde::{Deserialize, Serialize};

use super::ServiceParts;

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

/// How long the arms of a medium were at work, each access counted once: reads, writes past the buffer, and data that the drive brings from
/// its buffer to the platters. The last have no request of their own: a write is complete when the buffer has it. What the drive reads
/// ahead for no request is not counted. Of an array, the sum over its disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmWork {
    /// Accesses.
    pub accesses: u64,
    /// Of these, from the write buffer to the platters.
    pub destages: u64,
    /// Moving, in nanoseconds.
    pub seek_ns: u64,
    /// Waiting for a sector to come round, in nanoseconds.
    pub rotation_ns: u64,
    /// Reading and writing, track switches included, in nanoseconds.
    pub transfer_ns: u64,
}

impl ArmWork {
    /// Adds an access that takes this long; a request that the drive's memory answers is none.
    pub(super) fn count(&mut self, parts: &ServiceParts, is_destage: bool) {
        if parts.total_ns() == 0 {
            return;
        }
        self.accesses += 1;
        self.destages += u64::from(is_destage);
        self.seek_ns += parts.seek_ns;
        self.rotation_ns += parts.rotation_ns;
        self.transfer_ns += parts.transfer_ns;
    }

    /// What was done after an earlier count of the same medium.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            accesses: self.accesses.saturating_sub(earlier.accesses),
            destages: self.destages.saturating_sub(earlier.destages),
            seek_ns: self.seek_ns.saturating_sub(earlier.seek_ns),
            rotation_ns: self.rotation_ns.saturating_sub(earlier.rotation_ns),
            transfer_ns: self.transfer_ns.saturating_sub(earlier.transfer_ns),
        }
    }

    /// Seconds of all parts together.
    pub fn busy_s(&self) -> f64 {
        self.seek_ns.saturating_add(self.rotation_ns).saturating_add(self.transfer_ns) as f64 / 1e9
    }
}

impl std::iter::Sum for ArmWork {
    fn sum<I: Iterator<Item = Self>>(works: I) -> Self {
        works.fold(Self::default(), |sum, work| Self {
            accesses: sum.accesses + work.accesses,
            destages: sum.destages + work.destages,
            seek_ns: sum.seek_ns + work.seek_ns,
            rotation_ns: sum.rotation_ns + work.rotation_ns,
            transfer_ns: sum.transfer_ns + work.transfer_ns,
        })
    }
}

/// What a medium has done below the requests to it, as far as it has that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumWork {
    /// What an array has asked its disks for; `None` of a single medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<MemberWork>,
    /// The work of arms; `None` of a medium without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arms: Option<ArmWork>,
}

impl MediumWork {
    /// What was done after an earlier count of the same medium.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            members: self.members.zip(earlier.members).map(|(now, before)| now.since(&before)),
            arms: self.arms.zip(earlier.arms).map(|(now, before)| now.since(&before)),
        }
    }
}
