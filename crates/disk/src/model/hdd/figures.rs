//! What a drive is made of.

use super::GeometryFigures;
use crate::model::Turn;

/// What a drive is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HddFigures {
    /// Layout and rotation.
    pub geometry: GeometryFigures,
    /// Seek to the next cylinder, milliseconds.
    pub single_seek_ms: f64,
    /// Mean seek between random cylinders, milliseconds.
    pub average_seek_ms: f64,
    /// Seek across all cylinders, milliseconds.
    pub full_seek_ms: f64,
    /// How many times longer a seek for a write takes, because writing needs the head closer to its track.
    pub write_seek_factor: f64,
    /// From a command's arrival until the drive can act on it.
    pub command_overhead_ns: u64,
    /// Rate of the interface.
    pub interface_bytes_per_s: f64,
    /// Sectors of the buffer for reads.
    pub read_cache_sectors: u64,
    /// Runs that it can hold.
    pub read_segments: u32,
    /// Sectors of the buffer for writes.
    pub write_buffer_sectors: u64,
    /// Runs that it can hold.
    pub write_runs: u32,
    /// Commands in the drive at most.
    pub queue_depth: u32,
    /// A flush is sent alone: the host waits until the queue is empty, and sends nothing until it is done (SATA's
    /// FLUSH CACHE cannot be queued; SCSI's SYNCHRONIZE CACHE can).
    pub flush_alone: bool,
    /// Writes are answered from the buffer.
    pub write_cache: bool,
    /// How far the platters have turned at time zero.
    pub turned: Turn,
}
