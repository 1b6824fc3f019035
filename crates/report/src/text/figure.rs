//! The tables of a published study, and the lines of its fits, as text.

use nestor_results::{Figure, FigureKind, FigureRow, SeriesLine};
use nestor_text::{Align, Table, visible_in_columns as visible};

use super::Lines;
use crate::labels::distinct;
use crate::{Style, units};

/// What stands beside a value.
const BESIDE_VALUES: &str =
    "in brackets: the interval of the mean; n: runs; *: more than half of the runs have a mark";

/// What stands beside a line.
const BESIDE_LINES: &str =
    "in brackets: the interval; a slope is of the vertical axis for each unit of the horizontal one";

/// The figures of a study that are tables of numbers, and the lines of those that are fits, each panel by itself.
pub fn tables_text(figures: &[Figure], style: Style) -> String {
    let mut lines = Lines::default();
    for figure in figures.iter().filter(|f| matches!(f.query.kind, FigureKind::Table | FigureKind::Fit)) {
        lines.gap();
        let title = format!("{}  {}", figure.query.id, figure.query.title);
        lines.extend(style.wrapped("  ", 4, &visible(&title)).iter().map(|line| style.strong(line)));
        let axes = match figure.query.kind {
            FigureKind::Fit => format!("{}, over {}", figure.query.y, figure.query.x),
            _ => figure.query.y.clone(),
        };
        lines.extend(style.wrapped("  ", 4, &visible(&axes)).iter().map(|line| style.faint(line)));
        let problem = figure.problem.iter().flat_map(|problem| style.wrapped("  ", 4, &visible(problem)));
        lines.extend(problem.map(|line| style.caution(&line)));
        if figure.query.kind == FigureKind::Fit {
            lines.extend(style.wrapped("  ", 4, BESIDE_LINES).iter().map(|line| style.faint(line)));
        } else if figure.rows.iter().any(|row| row.n.is_some()) {
            lines.extend(style.wrapped("  ", 4, BESIDE_VALUES).iter().map(|line| style.faint(line)));
        }
        for panel in distinct(figure.rows.iter().map(|row| row.panel.as_str())) {
            let rows: Vec<&FigureRow> = figure.rows.iter().filter(|row| row.panel == panel).collect();
            let fitted = figure.lines.iter().filter(|line| line.panel == panel);
            let table = match figure.query.kind {
                FigureKind::Fit => table_of_lines(panel, fitted),
                _ => table(panel, &rows),
            };
            lines.gap();
            lines.extend(style.table(&table));
        }
        let left_out = figure.left_out.iter().flat_map(|said| style.wrapped("  ", 4, &visible(said)));
        lines.extend(left_out.map(|line| style.caution(&line)));
    }
    lines.finish()
}

/// A row for each series, a column for each x; nothing where there is no value.
fn table(panel: &str, rows: &[&FigureRow]) -> Table {
    let words: Vec<String> = rows.iter().map(|row| row.x.to_string()).collect();
    let columns = distinct(words.iter().map(String::as_str));
    let mut aligns = vec![Align::Left];
    aligns.extend(columns.iter().map(|_| Align::Right));
    let mut table = Table::new(&aligns);
    let mut head = vec![panel];
    head.extend(&columns);
    table.row(&head);
    for series in distinct(rows.iter().map(|row| row.series.as_str())) {
        let value = |column: &&str| {
            let mut found = rows.iter().zip(&words).filter(|(row, x)| row.series == series && x == column);
            found.next().map(|(row, _)| value_words(row)).unwrap_or_default()
        };
        let values = columns.iter().map(value);
        table.row(&std::iter::once(series.to_owned()).chain(values).collect::<Vec<_>>());
    }
    table
}

/// A row for each line.
fn table_of_lines<'a>(panel: &str, lines: impl Iterator<Item = &'a SeriesLine>) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(&[panel, "slope", "intercept", "points"]);
    for line in lines {
        table.row(&[
            line.series.clone(),
            units::with_interval(line.slope, line.slope_interval),
            units::with_interval(line.intercept, line.intercept_interval),
            line.points.to_string(),
        ]);
    }
    table
}

/// `1408* [1390, 1426] n 3`: a value, its interval and its runs, as far as they are known.
fn value_words(row: &FigureRow) -> String {
    let mark = if row.is_mostly_marked() { "*" } else { "" };
    let interval =
        row.interval().map(|(low, high)| format!("[{}, {}]", units::digits(low), units::digits(high)));
    let runs = row.n.map(|n| format!("n {n}"));
    let value = format!("{}{mark}", units::digits(row.y));
    std::iter::once(value).chain(interval).chain(runs).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use nestor_results::{Better, FigureQuery, FigureX};

    use super::*;

    #[test]
    fn a_value_has_its_interval_its_runs_and_its_doubts_beside_it() {
        let row = |series: &str, x: &str, y, interval: Option<(f64, f64)>, n, marked| FigureRow {
            panel: "width 20".to_owned(),
            series: series.to_owned(),
            x: FigureX::Text(x.to_owned()),
            y,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            n,
            marked,
        };
        let query = FigureQuery {
            id: "table-1".to_owned(),
            title: "What creating files calls".to_owned(),
            kind: FigureKind::Table,
            x: "set-up".to_owned(),
            y: "calls are for 1000 files".to_owned(),
            alike: None,
            better: Better::More,
            sql: String::new(),
        };
        let figure = Figure {
            query,
            rows: vec![
                row("files a second", "NFS", 2125.0, Some((2100.0, 2150.0)), Some(3), Some(1)),
                row("files a second", "[NFS]", 2125.0, None, None, None),
                row("CREATE calls", "NFS", 1000.0, None, Some(1), Some(1)),
            ],
            lines: Vec::new(),
            problem: None,
            left_out: vec![
                "wml:create-tree: a change point after block 3; only blocks 0 to 3 are compared".to_owned(),
            ],
        };
        insta::assert_snapshot!(tables_text(&[figure], Style::plain()), @"
        table-1 What creating files calls
        calls are for 1000 files
        in brackets: the interval of the mean; n: runs; *: more than half of the runs have a mark

        width 20                             NFS  [NFS]
        files a second  2 130 [2 100, 2 150] n 3  2 130
        CREATE calls                  1 000* n 1
        wml:create-tree: a change point after block 3; only blocks 0 to 3 are compared
        ");
    }
}
