//! Kinds of requests whose latencies are told apart: a mean over them would say nothing.

use nestor_trace::Operation;
use serde::{Deserialize, Serialize};

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Reads.
    Read,
    /// Writes, with a flush before them or not.
    Write,
    /// Flushes without data.
    Flush,
    /// Discards and writes of zeroes.
    Discard,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];

    /// The class of an operation.
    pub fn of(operation: Operation) -> Self {
        match operation {
            Operation::Read => Self::Read,
            Operation::Write => Self::Write,
            Operation::Flush => Self::Flush,
            Operation::Discard => Self::Discard,
        }
    }

    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

/// Something of each class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes<T>([T; 4]);

impl<T> Classes<T> {
    /// That of a class.
    pub fn get(&self, class: Class) -> &T {
        &self.0[class as usize]
    }

    /// That of a class, to change.
    pub fn get_mut(&mut self, class: Class) -> &mut T {
        &mut self.0[class as usize]
    }
}
