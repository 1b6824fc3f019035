//! Seagate (Samsung Spinpoint M8) ST1000LM024: 1 TB, 5400 rpm, 2.5 inches, 16 MB of buffer.

use crate::profile::{Figure, HddProfile, Interface, Medium, Profile};

const PAPER: &str = "type-2 hypervisor study, table I: ST1000LM024, 5400 rpm, 16 MB, 12 ms";
const LIKE: &str = "Hitachi Travelstar 5K320 manual, table 4.4.2: a 2.5-inch disk of 5400 rpm and 12 ms";

/// Seagate ST1000LM024.
pub const ST1000LM024: Profile = Profile {
    name: "st1000lm024",
    title: "Seagate ST1000LM024, 5400 rpm 1 TB 2.5-inch SATA",
    remarks: &[],
    capacity_bytes: 1_953_525_168 * 512,
    medium: Medium::Hdd(HddProfile {
        rpm: Figure::from_source(5400.0, PAPER),
        track_to_track_ms: Figure::assume(1.0, LIKE),
        average_seek_ms: Figure::from_source(12.0, PAPER),
        average_write_seek_ms: Figure::assume(13.0, LIKE),
        full_stroke_ms: Figure::assume(20.0, LIKE),
        head_switch_ms: Figure::assume(1.0, "as a seek to the next track"),
        outer_mb_s: Figure::assume(112.0, "of the order that disks of 500 GB platters at 5400 rpm reach"),
        inner_mb_s: Figure::assume(
            54.0,
            "inner tracks of a 2.5-inch platter are about half as long as outer ones",
        ),
        heads: Figure::from_source(4.0, "two platters of 500 GB: Clubic, Samsung Spinpoint M8, 2011"),
        zones: Figure::assume(
            16.0,
            "not published for this disk; drive manuals of these years list 11 to 30",
        ),
        buffer_mib: Figure::from_source(16.0, PAPER),
        write_share: Figure::assume(0.25, "no manufacturer publishes how the buffer is divided"),
        read_segments: Figure::assume(16.0, "no manufacturer publishes how the buffer is divided"),
        write_runs: Figure::assume(256.0, "no manufacturer publishes how many writes the buffer tracks"),
        interface_mb_s: Figure::from_source(300.0, "SATA 3 Gb/s: Clubic, Samsung Spinpoint M8, 2011"),
        command_overhead_us: Figure::assume(300.0, "of the order that drive manuals state where they do"),
        queue_depth: Figure::from_source(32.0, "native command queuing, Serial ATA 2.5"),
        interface: Interface::Sata,
        write_cache: Figure::assume(1.0, "SATA disks leave the factory with the write cache on"),
    }),
};
