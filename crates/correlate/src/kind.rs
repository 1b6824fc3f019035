//! What was recorded at a trace point. Files of requests and results keep it as text, in the words of [`LevelKind`]'s `Display`.

use std::fmt;

use nestor_stack::MachineLabel;
use serde::{Deserialize, Serialize};

/// What was recorded at a trace point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LevelKind {
    /// `application`: its own operations.
    Application,
    /// A block device, with its machine: `guest block`, `host block`.
    Block(MachineLabel),
    /// `hypervisor`: its requests on a virtual disk.
    Hypervisor,
    /// `image file`: a hypervisor's requests on the file that holds a virtual disk in an image format.
    ImageFile,
    /// `medium`.
    Medium,
    /// Words that nothing decides on; none where it is not known.
    Other(String),
}

impl Default for LevelKind {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl LevelKind {
    /// Whether it is a block device of the outermost machine.
    pub fn is_host_block(&self) -> bool {
        *self == Self::Block(MachineLabel::Host)
    }
}

/// What ends the words for a block device.
const BLOCK: &str = " block";

impl fmt::Display for LevelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => f.pad("application"),
            Self::Block(machine) => f.pad(&format!("{machine}{BLOCK}")),
            Self::Hypervisor => f.pad("hypervisor"),
            Self::ImageFile => f.pad("image file"),
            Self::Medium => f.pad("medium"),
            Self::Other(words) => f.pad(words),
        }
    }
}

impl From<&str> for LevelKind {
    fn from(words: &str) -> Self {
        match (words, words.strip_suffix(BLOCK).map(str::parse)) {
            ("application", _) => Self::Application,
            ("hypervisor", _) => Self::Hypervisor,
            ("image file", _) => Self::ImageFile,
            ("medium", _) => Self::Medium,
            (_, Some(Ok(machine))) => Self::Block(machine),
            _ => Self::Other(words.to_owned()),
        }
    }
}

impl From<String> for LevelKind {
    fn from(words: String) -> Self {
        words.as_str().into()
    }
}

impl From<LevelKind> for String {
    fn from(kind: LevelKind) -> Self {
        kind.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept() {
        for words in [
            "application",
            "guest 2 block",
            "host block",
            "vm block",
            "hypervisor",
            "image file",
            "medium",
            "block",
            "",
        ] {
            assert_eq!(LevelKind::from(words).to_string(), words);
        }
        assert!(LevelKind::from("host block").is_host_block());
        assert!(!LevelKind::from("guest block").is_host_block());
        assert_eq!(LevelKind::from("").to_string(), LevelKind::default().to_string());
    }
}
