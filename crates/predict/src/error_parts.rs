//! What the errors of predictions are made of: of measuring itself, and of what all cells with the same load or the same part of a
//! stack have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nestor_results::{StackPart, WrittenStack, WrittenWorkload};
use serde::{Serialize, Serializer};

use crate::evidence::Evidence;

/// What cells have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The load.
    Load,
    /// A part of the stack.
    Part(StackPart),
}

impl fmt::Display for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load => f.write_str("load"),
            Self::Part(part) => part.fmt(f),
        }
    }
}

impl Serialize for Common {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The error of one answered question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellError {
    /// The load.
    pub load: WrittenWorkload,
    /// The stack.
    pub stack: WrittenStack,
    /// Predicted over found, less 1.
    pub error: f64,
    /// Runs whose mean was taken for the truth.
    pub runs: usize,
}

impl CellError {
    fn log(&self) -> f64 {
        self.error.ln_1p()
    }
}

/// Shares of the mean square of the errors' logarithms. They overlap where loads and parts go together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorParts {
    /// What the truth itself is off, because runs of one cell differ; `None` where no cell was run twice.
    pub measuring: Option<f64>,
    /// What is common to cells, the largest share first; none that chance could explain.
    pub common: Vec<CommonError>,
}

/// What cells that have something in common are off together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommonError {
    /// What they have in common.
    pub what: Common,
    /// The share of the errors that is the same in all cells with the same value, beyond what chance would make so.
    pub share: f64,
    /// The value that is off most.
    pub worst: String,
    /// By how much its cells are off together, as a share with its sign.
    pub error: f64,
}

/// Takes errors apart. `noise_variance` is that of the logarithm of one run of a cell. `None` without errors.
pub fn error_parts(
    errors: &[CellError],
    evidence: &Evidence,
    noise_variance: Option<f64>,
) -> Option<ErrorParts> {
    let square = errors.iter().map(|error| error.log().powi(2)).sum::<f64>();
    if square.is_nan() || square <= 0.0 {
        return None;
    }
    let of_truths: f64 = errors.iter().map(|error| 1.0 / error.runs.max(1) as f64).sum();
    let measuring = noise_variance.map(|variance| (variance * of_truths / square).min(1.0));
    let parts: BTreeSet<&StackPart> =
        evidence.measured_stacks().into_iter().flat_map(BTreeMap::keys).collect();
    let of_parts = parts.into_iter().map(|part| {
        let value =
            |error: &CellError| evidence.stacks.get(&error.stack)?.get(part).map(|value| or_none(value));
        common(Common::Part(*part), errors, value)
    });
    let of_loads = common(Common::Load, errors, |error| Some(error.load.to_string()));
    let mut all: Vec<CommonError> = of_parts.chain([of_loads]).flatten().collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    Some(ErrorParts { measuring, common: all })
}

fn or_none(value: &str) -> String {
    if value.is_empty() { "none".to_owned() } else { value.to_owned() }
}

/// Analysis of variance with one factor: the sum of squares between groups, less what groups of chance would have (the estimate ω²
/// of Hays, Statistics for Psychologists, 1963, here about zero and not about the mean, so that one group counts as well).
fn common(
    what: Common,
    errors: &[CellError],
    value: impl Fn(&CellError) -> Option<String>,
) -> Option<CommonError> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for error in errors {
        groups.entry(value(error)?).or_default().push(error.log());
    }
    let total: f64 = errors.iter().map(|error| error.log().powi(2)).sum();
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    let together = |logs: &[f64]| logs.len() as f64 * mean(logs).powi(2);
    let between: f64 = groups.values().map(|logs| together(logs)).sum();
    let freedom =
        errors.len().checked_sub(groups.len()).filter(|freedom| *freedom > 0 && groups.len() > 1)?;
    let chance = groups.len() as f64 * (total - between) / freedom as f64;
    let share = (between - chance) / total;
    let (worst, logs) = groups.iter().max_by(|a, b| together(a.1).total_cmp(&together(b.1)))?;
    (share > 0.0).then(|| CommonError { what, share, worst: worst.clone(), error: mean(logs).exp_m1() })
}

#[cfg(test)]
mod tests {
    use nestor_results::KnownStack;

    use super::*;

    /// Four stacks of two hosts under three loads; `of` says the logarithm of the error.
    fn errors(of: impl Fn(usize, usize) -> f64) -> (Vec<CellError>, Evidence) {
        let mut evidence = Evidence::default();
        let mut errors = Vec::new();
        for stack in 0..4 {
            let name = WrittenStack::from(format!("stack {stack}"));
            let host = ["ext4", "btrfs"][stack % 2].to_owned();
            evidence.stacks.insert(name.clone(), KnownStack::from([(StackPart::HostFileSystem, host)]));
            for load in 0..3 {
                let error = of(stack, load).exp_m1();
                let load = WrittenWorkload::from(format!("load {load}"));
                evidence.cells.push(crate::evidence::MeasuredLoad {
                    stack: name.clone(),
                    load: load.clone(),
                    rate: 1.0,
                    operations_per_s: 1.0,
                    requests_per_s: 1.0,
                    runs: vec![1],
                    ..Default::default()
                });
                errors.push(CellError { load, stack: name.clone(), error, runs: 1 });
            }
        }
        (errors, evidence)
    }

    #[test]
    fn what_a_host_is_off_in_all_its_cells_is_named() {
        let (errors, evidence) = errors(|stack, load| {
            let host = if stack % 2 == 1 { 0.3 } else { 0.0 };
            host + 0.01 * (stack as f64 - load as f64)
        });
        let parts = error_parts(&errors, &evidence, Some(0.01)).unwrap();
        let first = &parts.common[0];
        assert_eq!((first.what, first.worst.as_str()), (Common::Part(StackPart::HostFileSystem), "btrfs"));
        assert!(first.share > 0.95 && (first.error - 0.35).abs() < 0.03, "{parts:?}");
        let square: f64 = errors.iter().map(|error| error.log().powi(2)).sum::<f64>() / 12.0;
        assert!((parts.measuring.unwrap() - 0.01 / square).abs() < 1e-9);
    }

    #[test]
    fn what_nothing_has_in_common_is_not_named() {
        // Every host and every load has as many errors up as down.
        let (errors, evidence) = errors(|stack, load| {
            let up = if (stack / 2 + load) % 2 == 0 { 0.2 } else { -0.2 };
            if load == 2 { if stack % 2 == 0 { 0.2 } else { -0.2 } } else { up }
        });
        let parts = error_parts(&errors, &evidence, None).unwrap();
        assert!(parts.common.is_empty() && parts.measuring.is_none(), "{parts:?}");
        assert_eq!(error_parts(&[], &evidence, None), None);
    }
}
