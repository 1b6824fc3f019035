//! What a hypervisor asks of its images, followed from the call to its return.

use std::collections::{HashMap, HashSet};

use nestor_trace::Operation;
use nestor_trace::decode::file_io::{FileIo, FileIoEvent};

/// Requests in rings that are followed at once; beyond it, events were lost.
const MOST_IN_RINGS: usize = 1 << 16;
/// The kernel's `EAGAIN`: nothing was done, and it is asked for again.
const AGAIN: i64 = -11;

/// Whose files are whose, as far as it was looked up last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Threads of the virtual machine's process.
    pub threads: HashSet<u32>,
    /// Descriptors of its images.
    pub images: HashSet<u32>,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedCall {
    pub operation: Operation,
    pub bytes: u64,
    pub latency_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    operation: Operation,
    since_ns: u64,
}

impl UnderWay {
    fn end(self, time_ns: u64, result: i64) -> Option<EndedCall> {
        let moved = if self.operation == Operation::Flush { 0 } else { result };
        (result != AGAIN).then(|| EndedCall {
            operation: self.operation,
            bytes: u64::try_from(moved).unwrap_or(0),
            latency_ns: time_ns.saturating_sub(self.since_ns),
        })
    }
}

/// Calls and requests in rings that are under way.
#[derive(Default)]
pub(crate) struct Calls {
    machine: Machine,
    by_thread: HashMap<u32, UnderWay>,
    in_rings: HashMap<u64, UnderWay>,
}

impl Calls {
    /// The machine as it is now. What threads that are gone were doing is not under way any more.
    pub fn set_machine(&mut self, machine: Machine) {
        self.by_thread.retain(|thread, _| machine.threads.contains(thread));
        self.machine = machine;
    }

    pub fn is_of_machine(&self, thread: u32) -> bool {
        self.machine.threads.contains(&thread)
    }

    pub fn under_way(&self) -> u64 {
        (self.by_thread.len() + self.in_rings.len()) as u64
    }

    pub fn push(&mut self, event: &FileIoEvent) -> Option<EndedCall> {
        let &FileIoEvent { time_ns, thread, what } = event;
        match what {
            FileIo::Entered { operation, descriptor } => {
                // A thread is in one call at a time: the end of another was lost.
                self.by_thread.remove(&thread);
                if self.machine.images.contains(&descriptor) {
                    self.by_thread.insert(thread, UnderWay { operation, since_ns: time_ns });
                }
                None
            }
            FileIo::Left { result } => self.by_thread.remove(&thread)?.end(time_ns, result),
            FileIo::Submitted { request, operation } => {
                if self.is_of_machine(thread) && self.in_rings.len() < MOST_IN_RINGS {
                    self.in_rings.insert(request, UnderWay { operation, since_ns: time_ns });
                }
                None
            }
            FileIo::File { request, descriptor } => {
                if !self.machine.images.contains(&descriptor) {
                    self.in_rings.remove(&request);
                }
                None
            }
            FileIo::Completed { request, result } => self.in_rings.remove(&request)?.end(time_ns, result),
        }
    }
}
