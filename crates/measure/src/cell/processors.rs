//! How busy each machine's processors are while the workload's I/O runs; in virtual time also what they execute meanwhile.
//!
//! A workload engine's own start and end are processor work too, under emulation seconds of it, so each machine is sampled and
//! only the samples between the first and the last I/O of its topmost block device count; of a client without one, those between
//! the first and the last call of its network file system. The samples are taken in the machine (`nestor trace processors`), in its own time: requests from outside would arrive at unpredictable moments.

use std::time::Duration;

use nestor_kernel::processor_time::MachineTimes;
use nestor_lab::{BuiltFileSystem, BuiltStack};
use nestor_machine::{Command, Machine, MachineError, ReadySign};
use nestor_processor::WhyNotCounted;
use nestor_stack::{MachineLabel, MachineName};

/// Most milliseconds between samples: short against a run, long against what a sample costs an emulated machine. The sampler takes
/// more of them where I/O has just begun.
const INTERVAL_MS: u64 = 400;

/// How long a sampler may take to begin.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long a sampler may take to end.
const STOP_LIMIT_MS: u64 = 5_000;

/// The result of a sampler: its machine, the busy share, and the time whose instructions count.
type Seen = (MachineName, f64, Option<Result<MarkedWindow, WhyNotCounted>>);

/// Samplers that run until they are stopped, outermost first.
pub(super) struct ProcessorWatch(Vec<Sampler>);

/// One machine's.
struct Sampler {
    machine: Machine,
    label: MachineLabel,
    process: u32,
    /// Its samples, on the machine.
    file: String,
    /// Whether instructions are counted at each sample.
    is_marking: bool,
}

/// The results of all samplers while I/O ran.
pub(super) struct Processors {
    /// The busy share (0 to 1) of each machine, outermost first.
    pub busy: Vec<(MachineName, f64)>,
    /// The time whose instructions count, or why it is not known, if samples were marked.
    pub window: Option<Result<MarkedWindow, WhyNotCounted>>,
}

/// A time between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkedWindow {
    /// Which mark it begins with, and which one it ends with, counted from 0.
    pub marks: (usize, usize),
    /// In the clock of the machine that marked.
    pub elapsed_ns: u64,
    /// Requests that the topmost block device of that machine, or calls that its network file system, has completed meanwhile.
    pub requests: u64,
}

/// One machine at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    processors: MachineTimes,
    /// Requests that the machine's topmost block device, or calls that its network file system, has completed.
    requests: u64,
    /// The machine's clock.
    at_ns: u64,
}

impl ProcessorWatch {
    /// Starts sampling the machines of a stack.
    pub(super) fn start(built: &BuiltStack) -> Result<Self, MachineError> {
        let mut samplers = Self(Vec::new());
        for (index, place) in built.machines.indexed() {
            let file = format!("{}/processors.txt", place.facts.work_directory);
            let interval = format!("--interval-ms={INTERVAL_MS}");
            let mut argv = vec!["{nestor}", "trace", "processors", "--output", &file, &interval];
            // A client has what it asks its server for, and no device.
            let is_mounted = |file_system: &&BuiltFileSystem| {
                file_system.machine == index && file_system.exported.is_some()
            };
            if let Some(point) = built.points.iter().rfind(|point| point.machine == index) {
                argv.extend(["--device", &point.device]);
            } else if let Some(mounted) = built.file_systems.iter().rfind(is_mounted) {
                argv.extend(["--nfs", &mounted.mounting.target]);
            }
            // The application's own machine shows when I/O runs.
            let is_marking = built.time.is_virtual() && index == built.top_index;
            if is_marking {
                argv.push("--mark");
            }
            let said = format!("{file}.log");
            let machine = place.machine.clone();
            let started = machine.start_process(Command::new(argv), &said).and_then(|process| {
                let sampler =
                    Sampler { machine, label: place.label, process, file: file.clone(), is_marking };
                samplers.0.push(sampler);
                // A short run may be over before a slow machine has started it.
                place.machine.await_ready(process, ReadySign::File(file), START_LIMIT)
            });
            if let Err(e) = started {
                let _ = samplers.finish();
                return Err(e);
            }
        }
        Ok(samplers)
    }

    /// Ends the sampling.
    pub(super) fn finish(self) -> Result<Processors, MachineError> {
        // The outermost began first, so it ends last. All of them end, also where one has failed.
        let ended: Vec<_> = self.0.into_iter().rev().map(Sampler::finish).collect();
        let mut seen = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
        seen.reverse();
        let window = seen.iter().flatten().find_map(|(_, _, window)| *window);
        Ok(Processors {
            busy: seen.into_iter().flatten().map(|(label, share, _)| (label, share)).collect(),
            window,
        })
    }
}

impl Sampler {
    fn finish(self) -> Result<Option<Seen>, MachineError> {
        self.machine.stop_process(self.process, STOP_LIMIT_MS)?;
        let text = self.machine.read_file(&self.file)?;
        let samples = parse(&String::from_utf8_lossy(&text));
        let found = while_io_ran(&samples);
        let marks = match found {
            WhileIo::Within(first, last) | WhileIo::Around(first, last) => (first, last),
            WhileIo::Never => (0, samples.len().saturating_sub(1)),
        };
        let (Some(first), Some(last)) = (samples.get(marks.0), samples.get(marks.1)) else { return Ok(None) };
        let window = match found {
            WhileIo::Within(..) => Ok(MarkedWindow {
                marks,
                elapsed_ns: last.at_ns.saturating_sub(first.at_ns),
                requests: last.requests.saturating_sub(first.requests),
            }),
            WhileIo::Around(..) => Err(WhyNotCounted::TooShort),
            WhileIo::Never => Err(WhyNotCounted::NoRequests),
        };
        let share = first.processors.busy_share_until(&last.processors);
        Ok(Some((self.label.into(), share, self.is_marking.then_some(window))))
    }
}

/// Reads what a sampler wrote: for each sample a line of `/proc/stat`, one with the requests completed and one of the clock.
fn parse(text: &str) -> Vec<Sample> {
    let lines: Vec<&str> = text.lines().collect();
    // Its last sample may have been cut.
    let whole = lines.chunks_exact(3);
    whole
        .map(|lines| Sample {
            processors: MachineTimes::parse(lines[0]),
            requests: lines[1].parse().unwrap_or_default(),
            at_ns: lines[2].parse().unwrap_or_default(),
        })
        .collect()
}

/// Per cent of the requests that are excluded at each end: reads to open files and writes to close them.
const EDGES_PERCENT: u64 = 1;

/// Between which samples I/O ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhileIo {
    /// From a sample after I/O began to one before it ended: all the time between belongs to it.
    Within(usize, usize),
    /// I/O was too short for the samples to resolve; these enclose it.
    Around(usize, usize),
    /// No request was seen.
    Never,
}

fn while_io_ran(samples: &[Sample]) -> WhileIo {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return WhileIo::Never };
    let all = last.requests.saturating_sub(first.requests);
    let edge = all / 100 * EDGES_PERCENT;
    let done = |at: usize| samples[at].requests.saturating_sub(first.requests);
    // The first interval in which more was completed than belongs to the edge, and the last.
    let begin = (1..samples.len()).find(|at| done(*at) > edge);
    let end = (0..samples.len()).rfind(|at| done(*at) < all - edge);
    match (begin, end) {
        // I/O fills the intervals in which it began and ended only in part.
        (Some(begin), Some(end)) if end >= begin + 2 => WhileIo::Within(begin, end),
        (Some(begin), Some(end)) => WhileIo::Around(begin - 1, (end + 1).min(samples.len() - 1)),
        _ => WhileIo::Never,
    }
}

/// Reads and writes completed, from `/sys/class/block/DEVICE/stat` (Documentation/block/stat.rst).
pub fn completed_requests(stat: &str) -> u64 {
    let fields: Vec<u64> = stat.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    fields.first().copied().unwrap_or_default().saturating_add(fields.get(4).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_end_of_64_bits_are_counted_without_overflow() {
        let most = u64::MAX;
        assert_eq!(completed_requests(&format!("{most} 0 0 0 {most}")), most);
    }

    /// One after the other, with so many requests completed.
    fn samples<const N: usize>(requests: [u64; N]) -> Vec<Sample> {
        let idle = |total| MachineTimes { total, ..MachineTimes::default() };
        let sample = |(requests, at)| Sample { processors: idle(at), requests, at_ns: 0 };
        requests.into_iter().zip(0..).map(sample).collect()
    }

    #[test]
    fn only_the_time_of_the_io_counts() {
        let samples = samples([5, 5, 5, 9, 20, 30, 40, 41, 41, 41]);
        assert_eq!(while_io_ran(&samples), WhileIo::Within(3, 6));
        assert_eq!(
            while_io_ran(&samples[..4]),
            WhileIo::Around(2, 3),
            "one interval with I/O is all there is"
        );
        assert_eq!(while_io_ran(&samples[7..]), WhileIo::Never);
        assert_eq!(while_io_ran(&[]), WhileIo::Never);
    }

    #[test]
    fn what_opens_and_closes_files_is_not_the_workloads_io() {
        let samples = samples([0, 3, 3, 3, 300, 600, 900, 997, 997, 1000]);
        assert_eq!(while_io_ran(&samples), WhileIo::Within(4, 6));
    }

    #[test]
    fn a_sample_that_was_cut_is_left_out() {
        let text = "cpu  1 0 0 9 0 0 0 0 0 0\n7\n70\ncpu  3 0 0 9 0 0 0 0 0 0\n\n90\ncpu  4 0 0 9\n1 0";
        let samples = parse(text);
        let requests: Vec<u64> = samples.iter().map(|sample| sample.requests).collect();
        assert_eq!(requests, [7, 0], "a machine without I/O of its own has an empty line");
        assert_eq!(samples[1].at_ns, 90);
        assert_eq!((samples[1].processors.busy, samples[1].processors.total), (3, 12));
    }

    #[test]
    fn requests_are_reads_and_writes() {
        let stat = "    8192    0  1048576   100   500   3   40960   20   0   110   120  0 0 0 0  2 1\n";
        assert_eq!(completed_requests(stat), 8692);
        assert_eq!(completed_requests(" 81 0 10 1 5 3 4"), 86);
        assert_eq!(completed_requests("nonsense"), 0);
    }
}
