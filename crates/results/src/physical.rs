//! Is this number physically plausible?
//!
//! Before any statistic, this module checks whether the storage can have given the number: whether the data reached the
//! medium or stayed in memory, whether the medium can be that fast, and what set the pace (Traeger, Zadok, Joukov and
//! Wright, A Nine Year Study of File System and Storage Benchmarking, ACM TOS 4(2), 2008).

mod beyond;
mod limits;
mod medium;
mod pattern;

use nestor_stack::MachineName;
use nestor_text::units;
use nestor_workload::Direction;
use serde::{Deserialize, Serialize};

use crate::Environment;
use crate::checks::{self, CACHED_BELOW, CPU_BOUND_ABOVE};
use crate::record::{CellRecord, Mark, Measured};
use medium::MediumFacts;
use pattern::Pattern;

/// A direction with a smaller share of the application's bytes than this is not judged.
const MATTERS_FROM: f64 = 0.10;
/// Less data than this is not judged: one read-ahead window or one journal commit outweighs it.
const SMALLEST_VOLUME_BYTES: u64 = 1 << 20;
/// Tolerance: a limit counts as exceeded only beyond this share.
const TOLERANCE: f64 = 0.05;
/// If a smaller share of the application's bytes reached the medium, the number describes a memory.
const MOSTLY_FROM: f64 = 0.50;
/// A medium that was busy for a smaller share of the time than this did not set the pace alone.
const PACED_FROM: f64 = 0.50;

/// The answer to "Physically plausible?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhysicalVerdict {
    /// The medium can have given the number, and the recording shows that it did.
    Yes,
    /// The number describes a cache or a medium that takes no time, or it contradicts itself.
    No,
    /// Too little was recorded to tell.
    CannotTell,
}

/// The answer, and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Physical {
    /// The answer.
    pub verdict: PhysicalVerdict,
    /// Why, the strongest reason first.
    pub sentences: Vec<String>,
}

impl PhysicalVerdict {
    /// As it is printed.
    pub fn words(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::CannotTell => "cannot tell",
        }
    }
}

impl Physical {
    /// Of one run.
    pub fn of(record: &CellRecord) -> Self {
        let Some(measured) = record.measured() else {
            return Self::because(
                PhysicalVerdict::CannotTell,
                "the run failed, so it has no numbers".to_owned(),
            );
        };
        let stack = record.stack.value();
        let run = Run {
            measured,
            environment: &record.environment,
            medium: MediumFacts::of(stack, measured, &record.environment),
            pattern: Pattern::of(stack, record.workload.value()),
            reads_leave: stack.is_some_and(|stack| stack.reads_leave_at().is_some()),
        };
        let wrong = run.reasons_against(&record.marks);
        if !wrong.is_empty() {
            return Self { verdict: PhysicalVerdict::No, sentences: wrong };
        }
        let doubt = run.only_its_own_cache();
        let told = run.medium.is_seen() && doubt.is_none();
        let verdict = if told { PhysicalVerdict::Yes } else { PhysicalVerdict::CannotTell };
        Self { verdict, sentences: doubt.into_iter().chain(run.what_it_rests_on()).collect() }
    }

    /// Of several runs of one cell: a "no" of any counts, and otherwise a "yes" of any, because the others are of runs of
    /// which less was recorded. Untraced repeats are left out. `None` without runs.
    pub fn of_runs(records: &[&CellRecord]) -> Option<Self> {
        let answers: Vec<Self> = records.iter().filter(|r| !r.untraced_twin).map(|r| Self::of(r)).collect();
        let strongest = [PhysicalVerdict::No, PhysicalVerdict::Yes, PhysicalVerdict::CannotTell];
        let verdict = strongest.into_iter().find(|v| answers.iter().any(|a| a.verdict == *v))?;
        let of_it: Vec<&Self> = answers.iter().filter(|a| a.verdict == verdict).collect();
        let mut answer = of_it.get(of_it.len() / 2).copied()?.clone();
        if verdict == PhysicalVerdict::No && of_it.len() < answers.len() {
            answer.sentences.push(format!("so in {} of {} runs", of_it.len(), answers.len()));
        }
        Some(answer)
    }

    /// `yes: 142 requests/s at …; working set 2.1 x all memory`.
    pub fn words(&self) -> String {
        if self.sentences.is_empty() {
            return self.verdict.words().to_owned();
        }
        format!("{}: {}", self.verdict.words(), self.sentences.join("; "))
    }

    fn because(verdict: PhysicalVerdict, sentence: String) -> Self {
        Self { verdict, sentences: vec![sentence] }
    }
}

/// A run with what is known of its medium.
struct Run<'a> {
    measured: &'a Measured,
    environment: &'a Environment,
    medium: MediumFacts<'a>,
    pattern: Pattern,
    /// Whether reads may go to another machine's disk.
    reads_leave: bool,
}

impl Run<'_> {
    fn reasons_against(&self, marks: &[Mark]) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.medium.takes_no_time() {
            reasons.push(
                "the medium takes no time (null), so this is the speed of the layers above it".to_owned(),
            );
        }
        reasons.extend(marks.iter().filter_map(|mark| match mark {
            Mark::Inconsistent { reason } => Some(format!("the run contradicts itself: {reason}")),
            _ => None,
        }));
        reasons
            .extend(self.out_of_memory().filter(|(share, _)| *share < MOSTLY_FROM).map(|(_, words)| words));
        reasons.extend(self.beyond_the_medium());
        reasons
    }

    /// Data that memory kept or supplied in place of the medium: the share of the bytes that reached the medium, and a
    /// sentence.
    fn out_of_memory(&self) -> impl Iterator<Item = (f64, String)> {
        Direction::BOTH.into_iter().filter_map(|direction| self.kept_in_memory(direction))
    }

    /// The application's bytes of one direction that never reached the medium.
    fn kept_in_memory(&self, direction: Direction) -> Option<(f64, String)> {
        let medium = self.medium.metrics.filter(|_| !(self.reads_leave && direction == Direction::Read))?;
        let bytes = self.measured.load.bytes_of(direction).unwrap_or(0);
        let all = self.measured.load.bytes();
        if bytes < SMALLEST_VOLUME_BYTES || (bytes as f64) < MATTERS_FROM * all as f64 {
            return None;
        }
        let issued_bytes = |m: &nestor_trace::LayerMetrics| checks::metrics_of(m, direction).issued_bytes;
        let share = issued_bytes(medium) as f64 / bytes as f64;
        if share >= CACHED_BELOW {
            return None;
        }
        // The uppermost trace point that lacks them shows whose memory it was.
        let missing = checks::traced_below_application(self.measured)
            .find(|(_, m)| (issued_bytes(m) as f64) < CACHED_BELOW * bytes as f64);
        let machine = missing.map_or(&MachineName::HOST, |(layer, _)| &layer.machine);
        let (verb, other) = match direction {
            Direction::Read => ("read came from", "the rest from"),
            Direction::Write => ("written reached", "the rest stayed in"),
        };
        let (part, volume, medium) = (units::percent(share), units::bytes(bytes), self.medium.name());
        let words =
            format!("{part} of the {volume} {verb} the {medium}, {other} the memory of the {machine}");
        Some((share, words))
    }

    fn what_it_rests_on(&self) -> Vec<String> {
        let mut sentences = vec![self.medium.words()];
        sentences.extend(self.spared_the_arm());
        sentences.extend(self.answered_by_memory());
        sentences.extend(self.out_of_memory().map(|(_, words)| words));
        sentences.extend(self.paced_by_processors());
        sentences.extend(self.working_set());
        sentences
    }

    /// Processors that were busy while the medium was not.
    fn paced_by_processors(&self) -> Option<String> {
        let (machine, busy) = self.measured.cpu_busy.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let idle_medium = self.medium.busy_share().is_some_and(|share| share < PACED_FROM);
        (idle_medium && *busy > CPU_BOUND_ABOVE).then(|| {
            format!(
                "the processors of the {machine} set the pace, busy {} of the time",
                units::percent(*busy)
            )
        })
    }

    fn working_set(&self) -> Option<String> {
        let memory: u64 = self.environment.machines.iter().map(|m| m.memory_bytes).sum();
        let working_set = self.measured.load.working_set_bytes;
        if memory == 0 || working_set == 0 {
            return None;
        }
        let ratio = working_set as f64 / memory as f64;
        let ratio = match ratio {
            r if r < 0.01 => "under 0.01".to_owned(),
            r if r < 0.095 => format!("{r:.2}"),
            r => format!("{r:.1}"),
        };
        Some(match (working_set <= memory, self.medium.is_seen()) {
            (true, true) => format!("working set {ratio} x all memory, yet it went to the medium"),
            (true, false) => format!("working set {ratio} x all memory, so memory could hold it"),
            (false, _) => format!("working set {ratio} x all memory"),
        })
    }
}
