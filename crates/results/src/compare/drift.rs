//! Did the baseline stay what it was while the study ran?

use std::collections::BTreeMap;

use nestor_statistics::change_point::{self, change_points};
use nestor_statistics::{OrderEffect, Ratio, geometric_mean, order_effect, paired_ratio};
use serde::{Deserialize, Serialize};

use super::samples::{Rate, Sample};

/// Drift below this share is not reported (the practical threshold of the acceptance rules).
const DRIFT_WORTH_SAYING: f64 = 0.05;
/// A step of the baseline below this share does not split a series: the stopping rule requires no narrower interval.
const STEP_WORTH_PARTING: f64 = 0.03;
/// Of the tests with random orders: an order effect is one below this p-value.
const SIGNIFICANCE: f64 = 0.05;
/// Fixes the random orders of the tests, so that a report is reproducible.
const SEED: u64 = 1;
/// Fewer runs of the baseline cannot show a change point (see [`change_points`]).
const FEWEST_FOR_A_CHANGE: usize = 8;

/// Whether something changed while the study ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "drift")]
pub enum Drift {
    /// The baseline ran only once per block and in too few blocks to test it.
    NotTested,
    /// Impossible: all runs were made in virtual time, each on machines in the same initial state.
    Impossible,
    /// The possible tests show no change.
    None {
        /// End over start of the blocks, where the baseline ran at both.
        ratio: Option<Ratio>,
    },
    /// The baseline at the end of the blocks was not as fast as at their start.
    Seen {
        /// End over start.
        ratio: Ratio,
    },
    /// The baseline changed from one run to the next and stayed changed.
    Changed {
        /// The last block before the first change, or the one that it fell into.
        after_block: u32,
        /// Baseline after over before, of geometric means.
        step: f64,
        /// Share of random orders with as large a change, 0 to 1.
        p_value: f64,
    },
    /// Throughputs rose or fell with the position in the order of runs, whatever their cell.
    WithOrder {
        /// How, and how surely.
        effect: OrderEffect,
    },
}

impl Drift {
    /// Whether any of the tests saw something.
    pub fn is_seen(&self) -> bool {
        !matches!(self, Self::NotTested | Self::Impossible | Self::None { .. })
    }
}

/// What the tests found.
pub(super) struct Stability {
    pub drift: Drift,
    /// The blocks that may be averaged, if not all.
    pub only_blocks: Option<(u32, u32)>,
    pub doubts: Vec<String>,
}

/// Tests the baseline between the ends of its blocks and over all of them, and all runs against their order. Samples
/// come in the order in which they were made.
pub(super) fn of(baseline: &[&Sample], candidate: &[&Sample], rate: Rate) -> Stability {
    if is_impossible(baseline, candidate) {
        return Stability { drift: Drift::Impossible, only_blocks: None, doubts: Vec::new() };
    }
    let ends = between_ends(baseline, rate);
    let change = first_change(baseline, candidate, rate);
    let order = order_effect(&residuals(&[baseline, candidate], rate), SEED);
    let with_order =
        order.filter(|o| o.p_value <= SIGNIFICANCE && (o.last_over_first - 1.0).abs() > DRIFT_WORTH_SAYING);
    let mut doubts = Vec::new();
    if let Some(change) = &change {
        doubts.push(change.doubt());
    }
    let drifted = ends.filter(|(_, seen)| *seen).map(|(ratio, _)| ratio);
    if let Some(ratio) = &drifted {
        let change = ratio.change_percent();
        doubts
            .push(format!("the baseline drifted by {change:+.1} % from the start to the end of the blocks"));
    }
    if let Some(order) = &with_order {
        doubts.push(format!(
            "throughput followed the order of the runs: {:+.1} % from the first to the last (rank correlation {:+.2}, p = {:.3})",
            (order.last_over_first - 1.0) * 100.0,
            order.correlation,
            order.p_value
        ));
    }
    // The order of a few runs is not enough to exclude drift.
    let tested = ends.is_some() || baseline.len() >= FEWEST_FOR_A_CHANGE;
    let drift = match (&change, drifted, with_order) {
        (Some(c), ..) => Drift::Changed { after_block: c.after_block, step: c.step, p_value: c.p_value },
        (None, Some(ratio), _) => Drift::Seen { ratio },
        (None, None, Some(effect)) => Drift::WithOrder { effect },
        (None, None, None) if tested => Drift::None { ratio: ends.map(|(ratio, _)| ratio) },
        (None, None, None) => Drift::NotTested,
    };
    Stability { drift, only_blocks: change.map(|c| c.keep), doubts }
}

/// Whether no run can depend on those before it: what looks like drift is then chance.
fn is_impossible(baseline: &[&Sample], candidate: &[&Sample]) -> bool {
    let mut all = baseline.iter().chain(candidate).peekable();
    all.peek().is_some() && all.all(|sample| sample.in_virtual_time)
}

/// The baseline at the end of the blocks over that at their start, and whether the difference is reported.
fn between_ends(baseline: &[&Sample], rate: Rate) -> Option<(Ratio, bool)> {
    let last = |block: u32| baseline.iter().find(|s| s.block == block && s.repeat > 0);
    let firsts = baseline.iter().filter(|s| s.repeat == 0);
    let pairs: Vec<(f64, f64)> = firsts.filter_map(|f| Some((rate(f), rate(last(f.block)?)))).collect();
    let ratio = paired_ratio(&pairs)?;
    // Two ends of one block always differ a little; below three blocks only a large difference is reported.
    let large = (ratio.value - 1.0).abs() > DRIFT_WORTH_SAYING;
    let seen = if pairs.len() >= 3 { large && ratio.differs() == Some(true) } else { large };
    Some((ratio, seen))
}

/// Where the baseline changed.
pub(crate) struct Change {
    after_block: u32,
    step: f64,
    p_value: f64,
    /// First and last block of the longest stretch without a change.
    pub(crate) keep: (u32, u32),
}

impl Change {
    /// What changed and what is left, in a sentence.
    pub(crate) fn doubt(&self) -> String {
        let (first, last) = self.keep;
        let kept = if first == last {
            format!("only block {first} is compared")
        } else {
            format!("only blocks {first} to {last} are compared")
        };
        let percent = (self.step - 1.0) * 100.0;
        format!(
            "a change point after block {}: the baseline changed by {percent:+.1} % (p = {:.3}); {kept}",
            self.after_block, self.p_value
        )
    }
}

/// The first change point of the baseline's runs that is large enough to part them, and the longest stretch of blocks
/// that lies on one side of all of them, by the blocks that can be paired there.
pub(super) fn first_change(baseline: &[&Sample], candidate: &[&Sample], rate: Rate) -> Option<Change> {
    if is_impossible(baseline, candidate) {
        return None;
    }
    let series: Vec<f64> = baseline.iter().map(|s| rate(s).ln()).collect();
    let mut points = change_points(&series, SEED)?;
    let level = |from: usize, to: usize| series[from..to].iter().sum::<f64>() / (to - from) as f64;
    let steps: Vec<f64> = change_point::segments(&points, series.len())
        .windows(2)
        .map(|w| (level(w[1].0, w[1].1) - level(w[0].0, w[0].1)).exp())
        .collect();
    let mut steps = steps.into_iter();
    let mut kept_steps = Vec::new();
    points.retain(|_| {
        let step = steps.next().unwrap_or(1.0);
        let large = step.ln().abs() >= STEP_WORTH_PARTING.ln_1p();
        kept_steps.extend(large.then_some(step));
        large
    });
    let first = points.first()?;
    let paired = |block: &u32| candidate.iter().any(|s| s.block == *block);
    let stretches = change_point::segments(&points, series.len()).into_iter().filter_map(|(from, to)| {
        // A block that contains a change belongs to neither side.
        let whole = |block: &u32| {
            baseline.iter().enumerate().all(|(i, s)| s.block != *block || (from..to).contains(&i))
        };
        let mut blocks: Vec<u32> = baseline[from..to].iter().map(|s| s.block).filter(whole).collect();
        blocks.dedup();
        let pairs = blocks.iter().filter(|b| paired(b)).count();
        Some((pairs, blocks.len(), (*blocks.first()?, *blocks.last()?)))
    });
    // Of equals the last: what was measured last can be measured again.
    let (_, _, keep) = stretches.max_by_key(|(pairs, blocks, _)| (*pairs, *blocks))?;
    Some(Change {
        after_block: baseline[first.at - 1].block,
        step: kept_steps[0],
        p_value: first.p_value,
        keep,
    })
}

/// Each run's logarithm less its cell's mean, by its position. Of cells with at least two runs.
fn residuals(cells: &[&[&Sample]], rate: Rate) -> Vec<(f64, f64)> {
    let mut residuals = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.len() >= 2) {
        let values: Vec<f64> = cell.iter().map(|s| rate(s)).collect();
        let Some(mean) = geometric_mean(&values) else { continue };
        // A run that is on both sides counts once.
        residuals.extend(cell.iter().map(|s| (s.run, (f64::from(s.position), (rate(s) / mean).ln()))));
    }
    residuals.into_values().collect()
}
