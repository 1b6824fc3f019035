//! How two runs differ, by the numbers of their levels.
//!
//! It needs no joined requests, so it also serves contradicted claims and cells of which only the numbers of the layers were kept.
//! It reports the largest changes between the two, level by level, each with its numbers.

use std::fmt;

use nestor_stack::MachineName;
use nestor_statistics::LatencyHistogram;
use nestor_text::units;
use nestor_trace::{LayerMetrics, TracePoint};
use nestor_workload::RateUnit;

use crate::record::{CellRecord, Measured};
use crate::structure::Quantity;
use crate::{WrittenStack, WrittenWorkload};

/// Smaller differences are not reported.
const WORTH_SAYING: f64 = 0.10;
/// The most sentences.
const MOST: usize = 4;
const MIB: f64 = 1_048_576.0;

/// One run as its application and its levels saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLevels {
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Throughput of the application, in its unit per second.
    pub throughput: f64,
    /// What that is in.
    pub unit: RateUnit,
    elapsed_s: f64,
    work: Work,
    operations: f64,
    /// From the topmost to the medium, of each machine the topmost.
    levels: Vec<Level>,
}

/// The work of the application, by which its levels' numbers are divided.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Mib(f64),
    /// Of an application that moved no data.
    ThousandOperations(f64),
}

/// Where a level is, from the topmost down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LevelPlace {
    /// The block layer of another machine than the outermost.
    Machine(MachineName),
    /// The block layer of the outermost machine.
    Host,
    /// The medium.
    Disk,
}

impl LevelPlace {
    /// The block layer of a machine.
    fn of_machine(name: &MachineName) -> Self {
        if *name == MachineName::HOST { Self::Host } else { Self::Machine(name.clone()) }
    }
}

impl fmt::Display for LevelPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk => f.write_str("disk"),
            Self::Host => write!(f, "{}'s block layer", MachineName::HOST),
            Self::Machine(label) => write!(f, "{label}'s block layer"),
        }
    }
}

/// One level of one run.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    place: LevelPlace,
    issued: f64,
    issued_bytes: f64,
    merges: f64,
    read_bytes: f64,
    flushes: f64,
    /// Requests that do not go on where an earlier one ended.
    seeks: Option<f64>,
    queue_ns: Option<f64>,
    service_ns: Option<f64>,
    /// Of a modelled disk: moving the arm, waiting for the sector, transfer.
    arm_ns: Option<[f64; 3]>,
}

/// A sentence and how much the thing it is about changed: a logarithm, above zero if the candidate has more of it.
struct Finding {
    change: f64,
    sentence: String,
}

impl RunLevels {
    /// The levels of a run; `None` if it has no numbers, or nothing below its application was recorded.
    pub fn of(record: &CellRecord) -> Option<Self> {
        let measured = record.measured()?;
        let levels = levels(measured);
        let operations: u64 = measured.load.operations.values().map(|o| o.operations).sum();
        let (bytes, operations) = (measured.load.bytes() as f64, operations as f64);
        let unit = measured.load.rate_unit();
        (!levels.is_empty()).then(|| Self {
            stack: record.stack.clone(),
            workload: record.workload.clone(),
            throughput: measured.load.rate(unit),
            unit,
            elapsed_s: measured.load.elapsed_ns as f64 / 1e9,
            work: if bytes > 0.0 {
                Work::Mib(bytes / MIB)
            } else {
                Work::ThousandOperations(operations.max(1.0) / 1e3)
            },
            operations,
            levels,
        })
    }

    /// Sentences on what differs from a baseline, the most important first.
    pub fn differences(&self, baseline: &Self) -> Vec<String> {
        let mut findings = findings(self, baseline);
        findings.retain(|f| f.change.abs() >= WORTH_SAYING.ln_1p());
        // An increase on the slower side explains it; a decrease is often only its consequence.
        let is_slower = !self.work.same_unit(baseline.work) || self.rate() <= baseline.rate();
        let slower = if is_slower { 1.0 } else { -1.0 };
        let explains = |finding: &Finding| finding.change * slower > 0.0;
        findings
            .sort_by(|a, b| explains(b).cmp(&explains(a)).then(b.change.abs().total_cmp(&a.change.abs())));
        if findings.is_empty() {
            return vec![
                "requests, bytes, queue and service times differ by less than 10 % at every level".to_owned(),
            ];
        }
        findings.into_iter().take(MOST).map(|f| f.sentence).collect()
    }

    /// The requests and bytes at each level, in one sentence.
    pub fn sent(&self) -> String {
        let levels = self.levels.iter().map(|level| {
            format!(
                "{} {:.1} requests and {:.2} MiB, {} merged",
                level.name(),
                self.work.each(level.issued),
                self.work.each(level.issued_bytes / MIB),
                units::percent(level.merged_share())
            )
        });
        format!("per {}: {}", self.work.unit(), levels.collect::<Vec<_>>().join("; "))
    }

    /// What one operation of the application became at each level. Empty if it did none.
    pub(crate) fn for_an_operation(&self) -> Vec<(LevelPlace, Quantity, f64)> {
        if self.operations <= 0.0 {
            return Vec::new();
        }
        let of_level = |level: &Level| {
            let counts = [
                (Quantity::Requests, Some(level.issued)),
                (Quantity::Bytes, Some(level.issued_bytes)),
                (Quantity::Seeks, level.seeks),
                (Quantity::Flushes, Some(level.flushes)),
            ];
            let place = level.place.clone();
            counts.map(|(quantity, count)| Some((place.clone(), quantity, count? / self.operations)))
        };
        self.levels.iter().flat_map(of_level).flatten().collect()
    }

    /// Its throughput: `26.2 MB/s`.
    pub fn throughput_words(&self) -> String {
        self.unit.words(self.throughput)
    }

    /// Work in a second, in the unit of the work.
    fn rate(&self) -> f64 {
        self.work.amount() / self.elapsed_s.max(1e-9)
    }

    fn level(&self, place: &LevelPlace) -> Option<&Level> {
        self.levels.iter().find(|level| level.place == *place)
    }

    /// The lowest level that is known.
    fn lowest(&self) -> Option<&Level> {
        self.level(&LevelPlace::Disk).or_else(|| self.level(&LevelPlace::Host))
    }
}

impl Work {
    fn amount(self) -> f64 {
        match self {
            Self::Mib(amount) | Self::ThousandOperations(amount) => amount,
        }
    }

    fn each(self, number: f64) -> f64 {
        number / self.amount()
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Mib(_) => "MiB of the application",
            Self::ThousandOperations(_) => "1000 operations of the application",
        }
    }

    fn same_unit(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Level {
    fn of(place: LevelPlace, metrics: &LayerMetrics) -> Self {
        let sum = |a: u64, b: u64| a.saturating_add(b) as f64;
        let (read, write) = (&metrics.read, &metrics.write);
        let merges = sum(read.back_merges, read.front_merges) + sum(write.back_merges, write.front_merges);
        let mean = |stage: &Option<LatencyHistogram>| Some(stage.as_ref()?.summary()?.mean_ns);
        Self {
            place,
            issued: sum(read.issued, write.issued),
            issued_bytes: sum(read.issued_bytes, write.issued_bytes),
            merges,
            read_bytes: read.issued_bytes as f64,
            flushes: metrics.flushes as f64,
            seeks: metrics.sequential_share.map(|share| sum(read.issued, write.issued) * (1.0 - share)),
            queue_ns: mean(&metrics.q2d).or_else(|| mean(&metrics.i2d)),
            service_ns: mean(&metrics.d2c),
            arm_ns: metrics
                .arm_work()
                .map(|w| [w.seek_ns as f64, w.rotation_ns as f64, w.transfer_ns as f64]),
        }
    }

    fn name(&self) -> String {
        self.place.to_string()
    }

    fn merged_share(&self) -> f64 {
        self.merges / (self.merges + self.issued).max(1.0)
    }
}

fn levels(measured: &Measured) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    for layer in &measured.layers {
        let Some(metrics) = &layer.metrics else { continue };
        let place = match metrics.trace_point {
            TracePoint::DiskLog => LevelPlace::Disk,
            TracePoint::Blktrace | TracePoint::Tracefs => LevelPlace::of_machine(&layer.machine),
            TracePoint::Application | TracePoint::Hypervisor | TracePoint::LinkLog | TracePoint::Calls => {
                continue;
            }
        };
        if levels.iter().all(|level| level.place != place) {
            levels.push(Level::of(place, metrics));
        }
    }
    levels
}

fn findings(candidate: &RunLevels, baseline: &RunLevels) -> Vec<Finding> {
    let mut findings = Vec::new();
    for here in &candidate.levels {
        if let Some(there) = baseline.level(&here.place) {
            findings.extend(volume((candidate.work, here), (baseline.work, there)));
            findings.extend(time(here, there));
        }
    }
    findings.extend(absorption(candidate, baseline));
    findings.extend(disk_time(candidate, baseline));
    findings.extend(flushes(candidate, baseline));
    findings
}

/// `None` if one of them is zero.
fn change(candidate: f64, baseline: f64) -> Option<f64> {
    (candidate > 0.0 && baseline > 0.0).then(|| (candidate / baseline).ln())
}

/// Requests and bytes at a level, per unit of the application's work.
fn volume((work, level): (Work, &Level), (base_work, base): (Work, &Level)) -> Vec<Finding> {
    if !work.same_unit(base_work) {
        return Vec::new();
    }
    let (name, unit) = (level.name(), work.unit());
    let (requests, base_requests) = (work.each(level.issued), base_work.each(base.issued));
    let (mib, base_mib) = (work.each(level.issued_bytes / MIB), base_work.each(base.issued_bytes / MIB));
    let requests = change(requests, base_requests).map(|change| Finding {
        change,
        sentence: format!(
            "requests at the {name}: {requests:.1} per {unit} against {base_requests:.1} ({} merged against {})",
            units::percent(level.merged_share()),
            units::percent(base.merged_share())
        ),
    });
    let bytes = change(mib, base_mib).map(|change| Finding {
        change,
        sentence: match work {
            Work::Mib(_) => {
                format!("bytes at the {name}: {mib:.2} times the application's against {base_mib:.2} times")
            }
            Work::ThousandOperations(_) => {
                format!("MiB at the {name}: {mib:.2} per {unit} against {base_mib:.2}")
            }
        },
    });
    [requests, bytes].into_iter().flatten().collect()
}

/// Queue and service times of a level's requests.
fn time(candidate: &Level, baseline: &Level) -> Vec<Finding> {
    let name = candidate.name();
    let finding = |what: &str, candidate: Option<f64>, baseline: Option<f64>| {
        let (candidate, baseline) = (candidate?, baseline?);
        // Microseconds in a queue do not matter beside milliseconds of a disk.
        let matters = candidate.max(baseline) > 50_000.0;
        Some(Finding {
            change: change(candidate, baseline).filter(|_| matters)?,
            sentence: format!(
                "{what} at the {name}: {:.2} ms on average against {:.2} ms",
                candidate / 1e6,
                baseline / 1e6
            ),
        })
    };
    let queue = finding("time in the queue", candidate.queue_ns, baseline.queue_ns);
    let service = finding("service time", candidate.service_ns, baseline.service_ns);
    [queue, service].into_iter().flatten().collect()
}

/// The share of the guest's reads that a cache of the host answered.
fn absorption(candidate: &RunLevels, baseline: &RunLevels) -> Option<Finding> {
    let share = |run: &RunLevels| {
        let guest = run.levels.first().filter(|top| matches!(top.place, LevelPlace::Machine(_)))?;
        let below = run.lowest()?;
        (guest.read_bytes > 0.0).then(|| below.read_bytes / guest.read_bytes)
    };
    let (c, b) = (share(candidate)?, share(baseline)?);
    Some(Finding {
        // Reads that memory answered count like any other difference.
        change: ((c + 0.01) / (b + 0.01)).ln(),
        sentence: format!(
            "the disk read {} of the bytes that the guest read against {}; the host's memory answered the \
             rest, or more than 100 % was read ahead into it",
            units::percent(c),
            units::percent(b)
        ),
    })
}

/// How the medium spent its time, per unit of the application's work.
fn disk_time(candidate: &RunLevels, baseline: &RunLevels) -> Option<Finding> {
    if !candidate.work.same_unit(baseline.work) {
        return None;
    }
    let parts = |run: &RunLevels| {
        Some(run.level(&LevelPlace::Disk)?.arm_ns?.map(|part_ns| run.work.each(part_ns / 1e6)))
    };
    let (c, b) = (parts(candidate)?, parts(baseline)?);
    let total = |parts: [f64; 3]| parts.iter().sum::<f64>();
    let busy = |run: &RunLevels, parts: [f64; 3]| total(parts) / 1e3 * run.rate();
    let (c_busy, b_busy) = (busy(candidate, c), busy(baseline, b));
    let share_of_time = if c_busy.max(b_busy) > 1.0 {
        format!("{c_busy:.1} arms at work on average against {b_busy:.1}")
    } else {
        format!("{} of the time against {}", units::percent(c_busy), units::percent(b_busy))
    };
    let [seek, rotation, transfer] = c;
    let [b_seek, b_rotation, b_transfer] = b;
    Some(Finding {
        // The medium's time decides the throughput, so it precedes equally large changes.
        change: change(total(c), total(b))? * 2.0,
        sentence: format!(
            "the disk worked {:.1} ms per {} against {:.1} ms (seek {seek:.1} against {b_seek:.1}, rotation \
             {rotation:.1} against {b_rotation:.1}, transfer {transfer:.1} against {b_transfer:.1}), {share_of_time}",
            total(c),
            candidate.work.unit(),
            total(b),
        ),
    })
}

fn flushes(candidate: &RunLevels, baseline: &RunLevels) -> Option<Finding> {
    let per_operation = |run: &RunLevels| {
        let level = run.lowest()?;
        (run.operations > 0.0).then(|| level.flushes / run.operations * 1_000.0)
    };
    let (c, b) = (per_operation(candidate)?, per_operation(baseline)?);
    Some(Finding {
        change: ((c + 0.1) / (b + 0.1)).ln(),
        sentence: format!(
            "flushes that reached the disk per 1000 operations of the application: {c:.1} against {b:.1}"
        ),
    })
}
