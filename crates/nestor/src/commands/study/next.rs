//! What to ask after a study: commands with the numbers of its runs in them.

use nestor_report::StudyReport;
use nestor_results::{Comparison, StudyRecord};

/// A command, and what it shows.
pub type Next = (String, &'static str);

/// The commands that lead on from a study's report: into one run, to why the largest difference is there, and to the same numbers
/// again where they repeat.
pub fn next_commands(report: &StudyReport, record: &StudyRecord, repeats: bool) -> Vec<Next> {
    let of_requests = report.cells.iter().find(|cell| {
        record
            .study
            .rule(&cell.stack, &cell.workload)
            .is_some_and(|rule| rule.trace == nestor_results::TraceMode::Full)
    });
    let mut commands = Vec::new();
    if let Some(run) = of_requests.and_then(|cell| Some(cell.run.as_ref()?.summary.samples.first()?.run)) {
        commands.push((format!("nestor report {run}"), "that run, request by request"));
    }
    let compared = report.cells.iter().filter_map(|cell| cell.comparison.as_ref());
    let told_apart = compared.filter(|c| c.ratio.is_some_and(|ratio| ratio.differs() == Some(true)));
    let largest = told_apart.max_by(|a, b| size(a).total_cmp(&size(b)));
    if let Some((candidate, baseline)) = largest.and_then(pair) {
        commands
            .push((format!("nestor explain {candidate} --against {baseline}"), "why the largest difference"));
    }
    if let (true, Some(cell)) = (repeats, largest.map(|c| &c.candidate)) {
        let command = format!("nestor run '{}' '{}' -n 1 --verify", cell.stack, cell.workload);
        commands.push((command, "the same to the last bit"));
    }
    commands
}

/// How large a difference is, whichever way.
fn size(comparison: &Comparison) -> f64 {
    comparison.ratio.map_or(0.0, |ratio| ratio.value.ln().abs())
}

/// A run of the candidate, and one of the baseline in the same block.
fn pair(comparison: &Comparison) -> Option<(i64, i64)> {
    comparison.candidate.samples.iter().find_map(|sample| {
        let baseline = comparison.baseline.samples.iter().find(|other| other.block == sample.block)?;
        Some((sample.run, baseline.run))
    })
}
