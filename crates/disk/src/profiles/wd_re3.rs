//! WD RE3 WD2502ABYS: 250 GB, 16 MB of buffer, 7200 rpm, SATA.

use crate::profile::{Figure, HddProfile, Interface, Medium, Profile};

const PAPER: &str = "CloSER 2011, §4.1: WD2502ABYS, 250 GB, 16 MB, 7200 rpm";

/// WD RE3, 250 GB.
pub const WD_RE3: Profile = Profile {
    name: "wd-re3",
    title: "WD RE3 WD2502ABYS, 7200 rpm 250 GB SATA",
    remarks: &[],
    capacity_bytes: 488_397_168 * 512,
    medium: Medium::Hdd(HddProfile {
        rpm: Figure::from_source(7200.0, PAPER),
        track_to_track_ms: Figure::assume(
            2.0,
            "widely quoted for WD's 7200 rpm disks; the sheet was not at hand",
        ),
        average_seek_ms: Figure::assume(
            8.9,
            "widely quoted for WD's 7200 rpm disks; the sheet was not at hand",
        ),
        average_write_seek_ms: Figure::assume(10.9, "as the average read seek, and 2 ms more"),
        full_stroke_ms: Figure::assume(
            21.0,
            "widely quoted for WD's 7200 rpm disks; the sheet was not at hand",
        ),
        head_switch_ms: Figure::assume(1.2, "of the order of IBM's and Hitachi's manuals (1.2 to 1.6 ms)"),
        outer_mb_s: Figure::assume(113.0, "widely quoted for the RE3 series; the sheet was not at hand"),
        inner_mb_s: Figure::assume(
            56.0,
            "inner tracks of a 3.5-inch platter are about half as long as outer ones",
        ),
        heads: Figure::assume(2.0, "RE3 platters hold 333 GB (the XL333M of WD's manual), so one is enough"),
        zones: Figure::assume(
            16.0,
            "not published for this disk; drive manuals of these years list 11 to 30",
        ),
        buffer_mib: Figure::from_source(16.0, PAPER),
        write_share: Figure::assume(0.25, "no manufacturer publishes how the buffer is divided"),
        read_segments: Figure::assume(16.0, "no manufacturer publishes how the buffer is divided"),
        write_runs: Figure::assume(256.0, "no manufacturer publishes how many writes the buffer tracks"),
        interface_mb_s: Figure::assume(300.0, "SATA 3 Gb/s"),
        command_overhead_us: Figure::assume(200.0, "of the order that drive manuals state where they do"),
        queue_depth: Figure::from_source(32.0, "native command queuing, Serial ATA 2.5"),
        interface: Interface::Sata,
        write_cache: Figure::assume(1.0, "SATA disks leave the factory with the write cache on"),
    }),
};
