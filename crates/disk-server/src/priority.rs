//! Being woken in time although guests want every CPU.

use std::mem::size_of;

use serde::{Deserialize, Serialize};

/// How the thread that serves the guest is scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Like any other thread: on a busy machine completions are late by scheduling slices.
    #[default]
    Ordinary,
    /// Like any other thread, but in short slices, which are handed out sooner (Linux 6.12 and later).
    ShortSlices,
    /// Before any ordinary thread (`SCHED_RR`, which takes root or a limit `RLIMIT_RTPRIO`).
    RealTime,
}

/// The shortest slice that Linux hands out (kernel/sched/syscalls.c, `__sched_setscheduler`).
const SHORTEST_SLICE_NS: u64 = 100_000;
/// `SCHED_OTHER`'s own slice.
const ORDINARY_SLICE: u64 = 0;

/// Schedules the calling thread like that, or as near to it as is allowed. Returns what came of it.
///
/// Real time is for a disk that is idle most of the time, as a mechanical one is between two completions.
pub fn schedule_as(wanted: Priority) -> Priority {
    let other = libc::SCHED_OTHER as u32;
    match wanted {
        Priority::RealTime if set(libc::SCHED_RR as u32, 1, ORDINARY_SLICE) => Priority::RealTime,
        Priority::RealTime | Priority::ShortSlices if set(other, 0, SHORTEST_SLICE_NS) => {
            Priority::ShortSlices
        }
        _ => {
            set(other, 0, ORDINARY_SLICE);
            Priority::Ordinary
        }
    }
}

fn set(policy: u32, priority: u32, slice_ns: u64) -> bool {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: priority,
        sched_runtime: slice_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the structure says its own size and lives until the call returns; 0 means the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}
