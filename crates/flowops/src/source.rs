//! The text of a script.

use nestor_wml::Span;

/// The text of a script, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// What it is called.
    pub name: &'s str,
    /// The text.
    pub text: &'s str,
}

impl Source<'_> {
    /// The line of a place, counted from 1.
    pub(crate) fn line_of(&self, span: &Span) -> usize {
        1 + self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count()
    }

    /// The line and the character in it of a place, counted from 1.
    pub(crate) fn place_of(&self, span: &Span) -> (usize, usize) {
        let before = String::from_utf8_lossy(&self.text.as_bytes()[..span.start.min(self.text.len())]);
        (self.line_of(span), 1 + before.chars().rev().take_while(|c| *c != '\n').count())
    }
}
