//! Commands in the drive.

use super::write_buffer::Dirty;
use crate::log::Operation;
use crate::model::{ModelRequest, ServiceParts};

/// A command that waits for the arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) request: ModelRequest,
    pub(super) admitted_ns: u64,
    pub(super) ready_ns: u64,
}

impl Queued {
    pub(super) fn reads(&self) -> bool {
        self.request.operation == Operation::Read
    }
}

/// What the arm is busy with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) parts: ServiceParts,
    pub(super) destages: Option<Dirty>,
}

/// A flush that waits for written data to reach the platters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) id: u64,
    pub(super) sequence: u64,
    pub(super) start_ns: u64,
    pub(super) parts: ServiceParts,
}

/// What the arm could do next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Candidate {
    Command(usize),
    Destage(u64),
}
