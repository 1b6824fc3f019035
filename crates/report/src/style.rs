//! How text is laid out on a terminal: colour or none, width, tables, wrapped paragraphs.

use nestor_terminal::{Paint, paint};
use nestor_text::{Table, visible_in_columns};

/// What the terminal can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colour may be used. It never carries meaning alone.
    pub color: bool,
    /// Columns.
    pub width: usize,
    /// Whether tables that are wider are folded: for eyes, and not for what reads a pipe line by line.
    pub folds_tables: bool,
}

/// The narrowest terminal that text is laid out for.
pub const NARROWEST: usize = 40;
/// The columns of a terminal that does not say how many it has.
const USUAL: usize = 80;
/// The width of text that goes into a file or a pipe.
pub const PIPE_WIDTH: usize = 120;

impl Style {
    /// For files, pipes and issue trackers: no colour.
    pub const fn plain() -> Self {
        Self { color: false, width: PIPE_WIDTH, folds_tables: false }
    }

    /// For a terminal of `columns`, 0 where it does not say; `no_color` is whether `NO_COLOR` is set to anything but nothing
    /// (<https://no-color.org>).
    pub fn terminal(columns: usize, no_color: bool) -> Self {
        let columns = if columns == 0 { USUAL } else { columns };
        Self { color: !no_color, width: columns.max(NARROWEST), folds_tables: true }
    }

    /// The answer.
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(Paint::Strong, text)
    }

    /// What makes a number less than it seems.
    pub(crate) fn caution(self, text: &str) -> String {
        self.paint(Paint::Caution, text)
    }

    /// What went wrong.
    pub(crate) fn wrong(self, text: &str) -> String {
        self.paint(Paint::Wrong, text)
    }

    /// What is there for completeness.
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint(Paint::Faint, text)
    }

    fn paint(self, how: Paint, text: &str) -> String {
        if self.color && !text.is_empty() { paint(how, text) } else { text.to_owned() }
    }

    /// The lines of a table, folded where it is wider than the terminal.
    pub(crate) fn table(self, table: &Table) -> Vec<String> {
        match self.folds_tables {
            true => table.text_within(self.width).lines().map(str::to_owned).collect(),
            false => table.lines(),
        }
    }

    /// Parts beside each other, or each on lines of its own where that is wider than the terminal.
    pub(crate) fn joined(self, parts: &[String]) -> Vec<String> {
        let line = format!("  {}", parts.join("  "));
        if line.chars().count() <= self.width {
            return vec![line];
        }
        parts.iter().flat_map(|part| self.wrapped("  ", 4, part)).collect()
    }

    /// Breaks a text into lines of the terminal's width, each indented; `first` stands before the first line.
    pub(crate) fn wrapped(self, first: &str, indent: usize, text: &str) -> Vec<String> {
        nestor_text::wrapped(first, indent, self.width, &visible_in_columns(text))
    }
}
