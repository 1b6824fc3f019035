//! What a shell offers for the rest of a word.

/// A longer beginning of a word, or the whole of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The word from its start. More has to follow if it ends with `/`, `:` or `=`.
    pub text: String,
    /// One line: what was added; may be empty.
    pub summary: String,
}

impl Completion {
    /// With a summary.
    pub fn new(text: impl Into<String>, summary: impl Into<String>) -> Self {
        Self { text: text.into(), summary: summary.into() }
    }
}
