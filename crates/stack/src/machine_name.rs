//! What the machines of a stack are called. Results keep a name in the words of `stored`; tables show those of `Display`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a machine is called in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineLabel {
    /// `host`: the outermost.
    Host,
    /// `host 2`, `host 3` …: as the outermost, for other instances of the same image.
    OtherHost(u32),
    /// `guest`, `guest 2` …: the first, the second … inside another.
    Guest(u32),
    /// `client`, `client 2` … above a link.
    Client(u32),
    /// `repository`: the machine that has the source of an image.
    Repository,
}

const HOST: &str = "host";
const GUEST: &str = "guest";
const CLIENT: &str = "client";
const REPOSITORY: &str = "repository";
const APPLICATION: &str = "application";
const GROUND: &str = "ground";
const MEDIUM: &str = "medium";

impl MachineLabel {
    /// The words in which results keep it. They are those of every version, whatever tables call it.
    pub fn stored(self) -> String {
        let (word, number) = match self {
            Self::Host => (HOST, 1),
            Self::OtherHost(number) => (HOST, number),
            Self::Guest(number) => (GUEST, number),
            Self::Client(number) => (CLIENT, number),
            Self::Repository => (REPOSITORY, 1),
        };
        if number == 1 { word.to_owned() } else { format!("{word} {number}") }
    }
}

impl fmt::Display for MachineLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::OtherHost(number) => write!(f, "host {number}"),
            Self::Repository => f.write_str("repository"),
            Self::Guest(1) => f.write_str("guest"),
            Self::Guest(number) => write!(f, "guest {number}"),
            Self::Client(1) => f.write_str("client"),
            Self::Client(number) => write!(f, "client {number}"),
        }
    }
}

/// Reads what [`MachineLabel::stored`] writes.
impl FromStr for MachineLabel {
    type Err = ();

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        // Written in one way only: the first has no number.
        let numbered = |number: &str| number.parse().ok().filter(|n: &u32| *n > 1 && n.to_string() == number);
        let (word, number) = match words.split_once(' ') {
            Some((word, number)) => (word, numbered(number).ok_or(())?),
            None => (words, 1),
        };
        match (word, number) {
            (HOST, 1) => Ok(Self::Host),
            (HOST, number) => Ok(Self::OtherHost(number)),
            (REPOSITORY, 1) => Ok(Self::Repository),
            (GUEST, number) => Ok(Self::Guest(number)),
            (CLIENT, number) => Ok(Self::Client(number)),
            _ => Err(()),
        }
    }
}

/// Where something was measured, as results and files of requests keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum MachineName {
    /// It is not known. It has no words.
    #[default]
    Unknown,
    /// A machine of the stack.
    Of(MachineLabel),
    /// `application`: its times are on a clock of its own.
    Application,
    /// `ground`: the machine that runs Nestor, which serves modelled disks.
    Ground,
    /// `medium`: a disk whose machine is not known.
    Medium,
    /// Words of another version or of the user, which nothing decides on.
    Other(String),
}

impl MachineName {
    /// The outermost machine of a stack.
    pub const HOST: Self = Self::Of(MachineLabel::Host);

    /// Whether it is a machine at the upper end of a link.
    pub const fn is_client(&self) -> bool {
        matches!(self, Self::Of(MachineLabel::Client(_)))
    }

    /// The words in which results and files of requests keep it. They are those of every version, whatever tables call it.
    pub fn stored(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Of(label) => label.stored(),
            Self::Application => APPLICATION.to_owned(),
            Self::Ground => GROUND.to_owned(),
            Self::Medium => MEDIUM.to_owned(),
            Self::Other(words) => words.clone(),
        }
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Of(label) => label.fmt(f),
            Self::Application => f.write_str("application"),
            Self::Ground => f.write_str("ground"),
            Self::Medium => f.write_str("medium"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl From<MachineLabel> for MachineName {
    fn from(label: MachineLabel) -> Self {
        Self::Of(label)
    }
}

impl From<&str> for MachineName {
    fn from(words: &str) -> Self {
        match words {
            "" => Self::Unknown,
            APPLICATION => Self::Application,
            GROUND => Self::Ground,
            MEDIUM => Self::Medium,
            _ => words.parse().map_or_else(|()| Self::Other(words.to_owned()), Self::Of),
        }
    }
}

impl From<String> for MachineName {
    fn from(words: String) -> Self {
        words.as_str().into()
    }
}

impl From<MachineName> for String {
    fn from(name: MachineName) -> Self {
        name.stored()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for (name, words) in [
            (MachineName::Unknown, ""),
            (MachineName::HOST, "host"),
            (MachineName::Of(MachineLabel::Guest(1)), "guest"),
            (MachineName::Of(MachineLabel::Guest(2)), "guest 2"),
            (MachineName::Of(MachineLabel::Client(1)), "client"),
            (MachineName::Of(MachineLabel::Client(3)), "client 3"),
            (MachineName::Of(MachineLabel::Repository), "repository"),
            (MachineName::Application, "application"),
            (MachineName::Ground, "ground"),
            (MachineName::Medium, "medium"),
            (MachineName::Other("guest 1".to_owned()), "guest 1"),
        ] {
            assert_eq!((name.stored().as_str(), name.to_string().as_str()), (words, words));
            assert_eq!(MachineName::from(words), name);
        }
    }

    proptest! {
        #[test]
        fn any_words_are_kept(words in "\\PC*") {
            prop_assert_eq!(MachineName::from(words.as_str()).stored(), words);
        }
    }
}
