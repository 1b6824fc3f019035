//! An answer, or why there is none.

use serde::Serialize;

/// What is asked for, or why it is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    /// It was measured.
    Known(T),
    /// It was not.
    NotKnown(NotKnown),
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotKnown {
    /// For programs.
    pub why: Why,
    /// For people.
    pub words: String,
    /// What mends it.
    pub mend: String,
}

/// Why something is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// No request was followed.
    NotTraced,
    /// Requests were recorded, and could not be joined.
    NotJoined,
    /// Too many requests have no partner.
    BadlyJoined,
    /// No request reached the lowest level.
    NothingBelow,
    /// An earlier version recorded the run, which did not keep it.
    NotKept,
    /// The terms do not add up to what they are parts of.
    DoesNotAddUp,
    /// No instructions were counted.
    NotCounted,
    /// Instructions of several machines were counted together.
    CountedTogether,
}

impl<T> Answer<T> {
    /// It, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::NotKnown(_) => None,
        }
    }
}

impl<T> From<Result<T, NotKnown>> for Answer<T> {
    fn from(result: Result<T, NotKnown>) -> Self {
        match result {
            Ok(known) => Self::Known(known),
            Err(not_known) => Self::NotKnown(not_known),
        }
    }
}
