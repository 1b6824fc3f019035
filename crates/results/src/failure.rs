//! Why a cell has no numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of thing went wrong, as far as it decides what a failure says of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCause {
    /// The stack cannot be made as it is written.
    NotPossible,
    /// A program is missing where it is needed.
    NotInstalled,
    /// A machine was lost, or did not come up.
    MachineLost,
    /// Something was full.
    NoSpace,
    /// There was not enough memory.
    NoMemory,
    /// The workload's program ended without its results.
    Workload,
    /// Any other fault of the laboratory.
    Other,
}

/// Why a cell has no numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct CellFailure {
    /// What kind of thing went wrong; `None` in records of before it was kept.
    pub cause: Option<FailureCause>,
    /// The whole error message.
    pub message: String,
}

/// Its form in a record. A failure from before causes were kept is written as it was read, so that the record keeps its id.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Message(String),
    WithCause { cause: FailureCause, message: String },
}

impl CellFailure {
    /// With its cause.
    pub fn new(cause: FailureCause, message: impl Into<String>) -> Self {
        Self { cause: Some(cause), message: message.into() }
    }

    /// Whether the stack itself cannot be made, in contrast to a fault of the laboratory.
    pub fn says_not_possible(&self) -> bool {
        self.cause == Some(FailureCause::NotPossible)
    }
}

impl fmt::Display for CellFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Stored> for CellFailure {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Message(message) => Self { cause: None, message },
            Stored::WithCause { cause, message } => Self { cause: Some(cause), message },
        }
    }
}

impl From<CellFailure> for Stored {
    fn from(CellFailure { cause, message }: CellFailure) -> Self {
        match cause {
            None => Self::Message(message),
            Some(cause) => Self::WithCause { cause, message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_before_causes_were_kept_stays_as_it_was_written() {
        let old = "\"guest: the machine is gone: its agent closed the connection\"";
        let failure: CellFailure = serde_json::from_str(old).unwrap();
        assert_eq!(failure.cause, None);
        assert!(!failure.says_not_possible());
        assert_eq!(serde_json::to_string(&failure).unwrap(), old);
    }

    #[test]
    fn a_cause_is_kept() {
        let failure = CellFailure::new(FailureCause::NotPossible, "no");
        let stored = serde_json::to_string(&failure).unwrap();
        assert_eq!(stored, r#"{"cause":"not-possible","message":"no"}"#);
        assert_eq!(serde_json::from_str::<CellFailure>(&stored).unwrap(), failure);
    }
}
