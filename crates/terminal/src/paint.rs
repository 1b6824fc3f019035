//! The few colours of our own, and how they get through.

use std::borrow::Cow;

use crate::visible;

/// How a text may look. It never carries meaning alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The answer.
    Strong,
    /// What makes a number less than it seems.
    Caution,
    /// What went wrong.
    Wrong,
    /// What is there for completeness.
    Faint,
}

const END: &str = "\x1b[0m";

impl Paint {
    const ALL: [Self; 4] = [Self::Strong, Self::Caution, Self::Wrong, Self::Faint];

    const fn begin(self) -> &'static str {
        match self {
            Self::Strong => "\x1b[1m",
            Self::Caution => "\x1b[33m",
            Self::Wrong => "\x1b[31m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// The text, painted; what is hidden in it is written out first.
pub fn paint(how: Paint, text: &str) -> String {
    format!("{}{}{END}", how.begin(), visible(text))
}

/// What [`visible`] does, with the sequences of [`paint`] left in. These five alone get through to a terminal with
/// colours, whatever their source: they change the look of text and nothing else.
pub(crate) fn visible_with_paint(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return visible(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut painted = false;
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        shown.push_str(&visible(&rest[..at]));
        rest = &rest[at..];
        let ours = Paint::ALL.map(Paint::begin).into_iter().chain([END]).find(|ours| rest.starts_with(ours));
        let taken = ours.unwrap_or("\x1b");
        match ours {
            Some(ours) => {
                shown.push_str(ours);
                painted = ours != END;
            }
            None => shown.push_str(&visible(taken)),
        }
        rest = &rest[taken.len()..];
    }
    shown.push_str(&visible(rest));
    if painted {
        // The terminal never stays in a colour.
        shown.push_str(END);
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_paint_gets_through_and_nothing_else_does() {
        let ours = paint(Paint::Strong, "12 MB/s") + " beside " + &paint(Paint::Faint, "a study");
        assert_eq!(visible_with_paint(&ours), ours);
        for hostile in ["\x1b[2J", "\x1b[1;1H", "\x1b[8m", "\x1b]0;x\x07", "\x1b[38;5;1m", "\x1b", "\x1b[1"] {
            assert_eq!(visible_with_paint(hostile).matches('\x1b').count(), 0, "{hostile:?}");
            assert_eq!(paint(Paint::Wrong, hostile).matches('\x1b').count(), 2, "{hostile:?}");
        }
    }

    #[test]
    fn a_colour_ends_with_the_text() {
        assert_eq!(visible_with_paint("a title \x1b[31m"), "a title \x1b[31m\x1b[0m");
    }
}
