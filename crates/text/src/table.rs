//! Tables.

use unicode_width::UnicodeWidthStr;

use crate::visible_in_columns;

/// The alignment of a text in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table of texts whose columns are two blanks apart.
#[derive(Clone, Debug, Default)]
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; further columns are aligned to the left.
    pub fn new(aligns: &[Align]) -> Self {
        Self { aligns: aligns.to_vec(), rows: Vec::new() }
    }

    /// A table of these rows; the columns in `right` are aligned to the right.
    pub fn of<R: AsRef<[T]>, T: AsRef<str>>(rows: &[R], right: &[usize]) -> Self {
        let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
        let align = |column| if right.contains(&column) { Align::Right } else { Align::Left };
        let mut table = Self { aligns: (0..columns).map(align).collect(), rows: Vec::new() };
        rows.iter().for_each(|row| table.row(row.as_ref()));
        table
    }

    /// Adds a row. A row with a single cell is a remark of any length.
    pub fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        self.rows.push(cells.iter().map(|c| visible_in_columns(c.as_ref())).collect());
    }

    /// The width of its widest line, with the indent.
    pub fn width(&self) -> usize {
        self.lines().iter().map(|l| l.width()).max().unwrap_or(0)
    }

    /// The lines, indented by two, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let rows = || self.rows.iter().filter(|row| row.len() > 1 || columns == 1);
        let width =
            |column| rows().filter_map(|row| row.get(column)).map(|c: &String| c.width()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            // A column that is empty throughout takes no room.
            if *width == 0 && cell.is_empty() {
                continue;
            }
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            let parts = match self.aligns.get(column) {
                Some(Align::Right) => [padding.as_str(), cell],
                _ => [cell, padding.as_str()],
            };
            line.push_str("  ");
            line.extend(parts);
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// All lines, each with its end.
    pub fn text(&self) -> String {
        self.lines().iter().map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_with_their_text() {
        let rows =
            [vec!["what", "n", ""], vec!["äöü-long", "10", ""], vec!["a remark about it"], vec!["b"; 2]];
        let text = Table::of(&rows, &[1]).text();
        assert_eq!(text, "  what       n\n  äöü-long  10\n  a remark about it\n  b          b\n");
        assert_eq!(Table::of(&[["a\tb"]], &[]).text(), "  a\\tb\n");
    }
}
