//! A workload in several instances at the same time.

use nestor_lab::{BootedInstance, dealt};
use nestor_machine::{Command, Machine, MachineError, MachinePlace, run_inside};
use nestor_workload::{LoadResult, Step, StepOutput};

use super::step::{fetch_files, put_files, what_ran};
use super::watched_run::{Put, Ran, WatchedRun};
use super::{CellError, CellRequest, Timed, place_in};

/// The workload in the instances beside the first, with its files where it needs them.
pub(super) struct Beside {
    first: MachinePlace,
    others: Vec<(MachinePlace, Machine, Step)>,
}

/// What ran in all instances.
pub(super) struct RanInAll {
    pub(super) first: Ran,
    pub(super) others: Left,
    /// When each ended, on its node's clock, ns; nothing of a single one.
    pub(super) ends_ns: Vec<u64>,
}

/// What the programs in the instances beside the first left, without their files.
pub(super) struct Left(Vec<(Machine, Step, StepOutput)>);

impl Beside {
    /// All of them do the same, with the same seed, as instances of one image do.
    pub(super) fn prepare(
        first: &BootedInstance,
        others: &[BootedInstance],
        running: &CellRequest<'_>,
    ) -> Result<Self, CellError> {
        let of_one = |instance: &BootedInstance| {
            let place = place_in(&instance.built)?;
            let machine = instance.built.top_machine().machine.clone();
            let step = running.workload.measure(&place, running.seed);
            // What is missing here is missing for the first, which says so.
            put_files(&machine, &step)?;
            Ok((instance.place(), machine, step))
        };
        let others = others.iter().map(of_one).collect::<Result<_, CellError>>()?;
        Ok(Self { first: first.place(), others })
    }

    /// Runs all of them and the first at the same time, on the nodes to which they were dealt.
    pub(super) fn run(self, nodes: &[&Machine], watched: &WatchedRun<'_>, put: Put) -> RanInAll {
        if self.others.is_empty() || !put.is_complete() {
            return RanInAll { first: watched.run(put), others: Left(Vec::new()), ends_ns: Vec::new() };
        }
        let (mut others, mut ends_ns) = (Left(Vec::new()), Vec::new());
        let first = Ran::of(|| {
            let ran = self.run_together(nodes, watched)?;
            (others, ends_ns) = (ran.1, ran.2);
            Ok(ran.0)
        });
        RanInAll { first, others, ends_ns }
    }

    /// What the first left, what the others left, and when each ended.
    fn run_together(
        self,
        nodes: &[&Machine],
        watched: &WatchedRun<'_>,
    ) -> Result<(StepOutput, Left, Vec<u64>), MachineError> {
        let (machine, step) = watched.program();
        let instances = self.others.len() + 1;
        let others = self.others.iter().map(|(place, _, step)| (*place, command(step, instances)));
        let commands = [(self.first, command(step, instances))].into_iter().chain(others);
        let commands = dealt::deal(commands, nodes.len());
        let ran = dealt::gather(run_inside(nodes.iter().copied().zip(commands).collect())?);
        let ends_ns = ran.iter().map(|timed| timed.end_ns).collect();
        let machines = [machine].into_iter().chain(self.others.iter().map(|(_, machine, _)| machine));
        let outputs = machines.zip(ran).map(|(machine, timed)| what_ran(machine, timed.result));
        let mut outputs = outputs.collect::<Result<Vec<_>, MachineError>>()?;
        let first = outputs.remove(0);
        let left =
            self.others.into_iter().zip(outputs).map(|((_, machine, step), output)| (machine, step, output));
        Ok((first, Left(left.collect()), ends_ns))
    }
}

impl Left {
    /// The result of all instances together, that of the first among them.
    pub(super) fn finish(self, running: &CellRequest<'_>, mut timed: Timed) -> Result<Timed, CellError> {
        let mut loads = vec![std::mem::take(&mut timed.measured.load)];
        for (machine, step, output) in self.0 {
            let output = fetch_files(&machine, &step, output)?;
            loads.push(running.workload.parse_output(&output)?);
        }
        timed.measured.load = LoadResult::together(loads);
        Ok(timed)
    }
}

/// It may have to wait for all others.
fn command(step: &Step, instances: usize) -> Command {
    Command::new(step.argv.clone()).timeout_s(step.timeout_s.saturating_mul(instances as u64))
}
