//! Recording at every trace point of a built stack while the workload runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nestor_build::{BuiltStack, Lab};
use nestor_machine::{Command, Machine};
use nestor_stack::{LayerDefinition, Offer};
use nestor_trace::LayerMetrics;

use super::CellError;
use super::processors::ProcessorWatch;
use crate::record::LayerRecord;

/// Recorders that run, and processor times when they started.
pub(super) struct Observation {
    recorders: Vec<Recorder>,
    processors: ProcessorWatch,
    disk_log: bool,
}

struct Recorder {
    point: usize,
    machine: Machine,
    process: u32,
    directory: String,
}

/// What was recorded.
pub(super) struct Observed {
    /// The layers, application first.
    pub(super) layers: Vec<LayerRecord>,
    /// Busy share of each machine's processors, outermost first.
    pub(super) cpu_busy: Vec<(String, f64)>,
}

/// How long a recorder may take to get ready, or to write out what it has.
const RECORDER_LIMIT: Duration = Duration::from_secs(30);

impl Observation {
    /// Starts a recorder at every block device of the stack, the modelled disk's log, and the clocks.
    pub(super) fn start(lab: &Lab, built: &BuiltStack, trace: bool) -> Result<Self, CellError> {
        let mut recorders = Vec::new();
        let started = if trace { start_recorders(built, &mut recorders) } else { Ok(()) };
        if let Err(e) = started {
            abandon(&recorders);
            return Err(e);
        }
        let disk_log = trace && built.modelled;
        if let Some(disk) = lab.served_disk().filter(|_| disk_log) {
            disk.start_log()?;
        }
        Ok(Self { recorders, processors: ProcessorWatch::start(built), disk_log })
    }

    /// Stops everything and reads what was recorded.
    pub(super) fn finish(self, lab: &Lab, built: &BuiltStack) -> Result<Observed, CellError> {
        let cpu_busy = self.processors.finish();
        let log = match lab.served_disk() {
            Some(disk) if self.disk_log => Some(disk.stop_log()),
            _ => None,
        };
        let by_point = summaries(&self.recorders)?;
        let medium = match log {
            Some(path) => Some(summarize(lab.ground(), &["--disk-log", &path?])?),
            None => None,
        };
        Ok(Observed { layers: layers(built, &by_point, medium), cpu_busy: cpu_busy? })
    }
}

/// Starts a recorder at every block device and waits until all of them record.
fn start_recorders(built: &BuiltStack, recorders: &mut Vec<Recorder>) -> Result<(), CellError> {
    for (index, point) in built.points.iter().enumerate() {
        let machine = &built.machines[point.machine];
        let directory = format!("{}/trace-{index}", machine.facts.work_directory);
        machine.machine.make_directory(&directory)?;
        let argv = ["{nestor}", "trace", "record", "--device", &point.device, "--output", &directory];
        let process = machine.machine.start_process(Command::new(argv), &format!("{directory}.txt"))?;
        recorders.push(Recorder { point: index, machine: machine.machine.clone(), process, directory });
    }
    recorders.iter().try_for_each(Recorder::wait_until_ready)
}

/// Ends recorders whose recordings nobody wants any more.
fn abandon(recorders: &[Recorder]) {
    for recorder in recorders {
        let _ = recorder.machine.stop_process(recorder.process, 5_000);
    }
}

/// Stops all recorders and condenses what each has, all at once: each works in its own machine.
fn summaries(recorders: &[Recorder]) -> Result<BTreeMap<usize, LayerMetrics>, CellError> {
    std::thread::scope(|scope| {
        let running: Vec<_> = recorders
            .iter()
            .map(|recorder| (recorder.point, scope.spawn(|| recorder.stop_and_summarize())))
            .collect();
        let stopped = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|_| Err(CellError::Trace("a recorder could not be stopped".into())))
        };
        // All are waited for, also after one failed.
        let all: Vec<_> = running.into_iter().map(|(point, handle)| (point, stopped(handle))).collect();
        all.into_iter().map(|(point, metrics)| Ok((point, metrics?))).collect()
    })
}

impl Recorder {
    fn stop_and_summarize(&self) -> Result<LayerMetrics, CellError> {
        if !self.machine.stop_process(self.process, 30_000)?.succeeded() {
            return Err(self.failed("did not end well"));
        }
        summarize(&self.machine, &["--remove", &self.directory])
    }

    fn wait_until_ready(&self) -> Result<(), CellError> {
        let deadline = Instant::now() + RECORDER_LIMIT;
        while Instant::now() < deadline {
            if self.machine.read_file(&format!("{}/ready", self.directory)).is_ok() {
                return Ok(());
            }
            let said = self.machine.read_file(&format!("{}.txt", self.directory))?;
            if String::from_utf8_lossy(&said).contains("error:") {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(self.failed("did not start"))
    }

    fn failed(&self, what: &str) -> CellError {
        let said = self.machine.read_file(&format!("{}.txt", self.directory)).unwrap_or_default();
        CellError::Trace(format!(
            "{}: the recorder of a trace point {what}: {}",
            self.machine.label(),
            String::from_utf8_lossy(&said).trim()
        ))
    }
}

/// Condenses a recording where it lies; only the numbers travel.
fn summarize(machine: &Machine, arguments: &[&str]) -> Result<LayerMetrics, CellError> {
    let argv = ["{nestor}", "trace", "summarize", "--json"].into_iter().chain(arguments.iter().copied());
    let text = machine.run_ok(Command::new(argv).timeout_s(300))?;
    serde_json::from_str(&text).map_err(|e| {
        CellError::Trace(format!("{}: the summary of a trace is not readable: {e}", machine.label()))
    })
}

/// One row per layer; each shows the requests at its lower edge, where it meets a block device or the medium.
fn layers(
    built: &BuiltStack,
    by_point: &BTreeMap<usize, LayerMetrics>,
    medium: Option<LayerMetrics>,
) -> Vec<LayerRecord> {
    let stack_layers = built.stack.layers();
    let device_of = |index: usize| {
        built
            .points
            .iter()
            .position(|p| p.offered_by == index)
            .and_then(|point| by_point.get(&point))
            .cloned()
    };
    let segments = built.stack.machines();
    let machine_of = |index: usize| {
        segments
            .iter()
            .find(|s| s.range.contains(&index))
            // A crossing layer itself runs in the machine around the one it starts.
            .or_else(|| {
                segments.iter().position(|s| s.crossing_index == Some(index)).map(|i| &segments[i - 1])
            })
            .map_or_else(|| "host".to_owned(), |s| s.label.clone())
    };
    let application = LayerRecord {
        layer: "application".into(),
        role: String::new(),
        machine: built.top_machine().label.clone(),
        metrics: (built.stack.offers() == Offer::Block).then(|| device_of(0)).flatten(),
    };
    let mut rows = vec![application];
    for (index, layer) in stack_layers.iter().enumerate() {
        let metrics = match layer.definition() {
            LayerDefinition::Medium(_) => medium.clone(),
            _ => device_of(index + 1),
        };
        rows.push(LayerRecord {
            layer: layer.label(),
            role: built.stack.role(index),
            machine: machine_of(index),
            metrics,
        });
    }
    rows
}
