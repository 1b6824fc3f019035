//! Several things that a machine does at the same time, each with its begin and its end on that machine's own clock.
//!
//! Requests that arrive side by side would reach a machine in virtual time in an unpredictable order. This is one request, and the order in
//! which the machine begins what is in it is always the same.
//!
//! On several machines, such a request begins the lines of each, one machine after the other, and another one waits for their ends, in the same
//! order. Each is answered before the next is sent, so that here, too, each reaches its machine at a certain time.

use std::time::Duration;

use super::request::{limit_of_lines, own_limit};
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
    /// Of each line what was begun of it.
    fn together(&self, lines: Vec<Vec<Request>>) -> Result<Vec<Vec<TimedAnswer>>, MachineError> {
        let sent = lines.len();
        let answer = self.request(Request::Together { lines })?;
        self.of_lines(answer, sent)
    }

    fn begin_together(&self, lines: Vec<Vec<Request>>) -> Result<BegunLines<'_>, MachineError> {
        let (lines_sent, timeout_ms) = (lines.len(), milliseconds(limit_of_lines(&lines)));
        match self.request(Request::BeginTogether { lines })? {
            Answer::Begun(begun) => Ok(BegunLines { on: self, begun, lines: lines_sent, timeout_ms }),
            _ => Err(self.out_of_turn()),
        }
    }

    fn of_lines(&self, answer: Answer, sent: usize) -> Result<Vec<Vec<TimedAnswer>>, MachineError> {
        match answer {
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

/// Lines that a machine has begun.
struct BegunLines<'a> {
    on: &'a Machine,
    begun: u64,
    lines: usize,
    timeout_ms: u64,
}

impl BegunLines<'_> {
    /// Waits for their end.
    fn end(self) -> Result<Vec<Vec<TimedAnswer>>, MachineError> {
        let answer =
            self.on.request(Request::EndTogether { begun: self.begun, timeout_ms: self.timeout_ms })?;
        self.on.of_lines(answer, self.lines)
    }
}

/// What several machines are to do at the same time, each with what it is to do.
pub type OnEach<'a, T> = Vec<(&'a Machine, Vec<T>)>;

/// Runs programs on several machines, those of one line one after the other up to the first that fails, all lines at the same time. What was
/// run of each line, by machines.
///
/// # Errors
/// A machine does not answer.
pub fn run_together(on: OnEach<'_, Vec<Command>>) -> Result<Vec<Vec<Vec<Timed<Finished>>>>, MachineError> {
    let requests = |line: Vec<Command>| line.into_iter().map(Request::Run).collect();
    let read = |machine: &Machine, line: Vec<TimedAnswer>| {
        line.into_iter().map(|answer| machine.timed(answer, finished)).collect()
    };
    all_together(on, requests, read)
}

/// Runs a program in each of several machines that these have booted, at the same time.
///
/// # Errors
/// A machine does not answer.
pub fn run_inside(
    on: OnEach<'_, (MachinePlace, Command)>,
) -> Result<Vec<Vec<Timed<Finished>>>, MachineError> {
    let passed_on = |(machine, command): (MachinePlace, Command)| {
        let request = Request::Run(command);
        let timeout_ms = milliseconds(own_limit(&request));
        Request::Forward { machine, timeout_ms, request: Box::new(request) }
    };
    one_of_each(on, passed_on, finished)
}

/// Boots several machines inside these at the same time.
///
/// # Errors
/// A machine does not answer.
pub fn start_machines(on: OnEach<'_, MachineSpec>) -> Result<Vec<Vec<Timed<Boot>>>, MachineError> {
    let start = |spec: MachineSpec| Request::StartMachine(Box::new(spec));
    one_of_each(on, start, |answer| match answer {
        Answer::Booted { accelerator, boot_ms } => Some(Boot { accelerator, boot_ms }),
        _ => None,
    })
}

/// Has several machines that these have booted power themselves off at the same time, and waits for the end of each. One that does not
/// within `limit` is ended nevertheless, and its result says so.
///
/// # Errors
/// A machine does not answer.
pub fn shut_down_machines(
    on: OnEach<'_, MachinePlace>,
    limit: Duration,
) -> Result<Vec<Vec<Timed<()>>>, MachineError> {
    let limit_ms = milliseconds(limit);
    let shut_down = |machine: MachinePlace| Request::ShutDownMachine { machine, limit_ms };
    one_of_each(on, shut_down, |answer| matches!(answer, Answer::Done).then_some(()))
}

/// Requests that are alike, each in a line of its own.
fn one_of_each<T, A>(
    on: OnEach<'_, A>,
    request: impl Fn(A) -> Request,
    read: impl Fn(Answer) -> Option<T>,
) -> Result<Vec<Vec<Timed<T>>>, MachineError> {
    let only = |machine: &Machine, line: Vec<TimedAnswer>| {
        let answer = line.into_iter().next().ok_or_else(|| machine.out_of_turn())?;
        machine.timed(answer, &read)
    };
    all_together(on, |asked| vec![request(asked)], only)
}

/// What came of each line, by machines. Those of a single one are one request, without another to begin them.
fn all_together<A, T>(
    on: OnEach<'_, A>,
    line: impl Fn(A) -> Vec<Request>,
    read: impl Fn(&Machine, Vec<TimedAnswer>) -> Result<T, MachineError>,
) -> Result<Vec<Vec<T>>, MachineError> {
    let mut on: Vec<(&Machine, Vec<Vec<Request>>)> =
        on.into_iter().map(|(machine, asked)| (machine, asked.into_iter().map(&line).collect())).collect();
    let answered = match on.pop() {
        Some((machine, lines)) if on.is_empty() => vec![(machine, machine.together(lines)?)],
        last => {
            let begun = on.into_iter().chain(last).map(|(machine, lines)| machine.begin_together(lines));
            let begun: Vec<_> = begun.collect::<Result<_, _>>()?;
            begun
                .into_iter()
                .map(|lines| Ok((lines.on, lines.end()?)))
                .collect::<Result<_, MachineError>>()?
        }
    };
    let of_machine = |(machine, lines): (&Machine, Vec<Vec<TimedAnswer>>)| {
        lines.into_iter().map(|line| read(machine, line)).collect()
    };
    answered.into_iter().map(of_machine).collect()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn finished(answer: Answer) -> Option<Finished> {
    match answer {
        Answer::Finished(finished) => Some(finished),
        _ => None,
    }
}
