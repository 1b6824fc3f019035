//! Why a description cannot be read.

use std::fmt;

/// What is wrong with a description, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, or what stands for one.
    pub source_name: String,
    /// Line, from 1, where lines are.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl ConfigError {
    pub(crate) fn new(source_name: &str, line: Option<usize>, message: String, help: &str) -> Self {
        Self { source_name: source_name.to_owned(), line, message, help: help.to_owned() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source_name)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}\n  {}", self.message, self.help)
    }
}
