//! Where the time of each class of operations went: reads, writes and flushes apart, because they take other ways.

use nestor_correlate::{Correlation, LevelKind, Passage, Passed};
use nestor_trace::Operation;
use serde::Serialize;

use super::LevelName;
use crate::units;

/// The operations of one class together. Times are for one of them: sums over all, divided by their number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeSpent {
    /// What was asked for.
    pub operation: Operation,
    /// How often.
    pub requests: u64,
    /// Those during which nothing was done at the lowest level: a cache answered, or they could not be joined.
    pub without_lowest: u64,
    /// From the beginning of one to its end, ns.
    pub each_ns: f64,
    /// Of the time of all classes of the same trace point, 0 to 1.
    pub share: f64,
    /// The trace points from the one whose operations these are down to the lowest. Their own times add up to [`Self::each_ns`].
    pub levels: Vec<LevelTime>,
}

/// The part of an operation's time that belongs to one trace point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelTime {
    /// The trace point.
    #[serde(flatten)]
    pub name: LevelName,
    /// In its own queue, with nothing under way further down, ns.
    pub queued_ns: f64,
    /// Sent on, and nothing seen further down yet or any more, ns. At the lowest trace point this is its service.
    pub issued_ns: f64,
    /// Here or further down, ns.
    pub from_here_ns: f64,
}

impl LevelTime {
    /// At this trace point and not further down, ns.
    pub fn own_ns(&self) -> f64 {
        self.queued_ns + self.issued_ns
    }
}

impl TimeSpent {
    /// Of the application's operations, and of the topmost requests unless every class of these was recorded of the application too
    /// (fio keeps no record of each fsync). The slowest class comes first.
    pub fn of(correlation: &Correlation, names: &[LevelName]) -> Vec<Self> {
        let (own, asked) = (&correlation.application_passage, &correlation.passage);
        let mut classes = Self::classes(own, names);
        if asked.operations.keys().any(|operation| !own.operations.contains_key(operation)) {
            classes.extend(Self::classes(asked, names));
        }
        classes.sort_by(|a, b| b.each_ns.total_cmp(&a.each_ns).then(a.operation.cmp(&b.operation)));
        classes
    }

    /// Those of one level.
    fn classes(passage: &Passage, names: &[LevelName]) -> Vec<Self> {
        let Some(names) = names.get(passage.level.position()..) else { return Vec::new() };
        let all_ns: u64 = passage.operations.values().map(|passed| passed.whole_ns).sum();
        let spent = |(operation, passed): (&Operation, &Passed)| Self {
            operation: *operation,
            requests: passed.requests,
            without_lowest: passed.without_lowest,
            each_ns: passed.whole_ns as f64 / passed.requests.max(1) as f64,
            share: passed.whole_ns as f64 / all_ns.max(1) as f64,
            levels: levels(passed, names),
        };
        passage.operations.iter().map(spent).collect()
    }
}

impl TimeSpent {
    /// What it is of: `512 flushes of ext4, 33.4 ms each, 99.8 % of the time of its requests`.
    pub fn heading(&self) -> String {
        let many = match self.operation {
            Operation::Read => "reads",
            Operation::Write => "writes",
            Operation::Flush => "flushes",
            Operation::Discard => "discards",
        };
        let Some(top) = self.levels.first() else { return String::new() };
        let (whose, what) = match top.name.kind {
            LevelKind::Application => ("the application", "operations"),
            _ => (top.name.layer.as_str(), "requests"),
        };
        let mut words = format!(
            "{} of {whose}, {} each, {} of the time of its {what}",
            units::plural_u64(self.requests, self.operation.word(), many),
            units::duration_ns(self.each_ns),
            units::share(self.share)
        );
        if self.without_lowest > 0
            && let Some(lowest) = self.levels.last()
        {
            let share = units::share(self.without_lowest as f64 / self.requests.max(1) as f64);
            words.push_str(&format!("; during {share} of them nothing was done at {}", lowest.name.layer));
        }
        words
    }

    /// Where it went: `0.4 ms at ext3, 33.0 ms at hdd`.
    pub fn parts(&self) -> String {
        let reached = self.levels.iter().filter(|level| level.own_ns() > 0.0);
        let part =
            |level: &LevelTime| format!("{} at {}", units::duration_ns(level.own_ns()), level.name.layer);
        reached.map(part).collect::<Vec<_>>().join(", ")
    }
}

fn levels(passed: &Passed, names: &[LevelName]) -> Vec<LevelTime> {
    let each = |ns: u64| ns as f64 / passed.requests.max(1) as f64;
    let mut from_here: u64 = passed.levels.iter().map(|level| level.ns()).sum();
    let level = |(level, name): (&nestor_correlate::TimeAtLevel, &LevelName)| {
        let time = LevelTime {
            name: name.clone(),
            queued_ns: each(level.queued_ns),
            issued_ns: each(level.issued_ns),
            from_here_ns: each(from_here),
        };
        from_here = from_here.saturating_sub(level.ns());
        time
    };
    passed.levels.iter().zip(names).map(level).collect()
}
