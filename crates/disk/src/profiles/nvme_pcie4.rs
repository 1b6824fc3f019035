//! An NVMe flash disk, after the Samsung SSD 990 PRO of 1 TB.

use crate::profile::{Figure, Interface, Medium, Profile, SsdProfile};

const SHEET: &str = "Samsung NVMe SSD 990 PRO data sheet (1 TB), 2022";

/// An NVMe flash disk of 1 TB on four lanes of PCIe 4.0.
pub const NVME_PCIE4: Profile = Profile {
    name: "nvme-pcie4",
    title: "NVMe flash disk of 1 TB on PCIe 4.0, after the Samsung SSD 990 PRO",
    remarks: &[
        "garbage collection is not modelled: the disk always has erased blocks",
        "the rate of writes is that of a part of the flash used with one bit a cell, which a long write fills",
    ],
    capacity_bytes: 1_953_525_168 * 512,
    medium: Medium::Ssd(SsdProfile {
        interface: Interface::Nvme,
        queue_depth: Figure::from_source(512.0, "its data sheet: 16 threads of 32 requests"),
        read_iops_1: Figure::from_source(22_000.0, SHEET),
        read_iops_queued: Figure::from_source(1_200_000.0, SHEET),
        write_iops_1: Figure::from_source(80_000.0, SHEET),
        write_iops_queued: Figure::from_source(1_550_000.0, SHEET),
        read_mb_s: Figure::from_source(7_450.0, SHEET),
        write_mb_s: Figure::from_source(6_900.0, SHEET),
        channels: Figure::assume(8.0, "usual for NVMe flash disks"),
        dies_per_channel: Figure::assume(
            16.0,
            "parts that read on their own, several planes of a die; as many as the published rates need",
        ),
        read_us: Figure::assume(40.0, "usual for three-level flash; the published latency leaves the rest"),
        program_pages: Figure::assume(8.0, "two planes of 16 KiB"),
        channel_mb_s: Figure::assume(2_400.0, "ONFI 5 and Toggle 5 interfaces"),
        write_buffer_mib: Figure::assume(
            64.0,
            "a small part of the 1 GB of memory; most of that holds the map",
        ),
    }),
};
