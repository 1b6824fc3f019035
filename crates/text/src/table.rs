//! Tables.

use unicode_width::UnicodeWidthStr;

use crate::{fitted, visible_in_columns, wrapped};

/// The least width of a last column whose cells are broken into lines.
const LEAST_COLUMN: usize = 24;
/// How far the cells are indented that do not fit beside the others.
const BELOW: usize = 6;

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

    /// All lines within a width, of a table whose first row is its heading. The cells of the last column are broken into lines where that
    /// is enough; otherwise the columns that do not fit stand below each row, named by their headings.
    pub fn text_within(&self, width: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if self.width() <= width || columns < 2 {
            return self.text();
        }
        let beside = |count: usize| {
            let rows = self.rows.iter().map(|row| row.iter().take(count).cloned().collect()).collect();
            Self { aligns: self.aligns.clone(), rows }
        };
        let count = (1..columns).rev().find(|count| beside(*count).width() <= width).unwrap_or(1);
        let left = beside(count);
        let room_begins = left.width() + 2;
        let last = || self.rows.iter().filter_map(|row| row.get(count));
        let widest_word = last().flat_map(|cell| cell.split(' ')).map(str::width).max().unwrap_or(0);
        let is_last_broken = count + 1 == columns && room_begins + LEAST_COLUMN.max(widest_word) <= width;
        let mut lines = Vec::new();
        for (line, row) in left.lines().into_iter().zip(&self.rows) {
            if is_last_broken {
                let cell = row.get(count).map_or("", String::as_str);
                let padding = " ".repeat(room_begins.saturating_sub(line.width()));
                let broken = wrapped(&format!("{line}{padding}"), room_begins, width, cell);
                lines.extend(if broken.is_empty() { vec![line] } else { broken });
                continue;
            }
            // A first column that is too wide by itself stands alone.
            match line.width() > width {
                true => lines.extend(fitted(&line, width).lines().map(str::to_owned)),
                false => lines.push(line),
            }
            if !std::ptr::eq(row, &self.rows[0]) {
                lines.extend(wrapped(&" ".repeat(BELOW), BELOW, width, &self.named(row, count)));
            }
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The cells of a row from a column on, with their headings.
    fn named(&self, row: &[String], from: usize) -> String {
        let named = row.iter().enumerate().skip(from).filter(|(_, cell)| !cell.is_empty());
        let said = named.map(|(column, cell)| match self.rows[0].get(column).map(|heading| heading.trim()) {
            Some(heading) if !heading.is_empty() => format!("{heading}: {cell}"),
            _ => cell.clone(),
        });
        said.collect::<Vec<_>>().join("; ")
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
    fn a_table_that_is_too_wide_is_broken_in_its_last_column_or_below_its_rows() {
        let rows = [
            ["option", "default", ""],
            [":size", "16G", "one two three four five six seven"],
            [":at", "-", ""],
        ];
        let table = Table::of(&rows, &[]);
        assert_eq!(table.text_within(80), table.text());
        assert_eq!(
            table.text_within(44),
            "  option  default\n  :size   16G      one two three four five\n                   six seven\n  :at     -\n"
        );
        assert_eq!(
            table.text_within(30),
            "  option  default\n  :size   16G\n      one two three four five\n      six seven\n  :at     -\n"
        );
        // A word that has no room beside the others has it below.
        let rows = [["kvm", "missing", ""], ["vmware", "missing", "from https://www.vmware.com/products/"]];
        assert_eq!(
            Table::of(&rows, &[]).text_within(46),
            "  kvm     missing\n  vmware  missing\n      from https://www.vmware.com/products/\n"
        );
        let wide = [["", "expected", "allowed"], ["a rate of one", "1 kbit/s", "0.9 to 1.1 kbit/s"]];
        assert_eq!(
            Table::of(&wide, &[]).text_within(24),
            "\n  a rate of one\n      expected: 1 kbit/s;\n      allowed: 0.9 to 1.1\n      kbit/s\n"
        );
    }

    #[test]
    fn columns_line_up_and_lines_end_with_their_text() {
        let rows =
            [vec!["what", "n", ""], vec!["äöü-long", "10", ""], vec!["a remark about it"], vec!["b"; 2]];
        let text = Table::of(&rows, &[1]).text();
        assert_eq!(text, "  what       n\n  äöü-long  10\n  a remark about it\n  b          b\n");
        assert_eq!(Table::of(&[["a\tb"]], &[]).text(), "  a\\tb\n");
    }
}
