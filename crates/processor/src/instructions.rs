//! Instructions of a machine in virtual time, by what its processor was doing.

use serde::{Deserialize, Serialize};

/// Instructions of an emulated machine; all guests in it count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionCounts {
    /// Of the machine's own programs: the hypervisor, or the application where there is no guest.
    pub host_user: u64,
    /// Of its kernel.
    pub host_kernel: u64,
    /// Of programs of guests.
    pub guest_user: u64,
    /// Of kernels of guests.
    pub guest_kernel: u64,
}

impl InstructionCounts {
    /// What came after an earlier moment.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_user: self.host_user.saturating_sub(earlier.host_user),
            host_kernel: self.host_kernel.saturating_sub(earlier.host_kernel),
            guest_user: self.guest_user.saturating_sub(earlier.guest_user),
            guest_kernel: self.guest_kernel.saturating_sub(earlier.guest_kernel),
        }
    }
}

/// Why a machine's instructions are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum WhyNotCounted {
    /// It does not run in virtual time.
    #[error("the machine does not run in virtual time")]
    RealTime,
    /// QEMU's interface for plugins is missing or another.
    #[error(
        "this QEMU has no interface for plugins that is known (4.2 to 10.0 have, if they are built with it)"
    )]
    NoInterface,
    /// The processor's flags were not found.
    #[error("could not find where this QEMU keeps its processor flags")]
    NoFlags,
    /// It is not known when the workload's I/O ran.
    #[error("no request reached a block device, so it is not known when the workload ran")]
    NoRequests,
    /// The workload's I/O was too short to tell it from what comes before and after.
    #[error("its I/O took less than about a tenth of a second")]
    TooShort,
    /// QEMU did not take the library as a plugin.
    #[error(
        "this QEMU does not load the library of virtual time as a plugin; its interface may be newer than that of 10.0"
    )]
    NotLoaded,
}

/// What was counted when programs in the machine asked for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstructionMarks {
    /// Why nothing is counted, if so.
    pub why_not: Option<WhyNotCounted>,
    /// The counts since the machine was started, at each mark.
    pub marks: Vec<InstructionCounts>,
}
