//! Recording the calls of network file systems, at the client or at the server, through tracefs.
//!
//! # Why these events
//! The kernel's RPC layer has an event for each step of a call. One at each end has all times, because it comes when the call is over and says
//! how long its parts took: `rpc_stats_latency` at the client, in the function that also counts the call for `/proc/self/mountstats`
//! (net/sunrpc/stats.c), and `svc_stats_latency` at the server, just before the reply is sent (net/sunrpc/svc_xprt.c). What a call reads or
//! writes is known to the events of the server of NFS only (fs/nfsd/trace.h). Retransmissions, which are rare, have an event of their own.
//!
//! What is recorded stays in the kernel's buffer, unless that gets half full, and is made into text when the measurement is over: a call costs
//! less that way than the reading of its events would.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nestor_stop::StopHandle;
use nestor_trace::calls::CallEnd;
use nestor_trace::event::Device;
use nestor_trace::recording::{Moment, RecordSummary};
use nestor_trace::rpc::{CLIENT_COUNTERS, SERVER_COUNTERS};
use nestor_trace::{TraceError, TracePoint};

use super::files::{COUNTERS, TRACEFS_TEXT};
use super::instance::{Instance, read_some};
use super::mounts::Mounted;
use super::{READY_FILE, announce_ready, new_file, output, write_summary};

const METHOD: &str = "tracefs";

/// How often to see whether the buffer is half full: 512 KiB hold 2000 calls at least.
const PAUSE: Duration = Duration::from_millis(100);

/// Groups and names of the events at the client.
const CLIENT_EVENTS: [(&str, &str); 2] = [("sunrpc", "rpc_stats_latency"), ("sunrpc", "xprt_retransmit")];

/// The same at the server.
const SERVER_EVENTS: [(&str, &str); 3] =
    [("sunrpc", "svc_stats_latency"), ("nfsd", "nfsd_read_start"), ("nfsd", "nfsd_write_start")];

/// What is written to files of XFS otherwise than by NFS, which has events of its own: a loop device's writes to its image are among them, and
/// who knows the image picks them out. A machine without XFS does not have these.
const WRITES_OF_THE_KERNEL: [(&str, &str); 2] =
    [("xfs", "xfs_file_buffered_write"), ("xfs", "xfs_file_direct_write")];

/// Leaves out the threads of the NFS server.
const NOT_OF_NFS: &str = "comm != \"nfsd\"";

/// What to record of calls, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOptions {
    /// Which end of the calls this machine is.
    pub end: CallEnd,
    /// A directory of this user's, as for [`record`](super::record).
    pub output: PathBuf,
}

/// Records until it is stopped, then writes the [`RecordSummary`] beside the recorded files and returns it: the events, and what the kernel had
/// counted when recording began and when it ended.
///
/// A file `ready` appears in the output directory as soon as every later call is recorded. Needs root.
///
/// # Errors
/// The directory cannot be used; the kernel has no such events or counters, as before NFS is mounted or served.
pub fn record_calls(options: &CallOptions, stop: &StopHandle) -> Result<RecordSummary, TraceError> {
    let output = &options.output;
    output::make(output)?;
    let summary = recorded(options, stop).inspect_err(|_| output::clear(output))?;
    let _ = fs::remove_file(output.join(READY_FILE));
    write_summary(&summary, output)?;
    Ok(summary)
}

fn recorded(options: &CallOptions, stop: &StopHandle) -> Result<RecordSummary, TraceError> {
    let (events, counters): (&[_], _) = match options.end {
        CallEnd::Client => (&CLIENT_EVENTS, CLIENT_COUNTERS),
        CallEnd::Server => (&SERVER_EVENTS, SERVER_COUNTERS),
    };
    let output = &options.output;
    let tracefs = Mounted::tracefs()?;
    let instance = Instance::make(&tracefs.path)?;
    instance.prepare()?;
    for (group, event) in events {
        if !instance.enable(group, event, None)? {
            let reason = format!("this kernel has no event {event}; mount or serve NFS first");
            return Err(TraceError::Capture { device: tracefs.path.clone(), method: METHOD, reason });
        }
    }
    if options.end == CallEnd::Server {
        for (group, event) in WRITES_OF_THE_KERNEL {
            instance.enable(group, event, Some(NOT_OF_NFS))?;
        }
    }
    let pipe = instance.open_pipe()?;
    let path = output.join(TRACEFS_TEXT);
    let to = BufWriter::with_capacity(1 << 18, new_file(&path)?);
    instance.set("tracing_on", "1")?;
    keep_counters(counters, &output.join(COUNTERS[0]))?;
    let started = announce_ready(output)?;
    wait_and_drain(pipe, to, &instance, stop, || keep_counters(counters, &output.join(COUNTERS[1])))
        .map_err(TraceError::io("write the trace to", &path))?;
    let files = [TRACEFS_TEXT].into_iter().chain(COUNTERS).map(PathBuf::from).collect();
    Ok(RecordSummary {
        method: TracePoint::Calls,
        why: "asked for".to_owned(),
        device: Device::default(),
        partitions: Vec::new(),
        dropped_events: instance.lost_events(),
        files,
        started_monotonic_ns: started.monotonic_ns,
        started_realtime_ns: started.realtime_ns,
        stopped_monotonic_ns: Moment::now().monotonic_ns,
        hypervisor: None,
    })
}

/// Leaves events where they are until the buffer is half full or it is stopped, then does `at_end`, ends recording and copies the rest.
fn wait_and_drain(
    mut pipe: File,
    mut to: BufWriter<File>,
    instance: &Instance,
    stop: &StopHandle,
    at_end: impl FnOnce() -> Result<(), TraceError>,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    while !stop.is_stopped() {
        if instance.is_half_full() {
            while !stop.is_stopped() && read_some(&mut pipe, &mut to, &mut buffer)? {}
        }
        stop.wait_at_most(PAUSE);
    }
    at_end().map_err(io::Error::other)?;
    instance.set("tracing_on", "0").map_err(io::Error::other)?;
    while read_some(&mut pipe, &mut to, &mut buffer)? {}
    to.flush()
}

/// Copies what the kernel has counted so far.
fn keep_counters(from: &str, to: &Path) -> Result<(), TraceError> {
    let text = fs::read(from).map_err(TraceError::io("read", Path::new(from)))?;
    new_file(to)?.write_all(&text).map_err(TraceError::io("write", to))
}
