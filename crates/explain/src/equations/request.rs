//! Equations 2 and 3: the time of a request by where it was.

use std::collections::BTreeMap;

use nestor_correlate::{Correlation, Level, LevelIndex, LevelKind, Passed};
use nestor_stack::MachineName;
use nestor_trace::Operation;
use serde::Serialize;

use super::answer::{NotKnown, Why};
use super::{Runs, conserved};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// T_BDF(GOS): in the machine of the workload, from being queued there until the next machine sees it, and on the way back.
    FrontEnd,
    /// T_BBD(HOS): in the hypervisor and the layers of the host below it.
    BackEnd,
    /// T_disk_cost: at the medium, in its queue and served.
    Disk,
}

/// Equations 2 and 3, of all runs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestTime {
    /// The levels of each side, as layer and what was recorded there, topmost first.
    pub levels: BTreeMap<Side, Vec<String>>,
    /// By what was asked for. Operations of different kinds are never added up.
    pub operations: Vec<OperationTime>,
    /// By what share the times of reads, writes and discards are off those that were recorded at the topmost level, signed.
    pub off: f64,
}

/// The requests of one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationTime {
    /// Which.
    pub operation: Operation,
    /// Requests of the topmost level.
    pub requests: u64,
    /// Those to which nothing at the medium belongs: a cache answered them, or what the host wrote meanwhile is not known to be for them.
    pub without_disk: u64,
    /// Sum of their times, ns.
    pub whole_ns: u64,
    /// Its parts, which add up to it.
    pub sides: BTreeMap<Side, SideTime>,
    /// The lowest and the highest mean time of a run, ns, where there are several.
    pub mean_of_runs_ns: Option<[f64; 2]>,
}

/// Sums over requests of the time on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SideTime {
    /// All of it, ns.
    pub ns: u64,
    /// The part of it in queues, ns.
    pub queued_ns: u64,
}

impl Side {
    /// All, from the guest down.
    pub const ALL: [Self; 3] = [Self::FrontEnd, Self::BackEnd, Self::Disk];

    /// In words. Without a second machine there is one block driver and not two ends of one.
    pub const fn name(self, has_back_end: bool) -> &'static str {
        match self {
            Self::FrontEnd if !has_back_end => "block driver",
            Self::FrontEnd => "front end",
            Self::BackEnd => "back end",
            Self::Disk => "disk",
        }
    }
}

impl OperationTime {
    /// Mean of the time on a side, ns.
    pub fn mean_ns(&self, side: Side) -> f64 {
        self.sides.get(&side).map_or(0.0, |time| time.ns as f64 / self.requests.max(1) as f64)
    }
}

impl RequestTime {
    /// Whether requests go from one machine to another: otherwise there is no back end, and equation 3 has nothing to divide.
    pub fn has_back_end(&self) -> bool {
        self.levels.contains_key(&Side::BackEnd)
    }

    /// All requests together, ns. Only to be held against what the processor executed for all of them.
    pub fn together_ns(&self, side: Side) -> u64 {
        self.operations.iter().filter_map(|one| one.sides.get(&side)).map(|time| time.ns).sum()
    }

    pub(super) fn of(runs: &Runs<'_>) -> Result<Self, NotKnown> {
        let correlations: Vec<&Correlation> =
            runs.measured.iter().filter_map(|(_, measured)| measured.correlation.as_ref()).collect();
        if correlations.is_empty() || correlations.iter().any(|one| one.passage.is_empty()) {
            return Err(NotKnown {
                why: Why::NotKept,
                words:
                    "the run was recorded by a version that did not keep at which levels a request's time was"
                        .to_owned(),
                mend: runs.measure_again(""),
            });
        }
        let mut sums: BTreeMap<Operation, Passed> = BTreeMap::new();
        for (operation, passed) in correlations.iter().flat_map(|one| &one.passage.operations) {
            sums.entry(*operation).or_default().add(passed);
        }
        let first = correlations[0];
        let sides = sides(&first.levels, first.passage.level);
        let operations: Vec<OperationTime> = sums
            .into_iter()
            .map(|(operation, passed)| {
                let mean_of_runs_ns = range_of_means(&correlations, operation);
                OperationTime { mean_of_runs_ns, ..divided(operation, &passed, &sides) }
            })
            .collect();
        let off = check(&operations, &correlations, &runs.measure_again(""))?;
        Ok(Self { levels: names(&first.levels, first.passage.level, &sides), operations, off })
    }
}

/// The sides of a level: where requests wait in its queue, and where they are once it has issued them.
type SidesOfLevel = [Side; 2];

/// The sides of the levels from the topmost divided one down.
fn sides(levels: &[Level], top: LevelIndex) -> Vec<SidesOfLevel> {
    let divided = &levels[top.position().min(levels.len())..];
    let machine = divided.first().map(|level| &level.machine);
    let mut side = Side::FrontEnd;
    let mut sides = Vec::new();
    for (at, level) in divided.iter().enumerate() {
        let is_other = machine.is_some_and(|machine| *machine != level.machine);
        if level.kind == LevelKind::Hypervisor || is_other {
            side = Side::BackEnd;
        }
        let is_lowest = at + 1 == divided.len();
        sides.push(match level.kind {
            LevelKind::Medium => [Side::Disk; 2],
            // The medium itself was not recorded: what its device was given is with it.
            _ if is_lowest => [side, Side::Disk],
            _ => [side; 2],
        });
    }
    sides
}

fn names(levels: &[Level], top: LevelIndex, sides: &[SidesOfLevel]) -> BTreeMap<Side, Vec<String>> {
    let mut names: BTreeMap<Side, Vec<String>> = BTreeMap::new();
    for (level, level_sides) in levels.iter().skip(top.position()).zip(sides) {
        let place = match &level.kind {
            LevelKind::Other(_) if level.machine != MachineName::Unknown => level.machine.to_string(),
            kind => kind.to_string(),
        };
        let mut of_level = level_sides.to_vec();
        of_level.dedup();
        for side in of_level {
            names.entry(side).or_default().push(format!("{} ({place})", level.layer));
        }
    }
    names
}

fn divided(operation: Operation, passed: &Passed, sides: &[SidesOfLevel]) -> OperationTime {
    let mut times: BTreeMap<Side, SideTime> = BTreeMap::new();
    for (level, [queued, issued]) in passed.levels.iter().zip(sides) {
        let waiting = times.entry(*queued).or_default();
        waiting.ns += level.queued_ns;
        waiting.queued_ns += level.queued_ns;
        times.entry(*issued).or_default().ns += level.issued_ns;
    }
    OperationTime {
        operation,
        requests: passed.requests,
        without_disk: passed.without_lowest,
        whole_ns: passed.whole_ns,
        sides: times,
        mean_of_runs_ns: None,
    }
}

fn range_of_means(correlations: &[&Correlation], operation: Operation) -> Option<[f64; 2]> {
    let of_run = |one: &&Correlation| {
        let passed = one.passage.operations.get(&operation)?;
        Some(passed.whole_ns as f64 / passed.requests.max(1) as f64)
    };
    let means: Vec<f64> = correlations.iter().filter_map(of_run).collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(0.0, f64::max);
    (means.len() > 1).then_some([low, high])
}

/// Holds the parts against the requests' own times, and these against the times that the first reading of the topmost level
/// recorded, which knows nothing of joins.
fn check(operations: &[OperationTime], correlations: &[&Correlation], mend: &str) -> Result<f64, NotKnown> {
    for one in operations {
        let parts: u64 = one.sides.values().map(|side| side.ns).sum();
        let whole = format!("the time of the {} requests to {}", one.requests, one.operation.word());
        conserved(parts as f64, one.whole_ns as f64, &whole, mend.to_owned())?;
    }
    let sum_ns = |histogram| crate::evidence::sum_ns(&Some(histogram));
    let recorded = |one: &&Correlation| {
        let times = one.times.get(one.passage.level.position())?;
        Some(sum_ns(times.queue.clone()) + sum_ns(times.service.clone()))
    };
    let Some(recorded_ns) = correlations.iter().map(recorded).sum::<Option<f64>>() else { return Ok(0.0) };
    // Flushes are not among the recorded times.
    let with_data = operations.iter().filter(|one| one.operation != Operation::Flush);
    let parts: u64 = with_data.flat_map(|one| one.sides.values()).map(|side| side.ns).sum();
    let whole = "the recorded time of the topmost level's requests";
    conserved(parts as f64, recorded_ns, whole, mend.to_owned())
}
