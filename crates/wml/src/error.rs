//! What can be wrong with a script.

use std::fmt;

use nestor_text::Marked;

use crate::Span;
use crate::book::Book;

/// Columns of a line that are shown to either side of what is to blame.
const SHOWN_COLUMNS: usize = 60;

/// A script that is not understood: what is wrong, where, and what would fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WmlError {
    /// The file, or `--set` for a variable of the command line.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Character of the line, counted from 1.
    pub column: usize,
    /// The line, shortened if it is long.
    pub excerpt: String,
    /// The bytes of the excerpt that are to blame.
    pub blamed: Span,
    /// What is wrong.
    pub problem: Box<Problem>,
    /// What to write instead.
    pub remedy: String,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Bytes that are no text.
    #[error("this is not text")]
    Binary,
    /// A character that means nothing.
    #[error("the character {0:?} has no meaning here")]
    Character(char),
    /// A string without its second quotation mark.
    #[error("this string does not end")]
    UnclosedString,
    /// A brace or parenthesis without its partner.
    #[error("{0} is not closed")]
    Unclosed(String),
    /// Something else has to stand here.
    #[error("{found} is not allowed here")]
    Unexpected {
        /// What was found.
        found: String,
    },
    /// A number of more than 63 bits.
    #[error("the number {0} is too large")]
    TooLarge(String),
    /// The word begins no command.
    #[error("there is no command {0:?}")]
    UnknownCommand(String),
    /// The word is no flowop.
    #[error("there is no flowop {0:?}")]
    UnknownFlowop(String),
    /// The word is no attribute of what it stands in.
    #[error("{place} has no attribute {name:?}")]
    UnknownAttribute {
        /// What it stands in, as `a flowop`.
        place: &'static str,
        /// The word.
        name: String,
    },
    /// An attribute that has to be there is not.
    #[error("{place} has no {attribute}")]
    Missing {
        /// What needs it.
        place: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// A value that does not fit.
    #[error("{what} cannot be {value}")]
    Value {
        /// What has the value.
        what: String,
        /// The value.
        value: String,
    },
    /// A variable that has no value.
    #[error("{name} has no value")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// Whether one with nearly the same name has a value.
        is_misspelt: bool,
    },
    /// No file or file set has the name.
    #[error("there is no file set {0:?}")]
    UnknownFileSet(String),
    /// No flowop has the name.
    #[error("no flowop with name={0} is {1}")]
    UnknownTarget(String, &'static str),
    /// Something defined twice.
    #[error("{0} is defined twice")]
    Twice(String),
    /// A calculation without a result.
    #[error("{0}")]
    Arithmetic(String),
    /// Something contains itself.
    #[error("{0} contains itself")]
    Recursion(String),
    /// More levels than are read.
    #[error("{0} are nested too deeply")]
    TooDeep(&'static str),
    /// More than a script may ask for.
    #[error("the script grows too large here")]
    TooMuch,
    /// Anything else that does not go together.
    #[error("{0}")]
    Misfit(String),
}

/// A problem and its place, before the texts are at hand.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) problem: Problem,
    pub(crate) remedy: String,
}

impl Fault {
    pub(crate) fn new(span: &Span, problem: Problem, remedy: impl Into<String>) -> Box<Self> {
        Box::new(Self { span: span.clone(), problem, remedy: remedy.into() })
    }

    pub(crate) fn misfit(span: &Span, problem: impl Into<String>, remedy: impl Into<String>) -> Box<Self> {
        Self::new(span, Problem::Misfit(problem.into()), remedy)
    }

    pub(crate) fn value(
        span: &Span,
        what: impl Into<String>,
        value: impl fmt::Display,
        remedy: impl Into<String>,
    ) -> Box<Self> {
        Self::new(span, Problem::Value { what: what.into(), value: value.to_string() }, remedy)
    }

    /// Finds the place in its text.
    pub(crate) fn locate(self, book: &Book) -> WmlError {
        let place = book.place(&self.span);
        let (excerpt, blamed) = shorten(&place.text, place.blamed);
        WmlError {
            file: place.name,
            line: place.line,
            column: place.column,
            excerpt,
            blamed,
            problem: Box::new(self.problem),
            remedy: self.remedy,
        }
    }
}

/// A long line is cut to what is around the blamed bytes; its indentation is left out.
fn shorten(line: &str, blamed: Span) -> (String, Span) {
    let indent = (line.len() - line.trim_start().len()).min(blamed.start);
    let floor = |at: usize| (0..=at).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    let mut from = floor(blamed.start.saturating_sub(SHOWN_COLUMNS)).max(indent);
    let mut until = floor((blamed.end.min(blamed.start + SHOWN_COLUMNS) + SHOWN_COLUMNS).min(line.len()));
    if from <= indent + 3 {
        from = indent;
    }
    if until + 3 >= line.len() {
        until = line.len();
    }
    let head = if from > indent { "…" } else { "" };
    let tail = if until < line.len() { "…" } else { "" };
    let excerpt = format!("{head}{}{tail}", line.get(from..until).unwrap_or_default().trim_end());
    let start = (head.len() + blamed.start - from).min(excerpt.len());
    let end = (head.len() + blamed.end.min(until) - from).clamp(start, excerpt.len());
    (excerpt, start..end)
}

impl fmt::Display for WmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked = Marked { line: &self.excerpt, span: self.blamed.clone(), message: &self.problem };
        write!(f, "a script is not understood: {}:{}:{}\n{marked}", self.file, self.line, self.column)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.remedy) }
    }
}
