//! How busy each machine's processors are while the workload's I/O runs.
//!
//! A workload engine's own start and end are processor work too, under emulation seconds of it, so the machines are
//! sampled and only the samples between the first and the last I/O of the topmost block device count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nestor_build::BuiltStack;
use nestor_machine::{Machine, MachineError};

/// Pause between samples: short against a run, long against what a sample costs an emulated machine.
const INTERVAL: Duration = Duration::from_millis(400);

/// Samples in the background until it is stopped.
pub(super) struct ProcessorWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Sample>, MachineError>>,
    labels: Vec<String>,
}

/// All machines at about one moment.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    /// Outermost first.
    processors: Vec<ProcessorTimes>,
    /// Requests that the topmost block device has completed.
    requests: u64,
}

/// Processor time of a machine since its boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessorTimes {
    busy: u64,
    total: u64,
}

impl ProcessorWatch {
    /// Starts sampling the machines of a stack.
    pub(super) fn start(built: &BuiltStack) -> Self {
        let machines: Vec<Machine> = built.machines.iter().map(|m| m.machine.clone()).collect();
        let labels = built.machines.iter().map(|m| m.label.clone()).collect();
        let device_stat = built
            .points
            .last()
            .map(|point| format!("/sys/class/block/{}/stat", point.device.trim_start_matches("/dev/")));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut samples = vec![sample(&machines, device_stat.as_deref())?];
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(INTERVAL);
                samples.push(sample(&machines, device_stat.as_deref())?);
            }
            Ok(samples)
        });
        Self { stop, thread, labels }
    }

    /// Ends the sampling; the busy share (0 to 1) of each machine, outermost first.
    pub(super) fn finish(self) -> Result<Vec<(String, f64)>, MachineError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let samples = self.thread.join().unwrap_or_else(|_| Ok(Vec::new()))?;
        let Some((first, last)) = while_io_ran(&samples) else { return Ok(Vec::new()) };
        let shares = first
            .processors
            .iter()
            .zip(&last.processors)
            .map(|(before, after)| before.busy_share_until(after));
        Ok(self.labels.into_iter().zip(shares).collect())
    }
}

fn sample(machines: &[Machine], device_stat: Option<&str>) -> Result<Sample, MachineError> {
    let text = |machine: &Machine, path: &str| {
        machine.read_file(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let processors = machines
        .iter()
        .map(|machine| text(machine, "/proc/stat").map(|stat| ProcessorTimes::parse(&stat)))
        .collect::<Result<_, _>>()?;
    let requests = match (machines.last(), device_stat) {
        (Some(top), Some(path)) => completed_requests(&text(top, path)?),
        _ => 0,
    };
    Ok(Sample { processors, requests })
}

/// The last sample before I/O began and the first after it ended; all of them if none saw any.
fn while_io_ran(samples: &[Sample]) -> Option<(&Sample, &Sample)> {
    let (first, last) = (samples.first()?, samples.last()?);
    let moved = |pair: &[Sample]| pair[1].requests > pair[0].requests;
    let begin = samples.windows(2).position(moved);
    let end = samples.windows(2).rposition(moved);
    match (begin, end) {
        // The interval in which I/O began is half start-up; it is left out where enough others remain.
        (Some(begin), Some(end)) if end >= begin + 3 => Some((&samples[begin + 1], &samples[end])),
        (Some(begin), Some(end)) => Some((&samples[begin], &samples[end + 1])),
        _ => Some((first, last)),
    }
}

/// Reads and writes completed, from `/sys/class/block/DEVICE/stat` (Documentation/block/stat.rst).
fn completed_requests(stat: &str) -> u64 {
    let fields: Vec<u64> = stat.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    fields.first().copied().unwrap_or_default().saturating_add(fields.get(4).copied().unwrap_or_default())
}

impl ProcessorTimes {
    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user.
    fn parse(stat: &str) -> Self {
        let first = stat.lines().next().unwrap_or_default();
        let numbers: Vec<u64> =
            first.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
        // Another machine says them, so they may be anything.
        let sum =
            |numbers: &mut dyn Iterator<Item = &u64>| numbers.fold(0, |sum: u64, n| sum.saturating_add(*n));
        let total = sum(&mut numbers.iter());
        let idle = sum(&mut numbers.iter().skip(3).take(2));
        Self { busy: total - idle, total }
    }

    fn busy_share_until(self, later: &Self) -> f64 {
        let total = later.total.saturating_sub(self.total);
        if total == 0 { 0.0 } else { later.busy.saturating_sub(self.busy) as f64 / total as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_not_busy() {
        let before = ProcessorTimes::parse("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n");
        let after = ProcessorTimes::parse("cpu  130 0 70 820 80 0 0 0 0 0\n");
        assert_eq!(before, ProcessorTimes { busy: 150, total: 1000 });
        assert_eq!(before.busy_share_until(&after), 0.5);
        assert_eq!(before.busy_share_until(&before), 0.0);
    }

    #[test]
    fn numbers_at_the_end_of_64_bits_are_counted_without_overflow() {
        let most = u64::MAX;
        let stat = format!("cpu  {most} {most} {most} {most} {most} 1 1 1\n");
        assert_eq!(ProcessorTimes::parse(&stat), ProcessorTimes { busy: 0, total: most });
        assert_eq!(completed_requests(&format!("{most} 0 0 0 {most}")), most);
    }

    #[test]
    fn only_the_time_of_the_io_counts() {
        let sample =
            |total, requests| Sample { processors: vec![ProcessorTimes { busy: 0, total }], requests };
        let totals = |samples: &[Sample]| {
            while_io_ran(samples).map(|(a, b)| (a.processors[0].total, b.processors[0].total))
        };
        let requests = [5, 5, 5, 9, 20, 30, 40, 41, 41, 41];
        let samples: Vec<Sample> = requests.iter().zip(0..).map(|(r, t)| sample(t, *r)).collect();
        assert_eq!(totals(&samples), Some((3, 6)));
        assert_eq!(totals(&samples[..4]), Some((2, 3)), "one interval with I/O is all there is");
        assert_eq!(totals(&samples[7..]), Some((7, 9)), "no I/O seen");
        assert_eq!(totals(&[]), None);
    }

    #[test]
    fn requests_are_reads_and_writes() {
        let stat = "    8192    0  1048576   100   500   3   40960   20   0   110   120  0 0 0 0  2 1\n";
        assert_eq!(completed_requests(stat), 8692);
    }
}
