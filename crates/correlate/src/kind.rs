//! What was recorded at a trace point. Files of requests and results keep it in the words of [`LevelKind::stored`]; tables show those of `Display`.

use std::fmt;

use nestor_stack::MachineLabel;
use nestor_trace::RequestHeader;
use serde::{Deserialize, Serialize};

/// What was recorded at a trace point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LevelKind {
    /// `application`: its own operations.
    Application,
    /// A block device, with its machine: `guest block`, `host block`.
    Block(MachineLabel),
    /// Calls of a network file system on a file, with the machine at whose end they were seen: `client calls`, `host calls`.
    Calls(MachineLabel),
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
    /// The words in which files of requests and results keep it. They are those of every version, whatever tables call it.
    pub fn stored(&self) -> String {
        match self {
            Self::Application => RequestHeader::APPLICATION.to_owned(),
            Self::Block(machine) => machine.stored() + RequestHeader::BLOCK,
            Self::Calls(machine) => machine.stored() + RequestHeader::CALLS,
            Self::Hypervisor => RequestHeader::HYPERVISOR.to_owned(),
            Self::ImageFile => RequestHeader::IMAGE_FILE.to_owned(),
            Self::Medium => RequestHeader::MEDIUM.to_owned(),
            Self::Other(words) => words.clone(),
        }
    }

    /// Whether it is a block device of the outermost machine.
    pub fn is_host_block(&self) -> bool {
        *self == Self::Block(MachineLabel::Host)
    }
}

impl fmt::Display for LevelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application => f.pad("application"),
            Self::Block(machine) => f.pad(&format!("{machine} block")),
            Self::Calls(machine) => f.pad(&format!("{machine} calls")),
            Self::Hypervisor => f.pad("hypervisor"),
            Self::ImageFile => f.pad("image file"),
            Self::Medium => f.pad("medium"),
            Self::Other(words) => f.pad(words),
        }
    }
}

impl From<&str> for LevelKind {
    fn from(words: &str) -> Self {
        let of_machine = |ending| words.strip_suffix(ending)?.parse().ok();
        match words {
            RequestHeader::APPLICATION => Self::Application,
            RequestHeader::HYPERVISOR => Self::Hypervisor,
            RequestHeader::IMAGE_FILE => Self::ImageFile,
            RequestHeader::MEDIUM => Self::Medium,
            _ => {
                let block = of_machine(RequestHeader::BLOCK).map(Self::Block);
                let calls = || of_machine(RequestHeader::CALLS).map(Self::Calls);
                block.or_else(calls).unwrap_or_else(|| Self::Other(words.to_owned()))
            }
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
        kind.stored()
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
            "client calls",
            "host calls",
            " calls",
            "hypervisor",
            "image file",
            "medium",
            "block",
            "",
        ] {
            let kind = LevelKind::from(words);
            assert_eq!((kind.stored(), kind.to_string()), (words.to_owned(), words.to_owned()));
        }
        assert!(LevelKind::from("host block").is_host_block());
        assert!(!LevelKind::from("guest block").is_host_block());
        assert_eq!(LevelKind::from(""), LevelKind::default());
    }
}
