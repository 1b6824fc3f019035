//! Ways to hand requests to a target.

mod nothing;
#[cfg(test)]
pub(crate) mod recording;
mod threads;
mod uring;

pub(crate) use nothing::Nothing;
pub(crate) use threads::Threads;
pub(crate) use uring::Uring;

use std::io;

use serde::{Deserialize, Serialize};

use crate::plan::PlannedRequest;

/// Ways to choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChoice {
    /// io_uring, or threads where there is none.
    #[default]
    Auto,
    /// io_uring.
    IoUring,
    /// A thread for each request in flight.
    Threads,
}

/// A request with its number in the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub number: usize,
    pub request: PlannedRequest,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub number: usize,
    /// When it was really begun, where that was not when it was submitted.
    pub begun_ns: Option<u64>,
    pub completed_ns: u64,
    /// Bytes, or a negative errno.
    pub result: i64,
}

/// What carries out requests. Not more than [`Engine::most_in_flight`] are submitted at a time.
pub(crate) trait Engine {
    /// Hands over requests, in this order.
    fn submit(&mut self, commands: &[Command]) -> io::Result<()>;

    /// What has been completed, without waiting.
    fn reap(&mut self, done: &mut Vec<Completion>) -> io::Result<()>;

    /// Waits until something was completed, or a moment has come. May return earlier.
    fn wait(&mut self, until_ns: u64, done: &mut Vec<Completion>) -> io::Result<()>;

    /// How many requests it carries out at a time.
    fn most_in_flight(&self) -> usize;

    /// Whether threads of this program carry requests out, which may wait for the very processor that spins.
    fn wants_the_processor(&self) -> bool {
        false
    }
}

/// Range of a discard, as `fallocate(2)` takes it.
pub(crate) const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
