//! The measured step of a workload, with every trace point of its stack on.

use std::time::Instant;

use nestor_lab::{BuiltStack, Lab};
use nestor_machine::{Machine, MachineError};
use nestor_results::TraceMode;
use nestor_workload::{OperationClass, OperationLog, Place, Step, StepOutput};

use super::asleep::Clocks;
use super::observe::Observation;
use super::step::{fetch_files, put_files, run_program};
use super::{CellError, CellRequest, Timed, assemble, joined};

/// A workload that is about to run, with its recorders on.
pub(super) struct WatchedRun<'a> {
    lab: &'a Lab,
    built: &'a BuiltStack,
    request: &'a CellRequest<'a>,
    step: Step,
    operation_log: Option<OperationLog>,
    /// The file with the operations whose writes carry their numbers.
    marked: Option<String>,
    observation: Observation,
}

/// The files of a workload that is about to run are where it needs them, or it has ended for want of one.
pub(super) struct Put(Result<Option<StepOutput>, MachineError>);

/// A workload that has run.
pub(super) struct Ran {
    /// What its program left, without its files.
    program: Result<StepOutput, MachineError>,
    load_s: f64,
    asleep_s: Option<f64>,
}

impl Ran {
    /// Runs a program, with this machine's own time for it.
    pub(super) fn of(program: impl FnOnce() -> Result<StepOutput, MachineError>) -> Self {
        let (clocks, began) = (Clocks::now(), Instant::now());
        let program = program();
        let load_s = began.elapsed().as_secs_f64();
        Self { program, load_s, asleep_s: clocks.asleep_s_until(&Clocks::now()) }
    }
}

impl Put {
    /// Whether the program can run.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.0, Ok(None))
    }
}

impl<'a> WatchedRun<'a> {
    /// Starts the recorders.
    pub(super) fn start(
        lab: &'a Lab,
        built: &'a BuiltStack,
        request: &'a CellRequest<'a>,
        place: &Place,
        progress: &dyn Fn(&str),
    ) -> Result<Self, CellError> {
        let is_full = request.trace == TraceMode::Full;
        let recorded = is_full.then(|| request.workload.measure_recorded(place, request.seed)).flatten();
        let (step, operation_log) = match recorded {
            Some(recorded) => (recorded.step, Some(recorded.log)),
            None => (request.workload.measure(place, request.seed), None),
        };
        progress(&step.title);
        let marked = request.workload.marked_operations(place).filter(|_| is_full);
        let observation = Observation::start(lab, built, request.trace, marked.is_some())?;
        Ok(Self { lab, built, request, step, operation_log, marked, observation })
    }

    /// Writes the files that the step needs.
    pub(super) fn put(&self) -> Put {
        Put(put_files(&self.built.top_machine().machine, &self.step))
    }

    /// The machine and the step that runs on it.
    pub(super) fn program(&self) -> (&Machine, &Step) {
        (&self.built.top_machine().machine, &self.step)
    }

    /// Runs the program of the step.
    pub(super) fn run(&self, Put(put): Put) -> Ran {
        Ran::of(|| match put {
            Ok(None) => run_program(&self.built.top_machine().machine, &self.step),
            Ok(Some(failed)) => Ok(failed),
            Err(e) => Err(e),
        })
    }

    /// Fetches the step's files, ends the recorders, switches the timing off, and joins what was recorded.
    pub(super) fn finish(
        self,
        Ran { program, load_s, asleep_s }: Ran,
        progress: &dyn Fn(&str),
    ) -> Result<Timed, CellError> {
        let Self { lab, built, request, .. } = self;
        let machine = &built.top_machine().machine;
        let output = program.and_then(|ran| fetch_files(machine, &self.step, ran));
        // Also after a failure: recorders must not outlive the cell.
        let recorded = self.observation.stop(lab, built);
        // The disk of a machine that stands for ever never comes to rest, and goes with it.
        let output = output.map_err(CellError::Machine)?;
        lab.set_timing(false)?;
        let mut load = request.workload.parse_output(&output)?;
        let recorded = recorded?;
        let truth = self.marked.and_then(|file| joined::truth(built, &recorded, &output, &file));
        if request.trace == TraceMode::Full {
            progress("reading layouts and joining requests");
        }
        let log = self.operation_log.as_ref();
        let joined = joined::condense_and_join(lab, built, &recorded, log, truth, request)?;
        for (class, seconds) in &joined.bytes_by_second {
            if let Some(result) = load.operations.get_mut(&OperationClass(class.clone())) {
                // The last second is a part of one.
                let whole = (load.elapsed_ns / 1_000_000_000) as usize;
                result.bytes_by_second = seconds.iter().copied().take(whole).collect();
            }
        }
        Ok(Timed { measured: assemble(built, load, joined, recorded), load_s, asleep_s })
    }
}
