//! What recording costs: each traced cell against its repeat without any recorder, on a fresh stack in the same block.

use std::collections::BTreeSet;

use nestor_statistics::{Ratio, mean, paired_ratio};
use nestor_text::units;
use serde::{Deserialize, Serialize};

use crate::path_length::sum_of_parts;
use crate::store::StoredRun;
use crate::{WrittenStack, WrittenWorkload};

/// Throughput with recorders over throughput without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceCost {
    /// The stack; `None` for all of them together.
    pub stack: Option<WrittenStack>,
    /// The workload; `None` for all of them together.
    pub workload: Option<WrittenWorkload>,
    /// The ratio: the mean of the pairs' logarithms, with a t-interval where there are two pairs or more.
    pub ratio: Ratio,
    /// What it cost an operation, in virtual time; of one cell only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_operation: Option<CostPerOperation>,
}

/// What an operation of the application takes more with recorders than without: the mean over the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostPerOperation {
    /// Instructions of all machines.
    pub instructions: f64,
    /// Nanoseconds from one operation to the next: the reciprocal of the operations of a second. An instruction is one only where
    /// nothing else is waited for.
    pub interval_ns: f64,
}

impl CostPerOperation {
    fn of(pairs: &[(&StoredRun, &StoredRun)]) -> Option<Self> {
        let of_run = |run: &StoredRun| {
            let measured = run.record.measured()?;
            let instructions = sum_of_parts(&measured.path_length.as_ref()?.per_operation(&measured.load));
            Some((instructions, 1e9 / measured.load.operations_per_second()))
        };
        let costs: Vec<(f64, f64)> = pairs
            .iter()
            .filter_map(|(twin, traced)| {
                let (without, with) = (of_run(twin)?, of_run(traced)?);
                Some((with.0 - without.0, with.1 - without.1)).filter(|(a, b)| a.is_finite() && b.is_finite())
            })
            .collect();
        let mean_of = |values: Vec<f64>| mean(&values).map(|mean| mean.value);
        Some(Self {
            instructions: mean_of(costs.iter().map(|cost| cost.0).collect())?,
            interval_ns: mean_of(costs.iter().map(|cost| cost.1).collect())?,
        })
    }

    fn in_words(self) -> String {
        let more = |count: f64, what: &str| {
            format!("{:.0} {} {what}", count.abs(), if count < 0.0 { "fewer" } else { "more" })
        };
        let (instructions, interval) =
            (more(self.instructions, "instructions"), more(self.interval_ns, "ns between completions"));
        format!("; per operation {instructions} and {interval}")
    }
}

impl TraceCost {
    /// `tracing cost 1.2 % of the throughput (95 % interval -0.4 % to 2.8 %, 3 pairs)`.
    pub fn in_words(&self) -> String {
        let cost = |ratio: f64| units::share(1.0 - ratio);
        let pairs = units::plural(self.ratio.pairs, "pair");
        let interval = match self.ratio.interval {
            Some(i) => format!("95 % interval {} to {}, {pairs}", cost(i.high), cost(i.low)),
            None => format!("{pairs}, too few for an interval"),
        };
        let each = self.per_operation.map_or_else(String::new, CostPerOperation::in_words);
        format!("tracing cost {} of the throughput ({interval}){each}", cost(self.ratio.value))
    }
}

/// What tracing cost in each cell that was also run untraced, and last (of several cells) in all of them together.
pub fn trace_costs(runs: &[&StoredRun]) -> Vec<TraceCost> {
    let cells: BTreeSet<(&WrittenStack, &WrittenWorkload)> =
        runs.iter().map(|r| (&r.record.stack, &r.record.workload)).collect();
    let mut all_pairs = Vec::new();
    let mut costs = Vec::new();
    for (stack, workload) in cells {
        let of_cell = |r: &&&StoredRun| r.record.stack == *stack && r.record.workload == *workload;
        let of_cell: Vec<&StoredRun> = runs.iter().filter(of_cell).copied().collect();
        let pairs = pairs(&of_cell);
        let throughputs = throughputs(&pairs);
        if let Some(ratio) = paired_ratio(&throughputs) {
            let (stack, workload) = (Some(stack.clone()), Some(workload.clone()));
            costs.push(TraceCost { stack, workload, ratio, per_operation: CostPerOperation::of(&pairs) });
        }
        all_pairs.extend(throughputs);
    }
    if let Some(ratio) = paired_ratio(&all_pairs).filter(|_| costs.len() > 1) {
        costs.push(TraceCost { stack: None, workload: None, ratio, per_operation: None });
    }
    costs
}

/// Per block and repeat that has both: the run without recorders, and the one with them.
fn pairs<'a>(runs: &[&'a StoredRun]) -> Vec<(&'a StoredRun, &'a StoredRun)> {
    let twins = runs.iter().filter(|r| r.record.untraced_twin);
    twins
        .filter_map(|twin| {
            let traced = runs.iter().rev().find(|r| {
                let same = (r.record.block, r.record.repeat) == (twin.record.block, twin.record.repeat);
                same && !r.record.untraced_twin && r.record.measured().is_some()
            })?;
            Some((*twin, *traced))
        })
        .collect()
}

fn throughputs(pairs: &[(&StoredRun, &StoredRun)]) -> Vec<(f64, f64)> {
    // Of a load that moves no data, in operations.
    let throughput = |r: &StoredRun| {
        let load = &r.record.measured()?.load;
        let bytes_per_s = load.bytes_per_second();
        Some(if bytes_per_s > 0.0 { bytes_per_s } else { load.operations_per_second() })
    };
    pairs.iter().filter_map(|(twin, traced)| Some((throughput(twin)?, throughput(traced)?))).collect()
}
