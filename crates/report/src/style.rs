//! How text is laid out on a terminal: colour or none, width, tables, wrapped paragraphs.

use nestor_terminal::{Paint, paint};
use nestor_text::visible_in_columns;

/// What the terminal can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colour may be used. It never carries meaning alone.
    pub color: bool,
    /// Columns.
    pub width: usize,
}

/// The narrowest terminal that tables are made for.
pub const NARROWEST: usize = 80;
/// The width of text that goes into a file or a pipe.
pub const PIPE_WIDTH: usize = 120;

impl Style {
    /// For files, pipes and issue trackers: no colour.
    pub const fn plain() -> Self {
        Self { color: false, width: PIPE_WIDTH }
    }

    /// For a terminal of `columns`; `no_color` is whether `NO_COLOR` is set to anything but nothing
    /// (<https://no-color.org>).
    pub fn terminal(columns: usize, no_color: bool) -> Self {
        Self { color: !no_color, width: columns.max(NARROWEST) }
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

    /// Breaks a text into lines of the terminal's width, each indented; `first` stands before the first line.
    pub(crate) fn wrapped(self, first: &str, indent: usize, text: &str) -> Vec<String> {
        nestor_text::wrapped(first, indent, self.width, &visible_in_columns(text))
    }
}
