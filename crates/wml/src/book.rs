//! The texts of a script: its file, what was loaded into it and what the command line set, one after the other, so that
//! one range of bytes names a place in any of them.

use std::ops::Range;

/// All texts of a script.
pub(crate) struct Book {
    text: String,
    parts: Vec<Part>,
    /// Where each line begins.
    lines: Vec<usize>,
}

struct Part {
    start: usize,
    /// Index of its first line.
    first_line: usize,
    name: String,
}

/// Where a range of bytes is.
pub(crate) struct Place {
    /// Name of its text.
    pub(crate) name: String,
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// Character of the line, counted from 1.
    pub(crate) column: usize,
    /// The line.
    pub(crate) text: String,
    /// The part of the line that is in the range.
    pub(crate) blamed: Range<usize>,
}

impl Book {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), parts: Vec::new(), lines: Vec::new() }
    }

    /// Adds a text and gives its range.
    pub(crate) fn add(&mut self, name: &str, text: &str) -> Range<usize> {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let start = self.text.len();
        self.parts.push(Part { start, first_line: self.lines.len(), name: name.to_owned() });
        self.lines.push(start);
        self.text.push_str(text);
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        self.lines.extend(ends.map(|(at, _)| start + at + 1));
        start..self.text.len()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Line of a byte in its text, counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.line_index(at) + 1 - self.part(at).map_or(0, |part| part.first_line)
    }

    /// Where a range is.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let begin = self.lines.get(self.line_index(span.start)).copied().unwrap_or(0);
        let rest = self.text.get(begin..).unwrap_or_default();
        let text = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r').to_owned();
        let start = span.start.saturating_sub(begin).min(text.len());
        let end = span.end.saturating_sub(begin).clamp(start, text.len());
        let before = text.get(..start).unwrap_or_default();
        Place {
            name: self.part(span.start).map(|part| part.name.clone()).unwrap_or_default(),
            line: self.line(span.start),
            column: before.chars().count() + 1,
            blamed: start..end,
            text,
        }
    }

    fn line_index(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at).saturating_sub(1)
    }

    fn part(&self, at: usize) -> Option<&Part> {
        self.parts.get(self.parts.partition_point(|part| part.start <= at).saturating_sub(1))
    }
}
