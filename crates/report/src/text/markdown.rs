//! A study as Markdown, for an issue, a merge request or a README: the answer, the matrices, what the marks mean.

use nestor_terminal::visible;

use crate::units::{change, change_interval, rate_interval};
use crate::view::{CellKind, Matrix, MatrixCell, StudyReport};

/// The study in the Markdown of GitHub and GitLab, whose tables it uses.
pub fn study_markdown(report: &StudyReport) -> String {
    let mut lines = vec![format!("## {}", text(&report.title)), String::new()];
    let physical = report.physical.iter().map(|p| format!("Physically plausible? {}", p.answer));
    let first = physical.chain(report.answer.iter().cloned()).chain(report.honesty.iter().cloned());
    lines.extend(first.map(|sentence| format!("- {}", text(&sentence))));
    for matrix in &report.matrices {
        lines.push(String::new());
        lines.extend(matrix_lines(matrix));
    }
    lines.push(String::new());
    lines.push(format!(
        "Change of throughput against the baseline, with its interval of {}; what is not told apart from it is in \
         italics. Baselines show their own throughput.",
        report.confidence()
    ));
    let marks = report.other_marks.iter().map(|mark| format!("- {}: {}", mark.letter, text(mark.meaning)));
    let common = report.common_marks.iter().map(|mark| format!("- every cell: {}", text(mark.meaning)));
    let marks: Vec<String> = marks.chain(common).collect();
    if !marks.is_empty() {
        lines.push(String::new());
        lines.extend(marks);
    }
    let mut whole = lines.join("\n");
    whole.push('\n');
    visible(&whole).into_owned()
}

fn matrix_lines(matrix: &Matrix) -> Vec<String> {
    let row = |name: &str, fields: Vec<String>| format!("| {} | {} |", field(name), fields.join(" | "));
    let mut lines = vec![format!("**{}**", text(&matrix.title)), String::new()];
    lines.push(row(matrix.rows_are, matrix.columns.iter().map(|column| field(column)).collect()));
    lines.push(format!("|---|{}", "--:|".repeat(matrix.columns.len())));
    let cells = |cells: &Vec<MatrixCell>| cells.iter().map(|cell| field(&cell_text(cell))).collect();
    lines.extend(matrix.rows.iter().zip(&matrix.cells).map(|(name, row_of)| row(name, cells(row_of))));
    lines
}

fn cell_text(cell: &MatrixCell) -> String {
    let letters = if cell.letters.is_empty() { String::new() } else { format!(" {}", cell.letters) };
    let words = match (cell.kind, &cell.ratio, &cell.throughput) {
        (CellKind::Absent, ..) => return String::new(),
        (CellKind::NotRun, ..) => return "not run".to_owned(),
        (CellKind::Failed, ..) => cell.without_number().to_owned(),
        (CellKind::WithoutOperations, ..) => cell.life_words(),
        (CellKind::Compared, Some(ratio), _) => {
            let interval = change_interval(ratio).unwrap_or_else(|| "(1 pair)".to_owned());
            let words = format!("{} {interval}", change(ratio));
            if ratio.differs() == Some(true) { words } else { format!("*{words}*") }
        }
        (_, _, Some(mean)) => {
            let interval = mean.interval.map(|i| format!(" {}", rate_interval(i, cell.unit)));
            format!("{}{}", cell.unit.words(mean.value), interval.unwrap_or_default())
        }
        _ => "not run".to_owned(),
    };
    format!("{words}{letters}")
}

/// A field of a table: a bar in it would end it.
pub(super) fn field(words: &str) -> String {
    text(words).replace('|', "\\|")
}

/// Words of others on one line, of which Markdown makes nothing.
fn text(words: &str) -> String {
    let one_line: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    one_line.replace('&', "&amp;").replace('<', "&lt;").replace('`', "\\`")
}
