//! What processes use of the processors.

use std::collections::{BTreeMap, BTreeSet};

use nestor_workload::profile::Processor;
use procfs::process::{Process, Stat};
use procfs::{CurrentSI as _, KernelStats};

/// Times of a process in clock ticks.
#[derive(Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
    /// When the process began, since the machine did.
    begun: u64,
}

/// Takes readings and says what was used between the first and the last.
pub struct ProcessorTimes {
    /// First and last of each process; of the machine under 0.
    readings: BTreeMap<u32, (Ticks, Ticks)>,
    everybody: bool,
    /// When the first reading was, in ticks since the machine began.
    begun: Option<u64>,
}

impl ProcessorTimes {
    /// Of the whole machine, or of processes.
    pub fn new(everybody: bool) -> Self {
        Self { readings: BTreeMap::new(), everybody, begun: None }
    }

    /// Reads the times of these processes, or of the machine.
    pub fn read(&mut self, processes: &BTreeSet<u32>) {
        let now = now_ticks();
        if self.everybody {
            self.note(0, machine());
        } else {
            for pid in processes {
                self.note(*pid, process(*pid));
            }
        }
        self.begun.get_or_insert(now);
    }

    fn note(&mut self, pid: u32, ticks: Option<Ticks>) {
        let Some(ticks) = ticks else { return };
        // What started later used nothing before; what came into a control group later had.
        let is_new = self.begun.is_some_and(|begun| ticks.begun >= begun);
        let first = if is_new { Ticks::default() } else { ticks };
        self.readings.entry(pid).or_insert((first, ticks)).1 = ticks;
    }

    /// Shares of one processor over so many seconds.
    pub fn shares(&self, seconds: f64) -> Processor {
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let sum = |of: fn(&Ticks) -> u64| -> f64 {
            let ticks = self.readings.values().map(|(first, last)| of(last).saturating_sub(of(first)));
            ticks.sum::<u64>() as f64 / per_second / seconds.max(1e-9)
        };
        Processor { user: sum(|ticks| ticks.user), system: sum(|ticks| ticks.system) }
    }
}

/// Processor seconds that this program and what it started and waited for have used.
pub fn own_s() -> f64 {
    let used = |stat: Stat| stat.utime + stat.stime + (stat.cutime + stat.cstime).unsigned_abs();
    let ticks = Process::myself().and_then(|process| process.stat()).map_or(0, used);
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// What the kernel counts of a process, if it is there.
pub fn stat_of(pid: u32) -> Option<Stat> {
    Process::new(pid.try_into().ok()?).and_then(|process| process.stat()).ok()
}

fn process(pid: u32) -> Option<Ticks> {
    let stat = stat_of(pid)?;
    Some(Ticks { user: stat.utime, system: stat.stime, begun: stat.starttime })
}

/// Since the machine began, sleep included, as `/proc/PID/stat` counts.
fn now_ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    now.tv_sec.unsigned_abs() * per_second + now.tv_nsec.unsigned_abs() * per_second / 1_000_000_000
}

/// The machine's: user and nice, system and interrupts.
fn machine() -> Option<Ticks> {
    let all = KernelStats::current().ok()?.total;
    let interrupts = all.irq.unwrap_or_default() + all.softirq.unwrap_or_default();
    Some(Ticks { user: all.user + all.nice, system: all.system + interrupts, begun: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_later_counts_from_nothing() {
        let mut times = ProcessorTimes::new(false);
        times.note(1, Some(Ticks { user: 1000, system: 500, begun: 10 }));
        times.begun = Some(100);
        times.note(1, Some(Ticks { user: 1100, system: 500, begun: 10 }));
        times.note(2, Some(Ticks { user: 20, system: 80, begun: 120 }));
        // An old process that came into the group later.
        times.note(3, Some(Ticks { user: 7000, system: 7000, begun: 20 }));
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let shares = times.shares(2.0);
        assert!((shares.user - 120.0 / per_second / 2.0).abs() < 1e-12);
        assert!((shares.system - 80.0 / per_second / 2.0).abs() < 1e-12);
    }
}
