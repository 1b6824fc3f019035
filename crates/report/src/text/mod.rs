//! The views as text: for terminals, pipes and issue trackers.

mod claim_table;
mod claims;
mod compare;
mod figure;
mod findings;
mod gate;
mod life;
mod managed_life;
mod markdown;
mod network;
mod run;
mod runs;
mod study;
mod trace;

pub use claim_table::claim_table;
pub use claims::scoreboard_text;
pub use compare::compare_text;
pub(crate) use compare::{certainty, drift_words};
pub use figure::tables_text;
pub use findings::claim_findings;
pub use gate::gate_text;
pub use markdown::study_markdown;
pub use network::link_table;
pub use run::run_text;
pub use runs::runs_text;
pub use study::study_text;
pub use trace::trace_text;

use nestor_results::{CountedMark, Mark};
use nestor_text::visible_in_columns as visible;

use crate::Style;
/// What stands in a table where there is nothing to show.
fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The lines of a text; every one ends with a line break.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn push(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    fn extend(&mut self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.push(&line));
    }

    fn gap(&mut self) {
        if !self.0.ends_with("\n\n") && !self.0.is_empty() {
            self.0.push('\n');
        }
    }

    fn finish(self) -> String {
        format!("{}\n", self.0.trim_end_matches('\n'))
    }
}

/// `ext3/kvm/hdd   fio:seq-write  (8 KiB, depth 255, …)`, over as many lines as it needs.
fn header(style: Style, stacks: &str, workload: &str, words: &str) -> Vec<String> {
    let words = if words.is_empty() { String::new() } else { format!("({words})") };
    let one_line =
        [stacks, workload, &words].iter().filter(|t| !t.is_empty()).map(|t| visible(t)).collect::<Vec<_>>();
    let line = one_line.join("  ");
    if line.chars().count() <= style.width {
        return vec![style.strong(&line)];
    }
    let mut lines: Vec<String> =
        [stacks, workload].iter().filter(|t| !t.is_empty()).map(|t| style.strong(&visible(t))).collect();
    lines.extend(style.wrapped("  ", 2, &words));
    lines
}

/// What was saved, and the command that shows it: beside it, or below where the line is full.
fn with_command(style: Style, saved: &str, command: &str) -> Vec<String> {
    let line = format!("  {saved}      {command}");
    if line.chars().count() <= style.width {
        return vec![line];
    }
    let mut lines = style.wrapped("  ", 4, saved);
    lines.push(format!("    {command}"));
    lines
}

fn honesty_lines(style: Style, sentences: &[String]) -> Vec<String> {
    let lines = sentences.iter().flat_map(|s| style.wrapped("", 2, s));
    lines.map(|l| style.caution(&l)).collect()
}

/// One paragraph per kind of mark: `cached in 2 of 5: …`.
fn mark_lines(style: Style, marks: &[CountedMark], runs: usize) -> Vec<String> {
    marks
        .iter()
        .filter(|m| m.mark != Mark::EmulatedCpu)
        .flat_map(|m| {
            let share = if runs > 1 { format!(" in {} of {runs}", m.runs) } else { String::new() };
            style.wrapped("  ", 4, &format!("{}{share}: {}", m.mark.name(), m.mark.detail()))
        })
        .map(|line| style.caution(&line))
        .collect()
}

/// A message of several lines, each indented. Its lines are not broken anew: carets stand under what they point at.
fn message_lines(indent: usize, message: &str) -> Vec<String> {
    visible(message).lines().map(|line| format!("{}{line}", " ".repeat(indent))).collect()
}
