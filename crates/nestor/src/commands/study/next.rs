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
    let largest = Comparison::largest(report.cells.iter().filter_map(|cell| cell.comparison.as_ref()));
    if let Some((candidate, baseline)) = largest.and_then(Comparison::runs_of_a_block) {
        commands
            .push((format!("nestor explain {candidate} --against {baseline}"), "why the largest difference"));
    }
    if let (true, Some(cell)) = (repeats, largest.map(|c| &c.candidate)) {
        let command = format!("nestor run '{}' '{}' -n 1 --verify", cell.stack, cell.workload);
        commands.push((command, "the same to the last bit"));
    }
    commands
}
