//! The Atacama system's array of the ESX study (WWC 2003, table 1): Fujitsu Siemens S60, 5 Fibre Channel disks of
//! 18 GB and 10000 rpm, RAID-0, QLogic 2312 at 1 Gb/s.

use super::st336938lw::DISK_10K;
use crate::model::array::Redundancy;
use crate::profile::{ArrayProfile, Figure, HddProfile, Medium, Profile};

const MEMBER_BYTES: u64 = 35_843_670 * 512;

/// 5 disks of 10000 rpm, striped.
pub const RAID0_5X10K: Profile = Profile {
    name: "raid0-5x10k",
    title: "Fujitsu Siemens S60 as in the ESX study: RAID-0 of 5 Fibre Channel disks of 10000 rpm and 18 GB",
    remarks: &["the controller's own cache is not modelled: the study does not say how it was set"],
    capacity_bytes: 5 * (MEMBER_BYTES / (64 << 10)) * (64 << 10),
    medium: Medium::Array(ArrayProfile {
        member: HddProfile {
            heads: Figure::assume(6.0, "half of the 36 GB disk's: the same platters"),
            interface_mb_s: Figure::from_source(100.0, "1 Gb Fibre Channel: WWC 2003, table 1"),
            ..DISK_10K
        },
        member_bytes: MEMBER_BYTES,
        members: 5,
        redundancy: Redundancy::None,
        chunk_kib: Figure::assume(64.0, "a usual chunk; the study does not say"),
        bus_mb_s: Figure::from_source(100.0, "1 Gb Fibre Channel: WWC 2003, table 1"),
        controller_overhead_us: Figure::assume(100.0, "no source was at hand"),
    }),
};
