//! What a method lacks.

use serde::Serialize;

/// What would have to be known, and the command that finds out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// The command, if there is one.
    pub command: Option<String>,
}
