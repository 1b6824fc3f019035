//! Recording at every trace point of a built stack while the workload runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::ScopedJoinHandle;

use nestor_correlate::SharedClock;
use nestor_kernel::ServedRequests;
use nestor_lab::{BuiltStack, DiskLog, Lab};
use nestor_stack::{HostTime, Layer, LayerIndex, MachineName};

use nestor_processor::{InstructionMarks, WhyNotCounted};

use super::CellError;
use super::calls::CallPoint;
use super::clocks::ClockWatch;
use super::network::{NetworkWatch, Networks};
use super::processors::{MarkedWindow, ProcessorWatch};
use super::recorder::Recorder;
use super::served::ServedWatch;
use super::trace_problem::TraceProblem;
use nestor_results::TraceMode;
use nestor_results::path_length::PathLength;

/// Recorders that run, and processor times when they started.
pub(super) struct Observation {
    recorders: Vec<Recorder>,
    processors: ProcessorWatch,
    clocks: ClockWatch,
    networks: NetworkWatch,
    served: ServedWatch,
    time: HostTime,
    disk_log: bool,
    stamps: bool,
}

/// The recordings, still in the machines where they were made.
pub(super) struct Recorded {
    /// The recorders, which have ended.
    pub recorders: Vec<Recorder>,
    /// The modelled disk's log, on the ground.
    pub disk_log: Option<DiskLog>,
    /// The marks that it found in the data, on the ground.
    pub stamps: Option<PathBuf>,
    /// The machines' clocks against the one that they share, outermost first; empty if there is none.
    pub clocks: Vec<Option<SharedClock>>,
    /// Busy share of each machine's processors, outermost first.
    pub cpu_busy: Vec<(MachineName, f64)>,
    /// What they executed, in virtual time; or why that was not counted there.
    pub path_length: Option<Result<PathLength, WhyNotCounted>>,
    /// What went over networks.
    pub networks: Networks,
    /// What was served of virtual disks, by the hypervisor's layer.
    pub served: BTreeMap<LayerIndex, ServedRequests>,
}

impl Observation {
    /// Starts a recorder at every block device of the stack and at every hypervisor, the modelled disk's log, and the
    /// clocks; with `marked` data the disk notes the marks as well.
    pub(super) fn start(
        lab: &Lab,
        built: &BuiltStack,
        trace: TraceMode,
        marked: bool,
    ) -> Result<Self, CellError> {
        let disk_log = trace.records() && built.modelled;
        let stamps = marked && disk_log;
        let mut recorders = Vec::new();
        let started = Self::start_all(lab, built, trace, (disk_log, stamps), &mut recorders);
        let (watches, processors) = match started {
            Ok(started) => started,
            Err(e) => {
                recorders.iter().for_each(Recorder::abandon);
                if let Some(disk) = lab.served_disk().filter(|_| disk_log) {
                    // What was not started refuses to stop.
                    let _ = (disk.stop_log(), disk.stop_stamps());
                }
                return Err(e);
            }
        };
        let (clocks, networks, served) = watches;
        Ok(Self { recorders, processors, clocks, networks, served, time: built.time, disk_log, stamps })
    }

    fn start_all(
        lab: &Lab,
        built: &BuiltStack,
        trace: TraceMode,
        (disk_log, stamps): (bool, bool),
        recorders: &mut Vec<Recorder>,
    ) -> Result<((ClockWatch, NetworkWatch, ServedWatch), ProcessorWatch), CellError> {
        if trace.records() {
            start_recorders(built, trace, recorders)?;
        }
        if let Some(disk) = lab.served_disk().filter(|_| disk_log) {
            disk.start_log()?;
        }
        if let Some(disk) = lab.served_disk().filter(|_| stamps) {
            disk.start_stamps()?;
        }
        let clocks =
            if trace == TraceMode::Full { ClockWatch::start(lab, built) } else { ClockWatch::none() };
        let networks = match trace {
            TraceMode::Full => NetworkWatch::start(lab, built, true),
            _ if trace.records() => NetworkWatch::start(lab, built, false),
            _ => NetworkWatch::default(),
        };
        let served = if trace.records() { ServedWatch::start(built) } else { ServedWatch::default() };
        Ok(((clocks, networks, served), ProcessorWatch::start(built)?))
    }

    /// Stops all recorders at once: each runs in its own machine.
    pub(super) fn stop(self, lab: &Lab, built: &BuiltStack) -> Result<Recorded, CellError> {
        let networks = self.networks.finish(lab, built);
        let processors = self.processors.finish();
        let served = self.served.finish(built);
        // A machine that does not answer does not come to a stand, which is waited for.
        let marks = (self.time.is_virtual() && processors.is_ok()).then(|| lab.take_instructions());
        let disk = lab.served_disk();
        let log = disk.filter(|_| self.disk_log).map(|disk| disk.stop_log());
        let stamps = disk.filter(|_| self.stamps).map(|disk| disk.stop_stamps());
        let stopped = for_each(self.time, &self.recorders, Recorder::stop);
        stopped.into_iter().collect::<Result<(), _>>()?;
        let clocks = self.clocks.finish();
        let processors = processors?;
        let has_guests = built.stack.layers().iter().any(Layer::uses_guest_mode);
        let path_length =
            marks.transpose()?.and_then(|marks| path_length(&marks, processors.window?, has_guests));
        Ok(Recorded {
            recorders: self.recorders,
            disk_log: log.transpose()?,
            stamps: stamps.transpose()?.map(PathBuf::from),
            clocks,
            cpu_busy: processors.busy,
            path_length,
            networks,
            served,
        })
    }
}

/// What was executed in a time between two marks; `None` if the marks were lost.
fn path_length(
    marks: &InstructionMarks,
    window: Result<MarkedWindow, WhyNotCounted>,
    has_guests: bool,
) -> Option<Result<PathLength, WhyNotCounted>> {
    let window = match (marks.why_not, window) {
        (Some(why_not), _) | (None, Err(why_not)) => return Some(Err(why_not)),
        (None, Ok(window)) => window,
    };
    let (first, last) = (marks.marks.get(window.marks.0)?, marks.marks.get(window.marks.1)?);
    Some(Ok(PathLength::of(last.since(first), has_guests, window.elapsed_ns, window.requests)))
}

/// Runs a step for each recorder: in parallel, because each runs in its own machine; in virtual time one after the other.
pub(super) fn for_each<T: Send>(
    time: HostTime,
    recorders: &[Recorder],
    act: impl Fn(&Recorder) -> Result<T, CellError> + Sync,
) -> Vec<Result<T, CellError>> {
    if time.is_virtual() {
        return recorders.iter().map(act).collect();
    }
    std::thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = recorders.iter().map(|recorder| scope.spawn(move || act(recorder))).collect();
        running.into_iter().map(join).collect()
    })
}

/// The result of a thread, or an error if it panicked.
fn join<T>(thread: ScopedJoinHandle<'_, Result<T, CellError>>) -> Result<T, CellError> {
    thread.join().unwrap_or_else(|_| Err(TraceProblem::ThreadEnded.into()))
}

/// Starts the recorders and waits until all of them record.
fn start_recorders(
    built: &BuiltStack,
    trace: TraceMode,
    recorders: &mut Vec<Recorder>,
) -> Result<(), CellError> {
    for point in built.points.iter().filter(|point| point.begins_at.is_none()) {
        recorders.push(Recorder::of_point(built, point)?);
    }
    if trace == TraceMode::Full {
        for disk in &built.virtual_disks {
            recorders.extend(Recorder::of_virtual_disk(built, disk)?);
        }
        for point in CallPoint::all_of(built) {
            recorders.push(Recorder::of_calls(built, point)?);
        }
    }
    recorders.iter().try_for_each(Recorder::wait_until_ready)
}
