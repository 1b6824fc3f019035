//! The tables of a published study as text.

use nestor_results::{Figure, FigureKind, FigureRow};
use nestor_text::{Align, Table, visible_in_columns as visible};

use super::Lines;
use crate::labels::distinct;
use crate::{Style, units};

/// The figures of a study that are tables of numbers, each panel by itself.
pub fn tables_text(figures: &[Figure], style: Style) -> String {
    let mut lines = Lines::default();
    for figure in figures.iter().filter(|figure| figure.query.kind == FigureKind::Table) {
        lines.gap();
        let title = format!("{}  {}", figure.query.id, figure.query.title);
        lines.extend(style.wrapped("  ", 4, &visible(&title)).iter().map(|line| style.strong(line)));
        lines.extend(style.wrapped("  ", 4, &visible(&figure.query.y)).iter().map(|line| style.faint(line)));
        let problem = figure.problem.iter().flat_map(|problem| style.wrapped("  ", 4, &visible(problem)));
        lines.extend(problem.map(|line| style.caution(&line)));
        for panel in distinct(figure.rows.iter().map(|row| row.panel.as_str())) {
            let rows: Vec<&FigureRow> = figure.rows.iter().filter(|row| row.panel == panel).collect();
            lines.gap();
            lines.extend(table(panel, &rows).lines());
        }
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
            found.next().map(|(row, _)| units::digits(row.y)).unwrap_or_default()
        };
        let values = columns.iter().map(value);
        table.row(&std::iter::once(series.to_owned()).chain(values).collect::<Vec<_>>());
    }
    table
}
