//! Processor time, as `/proc` counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use procfs::process::Stat;

use crate::processes::stat_of;

/// Processor time of a machine since its boot, in ticks of all its processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTimes {
    /// In programs, those with a low priority too.
    pub user: u64,
    /// In the kernel, interrupts included.
    pub system: u64,
    /// In programs, in the kernel, or taken by the hypervisor.
    pub busy: u64,
    /// Taken by the hypervisor for others.
    pub stolen: u64,
    /// Busy, idle or waiting for I/O.
    pub total: u64,
}

impl MachineTimes {
    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user. What is missing
    /// is 0. Samplers keep only this line (`procfs` needs the whole file), and it may come from another machine, so its numbers are not
    /// trusted.
    pub fn parse(stat: &str) -> Self {
        let first = stat.lines().next().unwrap_or_default();
        let mut numbers = [0_u64; 8];
        let found = first.split_whitespace().skip(1).filter_map(|number| number.parse().ok());
        numbers.iter_mut().zip(found).for_each(|(number, found)| *number = found);
        let sum = |numbers: &[u64]| numbers.iter().fold(0, |sum: u64, number| sum.saturating_add(*number));
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = numbers;
        let total = sum(&numbers);
        Self {
            user: sum(&[user, nice]),
            system: sum(&[system, irq, softirq]),
            busy: total - sum(&[idle, iowait]),
            stolen,
            total,
        }
    }

    /// This machine's; `None` where `/proc` cannot be read.
    pub fn now() -> Option<Self> {
        Some(Self::parse(&fs::read_to_string("/proc/stat").ok()?))
    }

    /// The busy share (0 to 1) of the time until a later reading.
    pub fn busy_share_until(self, later: &Self) -> f64 {
        let total = later.total.saturating_sub(self.total);
        if total == 0 { 0.0 } else { later.busy.saturating_sub(self.busy) as f64 / total as f64 }
    }
}

/// Times of a process in ticks.
#[derive(Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
    /// When the process began, since the machine did.
    begun: u64,
}

/// Shares of one processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorShares {
    /// In programs.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// Takes readings and says what was used between the first and the last.
pub struct ProcessorUse {
    /// First and last of each process; of the machine under 0.
    readings: BTreeMap<u32, (Ticks, Ticks)>,
    everybody: bool,
    /// When the first reading was, in ticks since the machine began.
    begun: Option<u64>,
}

impl ProcessorUse {
    /// Of the whole machine, or of processes.
    pub fn new(everybody: bool) -> Self {
        Self { readings: BTreeMap::new(), everybody, begun: None }
    }

    /// Reads the times of these processes, or of the machine.
    pub fn read(&mut self, processes: &BTreeSet<u32>) {
        let now = now_ticks();
        if self.everybody {
            self.note(0, MachineTimes::now().map(Ticks::from));
        } else {
            for pid in processes {
                self.note(*pid, stat_of(*pid).map(Ticks::from));
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

    /// What was used, over so many seconds.
    pub fn shares(&self, seconds: f64) -> ProcessorShares {
        let sum = |of: fn(&Ticks) -> u64| -> f64 {
            let ticks = self.readings.values().map(|(first, last)| of(last).saturating_sub(of(first)));
            ticks.sum::<u64>() as f64 / per_second() as f64 / seconds.max(1e-9)
        };
        ProcessorShares { user: sum(|ticks| ticks.user), system: sum(|ticks| ticks.system) }
    }
}

/// Processor seconds that this program and what it started and waited for have used.
pub fn own_s() -> f64 {
    let used = |stat: Stat| stat.utime + stat.stime + (stat.cutime + stat.cstime).unsigned_abs();
    stat_of(std::process::id()).map_or(0, used) as f64 / per_second() as f64
}

/// The time of so many ticks of `/proc`.
pub(crate) fn ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / per_second() as f64)
}

fn per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Since the machine began, sleep included, as `/proc/PID/stat` counts.
fn now_ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs() * per_second() + now.tv_nsec.unsigned_abs() * per_second() / 1_000_000_000
}

impl From<Stat> for Ticks {
    fn from(stat: Stat) -> Self {
        Self { user: stat.utime, system: stat.stime, begun: stat.starttime }
    }
}

impl From<MachineTimes> for Ticks {
    fn from(MachineTimes { user, system, .. }: MachineTimes) -> Self {
        Self { user, system, begun: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_later_counts_from_nothing() {
        let mut times = ProcessorUse::new(false);
        times.note(1, Some(Ticks { user: 1000, system: 500, begun: 10 }));
        times.begun = Some(100);
        times.note(1, Some(Ticks { user: 1100, system: 500, begun: 10 }));
        times.note(2, Some(Ticks { user: 20, system: 80, begun: 120 }));
        // An old process that came into the group later.
        times.note(3, Some(Ticks { user: 7000, system: 7000, begun: 20 }));
        let shares = times.shares(2.0);
        assert!((shares.user - 120.0 / per_second() as f64 / 2.0).abs() < 1e-12);
        assert!((shares.system - 80.0 / per_second() as f64 / 2.0).abs() < 1e-12);
    }

    #[test]
    fn waiting_for_a_disk_is_not_busy() {
        let before = MachineTimes::parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n");
        let after = MachineTimes::parse("cpu  130 0 70 820 80 0 0 0 0 0\n");
        assert_eq!(before, MachineTimes { user: 100, system: 50, busy: 150, stolen: 0, total: 1000 });
        assert_eq!(before.busy_share_until(&after), 0.5);
        assert_eq!(before.busy_share_until(&before), 0.0);
    }

    #[test]
    fn numbers_at_the_end_of_64_bits_are_counted_without_overflow() {
        let most = u64::MAX;
        let stat = format!("cpu  {most} {most} {most} {most} {most} 1 1 1\n");
        assert_eq!(
            MachineTimes::parse(&stat),
            MachineTimes { user: most, system: most, busy: 0, stolen: 1, total: most }
        );
    }
}
