//! A SATA flash disk, after the Samsung SSD 850 PRO of 256 GB.

use crate::profile::{Figure, Interface, Medium, Profile, SsdProfile};

const SHEET: &str = "Samsung SSD 850 PRO specification (256 GB), as given in Ubergizmo's review, 2014";

/// A SATA flash disk of 256 GB.
pub const SSD_SATA: Profile = Profile {
    name: "ssd-sata",
    title: "SATA flash disk of 256 GB, after the Samsung SSD 850 PRO",
    remarks: &["garbage collection is not modelled: the disk always has erased blocks"],
    capacity_bytes: 500_118_192 * 512,
    medium: Medium::Ssd(SsdProfile {
        interface: Interface::Sata,
        queue_depth: Figure::from_source(32.0, "Serial ATA, native command queuing"),
        read_iops_1: Figure::from_source(10_000.0, SHEET),
        read_iops_queued: Figure::from_source(100_000.0, SHEET),
        write_iops_1: Figure::from_source(36_000.0, SHEET),
        write_iops_queued: Figure::from_source(90_000.0, SHEET),
        read_mb_s: Figure::from_source(550.0, SHEET),
        write_mb_s: Figure::from_source(520.0, SHEET),
        channels: Figure::assume(8.0, "usual for SATA flash disks"),
        dies_per_channel: Figure::assume(4.0, "usual for SATA flash disks of this size"),
        read_us: Figure::assume(50.0, "usual for multi-level flash; the published latency leaves the rest"),
        program_pages: Figure::assume(8.0, "two planes of 16 KiB"),
        channel_mb_s: Figure::assume(400.0, "ONFI 3 and Toggle 2 interfaces"),
        write_buffer_mib: Figure::assume(
            16.0,
            "a small part of the 512 MB of memory; most of that holds the map",
        ),
    }),
};
