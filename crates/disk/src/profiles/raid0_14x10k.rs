//! The Thar system's array of the ESX study (WWC 2003, table 1): IBM EXP300, 14 disks of 36 GB and 10000 rpm, RAID-0,
//! ServeRAID 4Mx, Ultra160.

use super::st336938lw::DISK_10K;
use crate::model::array::Redundancy;
use crate::profile::{ArrayProfile, Figure, Medium, Profile};

const MEMBER_BYTES: u64 = 71_687_340 * 512;

/// 14 disks of 10000 rpm, striped.
pub const RAID0_14X10K: Profile = Profile {
    name: "raid0-14x10k",
    title: "IBM EXP300 as in the ESX study: RAID-0 of 14 disks of 10000 rpm and 36 GB behind a ServeRAID 4Mx",
    remarks: &["the controller's own cache is not modelled: the study does not say how it was set"],
    capacity_bytes: 14 * (MEMBER_BYTES / (16 << 10)) * (16 << 10),
    medium: Medium::Array(ArrayProfile {
        member: DISK_10K,
        member_bytes: MEMBER_BYTES,
        members: 14,
        redundancy: Redundancy::None,
        chunk_kib: Figure::assume(16.0, "ServeRAID offers 8 to 64 KB; the study does not say which"),
        bus_mb_s: Figure::from_source(160.0, "Ultra160: WWC 2003, table 1"),
        controller_overhead_us: Figure::assume(100.0, "no source was at hand"),
    }),
};
