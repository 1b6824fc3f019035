//! How text is laid out on a terminal: colour or none, width, tables, wrapped paragraphs.

use nestor_terminal::{Paint, paint};
use unicode_width::UnicodeWidthStr;

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
        let room = self.width.saturating_sub(indent).max(20);
        let mut lines: Vec<String> = Vec::new();
        for word in unbreakable(&visible(text)) {
            match lines.last_mut() {
                Some(line) if line.width() + 1 + word.width() <= room => {
                    line.push(' ');
                    line.push_str(&word);
                }
                _ => lines.push(word),
            }
        }
        let margin = " ".repeat(indent);
        lines
            .iter()
            .enumerate()
            .map(|(i, l)| format!("{}{l}", if i == 0 { first } else { &margin }))
            .collect()
    }
}

/// The words of a text, numbers together with their units.
pub(crate) fn unbreakable(text: &str) -> Vec<String> {
    const UNITS: [&str; 14] =
        ["%", "B", "KiB", "MiB", "GiB", "TiB", "MB/s", "IOPS", "ns", "us", "ms", "s", "min", "h"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', ';', ':', '.', ')', '(']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&unit) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The text with what a terminal would obey written out: names and messages come from outside. Tabs too, for they are
/// wider than they are counted.
pub(crate) fn visible(text: &str) -> String {
    nestor_terminal::visible(text).replace('\t', "\\t")
}

/// On which side of its column a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table of texts whose columns stand two spaces apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(aligns: &[Align]) -> Self {
        Self { aligns: aligns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        self.rows.push(cells.iter().map(|c| visible(c.as_ref())).collect());
    }

    /// The width of its widest line, with the indent.
    pub(crate) fn width(&self) -> usize {
        self.lines().iter().map(|l| l.width()).max().unwrap_or(0)
    }

    /// The lines, indented by two, without spaces at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.aligns.len())
            .map(|column| {
                self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.width()).max().unwrap_or(0)
            })
            .collect();
        self.rows
            .iter()
            .map(|row| {
                let mut line = String::new();
                for ((cell, width), align) in row.iter().zip(&widths).zip(&self.aligns) {
                    // A column that is empty throughout takes no room.
                    if *width == 0 {
                        continue;
                    }
                    let padding = " ".repeat(width - cell.width());
                    line.push_str("  ");
                    match align {
                        Align::Left => line.extend([cell.as_str(), padding.as_str()]),
                        Align::Right => line.extend([padding.as_str(), cell.as_str()]),
                    }
                }
                line.trim_end().to_owned()
            })
            .collect()
    }
}
