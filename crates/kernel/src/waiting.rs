//! How long the threads of a process could run and did not, because processors were given to others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::processes::run_delays;
use crate::processor_time::{MachineTimes, ticks};

/// What a process has waited for processors, from now on.
pub struct WaitForProcessors {
    process: u32,
    begin: Waits,
}

/// Two ways to wait.
struct Waits {
    /// Of each thread, in a queue of this kernel (the second number in `/proc/PID/task/TID/schedstat`, Documentation/scheduler/sched-stats.rst).
    threads: BTreeMap<u32, Duration>,
    /// Of a processor of this machine, on average, for the hypervisor below (steal in `/proc/stat`, proc(5)).
    hypervisor: Duration,
}

impl Waits {
    fn so_far(process: u32) -> Self {
        let processors =
            std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        let stolen = MachineTimes::now().map_or(0, |times| times.stolen);
        Self { threads: run_delays(process), hypervisor: ticks(stolen) / processors }
    }
}

impl WaitForProcessors {
    /// Begins to watch a process.
    pub fn begin(process: u32) -> Self {
        Self { process, begin: Waits::so_far(process) }
    }

    /// How long the thread waited that waited longest; nothing if the kernel does not count it.
    pub fn so_far(&self) -> Duration {
        longest(&self.begin, &Waits::so_far(self.process))
    }
}

/// Threads wait side by side, so their times do not add up.
fn longest(begin: &Waits, now: &Waits) -> Duration {
    let before = |thread| begin.threads.get(thread).copied().unwrap_or_default();
    let threads = now.threads.iter().map(|(thread, waited)| waited.saturating_sub(before(thread)));
    threads.max().unwrap_or_default() + now.hypervisor.saturating_sub(begin.hypervisor)
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn threads_wait_side_by_side_and_all_of_them_for_the_hypervisor() {
        let s = Duration::from_secs;
        let waits = |threads: &[(u32, u64)], hypervisor| Waits {
            threads: threads.iter().map(|&(thread, waited)| (thread, s(waited))).collect(),
            hypervisor: s(hypervisor),
        };
        let begin = waits(&[(1, 10), (2, 50)], 3);
        assert_eq!(
            longest(&begin, &waits(&[(1, 15), (2, 52), (3, 4)], 5)),
            s(7),
            "thread 1, and the hypervisor"
        );
        assert_eq!(longest(&begin, &waits(&[(3, 40)], 3)), s(40), "a thread that began later");
        assert_eq!(longest(&begin, &waits(&[], 0)), s(0), "it has ended");
    }

    #[test]
    fn who_shares_a_processor_has_waited_for_it() {
        // Two programs that are never idle and may use one processor only: at least one of them waits.
        let allowed = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap());
        let spin = || std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut spinning = [spin(), spin()];
        for child in &spinning {
            sched_setaffinity(rustix::process::Pid::from_raw(child.id().cast_signed()), &one).unwrap();
        }
        let waits = spinning.each_ref().map(|child| WaitForProcessors::begin(child.id()));
        let has_waited = || waits.iter().any(|wait| wait.so_far() > Duration::from_millis(20));
        // Ends however little of a processor the two get: each turn that one takes, the other waits.
        while !has_waited() {
            std::thread::sleep(Duration::from_millis(5));
        }
        for child in &mut spinning {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
