//! The summary of a recording: the file beside its events.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::event::Device;
use crate::metrics::TracePoint;

/// Name of the file with the [`RecordSummary`], written when the recording has ended.
pub const SUMMARY_FILE: &str = "record.json";

/// How a recording went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSummary {
    /// The way that was taken.
    pub method: TracePoint,
    /// Why that one.
    pub why: String,
    /// The device's number.
    pub device: Device,
    /// Its partitions; tracefs gives the queue events of theirs under their own numbers.
    pub partitions: Vec<Device>,
    /// Events that the kernel could not keep.
    pub dropped_events: u64,
    /// Names of the recorded files in the output directory.
    pub files: Vec<PathBuf>,
    /// `CLOCK_MONOTONIC` when events began to be recorded: the clock of the events.
    pub started_monotonic_ns: u64,
    /// `CLOCK_REALTIME` at the same moment.
    pub started_realtime_ns: u64,
    /// `CLOCK_MONOTONIC` when recording ended.
    pub stopped_monotonic_ns: u64,
    /// What is known of a recording of a hypervisor's requests; absent for a block device's.
    #[serde(default)]
    pub hypervisor: Option<HypervisorSource>,
}

impl RecordSummary {
    /// Reads the summary of the recording in a directory.
    ///
    /// # Errors
    /// The file does not exist, or is not a summary.
    pub fn read(directory: &Path) -> Result<Self, TraceError> {
        let path = directory.join(SUMMARY_FILE);
        let text = fs::read(&path).map_err(TraceError::io("read the recording's summary", &path))?;
        Self::parse(&text, path)
    }

    /// Reads the text of a summary; `path` is named in the error.
    ///
    /// # Errors
    /// It is not a summary.
    pub fn parse(text: &[u8], path: PathBuf) -> Result<Self, TraceError> {
        serde_json::from_slice(text).map_err(|error| TraceError::Format {
            path,
            offset: 0,
            reason: format!("not the summary of a recording: {error}; record again"),
        })
    }
}

/// How a guest speaks to its virtual disk, which decides which events report its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// virtio-blk.
    #[default]
    VirtioBlk,
    /// SCSI through any controller: virtio-scsi, lsi, mptsas, pvscsi.
    Scsi,
    /// ATA: ide, ahci.
    Ata,
    /// NVMe.
    Nvme,
}

impl Interface {
    /// The events of requests' arrival and completion.
    pub fn events(self) -> &'static [&'static str] {
        match self {
            Self::VirtioBlk => {
                &["virtio_blk_handle_read", "virtio_blk_handle_write", "virtio_blk_req_complete"]
            }
            Self::Scsi => &["scsi_req_parsed", "scsi_req_parsed_lba", "scsi_req_dequeue"],
            // The length is only in the event of the block layer that follows.
            Self::Ata => &["ide_exec_cmd", "dma_blk_io", "blk_co_preadv", "blk_co_pwritev", "dma_complete"],
            Self::Nvme => {
                &["pci_nvme_io_cmd", "pci_nvme_read", "pci_nvme_write", "pci_nvme_enqueue_req_completion"]
            }
        }
    }
}

/// What else is known of a recording of QEMU's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HypervisorSource {
    /// How the guest speaks to the disk.
    pub interface: Interface,
    /// The image's format; `None` for a raw image or a block device.
    pub format: Option<String>,
    /// The address by which QEMU's events name the disk's device, if it is known.
    pub device_address: Option<u64>,
    /// `CLOCK_REALTIME` when recording ended: with the moment of the beginning it shows whether the clock was set.
    pub stopped_realtime_ns: u64,
}

/// One instant on both clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`.
    pub realtime_ns: u64,
}

/// How often the clocks are read for one [`Moment`].
const READINGS: usize = 9;

impl Moment {
    /// Now. A busy machine may be elsewhere for milliseconds between reading one clock and the other, so the pair is
    /// taken that was read in the shortest time, and the realtime put in its middle.
    pub fn now() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let read = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let readings = (0..READINGS).map(|_| {
            let before = read(ClockId::Monotonic);
            let realtime_ns = read(ClockId::Realtime);
            let took = read(ClockId::Monotonic).saturating_sub(before);
            (took, Self { monotonic_ns: before + took / 2, realtime_ns })
        });
        readings.min_by_key(|(took, _)| *took).map(|(_, moment)| moment).expect("there are readings")
    }
}
