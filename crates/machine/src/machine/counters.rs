//! What a machine and its processor have counted.

use nestor_kernel::ServedRequests;
use nestor_processor::InstructionMarks;

use super::Machine;
use crate::error::MachineError;
use crate::message::{Answer, Request};
use crate::place::MachinePlace;
use crate::prefetch::Prefetch;
use crate::ticks::TickReading;

impl Machine {
    /// What was counted at marks in a machine in virtual time that this one booted, since this was last asked.
    pub fn take_instructions(&self, machine: MachinePlace) -> Result<InstructionMarks, MachineError> {
        match self.request(Request::TakeInstructions { machine })? {
            Answer::Instructions(marks) => Ok(marks),
            _ => Err(self.out_of_turn()),
        }
    }

    /// This machine's clock and its processor's counter; `None` if that has none.
    pub fn read_ticks(&self) -> Result<Option<TickReading>, MachineError> {
        match self.request(Request::ReadTicks)? {
            Answer::Ticks(reading) => Ok(reading),
            _ => Err(self.out_of_turn()),
        }
    }

    /// This machine's `CLOCK_MONOTONIC` in nanoseconds. With `mark`, what counts the instructions of a machine in virtual time marks this moment.
    pub fn read_clock(&self, mark: bool) -> Result<u64, MachineError> {
        match self.request(Request::ReadClock { mark })? {
            Answer::Clock(ns) => Ok(ns),
            _ => Err(self.out_of_turn()),
        }
    }

    /// What its hypervisor adds to this machine's counter in a machine that this one booted.
    pub fn tick_offset(&self, machine: MachinePlace) -> Result<i64, MachineError> {
        match self.request(Request::TickOffset { machine })? {
            Answer::TickOffset(offset) => Ok(offset),
            _ => Err(self.out_of_turn()),
        }
    }

    /// What was served of the disk of the hypervisor's layer of a machine that this one booted, since that was plugged in.
    pub fn served_requests(&self, machine: MachinePlace) -> Result<ServedRequests, MachineError> {
        match self.request(Request::ServedRequests { machine })? {
            Answer::Served(served) => Ok(served),
            _ => Err(self.out_of_turn()),
        }
    }
    /// How far the copying of a disk's backing file into it is, in a machine that this one booted; the disk has this serial number.
    pub fn prefetch(&self, machine: MachinePlace, disk: &str) -> Result<Prefetch, MachineError> {
        match self.request(Request::Prefetch { machine, disk: disk.to_owned() })? {
            Answer::Prefetch(prefetch) => Ok(prefetch),
            _ => Err(self.out_of_turn()),
        }
    }
}
