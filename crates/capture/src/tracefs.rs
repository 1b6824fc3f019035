//! Recording through tracefs, in its own instance, so that no other tracing is disturbed.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::device::BlockDevice;
use super::files::TRACEFS_TEXT;
use super::instance::{Instance, read_some};
use super::mounts::Mounted;
use super::{Recorded, announce_ready, new_file};
use nestor_stop::StopHandle;
use nestor_trace::TraceError;
use nestor_trace::event::Device;
use nestor_trace::recording::Moment;

const METHOD: &str = "tracefs";
const PAUSE: Duration = Duration::from_millis(10);

/// The events without which there is nothing to pair.
pub(super) const NEEDED: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];
/// Recorded too where the kernel has them.
pub(super) const WANTED: [&str; 7] = [
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_rq_merge",
    "block_rq_insert",
    "block_rq_requeue",
    "block_split",
    "block_bio_complete",
];

/// Records until it is stopped.
pub(super) fn run(device: &BlockDevice, output: &Path, stop: &StopHandle) -> Result<Recorded, TraceError> {
    if device.is_partition {
        let reason =
            "it is a partition, whose requests tracefs reports as the whole disk's; name the whole disk";
        return Err(device.cannot(METHOD, reason));
    }
    let tracefs = Mounted::tracefs()?;
    let instance = Instance::make(&tracefs.path)?;
    let pipe = set_up(&instance, device)?;
    let path = output.join(TRACEFS_TEXT);
    let file = new_file(&path)?;
    instance.set("tracing_on", "1")?;
    let started = announce_ready(output)?;
    let drained = drain(pipe, BufWriter::with_capacity(1 << 18, file), &instance, stop);
    let stopped_monotonic_ns = drained.map_err(TraceError::io("write the trace to", &path))?;
    Ok(Recorded {
        dropped_events: instance.lost_events(),
        files: vec![PathBuf::from(TRACEFS_TEXT)],
        started,
        stopped_monotonic_ns,
    })
}

fn set_up(instance: &Instance, device: &BlockDevice) -> Result<File, TraceError> {
    instance.prepare()?;
    // Queue events of partitions carry the partition's number, all others the whole disk's.
    let filter = filter_of(std::iter::once(&device.number).chain(&device.partitions));
    for event in NEEDED.into_iter().chain(WANTED) {
        if !instance.enable("block", event, Some(&filter))? && NEEDED.contains(&event) {
            let reason = format!("this kernel has no event {event} (CONFIG_BLK_DEV_IO_TRACE is off)");
            return Err(device.cannot(METHOD, reason));
        }
    }
    instance.open_pipe()
}

/// Lets events of these devices through.
pub(super) fn filter_of<'a>(devices: impl IntoIterator<Item = &'a Device>) -> String {
    let one = |device: &Device| format!("dev == {}", device.to_kernel());
    devices.into_iter().map(one).collect::<Vec<_>>().join(" || ")
}

/// Copies events until it is stopped and what was recorded before is written. Returns when recording ended.
fn drain(mut pipe: File, mut to: BufWriter<File>, instance: &Instance, stop: &StopHandle) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut stopped_ns = None;
    loop {
        if stopped_ns.is_none() && stop.is_stopped() {
            instance.set("tracing_on", "0").map_err(io::Error::other)?;
            stopped_ns = Some(Moment::now().monotonic_ns);
        }
        if read_some(&mut pipe, &mut to, &mut buffer)? {
            continue;
        }
        // Nothing there at the moment.
        match stopped_ns {
            Some(ns) => {
                to.flush()?;
                return Ok(ns);
            }
            None => {
                stop.wait_at_most(PAUSE);
            }
        }
    }
}
