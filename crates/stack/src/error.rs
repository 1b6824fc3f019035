//! What is wrong with a stack, where, and how to correct it.

use std::fmt;
use std::ops::Range;

use nestor_text::Marked;
use serde::Serialize;

use crate::{HostTime, LayerIndex, Place, Stack};

/// What is wrong with a stack.
///
/// Prints as several lines: what happened; the stack; a caret under the place with the reason; what to do.
///
/// ```text
/// a stack does not fit together
///   ext4/kvm/jfs/hdd
///            ^^^ kvm needs a block device or an image below it; jfs offers a directory
///   put an image between them: ext4/kvm/raw/jfs/hdd
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(transparent)]
pub struct StackError(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Details {
    kind: StackErrorKind,
    summary: String,
    stack: String,
    span: Range<usize>,
    message: String,
    help: Option<String>,
    suggestion: Option<String>,
    /// Suggestions that were not checked yet; the best that is right is shown.
    #[serde(skip)]
    candidates: Vec<Candidate>,
    /// What to do without the condition under which the suggestion can be built, if it has one.
    #[serde(skip)]
    unconditional: Option<String>,
}

/// Said of a suggestion with several links, which only an emulated host in real time has.
const SEVERAL_LINKS: &str = "several links need `--on emulated:time=real`";

/// Something to suggest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// What to do.
    pub(crate) words: String,
    /// The stack that comes of it.
    pub(crate) text: String,
}

/// What kind of thing is wrong with a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackErrorKind {
    /// No layer at all.
    Empty,
    /// Nothing between two `/`, before the first, or after the last.
    EmptyLayer,
    /// No layer has that name.
    UnknownLayer,
    /// Nothing after a `:`.
    EmptyOption,
    /// The layer has no such option.
    UnknownOption,
    /// An option that needs a value has none.
    MissingValue,
    /// The option does not take that value.
    BadValue,
    /// The option was already given.
    DuplicateOption,
    /// The path of `dev:`, `file:` or `dir:` is missing, relative, or not of that kind.
    BadPath,
    /// A layer does not offer what the one above it needs.
    Type,
    /// The last layer is not a medium.
    MissingMedium,
    /// A medium is not the last layer.
    BelowMedium,
    /// A layer wants a source and has none, or there is a source that no layer, or more than one, wants.
    Source,
    /// Options, or neighbouring layers, that exclude each other.
    Conflict,
    /// Braces expand to too many stacks or are nested too deeply.
    TooManyAlternatives,
    /// A layer that is known but cannot be built yet.
    NotBuildable,
    /// What only another part of Nestor can check, as whether a disk's profile exists.
    Other,
}

impl StackErrorKind {
    /// The first line of a message.
    const fn summary(self) -> &'static str {
        match self {
            Self::Empty => "a stack is empty",
            Self::EmptyLayer => "a stack has an empty layer",
            Self::UnknownLayer => "a stack has a layer that does not exist",
            Self::EmptyOption => "a layer has an empty option",
            Self::UnknownOption => "a layer has an option that does not exist",
            Self::MissingValue => "an option has no value",
            Self::BadValue => "an option has an invalid value",
            Self::DuplicateOption => "an option is given twice",
            Self::BadPath => "a medium has no usable path",
            Self::Type | Self::BelowMedium | Self::MissingMedium => "a stack does not fit together",
            Self::Source => "a stack and its source do not fit together",
            Self::Conflict => "a stack has layers or options that exclude each other",
            Self::TooManyAlternatives => "braces expand to too many stacks",
            Self::NotBuildable => "a stack cannot be built yet",
            Self::Other => "a stack cannot be used",
        }
    }
}

impl StackError {
    pub(crate) fn new(
        kind: StackErrorKind,
        stack: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Details {
            kind,
            summary: kind.summary().to_owned(),
            stack: stack.to_owned(),
            span,
            message: message.into(),
            help: None,
            suggestion: None,
            candidates: Vec::new(),
            unconditional: None,
        }))
    }

    /// An error that points at a layer: its name and options.
    ///
    /// # Panics
    ///
    /// If the stack has no layer `index`.
    pub fn at_layer(
        stack: &Stack,
        index: LayerIndex,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let span = stack.layer(index).span.clone();
        Self::new(StackErrorKind::Other, stack.text(), span, message).with_help(help)
    }

    /// An error that points at the value of an option, or at the layer's name if the option has its default.
    ///
    /// # Panics
    ///
    /// If the stack has no layer `index`.
    pub fn at_option(
        stack: &Stack,
        index: LayerIndex,
        option: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let layer = stack.layer(index);
        let span = layer.value_span(option).unwrap_or_else(|| layer.name_span());
        Self::new(StackErrorKind::Other, stack.text(), span, message).with_help(help)
    }

    /// Another first line, for errors made with [`Self::at_layer`] and [`Self::at_option`].
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.0.summary = summary.into();
        self
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into()).filter(|h| !h.is_empty());
        self
    }

    /// Help that ends with a whole stack if that is right ([`crate::parse::mended`]); otherwise only the words are shown.
    pub(crate) fn suggest(self, words: &str, candidate: String) -> Self {
        self.suggest_first_of(vec![Candidate { words: words.to_owned(), text: candidate }])
    }

    /// The same of the best of these that is right.
    pub(crate) fn suggest_first_of(mut self, candidates: Vec<Candidate>) -> Self {
        let words = candidates.first().map_or_else(String::new, |first| first.words.clone());
        self.0.candidates = candidates;
        self.with_help(words)
    }

    /// What to suggest, which was not checked yet.
    pub(crate) fn take_candidates(&mut self) -> Vec<Candidate> {
        std::mem::take(&mut self.0.candidates)
    }

    /// What to do, and the stack that comes of it, which is right.
    pub(crate) fn with_suggestion(mut self, words: &str, right: &Stack, text: String) -> Self {
        self.0.unconditional = right.has_several_links().then(|| words.to_owned());
        let words = match self.0.unconditional {
            Some(_) => format!("{}; {SEVERAL_LINKS}", words.trim_end_matches('?')),
            None => words.to_owned(),
        };
        self.0.suggestion = Some(text);
        self.ending_with_suggestion(&words)
    }

    fn ending_with_suggestion(mut self, words: &str) -> Self {
        let separator = if words.ends_with('?') { "" } else { ":" };
        let stack = self.0.suggestion.as_deref().unwrap_or_default();
        self.0.help = Some(format!("{words}{separator} {stack}"));
        self
    }

    /// The same for somebody who builds in a place: what the suggestion needs and the place has is not said.
    #[must_use]
    pub fn in_place(mut self, place: &Place) -> Self {
        match (self.0.unconditional.take(), place) {
            (Some(words), Place::Emulated(HostTime::Real)) => self.ending_with_suggestion(&words),
            (words, _) => {
                self.0.unconditional = words;
                self
            }
        }
    }

    /// What kind of thing is wrong.
    pub fn kind(&self) -> StackErrorKind {
        self.0.kind
    }

    /// What happened, in one line.
    pub fn summary(&self) -> &str {
        &self.0.summary
    }

    /// The text of the stack, after expansion of braces.
    pub fn stack(&self) -> &str {
        &self.0.stack
    }

    /// The bytes of [`Self::stack`] the message is about; may be empty where something is missing.
    pub fn span(&self) -> Range<usize> {
        self.0.span.clone()
    }

    /// What is wrong at that place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do; may be several lines.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// A stack that would be right; also part of [`Self::help`], which says so if it needs an emulated host in real time.
    pub fn suggestion(&self) -> Option<&str> {
        self.0.suggestion.as_deref()
    }
}

impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked = Marked { line: &self.stack, span: self.span.clone(), message: &self.message };
        write!(f, "{}\n{marked}", self.summary)?;
        self.help.iter().flat_map(|help| help.lines()).try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text with control characters made visible, so that they can neither move the carets nor the cursor.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// The text with `span` replaced.
pub(crate) fn replaced(text: &str, span: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..span.start], &text[span.end..])
}

/// Words in a row: `a, b or c`.
pub(crate) fn enumerated<'a>(words: impl Iterator<Item = &'a str>, conjunction: &str) -> String {
    match words.collect::<Vec<_>>().as_slice() {
        [words @ .., last] if !words.is_empty() => format!("{} {conjunction} {last}", words.join(", ")),
        words => words.concat(),
    }
}
