//! Why a request was chosen to be shown.

use std::fmt;

use nestor_trace::Operation;
use serde::{Deserialize, Serialize};

/// Why a request was chosen. A results file keeps it in the words of [`Choice::stored`]; tables show those of `Display`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Choice {
    /// Its latency is nearest to this one of all operations of its kind.
    Latency(Rank, Operation),
    /// It is one of those around the middle of the run.
    AroundTheMiddle,
}

/// Which latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The median.
    Median,
    /// The 99th percentile.
    P99,
    /// The largest.
    Longest,
}

impl Rank {
    /// All.
    pub const ALL: [Self; 3] = [Self::Median, Self::P99, Self::Longest];

    /// The quantile, 0 to 1.
    pub fn quantile(self) -> f64 {
        match self {
            Self::Median => 0.5,
            Self::P99 => 0.99,
            Self::Longest => 1.0,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::P99 => "p99",
            Self::Longest => "longest",
        }
    }
}

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

impl Choice {
    /// The words in which results keep it. They are those of every version, whatever tables call it.
    pub fn stored(self) -> String {
        let Self::Latency(rank, operation) = self else { return "around the middle of the run".to_owned() };
        let rank = match rank {
            Rank::Median => "median",
            Rank::P99 => "p99",
            Rank::Longest => "longest",
        };
        let operation = match operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        };
        format!("{rank} {operation}")
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(rank, operation) => write!(f, "{} {}", rank.word(), operation.word()),
            Self::AroundTheMiddle => f.write_str("around the middle of the run"),
        }
    }
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        choice.stored()
    }
}

impl TryFrom<String> for Choice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let ranked = |rank| OPERATIONS.into_iter().map(move |operation| Self::Latency(rank, operation));
        Rank::ALL
            .into_iter()
            .flat_map(ranked)
            .chain([Self::AroundTheMiddle])
            .find(|choice| choice.stored() == text)
            .ok_or_else(|| format!("no request is chosen as {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_back_from_its_words() {
        let p99 = Choice::Latency(Rank::P99, Operation::Write);
        assert_eq!((p99.stored(), p99.to_string()), ("p99 write".to_owned(), "p99 write".to_owned()));
        for choice in [p99, Choice::AroundTheMiddle, Choice::Latency(Rank::Longest, Operation::Discard)] {
            assert_eq!(Choice::try_from(String::from(choice)), Ok(choice));
        }
        assert!(Choice::try_from("p98 write".to_owned()).is_err());
    }
}
