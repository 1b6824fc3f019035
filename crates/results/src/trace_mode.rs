//! How much of a cell is recorded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much of a cell is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceMode {
    /// Every boundary, the layouts of the file systems, and each request joined through all of them.
    #[default]
    Full,
    /// The block devices and the modelled disk, condensed to the numbers of each layer.
    Layers,
    /// Nothing.
    None,
}

impl TraceMode {
    /// The words for all of them, the default first.
    pub const WORDS: [&'static str; 3] = ["full", "layers", "none"];

    /// What cells were recorded with before there was a choice.
    pub(crate) fn of_old_records() -> Self {
        Self::Layers
    }

    /// Whether anything is recorded.
    pub fn records(self) -> bool {
        self != Self::None
    }
}

impl fmt::Display for TraceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Layers => "layers",
            Self::None => "none",
        })
    }
}

impl FromStr for TraceMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "layers" => Ok(Self::Layers),
            "none" => Ok(Self::None),
            _ => Err(format!("`{text}` is not one of {}", Self::WORDS.join(", "))),
        }
    }
}
