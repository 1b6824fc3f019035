//! What recording costs: each traced cell against its repeat without any recorder, on a fresh stack in the same block.

use std::collections::BTreeSet;

use nestor_model::{Ratio, paired_ratio};
use serde::{Deserialize, Serialize};

use crate::store::StoredRun;

/// Throughput with recorders over throughput without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceCost {
    /// The stack; `None` for all of them together.
    pub stack: Option<String>,
    /// The workload; `None` for all of them together.
    pub workload: Option<String>,
    /// The ratio: the mean of the pairs' logarithms, with a t-interval where there are two pairs or more.
    pub ratio: Ratio,
}

impl TraceCost {
    /// `tracing cost 1.2 % of the throughput (95 % interval -0.4 % to 2.8 %, 3 pairs)`.
    pub fn in_words(&self) -> String {
        let cost = |ratio: f64| (1.0 - ratio) * 100.0;
        let pairs = match self.ratio.pairs {
            1 => "1 pair".to_owned(),
            pairs => format!("{pairs} pairs"),
        };
        let interval = match self.ratio.interval {
            Some(i) => format!("95 % interval {:.1} % to {:.1} %, {pairs}", cost(i.high), cost(i.low)),
            None => format!("{pairs}, too few for an interval"),
        };
        format!("tracing cost {:.1} % of the throughput ({interval})", cost(self.ratio.value))
    }
}

/// What tracing cost in each cell that was also run untraced, and last (of several cells) in all of them together.
pub fn trace_costs(runs: &[&StoredRun]) -> Vec<TraceCost> {
    let cells: BTreeSet<(&str, &str)> =
        runs.iter().map(|r| (r.record.stack.as_str(), r.record.workload.as_str())).collect();
    let mut all_pairs = Vec::new();
    let mut costs = Vec::new();
    for (stack, workload) in cells {
        let of_cell = |r: &&&StoredRun| r.record.stack == stack && r.record.workload == workload;
        let pairs = pairs(&runs.iter().filter(of_cell).copied().collect::<Vec<_>>());
        if let Some(ratio) = paired_ratio(&pairs) {
            let (stack, workload) = (Some(stack.to_owned()), Some(workload.to_owned()));
            costs.push(TraceCost { stack, workload, ratio });
        }
        all_pairs.extend(pairs);
    }
    if let Some(ratio) = paired_ratio(&all_pairs).filter(|_| costs.len() > 1) {
        costs.push(TraceCost { stack: None, workload: None, ratio });
    }
    costs
}

/// Per block and repeat that has both: throughput without and with recorders.
fn pairs(runs: &[&StoredRun]) -> Vec<(f64, f64)> {
    let throughput = |r: &StoredRun| r.record.measured().map(|m| m.load.bytes_per_second());
    let twins = runs.iter().filter(|r| r.record.untraced_twin);
    twins
        .filter_map(|twin| {
            let traced = runs.iter().rev().find(|r| {
                let same = (r.record.block, r.record.repeat) == (twin.record.block, twin.record.repeat);
                same && !r.record.untraced_twin && r.record.measured().is_some()
            })?;
            Some((throughput(twin)?, throughput(traced)?))
        })
        .collect()
}
