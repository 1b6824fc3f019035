//! What an agent answers.

use nestor_kernel::ServedRequests;
use nestor_processor::InstructionMarks;
use nestor_stack::Accelerator;
use serde::{Deserialize, Serialize};

use super::{Facts, Finished};
use crate::prefetch::Prefetch;
use crate::refusal::Refusal;
use crate::ticks::TickReading;
use crate::users_directory::OwnDirectory;

/// An agent's answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Sent once when the agent is ready.
    Hello {
        /// The agent's [`PROTOCOL`](super::PROTOCOL).
        protocol: u32,
    },
    /// Done, without a result.
    Done,
    /// What the machine is.
    Facts(Facts),
    /// A program's end.
    Finished(Finished),
    /// A program runs under this number.
    Started {
        /// For [`Request::StopProcess`](super::Request::StopProcess).
        process: u32,
    },
    /// A file's bytes.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A device that was made.
    Device(String),
    /// What a medium holds or may hold, as the rest of a sentence that it begins; `None` if it is all zeros.
    Found(Option<String>),
    /// A booted machine.
    Booted {
        /// What really executes its instructions.
        accelerator: Accelerator,
        /// Milliseconds from the start of the hypervisor to the agent's greeting.
        boot_ms: u64,
    },
    /// The request was not carried out.
    Failed(Refusal),
    /// The absolute path of what was made.
    Path(String),
    /// What was counted of a machine's instructions.
    Instructions(InstructionMarks),
    /// `CLOCK_MONOTONIC`, ns.
    Clock(u64),
    /// Clock and counter; `None` if the processor has no counter.
    Ticks(Option<TickReading>),
    /// What is added to a counter.
    TickOffset(i64),
    /// What a back end has served since it was connected.
    Served(ServedRequests),
    /// A directory that was made in one of the user's.
    OwnDirectory(OwnDirectory),
    /// How far the copying of a backing file is.
    Prefetch(Prefetch),
    /// To each line of [`Request::Together`](super::Request::Together), to those of its requests that were begun.
    Together(Vec<Vec<TimedAnswer>>),
    /// Lines were begun, for [`Request::EndTogether`](super::Request::EndTogether).
    Begun(u64),
}

/// An answer with the time of its request.
#[derive(Debug, Serialize, Deserialize)]
pub struct TimedAnswer {
    /// When it was begun, on `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
    /// When it had ended.
    pub end_ns: u64,
    /// The answer.
    pub answer: Answer,
}
