//! How each trace point was joined to the one above.

use nestor_correlate::{Correlation, Level, LevelKind, Origin};
use nestor_stack::MachineName;
use nestor_statistics::LatencySummary;
use serde::Serialize;

use crate::units;
use crate::view::short_names::ShortNames;

/// What a trace point is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelName {
    /// The layer without its options.
    pub layer: String,
    /// What was recorded there.
    pub kind: LevelKind,
    /// The machine.
    pub machine: MachineName,
}

impl LevelName {
    /// The names of the levels of a stack.
    pub fn of(levels: &[Level], names: &ShortNames<'_>) -> Vec<Self> {
        let name = |level: &Level| Self {
            layer: names.get(&level.layer),
            kind: level.kind.clone(),
            machine: level.machine.clone(),
        };
        levels.iter().map(name).collect()
    }

    /// Those that several levels have are told apart by their machine: `ext4 (guest)`.
    pub fn distinct(names: &[Self]) -> Vec<Self> {
        let shared = |name: &Self| {
            names.iter().any(|other| other.layer == name.layer && other.machine != name.machine)
        };
        let told_apart = |name: &Self| match shared(name) {
            true => Self { layer: format!("{} ({})", name.layer, name.machine), ..name.clone() },
            false => name.clone(),
        };
        names.iter().map(told_apart).collect()
    }

    /// Whether the machine is known and is something else than what was recorded, such as `application`.
    pub fn has_machine_of_its_own(&self) -> bool {
        !matches!(
            (&self.machine, &self.kind),
            (MachineName::Unknown, _)
                | (MachineName::Application, LevelKind::Application)
                | (MachineName::Medium, LevelKind::Medium)
        )
    }

    /// What its requests are called in a sentence: `guest`, `medium`, `host block`.
    pub fn short(&self) -> String {
        match &self.kind {
            LevelKind::Other(words) if words.is_empty() => self.layer.clone(),
            // The usual sentence says "guest requests".
            LevelKind::Block(machine) if self.machine == (*machine).into() => machine.to_string(),
            kind => kind.to_string(),
        }
    }
}

/// How many requests of a level came from where.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OriginShare {
    /// Where from.
    pub origin: Origin,
    /// In words.
    pub words: &'static str,
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of all requests of the level, 0 to 1.
    pub share: f64,
}

/// One trace point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JoinRow {
    /// Its name.
    #[serde(flatten)]
    pub name: LevelName,
    /// Requests seen there.
    pub requests: u64,
    /// Where they came from; empty for the topmost level.
    pub origins: Vec<OriginShare>,
    /// Requests of the level above that have no child although they need one.
    pub unmatched_above: Option<u64>,
    /// The same as a share (0 to 1) of the level above.
    pub unmatched_share: Option<f64>,
    /// Requests of the level above that were answered without a request here.
    pub absorbed: Option<u64>,
    /// Requests of the level above with more than one child.
    pub split: Option<u64>,
    /// Requests here with more than one parent.
    pub merged: Option<u64>,
    /// Time added on the way from the level above.
    pub added: Option<LatencySummary>,
    /// How far the clock's offset can be wrong; `None` for one and the same clock, `u64::MAX` where nothing bounds it.
    pub clock_bound_ns: Option<u64>,
}

impl JoinRow {
    /// How well its clock is known against the one of the level above; `None` for the topmost and for the same clock.
    pub(crate) fn clock_words(&self) -> Option<String> {
        self.clock_bound_ns.map(|bound| match bound {
            u64::MAX => "not at all".to_owned(),
            bound => format!("to {}", units::duration_ns(bound as f64)),
        })
    }
}

impl JoinRow {
    /// The trace points of a correlation, whose levels have these names.
    pub fn of(correlation: &Correlation, names: &[LevelName]) -> Vec<Self> {
        let levels = correlation.levels.iter().zip(names).enumerate();
        levels
            .map(|(index, (level, name))| {
                let row = Self { name: name.clone(), requests: level.requests, ..Self::default() };
                row.joined(correlation, index)
            })
            .collect()
    }

    fn joined(self, correlation: &Correlation, index: usize) -> Self {
        let Some(join) = index.checked_sub(1).and_then(|above| correlation.joins.get(above)) else {
            return self;
        };
        let whole: u64 = join.origins.values().sum();
        let origins = join.origins.iter().filter(|(_, requests)| **requests > 0).map(|(origin, requests)| {
            OriginShare {
                origin: *origin,
                words: origin.words(),
                requests: *requests,
                bytes: join.origin_bytes.get(origin).copied().unwrap_or(0),
                share: *requests as f64 / whole.max(1) as f64,
            }
        });
        let above = correlation.level(join.above);
        let of_above = above.map_or(0, |above| above.requests);
        let one_clock = join.clock_bound_ns == 0;
        Self {
            origins: origins.collect(),
            unmatched_above: Some(join.unmatched_above),
            unmatched_share: (of_above > 0).then(|| join.unmatched_above as f64 / of_above as f64),
            absorbed: Some(join.absorbed),
            split: Some(join.split),
            merged: Some(join.merged),
            added: join.added.summary(),
            clock_bound_ns: (!one_clock).then_some(join.clock_bound_ns),
            ..self
        }
    }
}
