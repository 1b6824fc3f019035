//! What can go wrong between a controller and a machine.

use std::time::Duration;

/// A request that was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// The agent answered that it could not do it.
    #[error("{machine}: {message}")]
    Refused {
        /// Which machine.
        machine: String,
        /// What its agent says.
        message: String,
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
    #[error("{machine}: `{program}` {ended}{output}")]
    Program {
        /// Which machine.
        machine: String,
        /// The program with its arguments.
        program: String,
        /// `ended with exit code 1`, `was ended by signal 9`, `did not end within 60 s`.
        ended: String,
        /// The last lines of what it printed, each on a line of its own, or nothing.
        output: String,
    },
    /// A file of a machine is longer than who asked for it wants to have.
    #[error("{machine}: its file {path} is longer than the {max_bytes} bytes that are read of it")]
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
    #[error("{machine}: the agent answered out of turn; is it another version of nestor?")]
    OutOfTurn {
        /// Which machine.
        machine: String,
    },
}
