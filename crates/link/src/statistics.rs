//! What has gone over a link.

use serde::{Deserialize, Serialize};

use crate::End;
use crate::wire::FRAME_OVERHEAD_BYTES;

/// What an end has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Frames on the wire.
    pub frames: u64,
    /// Their bytes, without preamble, check sequence and gap.
    pub bytes: u64,
    /// Of these frames, those that were lost on the wire.
    pub lost: u64,
    /// Of what it sent, what could not be taken from it, or not be given to the other end. (Before version 10 of the tables: what could not
    /// be taken from it, or given to it.)
    pub refused: u64,
}

impl Sent {
    /// Bytes of the wire's time that they took, if none was padded (see [`wire_bytes`](crate::wire_bytes)).
    pub fn wire_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.frames.saturating_mul(FRAME_OVERHEAD_BYTES))
    }

    /// What was sent after an earlier count of the same end.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            frames: self.frames.saturating_sub(earlier.frames),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            lost: self.lost.saturating_sub(earlier.lost),
            refused: self.refused.saturating_sub(earlier.refused),
        }
    }
}

/// What a link has done since its server started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatistics {
    /// Both ends have a machine.
    pub connected: bool,
    /// What one end sends arrives at the other.
    pub joined: bool,
    /// The lower machine's own time when both began to have a common one, in nanoseconds; in virtual time only.
    #[serde(default)]
    pub lower_zero_ns: Option<u64>,
    /// The upper machine's.
    #[serde(default)]
    pub upper_zero_ns: Option<u64>,
    /// What the lower end has sent.
    pub from_lower: Sent,
    /// What the upper end has sent.
    pub from_upper: Sent,
}

impl LinkStatistics {
    /// What an end has sent.
    pub fn sent_by(&self, end: End) -> &Sent {
        match end {
            End::Lower => &self.from_lower,
            End::Upper => &self.from_upper,
        }
    }

    /// What the upper machine's clock is ahead of the lower one's, in nanoseconds; `None` until both have told their times.
    pub fn upper_ahead_ns(&self) -> Option<i64> {
        i64::try_from(self.upper_zero_ns?).ok()?.checked_sub_unsigned(self.lower_zero_ns?)
    }
}
