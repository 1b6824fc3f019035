//! What can go wrong between a controller and a machine.

use std::time::Duration;

use crate::refusal::{Cause, ProgramEnd, Refusal};

/// A request that was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// The agent answered that it could not do it.
    #[error("{machine}: {refusal}")]
    Refused {
        /// Which machine.
        machine: String,
        /// What its agent says.
        refusal: Refusal,
    },
    /// The machine or its agent is gone.
    #[error("{machine}: the machine is gone: {detail}")]
    Gone {
        /// Which machine.
        machine: String,
        /// What is known of its end.
        detail: String,
    },
    /// The machine did not answer in time.
    #[error("{machine}: no answer to `{request}` within {} s; the machine hangs or is overloaded", .limit.as_secs())]
    TimedOut {
        /// Which machine.
        machine: String,
        /// The request's name.
        request: String,
        /// How long was waited.
        limit: Duration,
    },
    /// A program in the machine did not succeed.
    #[error(transparent)]
    Program(Box<FailedProgram>),
    /// A file of a machine is longer than who asked for it wants to have.
    #[error("{machine}: its file {path} is longer than {max_bytes} bytes, the most that are read")]
    TooLong {
        /// Which machine.
        machine: String,
        /// The file.
        path: String,
        /// The bound.
        max_bytes: u64,
    },
    /// The ground (this machine, ssh) could not be reached or prepared.
    #[error("{0}")]
    Ground(String),
    /// The agent answered something else than was asked: another version.
    #[error("{machine}: the agent gave an unexpected answer; it may be another version of nestor")]
    OutOfTurn {
        /// Which machine.
        machine: String,
    },
}

/// A program in a machine that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{machine}: `{program}` {ended}{output}")]
pub struct FailedProgram {
    /// Which machine.
    pub machine: String,
    /// The program with its arguments.
    pub program: String,
    /// How it ended.
    pub ended: ProgramEnd,
    /// The last lines of what it printed, each on a line of its own, or nothing.
    pub output: String,
    /// What kind of failure it was, as far as its output shows.
    pub cause: Cause,
}

impl MachineError {
    /// What kind of thing went wrong.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Refused { refusal, .. } => refusal.cause.clone(),
            Self::Program(failed) => failed.cause.clone(),
            Self::Gone { .. } => Cause::MachineLost,
            Self::TimedOut { .. } => Cause::MachineSilent,
            Self::TooLong { .. } | Self::Ground(_) | Self::OutOfTurn { .. } => Cause::Other,
        }
    }

    /// The same with the output of the program that it is about, where the machine itself answered.
    pub fn saying(mut self, output: &str) -> Self {
        if let Self::Refused { refusal, .. } = &mut self
            && !output.is_empty()
        {
            refusal.cause = refusal.cause.clone().after(output);
            refusal.message = format!("{}\n    {output}", refusal.message);
        }
        self
    }

    /// Whether a machine that was up is lost, so that nothing on it can be trusted or used any more.
    pub fn machine_is_lost(&self) -> bool {
        matches!(self.cause(), Cause::MachineLost | Cause::GivenUp { .. } | Cause::MachineSilent)
    }
}
