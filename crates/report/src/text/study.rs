//! What `nestor study` prints: the answer, how sure, the matrix, what is missing.

use nestor_results::Comparison;
use nestor_results::Tally;
use nestor_statistics::Ratio;
use nestor_text::{Align, Table, visible_in_columns as visible};

use super::compare::how_sure;
use super::{Lines, honesty_lines, message_lines};
use crate::labels::{ShortName, UsualLayers, host_names, narrow_names, parts_of};
use crate::style::Style;
use crate::units;
use crate::view::{CellKind, CellReport, Matrix, MatrixCell, StudyReport};

/// The whole study on one screen or two.
pub fn study_text(report: &StudyReport, style: Style) -> String {
    if !report.findings.is_empty() {
        return with_findings(report, style);
    }
    let mut lines = Lines::default();
    lines.extend(title(report, style));
    lines.extend(physical(report, style));
    lines.extend(honesty_lines(style, &report.honesty));
    for mark in report.common_marks.iter().filter(|m| !m.is_emulation) {
        lines.extend(
            style.wrapped("", 2, &format!("every cell: {}", mark.meaning)).iter().map(|l| style.caution(l)),
        );
    }
    lines.gap();
    lines.extend(report.answer.iter().flat_map(|sentence| style.wrapped("  ", 4, sentence)));
    if !report.claims.is_empty() {
        lines.extend(style.wrapped("  ", 4, &format!("claims: {}", Tally::of(&report.claims).in_words())));
    }
    lines.extend(report.method.iter().flat_map(|line| style.wrapped("  ", 4, line)).map(|l| style.faint(&l)));
    for matrix in &report.matrices {
        lines.gap();
        lines.extend(matrix_lines(report, matrix, style));
    }
    lines.gap();
    lines.extend(legend(report, style));
    lines.extend(doubts(report, style));
    lines.extend(missing(report, style));
    lines.finish()
}

fn title(report: &StudyReport, style: Style) -> Vec<String> {
    let words = visible(&format!("{}  ({})", report.title, report.name));
    let fits = unicode_width::UnicodeWidthStr::width(words.as_str()) <= style.width;
    let lines = if fits { vec![words] } else { style.wrapped("", 2, &words) };
    lines.iter().map(|line| style.strong(line)).collect()
}

/// A study that says itself what it found: that last, before it the numbers, and of the doubts how many there are. The report has the rest.
fn with_findings(report: &StudyReport, style: Style) -> String {
    let mut lines = Lines::default();
    lines.extend(title(report, style));
    let answer = report.physical.iter().map(|p| format!("physically plausible? {}", p.answer));
    lines.extend(answer.flat_map(|line| style.wrapped("", 2, &line)));
    lines.extend(honesty_lines(style, &report.honesty));
    lines.extend(report.answer.iter().take(1).flat_map(|sentence| style.wrapped("", 2, sentence)));
    // A comparison of one pair tells nothing but its two numbers, of which the findings speak.
    for matrix in report.matrices.iter().filter(|matrix| has_interval(matrix)) {
        lines.gap();
        lines.extend(matrix_lines(report, matrix, style));
    }
    lines.extend(legend(report, style));
    let less_sure = match doubtful(report).len() {
        0 => None,
        1 => Some("1 comparison is less certain than it looks".to_owned()),
        n => Some(format!("{n} comparisons are less certain than they look")),
    };
    if let Some(words) = less_sure {
        let words = format!("{words}: see the letters and the report");
        lines.extend(style.wrapped("  ", 2, &words).iter().map(|line| style.caution(line)));
    }
    lines.extend(missing(report, style));
    lines.extend(findings(report, style));
    lines.finish()
}

fn has_interval(matrix: &Matrix) -> bool {
    matrix.cells.iter().flatten().any(|cell| cell.ratio.is_some_and(|ratio| ratio.interval.is_some()))
}

/// What the study found, last, where the eye is when the program has ended.
fn findings(report: &StudyReport, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in &report.findings {
        lines.push(String::new());
        let title = style.wrapped("", 2, &visible(&finding.query.title));
        lines.extend(title.iter().map(|line| style.strong(line)));
        lines.extend(finding.sentences.iter().flat_map(|s| style.wrapped("  ", 4, &visible(s))));
        let problem = finding.problem.iter().flat_map(|p| style.wrapped("  ", 4, &visible(p)));
        lines.extend(problem.map(|line| style.caution(&line)));
    }
    lines
}

/// Whether the numbers are physically possible, before any of them.
fn physical(report: &StudyReport, style: Style) -> Vec<String> {
    let Some(physical) = &report.physical else { return Vec::new() };
    let mut lines = style.wrapped("", 2, &format!("physically plausible? {}", physical.answer));
    lines.extend(physical.against.iter().flat_map(|sentence| style.wrapped("  ", 4, sentence)));
    match (physical.against.is_empty(), physical.no > 0) {
        (true, false) => lines,
        _ => lines.iter().map(|line| style.wrong(line)).collect(),
    }
}

fn matrix_lines(report: &StudyReport, matrix: &Matrix, style: Style) -> Vec<String> {
    let title = in_parts(&visible(&matrix.title), style);
    let title: Vec<String> = title.iter().map(|line| style.strong(line)).collect();
    let fits = |table: &Table| table.width() <= style.width;
    let full = table(matrix, &matrix.columns, cell_text);
    let compact = table(matrix, &compact_heads(report, matrix), compact_text);
    let body = if fits(&full) {
        full.lines()
    } else if fits(&compact) {
        let note = "in per cent, ± half the interval; without ±: 1 fresh stack, no interval";
        let note = style.wrapped("  ", 2, note).into_iter().map(|line| style.faint(&line));
        compact.lines().into_iter().chain(note).collect()
    } else {
        let with_rates = list(matrix, true);
        let list = if fits(&with_rates) { with_rates } else { list(matrix, false) };
        style.table(&list)
    };
    [title, body].concat()
}

/// Names of columns for a narrow terminal.
fn compact_heads(report: &StudyReport, matrix: &Matrix) -> Vec<String> {
    let stacks = &report.study.study.stacks;
    let names = host_names(&parts_of(stacks), &UsualLayers::of(stacks));
    // A column is named after what its stacks have in common.
    let name = |column: usize| {
        let cell = matrix.cells.iter().find_map(|row| row[column].cell)?;
        let stack = &report.cells.get(cell)?.stack;
        names.get(stacks.iter().position(|s| s == stack)?).cloned()
    };
    let whole = matrix.columns.iter().enumerate();
    let found: Vec<ShortName> =
        whole.map(|(at, text)| name(at).unwrap_or_else(|| ShortName::words(text))).collect();
    narrow_names(&found)
}

fn table(matrix: &Matrix, columns: &[String], text: fn(&MatrixCell) -> String) -> Table {
    use Align::{Left, Right};
    let mut aligns = vec![Left];
    // Marks have a column of their own after each value, so that the values stand under each other.
    aligns.extend(columns.iter().flat_map(|_| [Right, Left]));
    let mut table = Table::new(&aligns);
    let mut head = vec![matrix.rows_are.to_owned()];
    head.extend(columns.iter().flat_map(|name| [name.clone(), String::new()]));
    table.row(&head);
    for (name, cells) in matrix.rows.iter().zip(&matrix.cells) {
        let mut row = vec![name.clone()];
        row.extend(cells.iter().flat_map(|c| [text(c), c.letters.clone()]));
        table.row(&row);
    }
    table
}

/// `-15±4`: change and half its interval in per cent, where the whole would be too wide for the terminal.
fn compact_text(cell: &MatrixCell) -> String {
    match (cell.kind, &cell.throughput, &cell.ratio) {
        (CellKind::Compared, _, Some(ratio)) => {
            let half = ratio.change_interval_percent().map(|i| format!("±{}", units::whole(i.half_width())));
            format!("{}{}", units::signed_whole(ratio.change_percent()), half.unwrap_or_default())
        }
        (CellKind::Baseline | CellKind::Alone, Some(mean), _) => cell.unit.words(mean.value),
        (CellKind::NotRun, ..) => "-".to_owned(),
        _ => cell_text(cell),
    }
}

/// `30.7 MB/s` for a baseline, `-14.7 % [-18.9, -10.2]` for what is compared with it.
fn cell_text(cell: &MatrixCell) -> String {
    match (cell.kind, &cell.throughput, &cell.ratio) {
        (CellKind::Compared, _, Some(ratio)) => change_text(ratio),
        (CellKind::Baseline | CellKind::Alone, Some(mean), _) => {
            let interval = mean.interval.map(|i| format!(" {}", units::rate_interval(i, cell.unit)));
            format!("{}{}", cell.unit.words(mean.value), interval.unwrap_or_default())
        }
        (CellKind::Failed, ..) => cell.without_number().to_owned(),
        (CellKind::WithoutOperations, ..) => cell.life_words(),
        (CellKind::Absent, ..) => String::new(),
        _ => "not run".to_owned(),
    }
}

fn change_text(ratio: &Ratio) -> String {
    match units::change_interval(ratio) {
        Some(interval) => format!("{} {interval}", units::change(ratio)),
        None => format!("{} (1)", units::change(ratio)),
    }
}

/// A name of a workload and of layers, which has no blanks: broken before the signs that part it where it is wider than the terminal.
fn in_parts(name: &str, style: Style) -> Vec<String> {
    let room = style.width.saturating_sub(4);
    let is_long = |word: &str| unicode_width::UnicodeWidthStr::width(word) > room;
    let parts = name.split(' ').map(|word| match is_long(word) {
        true => word.split_inclusive([':', '/']).map(str::to_owned).collect::<Vec<_>>(),
        false => vec![word.to_owned()],
    });
    let mut lines: Vec<String> = Vec::new();
    for word in parts {
        for (at, part) in word.iter().enumerate() {
            let gap = if at == 0 { " " } else { "" };
            match lines.last_mut() {
                Some(line) if !is_long(&format!("{line}{gap}{part}")) => *line += &format!("{gap}{part}"),
                _ => lines.push(part.clone()),
            }
        }
    }
    let margins = std::iter::once("  ").chain(std::iter::repeat("    "));
    margins.zip(lines).map(|(margin, line)| format!("{margin}{line}")).collect()
}

/// One line per cell, where the matrix is wider than the terminal; with a column of rates, or with those of baselines alone.
fn list(matrix: &Matrix, with_rates: bool) -> Table {
    use Align::{Left, Right};
    let (mut table, change) = match with_rates {
        true => (Table::new(&[Left, Left, Right, Right, Left, Left]), vec!["throughput", "change", ""]),
        false => (Table::new(&[Left, Left, Left, Left]), vec!["change"]),
    };
    table.row(&[vec![matrix.rows_are, "host"], change, vec![""]].concat());
    for (name, cells) in matrix.rows.iter().zip(&matrix.cells) {
        let mut name = name.clone();
        for (column, cell) in matrix.columns.iter().zip(cells).filter(|(_, c)| c.kind != CellKind::Absent) {
            let numbers = if with_rates { rate_and_change(cell) } else { vec![cell_text(cell)] };
            let place = vec![std::mem::take(&mut name), column.clone()];
            table.row(&[place, numbers, vec![cell.letters.clone()]].concat());
        }
    }
    table
}

/// The throughput of a cell, its change, and the interval of that or else of the throughput.
fn rate_and_change(cell: &MatrixCell) -> Vec<String> {
    let rate = match (&cell.throughput, cell.kind) {
        (Some(mean), _) => cell.unit.words(mean.value),
        (None, CellKind::WithoutOperations) => cell.life_words(),
        (None, CellKind::Failed) => cell.without_number().to_owned(),
        (None, _) => "not run".to_owned(),
    };
    let ratio = cell.ratio.as_ref().filter(|_| cell.kind == CellKind::Compared);
    let interval = match ratio {
        Some(r) => units::change_interval(r).unwrap_or_else(|| "(1)".to_owned()),
        None => cell
            .throughput
            .and_then(|m| m.interval)
            .map(|interval| units::rate_interval(interval, cell.unit))
            .unwrap_or_default(),
    };
    vec![rate, ratio.map(units::change).unwrap_or_default(), interval]
}

fn legend(report: &StudyReport, style: Style) -> Vec<String> {
    let mut text = vec![format!(
        "change of throughput against the raw disk or named baseline, {} interval",
        report.confidence()
    )];
    let cells = || report.matrices.iter().flat_map(|m| m.cells.iter().flatten());
    if cells().any(|c| c.ratio.is_some_and(|r| r.interval.is_none())) {
        text.push("(1): 1 fresh stack: no interval".to_owned());
    }
    if cells().any(|c| c.kind == CellKind::WithoutOperations) {
        text.push(
            "life: where no load ran, change of the whole life of an instance, or its seconds".to_owned(),
        );
    }
    text.extend(report.other_marks.iter().map(|m| format!("{}: {}", m.letter, m.meaning)));
    text.iter().flat_map(|t| style.wrapped("  ", 4, t)).map(|l| style.faint(&l)).collect()
}

/// As many doubtful comparisons are explained here; the others have their letters and the HTML report.
const EXPLAINED: usize = 6;

/// Comparisons of which there are doubts that not every cell has, with these.
fn doubtful(report: &StudyReport) -> Vec<(&CellReport, &Comparison, Vec<&str>)> {
    let compared = report
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.comparison.as_ref().filter(|c| c.ratio.is_some())?)));
    compared
        .map(|(cell, comparison)| (cell, comparison, report.particular_doubts(comparison)))
        .filter(|(_, _, doubts)| !doubts.is_empty())
        .collect()
}

/// Comparisons of which the reader must know more than the letter.
fn doubts(report: &StudyReport, style: Style) -> Vec<String> {
    let doubtful = doubtful(report);
    if doubtful.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), style.caution("  less certain than they look:")];
    for (cell, comparison, doubts) in doubtful.iter().take(EXPLAINED) {
        let head = format!("{}  {}: {}", cell.stack, cell.workload, how_sure(comparison));
        lines.extend(style.wrapped("  ", 4, &head).iter().map(|l| style.caution(l)));
        lines.extend(doubts.iter().flat_map(|d| style.wrapped("    ", 6, d)).map(|l| style.caution(&l)));
    }
    if let Some(more) = doubtful.len().checked_sub(EXPLAINED).filter(|n| *n > 0) {
        let words = format!("and {more} more: see their letters above and the report");
        lines.extend(style.wrapped("  ", 4, &words).iter().map(|line| style.caution(line)));
    }
    lines
}

fn missing(report: &StudyReport, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in &report.cells {
        for (reason, runs) in cell.failures_by_reason() {
            let word = if runs.len() == 1 { "run" } else { "runs" };
            let head = format!("failed: {}  {} ({word} {})", cell.stack, cell.workload, units::listed(&runs));
            lines.extend(style.wrapped("  ", 4, &head).iter().map(|l| style.wrong(l)));
            lines.extend(message_lines(4, &reason));
        }
    }
    for cell in &report.cells {
        let summary = cell.run.as_ref().map(|r| &r.summary).filter(|s| s.samples.is_empty());
        for violation in summary.into_iter().flat_map(|s| &s.violations) {
            let words = format!(
                "left out: {}  {} (run {}): {}",
                cell.stack, cell.workload, violation.run, violation.identity
            );
            lines.extend(style.wrapped("  ", 4, &words).iter().map(|l| style.wrong(l)));
        }
    }
    for (reason, count) in report.not_run_by_reason() {
        let words = format!("not run: {}: {}", units::plural(count, "cell"), visible(&reason));
        lines.extend(style.wrapped("  ", 4, &words).iter().map(|line| style.caution(line)));
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}
