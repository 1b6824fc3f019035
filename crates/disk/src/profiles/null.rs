//! The medium that takes no time: for comparing the layers above, and for preparing.

use crate::profile::{Medium, Profile};

/// A disk without timing.
pub const NULL: Profile = Profile {
    name: "null",
    title: "no timing: as fast as the data file",
    remarks: &[],
    capacity_bytes: 16 << 40,
    medium: Medium::Null,
};
