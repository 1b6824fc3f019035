//! The nested-file-system study's disk: "1TB WD 7200 RPM SATA" (FAST 2012, table 1, `sdb`).
//!
//! The paper does not name the model; figures that it does not measure are those of the 1 TB Caviar Black and Blue
//! with two 500 GB platters (WD1002FAEX, WD10EALX), which were sold when it was written.

use crate::profile::{Figure, HddProfile, Interface, Medium, Profile};

const PAPER: &str = "Le, Huang, Wang: nested file systems, FAST 2012";

/// WD 7200 rpm, 1 TB, SATA.
pub const WD_7200_1TB: Profile = Profile {
    name: "wd-7200-1tb",
    title: "WD 7200 rpm 1 TB SATA, the disk of the nested-file-system study",
    remarks: &[
        "the study's hdparm falls only from 127.7 to 121.4 MB/s over its partitions of 60 GB; a disk whose inner \
         tracks are half as long falls further",
    ],
    capacity_bytes: 1_953_525_168 * 512,
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
        outer_mb_s: Figure::from_source(
            127.7,
            "hdparm, FAST 2012 table 2, sdb3 (the data sheet class says 126)",
        ),
        inner_mb_s: Figure::assume(
            64.0,
            "inner tracks of a 3.5-inch platter are about half as long as outer ones",
        ),
        heads: Figure::from_source(4.0, "two platters: Tech Report, Caviar Black 1TB review, 2010"),
        zones: Figure::assume(
            16.0,
            "not published for this disk; drive manuals of these years list 11 to 30",
        ),
        buffer_mib: Figure::from_source(64.0, "WD1002FAEX: 64 MB (the Blue WD10EALX has 32)"),
        write_share: Figure::assume(0.25, "no manufacturer publishes how the buffer is divided"),
        read_segments: Figure::assume(16.0, "no manufacturer publishes how the buffer is divided"),
        write_runs: Figure::assume(256.0, "no manufacturer publishes how many writes the buffer tracks"),
        interface_mb_s: Figure::assume(
            300.0,
            "SATA 3 Gb/s, which the study's Pentium D host could offer at most",
        ),
        command_overhead_us: Figure::assume(200.0, "of the order that drive manuals state where they do"),
        queue_depth: Figure::from_source(32.0, "native command queuing, Serial ATA 2.5"),
        interface: Interface::Sata,
        write_cache: Figure::assume(1.0, "SATA disks leave the factory with the write cache on"),
    }),
};
