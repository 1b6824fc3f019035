//! What is known of a medium: figures with their sources.

use crate::error::DiskError;
use crate::model::array::{ArrayFigures, ArrayLayout, ArrayModel, Redundancy};
use crate::model::hdd::{GeometryFigures, HddFigures, HddModel};
use crate::model::ssd::{SsdFigures, SsdModel};
use crate::model::{Model, NullModel, SECTOR_BYTES, Turn};

/// A figure and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// It was published.
    Published {
        /// The figure; its unit is in the name of the field.
        value: f64,
        /// Where.
        source: &'static str,
    },
    /// No source was found, but the model needs one.
    Assumed {
        /// The figure; its unit is in the name of the field.
        value: f64,
        /// Why this one.
        why: &'static str,
    },
}

impl Figure {
    /// A figure with its source.
    pub const fn from_source(value: f64, source: &'static str) -> Self {
        Self::Published { value, source }
    }

    /// A figure without a source.
    pub const fn assume(value: f64, why: &'static str) -> Self {
        Self::Assumed { value, why }
    }

    /// The figure, wherever it comes from.
    pub const fn value(&self) -> f64 {
        match self {
            Self::Published { value, .. } | Self::Assumed { value, .. } => *value,
        }
    }

    /// The figure if it was published.
    pub const fn published(&self) -> Option<f64> {
        match self {
            Self::Published { value, .. } => Some(*value),
            Self::Assumed { .. } => None,
        }
    }

    /// The source, or why this figure was assumed.
    pub const fn origin(&self) -> &'static str {
        match self {
            Self::Published { source, .. } => source,
            Self::Assumed { why, .. } => why,
        }
    }
}

/// A medium that can be modelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name in a stack (`hdd:wd-re3`).
    pub name: &'static str,
    /// What it is, in words.
    pub title: &'static str,
    /// Remarks that belong to every result with it, such as contradictions between sources.
    pub remarks: &'static [&'static str],
    /// Bytes of the whole medium.
    pub capacity_bytes: u64,
    /// How it works.
    pub medium: Medium,
}

/// The kinds of media.
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// Takes no time.
    Null,
    /// A hard disk.
    Hdd(HddProfile),
    /// Hard disks that are one.
    Array(ArrayProfile),
    /// A flash disk.
    Ssd(SsdProfile),
}

/// The figures of a hard disk.
#[derive(Clone, Debug, PartialEq)]
pub struct HddProfile {
    /// Revolutions per minute.
    pub rpm: Figure,
    /// Seek to the next cylinder.
    pub track_to_track_ms: Figure,
    /// Mean seek for reading.
    pub average_seek_ms: Figure,
    /// Mean seek for writing.
    pub average_write_seek_ms: Figure,
    /// Seek across the whole disk.
    pub full_stroke_ms: Figure,
    /// Switch to another head.
    pub head_switch_ms: Figure,
    /// Sustained rate on the outer tracks, 10⁶ bytes a second.
    pub outer_mb_s: Figure,
    /// Sustained rate on the inner tracks.
    pub inner_mb_s: Figure,
    /// Recording surfaces.
    pub heads: Figure,
    /// Zones of equally many sectors a track.
    pub zones: Figure,
    /// The drive's buffer, 2²⁰ bytes.
    pub buffer_mib: Figure,
    /// Share of it (0 to 1) that written data may take.
    pub write_share: Figure,
    /// Runs of sectors that the read side can hold.
    pub read_segments: Figure,
    /// Runs of sectors that the write side can hold.
    pub write_runs: Figure,
    /// Rate of the interface, 10⁶ bytes a second.
    pub interface_mb_s: Figure,
    /// From a command's arrival until the drive can act on it.
    pub command_overhead_us: Figure,
    /// Commands that the drive queues.
    pub queue_depth: Figure,
    /// Its interface.
    pub interface: Interface,
    /// Whether the write cache is on by default: 1 or 0.
    pub write_cache: Figure,
}

/// What decides how flushes and other commands mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// FLUSH CACHE is not a queued command: the host sends it alone.
    Sata,
    /// SYNCHRONIZE CACHE is queued like any other.
    Scsi,
    /// Flush is queued like any other (NVMe Base Specification, section 7.1).
    Nvme,
}

/// The figures of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayProfile {
    /// Each disk.
    pub member: HddProfile,
    /// Bytes of each disk.
    pub member_bytes: u64,
    /// Number of disks.
    pub members: u32,
    /// What guards the data.
    pub redundancy: Redundancy,
    /// Chunk, 2¹⁰ bytes.
    pub chunk_kib: Figure,
    /// Rate of the bus or loop, 10⁶ bytes a second.
    pub bus_mb_s: Figure,
    /// What the controller adds to each request.
    pub controller_overhead_us: Figure,
}

/// The figures of a flash disk.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdProfile {
    /// Its interface.
    pub interface: Interface,
    /// Commands that the disk queues, and at which it was measured for its data sheet.
    pub queue_depth: Figure,
    /// Random 4 KiB reads a second, one at a time.
    pub read_iops_1: Figure,
    /// The same, [`Self::queue_depth`] at a time.
    pub read_iops_queued: Figure,
    /// Random 4 KiB writes a second, one at a time.
    pub write_iops_1: Figure,
    /// The same, [`Self::queue_depth`] at a time.
    pub write_iops_queued: Figure,
    /// Sequential reads, 10⁶ bytes a second.
    pub read_mb_s: Figure,
    /// Sequential writes.
    pub write_mb_s: Figure,
    /// Channels.
    pub channels: Figure,
    /// Dies on each.
    pub dies_per_channel: Figure,
    /// Reading a page into a die's register.
    pub read_us: Figure,
    /// Pages of 4 KiB that a die programs at once.
    pub program_pages: Figure,
    /// Rate of a channel, 10⁶ bytes a second.
    pub channel_mb_s: Figure,
    /// Buffer for writes, 2²⁰ bytes.
    pub write_buffer_mib: Figure,
}

const FLASH_PAGE_BYTES: f64 = 4096.0;

impl Medium {
    /// The kind's name in a stack.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Hdd(_) => "hdd",
            Self::Array(ArrayProfile { redundancy: Redundancy::None, .. }) => "raid0",
            Self::Array(ArrayProfile { redundancy: Redundancy::Parity, .. }) => "raid5",
            Self::Ssd(SsdProfile { interface: Interface::Nvme, .. }) => "nvme",
            Self::Ssd(_) => "ssd",
        }
    }
}

impl Profile {
    /// A model of the medium, at rest; its platters, if it has any, have turned so far at time zero.
    ///
    /// # Errors
    /// The figures contradict each other.
    pub fn model(&self, turned: Turn) -> Result<Box<dyn Model>, DiskError> {
        let misfit = |reason| DiskError::Profile { profile: self.name.to_owned(), reason };
        Ok(match &self.medium {
            Medium::Null => Box::new(NullModel::default()),
            Medium::Hdd(hdd) => {
                let figures = HddFigures { turned, ..hdd.figures(self.capacity_bytes) };
                Box::new(HddModel::new(figures).map_err(misfit)?)
            }
            Medium::Array(raid) => {
                let mut figures = raid.figures();
                figures.member.turned = turned;
                Box::new(ArrayModel::new(figures).map_err(misfit)?)
            }
            Medium::Ssd(ssd) => Box::new(SsdModel::new(ssd.figures()).map_err(misfit)?),
        })
    }
}

impl HddProfile {
    /// What the model of a disk of this size takes.
    pub fn figures(&self, capacity_bytes: u64) -> HddFigures {
        let ns = |figure_ms: &Figure| (figure_ms.value() * 1e6) as u64;
        let buffer_sectors = self.buffer_mib.value() * f64::from(1 << 20) / SECTOR_BYTES as f64;
        let write_share = self.write_share.value();
        HddFigures {
            geometry: GeometryFigures {
                sectors: capacity_bytes / SECTOR_BYTES,
                heads: self.heads.value() as u32,
                zones: self.zones.value() as u32,
                revolution_ns: (60e9 / self.rpm.value()) as u64,
                head_switch_ns: ns(&self.head_switch_ms),
                cylinder_switch_ns: ns(&self.track_to_track_ms),
                outer_bytes_per_s: self.outer_mb_s.value() * 1e6,
                inner_bytes_per_s: self.inner_mb_s.value() * 1e6,
            },
            single_seek_ms: self.track_to_track_ms.value(),
            average_seek_ms: self.average_seek_ms.value(),
            full_seek_ms: self.full_stroke_ms.value(),
            write_seek_factor: self.average_write_seek_ms.value() / self.average_seek_ms.value(),
            command_overhead_ns: (self.command_overhead_us.value() * 1e3) as u64,
            interface_bytes_per_s: self.interface_mb_s.value() * 1e6,
            read_cache_sectors: (buffer_sectors * (1.0 - write_share)) as u64,
            read_segments: self.read_segments.value() as u32,
            write_buffer_sectors: (buffer_sectors * write_share) as u64,
            write_runs: self.write_runs.value() as u32,
            queue_depth: self.queue_depth.value() as u32,
            flush_alone: self.interface == Interface::Sata,
            write_cache: self.write_cache.value() != 0.0,
            turned: Turn::default(),
        }
    }
}

impl ArrayProfile {
    /// How data lie on the disks.
    pub fn layout(&self) -> ArrayLayout {
        ArrayLayout {
            members: self.members,
            chunk_sectors: (self.chunk_kib.value() * 1024.0) as u64 / SECTOR_BYTES,
            redundancy: self.redundancy,
        }
    }

    /// What the model takes.
    pub fn figures(&self) -> ArrayFigures {
        ArrayFigures {
            member: self.member.figures(self.member_bytes),
            layout: self.layout(),
            bus_bytes_per_s: self.bus_mb_s.value() * 1e6,
            controller_overhead_ns: (self.controller_overhead_us.value() * 1e3) as u64,
        }
    }
}

impl SsdProfile {
    /// What the model takes: the published rates fix the controller's share of each command.
    pub fn figures(&self) -> SsdFigures {
        let interface_bytes_per_s = self.read_mb_s.value() * 1e6;
        let channel_bytes_per_s = self.channel_mb_s.value() * 1e6;
        let dies = self.channels.value() * self.dies_per_channel.value();
        let interval_us = |iops: &Figure| 1e6 / iops.value();
        let interface_us = FLASH_PAGE_BYTES / interface_bytes_per_s * 1e6;
        let channel_us = FLASH_PAGE_BYTES / channel_bytes_per_s * 1e6;
        let read_interval_us = interval_us(&self.read_iops_queued);
        let write_interval_us = interval_us(&self.write_iops_queued);
        // One command alone takes its interval, this rest, and the work of flash, channel and interface.
        let read_rest_us = 1e6 / self.read_iops_1.value()
            - (read_interval_us + self.read_us.value() + channel_us + interface_us);
        let write_rest_us = 1e6 / self.write_iops_1.value() - (write_interval_us + interface_us);
        let program_bytes = self.program_pages.value() * FLASH_PAGE_BYTES;
        let ns = |us: f64| (us.max(0.0) * 1e3) as u64;
        SsdFigures {
            channels: self.channels.value() as u32,
            dies_per_channel: self.dies_per_channel.value() as u32,
            page_bytes: FLASH_PAGE_BYTES as u32,
            read_ns: ns(self.read_us.value()),
            // All dies together program as fast as the disk writes.
            program_ns: (dies * program_bytes / (self.write_mb_s.value() * 1e6) * 1e9) as u64,
            program_pages: self.program_pages.value() as u32,
            channel_bytes_per_s,
            interface_bytes_per_s,
            read_interval_ns: ns(read_interval_us),
            write_interval_ns: ns(write_interval_us),
            read_overhead_ns: ns(read_rest_us),
            write_overhead_ns: ns(write_rest_us),
            write_buffer_bytes: (self.write_buffer_mib.value() * f64::from(1 << 20)) as u64,
            queue_depth: self.queue_depth.value() as u32,
            write_cache: true,
        }
    }
}
