//! Recording what QEMU does for a guest's disk: its own trace events, switched on through its monitor.
//!
//! # Why these events
//! QEMU has thousands; each costs QEMU's I/O thread a formatted line and a system call, so only the events
//! without a substitute are switched on, and only during measurements:
//! - a request's arrival and its completion, by the address or tag of the device model's own request
//!   ([`Interface::events`]). Two lines per request with virtio-blk.
//! - for image formats, the reads and writes on the image file (`bdrv_co_preadv_part`, `bdrv_co_pwritev_part`). A raw
//!   image needs none: its requests are those of the virtual disk. The thread pool or the ring shows when they end,
//!   which carries them out (`thread_pool_*`, `luring_*`). With several of the guest's requests in flight nothing else
//!   shows it, and a request that seems longer than it was could belong to any of them. `aio=native` has no such
//!   event.
//! - what a qcow2 image does with its tables, which is rare: reads that its cache of tables does not hold, tables
//!   written back, clusters and tables allocated.
//!
//! Left out: `blk_co_*` (repeats the events of the device model), and everything in the kernel around QEMU:
//! system-call events do not show what `io_submit` and `io_uring_enter` are asked for.
//!
//! Debian's QEMU 7.2 has the trace back end `log` only: text, in whole microseconds of `CLOCK_REALTIME`. It writes
//! each line at once and drops none.

use std::fs;
use std::path::{Path, PathBuf};

use nestor_machine::{Refusal, TraceSwitch};
use nestor_stop::StopHandle;

use super::files::QEMU_LOG;
use super::{READY_FILE, announce_ready, output, write_summary};
use nestor_trace::TraceError;
use nestor_trace::TracePoint;
use nestor_trace::event::Device;
use nestor_trace::recording::{HypervisorSource, Interface, Moment, RecordSummary};

const METHOD: &str = "QEMU's trace events";

/// The events of requests on the image file.
const FILE_EVENTS: [&str; 2] = ["bdrv_co_preadv_part", "bdrv_co_pwritev_part"];

/// The events that show when a request on a file is handed to a thread or a ring, and when it is over. QEMUs that were
/// built without one of the two lack its events.
const CARRYING_EVENTS: [&str; 4] =
    ["thread_pool_submit", "thread_pool_complete", "luring_co_submit", "luring_process_completion"];

/// By image format, the events of its tables. `qcow2_cache_get` itself, which comes with every request, is not among them.
const TABLE_EVENTS: [(&str, &[&str]); 1] = [(
    "qcow2",
    &["qcow2_cache_get_read", "qcow2_cache_entry_flush", "qcow2_cluster_alloc_phys", "qcow2_l2_allocate"],
)];

/// An image format as QEMU records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFormat {
    name: String,
    /// What it does with its tables; none where QEMU does not tell.
    table_events: &'static [&'static str],
}

impl From<String> for ImageFormat {
    fn from(name: String) -> Self {
        let known = TABLE_EVENTS.iter().find(|(format, _)| *format == name);
        Self { name, table_events: known.map_or(&[], |(_, events)| events) }
    }
}

/// The event that names the virtio device that a driver took over last.
const DEVICE_EVENT: &str = "virtio_set_status";

/// What to record of a QEMU, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HypervisorOptions {
    /// Socket of a monitor (QMP) that no other program uses.
    pub monitor: PathBuf,
    /// A directory of this user's that QEMU can write to, not on the disk that is measured: one that is not there yet, an
    /// empty one, or that of an earlier recording, whose files give way.
    pub output: PathBuf,
    /// How the guest speaks to the disk.
    pub interface: Interface,
    /// The image's format; `None` for a raw image or a block device.
    pub format: Option<ImageFormat>,
    /// Where QEMU logged its events until now and is to log them again afterwards. If it has logged
    /// `virtio_set_status`, the last device in it is the disk; otherwise the busiest one is taken.
    pub event_log: Option<PathBuf>,
}

/// Records until it is stopped, then writes the [`RecordSummary`] beside the recorded file and returns it.
///
/// A file `ready` appears in the output directory as soon as every later request is recorded. Afterwards the events
/// are off again.
///
/// # Errors
/// The monitor does not answer, or this QEMU lacks the events; the directory cannot be used.
pub fn record_hypervisor(
    options: &HypervisorOptions,
    stop: &StopHandle,
) -> Result<RecordSummary, TraceError> {
    let output = &options.output;
    output::make(output)?;
    let device_address = options.event_log.as_deref().and_then(last_device);
    let cannot =
        |reason: String| TraceError::Capture { device: options.monitor.clone(), method: METHOD, reason };
    let mut switch = TraceSwitch::connect(&options.monitor).map_err(|e| {
        cannot(format!(
            "its monitor does not answer: {e}; give the socket of a monitor that no other program uses"
        ))
    })?;
    let started = start(&mut switch, options)
        .map_err(|refusal| refusal.message)
        .and_then(|events| Ok((events, announce_ready(output).map_err(|e| e.to_string())?)));
    let (events, started) = match started {
        Ok(started) => started,
        Err(reason) => {
            let _ = end(&mut switch, options, &events(options));
            output::clear(output);
            return Err(cannot(reason));
        }
    };
    stop.wait();
    end(&mut switch, options, &events).map_err(|refusal| cannot(refusal.message))?;
    let stopped = Moment::now();
    let _ = fs::remove_file(output.join(READY_FILE));
    let summary = RecordSummary {
        method: TracePoint::Hypervisor,
        why: "asked for".to_owned(),
        device: Device::default(),
        partitions: Vec::new(),
        // QEMU does not say when it cannot write its log; a full file system is the one thing that makes it lose any.
        dropped_events: u64::from(is_full(output)),
        files: vec![PathBuf::from(QEMU_LOG)],
        started_monotonic_ns: started.monotonic_ns,
        started_realtime_ns: started.realtime_ns,
        stopped_monotonic_ns: stopped.monotonic_ns,
        hypervisor: Some(HypervisorSource {
            interface: options.interface,
            format: options.format.as_ref().map(|format| format.name.clone()),
            device_address,
            stopped_realtime_ns: stopped.realtime_ns,
        }),
    };
    write_summary(&summary, output)?;
    Ok(summary)
}

fn events(options: &HypervisorOptions) -> Vec<&'static str> {
    let mut events = options.interface.events().to_vec();
    if let Some(format) = &options.format {
        events.extend(FILE_EVENTS);
        events.extend(CARRYING_EVENTS);
        events.extend(format.table_events);
    }
    events
}

/// Lets QEMU log into the output directory and switches the events on; those that are on.
fn start(switch: &mut TraceSwitch, options: &HypervisorOptions) -> Result<Vec<&'static str>, Refusal> {
    switch.log_to(&options.output.join(QEMU_LOG))?;
    let mut events = events(options);
    let mut failed = None;
    events.retain(|event| match switch.set_event(event, true) {
        Ok(()) => true,
        Err(_) if CARRYING_EVENTS.contains(event) => false,
        Err(e) => {
            let message = format!("{}; QEMU 7.2 has this event, another version may not", e.message);
            failed.get_or_insert(Refusal { message, ..e });
            false
        }
    });
    failed.map_or(Ok(events), Err)
}

fn end(switch: &mut TraceSwitch, options: &HypervisorOptions, events: &[&str]) -> Result<(), Refusal> {
    let switched_off = events.iter().try_for_each(|event| switch.set_event(event, false));
    let log = options.event_log.as_deref().unwrap_or(Path::new("/dev/null"));
    switch.log_to(log).and(switched_off)
}

/// The address of the device in the last line about one.
fn last_device(event_log: &Path) -> Option<u64> {
    let text = fs::read(event_log).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rfind(|line| line.contains(DEVICE_EVENT))?;
    let address = line.split_once("vdev 0x")?.1.split_whitespace().next()?;
    u64::from_str_radix(address, 16).ok()
}

fn is_full(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|s| s.f_bavail == 0 && s.f_blocks > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_that_was_plugged_in_last_is_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("events.log");
        let lines = "61@1795273119.566585:virtio_set_status vdev 0x5597cbe15a20 val 0\n\
                     61@1795273119.566587:virtio_set_status vdev 0x5597cbe15a20 val 15\n\
                     61@1795273121.114366:virtio_set_status vdev 0x5597cbfca490 val 15\n";
        fs::write(&log, lines).unwrap();
        assert_eq!(last_device(&log), Some(0x5597_cbfc_a490));
        fs::write(&log, "").unwrap();
        assert_eq!(last_device(&log), None);
    }

    #[test]
    fn only_image_formats_log_the_requests_on_their_file() {
        let mut options = HypervisorOptions {
            monitor: "/m".into(),
            output: "/o".into(),
            interface: Interface::VirtioBlk,
            format: None,
            event_log: None,
        };
        assert_eq!(events(&options).len(), 3);
        options.format = Some("vmdk".to_owned().into());
        assert_eq!(events(&options).len(), 9);
        options.format = Some("qcow2".to_owned().into());
        assert!(events(&options).contains(&"bdrv_co_pwritev_part"));
        assert!(events(&options).contains(&"qcow2_cache_get_read"));
    }
}
