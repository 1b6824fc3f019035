//! What lists of runs print.

use nestor_text::{Align, Table};

use super::Lines;
use crate::style::Style;
use crate::view::{RunsView, WITHOUT_OPERATIONS};

/// The runs, one line each, newest first; within the columns, if there are any, what does not fit stands below.
pub fn runs_text(view: &RunsView, style: Style, columns: Option<usize>) -> String {
    use Align::{Left, Right};
    if view.runs.is_empty() {
        return "no runs yet; nestor run STACK WORKLOAD makes one\n".to_owned();
    }
    // Numbers of different places do not compare, those of different clocks least of all.
    let one_place = view.runs.windows(2).all(|pair| pair[0].ground == pair[1].ground);
    let mut table = Table::new(&[Right, Left, Left, Left, Right, Left, Left]);
    let ground = |words: &'static str| if one_place { "" } else { words };
    table.row(&["run", "began (UTC)", "stack", "workload", "throughput", ground("on"), "marks"]);
    for run in &view.runs {
        // RFC 3339 to the minute, which is what tells runs apart.
        let began = run.started_at.get(..16).unwrap_or(&run.started_at).replace('T', " ");
        let result = run.throughput();
        let result = match result {
            None => "failed".to_owned(),
            // A life cycle without a load.
            Some((_, rate)) if rate <= 0.0 => WITHOUT_OPERATIONS.to_owned(),
            Some((unit, rate)) => unit.words(rate),
        };
        table.row::<&str>(&[
            &run.number.to_string(),
            &began,
            &run.stack,
            &run.workload,
            &result,
            &if one_place { String::new() } else { run.ground.as_asked() },
            &run.marks.join(", "),
        ]);
    }
    let mut lines = Lines::default();
    let text = columns.map_or_else(|| table.text(), |columns| table.text_within(columns));
    let mut rows = text.lines();
    lines.extend(rows.next().map(|head| style.faint(head)));
    lines.extend(rows.map(str::to_owned));
    if view.total > view.runs.len() {
        lines.push(&style.faint(&format!(
            "  {} of {} runs: --all lists them all",
            view.runs.len(),
            view.total
        )));
    }
    lines.finish()
}
