//! A hypervisor's own trace events as requests: of the guest on its virtual disk, and of the hypervisor on the image
//! file.
//!
//! `nestor-capture`'s part for hypervisors explains what is recorded and why. Two passes over the log, in constant
//! memory: the first finds out which of QEMU's devices and block nodes are the disk's, the second follows the
//! requests.
//!
//! - **Virtual disk**: from the moment the device model took a request from the guest until it handed it back. Of a
//!   flush through virtio-blk or ATA only one of the two is known; then both times are the same.
//! - **Image file**: only of image formats; a raw image has the requests of the virtual disk. Its end is
//!   when the thread or the ring that carried it out was done; if no event shows that (`aio=native`), it is the end
//!   of the guest's request in flight for it, which is the latest it can be. What a thread or a ring does that no node
//!   was asked for is a flush of the file.

mod choose;
mod disk;
mod file;
mod pieces;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::decode::QemuSource;
use crate::decode::qemu::{LogReader, QemuEvent, Signatures};
use crate::error::TraceError;
use crate::metrics::LayerMetrics;
use crate::recording::{HypervisorSource, RecordSummary};
use crate::request_file::{ClockReading, RequestHeader};
use choose::Choice;
use disk::DiskRequests;
use file::FileRequests;
use pieces::Collected;

/// The numbers of a recording of a hypervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HypervisorMetrics {
    /// The requests of the guest on its virtual disk.
    pub disk: LayerMetrics,
    /// The hypervisor's requests on the image file; absent for raw images and block devices, where they are the same.
    pub file: Option<LayerMetrics>,
    /// What the image format did with its own tables.
    pub format: FormatCounts,
}

/// What an image format did with its own tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatCounts {
    /// Tables that had to be read because the hypervisor's cache of them did not hold them: qcow2's L2 tables and
    /// reference counts.
    pub table_reads: u64,
    /// Tables that were written back.
    pub table_writes: u64,
    /// Times that room for data was taken from the image file.
    pub allocations: u64,
    /// Tables that had to be made because data was written where there was none.
    pub tables_made: u64,
}

/// Where the requests of a recording go, and what its files say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HypervisorOutput {
    /// File for the requests on the virtual disk.
    pub disk_requests: Option<PathBuf>,
    /// File for the requests on the image file; made for image formats only.
    pub file_requests: Option<PathBuf>,
    /// The layer, as written in the stack.
    pub layer: String,
    /// The machine that the hypervisor runs on.
    pub machine: String,
    /// Bytes of the virtual disk, 0 where unknown.
    pub disk_bytes: u64,
}

impl HypervisorOutput {
    /// What the file of the requests on the virtual disk says of itself.
    fn header(&self, summary: &RecordSummary) -> RequestHeader {
        RequestHeader {
            layer: self.layer.clone(),
            kind: RequestHeader::HYPERVISOR.to_owned(),
            machine: self.machine.clone(),
            clock: ClockReading {
                realtime_ns: Some(summary.started_realtime_ns),
                monotonic_ns: summary.started_monotonic_ns,
            },
            space_bytes: self.disk_bytes,
            dropped: summary.dropped_events,
            records: 0,
        }
    }
}

/// Condenses what `record_hypervisor` of `nestor-capture` left in a directory, and writes its requests.
///
/// # Errors
/// The recording has not ended or was made by something else; its file cannot be read, or the output not be written.
pub fn summarize_hypervisor(
    directory: &Path,
    output: &HypervisorOutput,
) -> Result<HypervisorMetrics, TraceError> {
    let summary = RecordSummary::read(directory)?;
    let Some(source) = summary.hypervisor.clone() else {
        let reason = "this is the recording of a block device, not of a hypervisor".to_owned();
        return Err(TraceError::Format { path: directory.to_path_buf(), offset: 0, reason });
    };
    let log = summary.files.first().map_or_else(|| directory.to_path_buf(), |name| directory.join(name));
    let mut choice = Choice::new(&source);
    each_event(&log, |event| {
        choice.look_at(event);
        Ok(())
    })?;
    let chosen = choice.end();
    let header = output.header(&summary);
    let clock = Clock::of(&summary, &source);
    let mut disk = Collected::new(output.disk_requests.as_deref(), header.clone())?;
    let mut file = Collected::new(
        output.file_requests.as_deref().filter(|_| source.format.is_some()),
        // The layer of these requests is the image format, not the machine.
        RequestHeader {
            layer: source.format.clone().unwrap_or_default(),
            kind: RequestHeader::IMAGE_FILE.to_owned(),
            space_bytes: 0,
            ..header
        },
    )?;
    let mut disk_requests = DiskRequests::new(source.interface, chosen.device);
    let mut file_requests = FileRequests::new(chosen.file_node);
    let mut format = FormatCounts::default();
    let warnings = each_event(&log, |event| {
        let event = QemuEvent { time_ns: clock.monotonic_ns(event.time_ns), ..event.clone() };
        count(&mut format, &event.name);
        let changes = disk_requests.look_at(&event, &mut disk)?;
        file_requests.look_at(&event, changes, &mut file)
    })?;
    file_requests.settle(&mut file)?;
    let mut disk = disk.finish(summary.dropped_events)?;
    disk.remarks.extend(chosen.remarks);
    disk.remarks.extend(warnings);
    disk.remarks.extend(clock.remark());
    let file = file.finish(summary.dropped_events)?;
    Ok(HypervisorMetrics { disk, file: source.format.is_some().then_some(file), format })
}

fn count(format: &mut FormatCounts, event: &str) {
    match event {
        "qcow2_cache_get_read" => format.table_reads += 1,
        "qcow2_cache_entry_flush" => format.table_writes += 1,
        "qcow2_cluster_alloc_phys" => format.allocations += 1,
        "qcow2_l2_allocate" => format.tables_made += 1,
        _ => {}
    }
}

/// Reads the log from beginning to end; what was wrong with it, in words.
fn each_event(
    log: &Path,
    mut look_at: impl FnMut(&QemuEvent) -> Result<(), TraceError>,
) -> Result<Vec<String>, TraceError> {
    let file = File::open(log).map_err(TraceError::io("open the trace", log))?;
    let mut reader = LogReader::new(BufReader::with_capacity(1 << 18, file), log, Signatures::of_storage());
    while let Some(event) = reader.next_event()? {
        look_at(&event)?;
    }
    Ok(reader.warnings().remarks())
}

/// From `CLOCK_REALTIME`, which QEMU logs, to `CLOCK_MONOTONIC`.
///
/// The kernel corrects both alike (Documentation/timers/timekeeping.rst): they differ by a constant, until a program
/// sets the realtime clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Realtime less monotonic when recording began.
    difference_ns: i128,
    /// The same when it ended.
    difference_at_end_ns: i128,
}

/// A larger change of the difference is a clock that was set; a smaller one is the time between reading the two.
const CLOCK_WAS_SET_NS: u128 = 10_000_000;

impl Clock {
    fn of(summary: &RecordSummary, source: &HypervisorSource) -> Self {
        let difference = |realtime: u64, monotonic: u64| i128::from(realtime) - i128::from(monotonic);
        Self {
            difference_ns: difference(summary.started_realtime_ns, summary.started_monotonic_ns),
            difference_at_end_ns: difference(source.stopped_realtime_ns, summary.stopped_monotonic_ns),
        }
    }

    fn monotonic_ns(&self, realtime_ns: u64) -> u64 {
        u64::try_from((i128::from(realtime_ns) - self.difference_ns).max(0)).unwrap_or(u64::MAX)
    }

    fn remark(&self) -> Option<String> {
        let change_ns = self.difference_at_end_ns - self.difference_ns;
        (change_ns.unsigned_abs() > CLOCK_WAS_SET_NS).then(|| {
            let change_ms = change_ns / 1_000_000;
            format!(
                "the machine's clock was set by {change_ms} ms while recording; later times are wrong by that"
            )
        })
    }
}

#[cfg(test)]
mod tests;
