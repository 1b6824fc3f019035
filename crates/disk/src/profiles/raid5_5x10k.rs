//! The server's array of the NAS study (WIOV 2011, section 3): "a five disk RAID-5" in an IBM System x3550. The study does not name the
//! disks; these are 10000 rpm disks as such servers had them.

use super::st336938lw::DISK_10K;
use crate::model::array::Redundancy;
use crate::profile::{ArrayProfile, Figure, HddProfile, Medium, Profile};

const MEMBER_BYTES: u64 = 286_749_488 * 512;
const CHUNK_BYTES: u64 = 64 << 10;
const LIKE: &str =
    "of the order of 10000 rpm SAS disks of 2.5 inches of 2008; the study does not name its disks";

/// 5 disks of 10000 rpm, striped with parity.
pub const RAID5_5X10K: Profile = Profile {
    name: "raid5-5x10k",
    title: "Array as in the NAS study: RAID-5 of 5 SAS disks of 10000 rpm and 146 GB",
    remarks: &[
        "the study does not name the disks, the chunk, or a cache of the controller; none is modelled",
        "two writes to one row of chunks do not wait for each other",
        "what a write reads first counts as its waiting, not as its service, and not on the bus",
    ],
    // One disk's worth is parity.
    capacity_bytes: 4 * (MEMBER_BYTES / CHUNK_BYTES) * CHUNK_BYTES,
    medium: Medium::Array(ArrayProfile {
        member: HddProfile {
            average_seek_ms: Figure::assume(3.8, LIKE),
            average_write_seek_ms: Figure::assume(4.4, LIKE),
            full_stroke_ms: Figure::assume(8.0, LIKE),
            outer_mb_s: Figure::assume(89.0, LIKE),
            inner_mb_s: Figure::assume(55.0, LIKE),
            heads: Figure::assume(4.0, LIKE),
            buffer_mib: Figure::assume(16.0, LIKE),
            interface_mb_s: Figure::assume(300.0, "SAS of 3 Gbit/s"),
            ..DISK_10K
        },
        member_bytes: MEMBER_BYTES,
        members: 5,
        redundancy: Redundancy::Parity,
        chunk_kib: Figure::assume(64.0, "a usual chunk; the study does not say"),
        bus_mb_s: Figure::assume(1200.0, "four lanes of SAS of 3 Gbit/s"),
        controller_overhead_us: Figure::assume(100.0, "no source was at hand"),
    }),
};
