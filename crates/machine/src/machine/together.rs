//! Several things that a machine does at the same time, each with its begin and its end on that machine's own clock.
//!
//! Requests that arrive side by side would reach a machine in virtual time in an unpredictable order. This is one request, and the order in
//! which the machine begins what is in it is always the same.

use std::time::Duration;

use super::request::own_limit;
use super::{Boot, Machine};
use crate::error::MachineError;
use crate::message::{Answer, Command, Finished, Request, TimedAnswer};
use crate::place::MachinePlace;
use crate::spec::MachineSpec;

/// Something that was done beside others.
#[derive(Debug)]
pub struct Timed<T> {
    /// When it began, on the machine's clock (`CLOCK_MONOTONIC`), ns.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What came of it, or why it was not carried out.
    pub result: Result<T, MachineError>,
}

impl Machine {
    /// Runs programs, those of one line one after the other up to the first that fails, the lines at the same time. What was run of each line.
    ///
    /// # Errors
    /// The machine does not answer.
    pub fn run_together(&self, lines: Vec<Vec<Command>>) -> Result<Vec<Vec<Timed<Finished>>>, MachineError> {
        let lines = lines.into_iter().map(|line| line.into_iter().map(Request::Run).collect());
        let answered = self.together(lines.collect())?;
        answered
            .into_iter()
            .map(|line| line.into_iter().map(|answer| self.timed(answer, finished)).collect())
            .collect()
    }

    /// Runs a program in each of several machines that this one has booted, at the same time.
    ///
    /// # Errors
    /// This machine does not answer.
    pub fn run_inside(
        &self,
        commands: Vec<(MachinePlace, Command)>,
    ) -> Result<Vec<Timed<Finished>>, MachineError> {
        let passed_on = commands.into_iter().map(|(machine, command)| {
            let request = Request::Run(command);
            let timeout_ms = u64::try_from(own_limit(&request).as_millis()).unwrap_or(u64::MAX);
            Request::Forward { machine, timeout_ms, request: Box::new(request) }
        });
        self.one_of_each(passed_on.collect(), finished)
    }

    /// Boots several machines inside this one at the same time.
    ///
    /// # Errors
    /// This machine does not answer.
    pub fn start_machines(&self, specs: &[MachineSpec]) -> Result<Vec<Timed<Boot>>, MachineError> {
        let starts = specs.iter().map(|spec| Request::StartMachine(Box::new(spec.clone())));
        self.one_of_each(starts.collect(), |answer| match answer {
            Answer::Booted { accelerator, boot_ms } => Some(Boot { accelerator, boot_ms }),
            _ => None,
        })
    }

    /// Has several machines that this one has booted power themselves off at the same time, and waits for the end of each. One that does not
    /// within `limit` is ended nevertheless, and its result says so.
    ///
    /// # Errors
    /// This machine does not answer.
    pub fn shut_down_machines(
        &self,
        machines: &[MachinePlace],
        limit: Duration,
    ) -> Result<Vec<Timed<()>>, MachineError> {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let shut_down = |machine: &MachinePlace| Request::ShutDownMachine { machine: *machine, limit_ms };
        self.one_of_each(machines.iter().map(shut_down).collect(), |answer| {
            matches!(answer, Answer::Done).then_some(())
        })
    }

    /// Requests that are alike, each in a line of its own.
    fn one_of_each<T>(
        &self,
        requests: Vec<Request>,
        read: impl Fn(Answer) -> Option<T>,
    ) -> Result<Vec<Timed<T>>, MachineError> {
        let lines = self.together(requests.into_iter().map(|request| vec![request]).collect())?;
        let only = |line: Vec<TimedAnswer>| {
            let answer = line.into_iter().next().ok_or_else(|| self.out_of_turn())?;
            self.timed(answer, &read)
        };
        lines.into_iter().map(only).collect()
    }

    /// Of each line what was begun of it.
    fn together(&self, lines: Vec<Vec<Request>>) -> Result<Vec<Vec<TimedAnswer>>, MachineError> {
        let sent = lines.len();
        match self.request(Request::Together { lines })? {
            Answer::Together(lines) if lines.len() == sent => Ok(lines),
            _ => Err(self.out_of_turn()),
        }
    }

    fn timed<T>(
        &self,
        TimedAnswer { begin_ns, end_ns, answer }: TimedAnswer,
        read: impl Fn(Answer) -> Option<T>,
    ) -> Result<Timed<T>, MachineError> {
        let result = match answer {
            Answer::Failed(refusal) => Err(MachineError::Refused { machine: self.label.clone(), refusal }),
            answer => Ok(read(answer).ok_or_else(|| self.out_of_turn())?),
        };
        Ok(Timed { begin_ns, end_ns, result })
    }
}

fn finished(answer: Answer) -> Option<Finished> {
    match answer {
        Answer::Finished(finished) => Some(finished),
        _ => None,
    }
}
