//! What is going to be measured.

use super::minutes;
use crate::numbers::plural;
use crate::plan::ScreeningPlan;

/// The plan before anything is measured.
pub fn plan_text(plan: &ScreeningPlan, workload: &str) -> String {
    let mut text = format!(
        "plan: {} of {} stacks under {workload} ({} unknowns; {} in the store), then {} of the best beside yours\n",
        plan.stacks.len(),
        plan.possible,
        plan.parameters,
        plural(plan.known, "run"),
        plural(plan.pairs as usize, "pair"),
    );
    for stack in &plan.stacks {
        text.push_str(&format!("  {stack}\n"));
    }
    let time = match plan.expected_s() {
        Some(seconds) => format!("about {}", minutes(seconds)),
        None => "how long is not known: nothing was measured here yet".to_owned(),
    };
    let probes = match plan.probes {
        0 => String::new(),
        probes => format!(" (up to {probes} of them short, to trace flushes)"),
    };
    text.push_str(&format!("  {}{probes}, {time}\n", plural(plan.cells(), "cell")));
    text
}
