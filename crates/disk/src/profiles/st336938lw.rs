//! The Mojave system's disk of the ESX study (WWC 2003, table 1): ST336938LW, "SCSI 10K RPM 34 GB".

use crate::profile::{Figure, HddProfile, Interface, Medium, Profile};

const PAPER: &str = "Ahmad et al., ESX disk performance, WWC 2003, table 1";
const LIKE: &str = "IBM Ultrastar 36LZX, a 10000 rpm disk of the same capacity and years, by way of Bryant and \
                    O'Hallaron, Computer Systems, figure 6.13";

/// The data disk of a 10000 rpm SCSI system of 2002; also the disk of the arrays of the same study.
pub(super) const DISK_10K: HddProfile = HddProfile {
    rpm: Figure::from_source(10_000.0, PAPER),
    track_to_track_ms: Figure::assume(0.6, "of the order of 10000 rpm disks of 2002; no source was at hand"),
    average_seek_ms: Figure::assume(4.9, LIKE),
    average_write_seek_ms: Figure::assume(
        5.5,
        "0.6 ms above reading, as IBM Ultrastar 146Z10, manual §4.5.2.1",
    ),
    full_stroke_ms: Figure::assume(10.5, "IBM Ultrastar 146Z10, manual §4.5.2.2, a 10000 rpm disk of 2002"),
    head_switch_ms: Figure::assume(0.6, "as a seek to the next track"),
    outer_mb_s: Figure::assume(36.0, LIKE),
    inner_mb_s: Figure::assume(21.0, LIKE),
    heads: Figure::assume(12.0, LIKE),
    zones: Figure::assume(11.0, LIKE),
    buffer_mib: Figure::assume(4.0, "usual for SCSI disks of 2002"),
    write_share: Figure::assume(0.25, "no manufacturer publishes how the buffer is divided"),
    read_segments: Figure::assume(8.0, "no manufacturer publishes how the buffer is divided"),
    write_runs: Figure::assume(64.0, "no manufacturer publishes how many writes the buffer tracks"),
    interface_mb_s: Figure::from_source(160.0, "Ultra160: WWC 2003, table 1 (Adaptec 7892P)"),
    command_overhead_us: Figure::assume(200.0, "of the order that drive manuals state where they do"),
    queue_depth: Figure::assume(64.0, "usual for tagged queuing of SCSI disks of 2002"),
    interface: Interface::Scsi,
    write_cache: Figure::assume(0.0, "usual for SCSI disks in servers; the study does not say"),
};

/// ST336938LW as the study describes it.
pub const ST336938LW: Profile = Profile {
    name: "st336938lw",
    title: "Seagate ST336938LW as in the ESX study, 10000 rpm 36 GB Ultra160 SCSI",
    remarks: &[
        "Seagate's manual 100182971 has the ST336938LW as a Barracuda 36ES2, a 7200 rpm family; the study calls it \
         10K RPM, and this profile follows the study",
    ],
    capacity_bytes: 71_687_340 * 512,
    medium: Medium::Hdd(DISK_10K),
};
