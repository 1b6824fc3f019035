//! Recording at every trace point of a built stack while the workload runs.

use std::path::PathBuf;
use std::thread::ScopedJoinHandle;

use nestor_build::{BuiltStack, HostTime, Lab};

use super::CellError;
use super::processors::ProcessorWatch;
use super::recorder::Recorder;
use crate::TraceMode;

/// Recorders that run, and processor times when they started.
pub(super) struct Observation {
    recorders: Vec<Recorder>,
    processors: ProcessorWatch,
    time: HostTime,
    disk_log: bool,
    stamps: bool,
}

/// What was recorded; it still lies in the machines where it was recorded.
pub(super) struct Recorded {
    /// The recorders, which have ended.
    pub recorders: Vec<Recorder>,
    /// The modelled disk's log, on the ground.
    pub disk_log: Option<PathBuf>,
    /// The marks that it found in the data, on the ground.
    pub stamps: Option<PathBuf>,
    /// Busy share of each machine's processors, outermost first.
    pub cpu_busy: Vec<(String, f64)>,
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
        let mut recorders = Vec::new();
        let started = if trace.records() { start_recorders(built, trace, &mut recorders) } else { Ok(()) };
        if let Err(e) = started {
            recorders.iter().for_each(Recorder::abandon);
            return Err(e);
        }
        let disk_log = trace.records() && built.modelled;
        if let Some(disk) = lab.served_disk().filter(|_| disk_log) {
            disk.start_log()?;
        }
        let stamps = marked && disk_log;
        if let Some(disk) = lab.served_disk().filter(|_| stamps) {
            disk.start_stamps()?;
        }
        Ok(Self { recorders, processors: ProcessorWatch::start(built)?, time: built.time, disk_log, stamps })
    }

    /// Stops everything, all at once: each recorder works in its own machine.
    pub(super) fn stop(self, lab: &Lab) -> Result<Recorded, CellError> {
        let cpu_busy = self.processors.finish();
        let disk = lab.served_disk();
        let log = disk.filter(|_| self.disk_log).map(|disk| disk.stop_log());
        let stamps = disk.filter(|_| self.stamps).map(|disk| disk.stop_stamps());
        let stopped = for_each(self.time, &self.recorders, Recorder::stop);
        stopped.into_iter().collect::<Result<(), _>>()?;
        Ok(Recorded {
            recorders: self.recorders,
            disk_log: log.transpose()?.map(PathBuf::from),
            stamps: stamps.transpose()?.map(PathBuf::from),
            cpu_busy: cpu_busy?,
        })
    }
}

/// Does something for each recorder: at once, for each works in its own machine; in virtual time one after the other.
pub(super) fn for_each<T: Send>(
    time: HostTime,
    recorders: &[Recorder],
    act: impl Fn(&Recorder) -> Result<T, CellError> + Sync,
) -> Vec<Result<T, CellError>> {
    if time == HostTime::Virtual {
        return recorders.iter().map(act).collect();
    }
    std::thread::scope(|scope| {
        let act = &act;
        let running: Vec<_> = recorders.iter().map(|recorder| scope.spawn(move || act(recorder))).collect();
        running.into_iter().map(join).collect()
    })
}

/// What a thread found, or that it ended by itself.
fn join<T>(thread: ScopedJoinHandle<'_, Result<T, CellError>>) -> Result<T, CellError> {
    thread.join().unwrap_or_else(|_| Err(CellError::Trace("a recorder could not be heard out".into())))
}

/// Starts the recorders and waits until all of them record.
fn start_recorders(
    built: &BuiltStack,
    trace: TraceMode,
    recorders: &mut Vec<Recorder>,
) -> Result<(), CellError> {
    for index in 0..built.points.len() {
        recorders.push(Recorder::of_point(built, index)?);
    }
    if trace == TraceMode::Full {
        for index in 0..built.virtual_disks.len() {
            recorders.push(Recorder::of_virtual_disk(built, index)?);
        }
    }
    recorders.iter().try_for_each(Recorder::wait_until_ready)
}
