//! An instance as its manager sees it.

use std::fmt;

/// How a manager calls an instance: `i-0abc…`, `42`. It is checked where it is read, and is safe as a part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceId(String);

impl InstanceId {
    /// Longest that is taken for one.
    const LONGEST: usize = 128;

    /// Of what a manager answered; `None` of what is no name: empty, long, or with other than letters, digits and `-._`.
    pub fn read(text: &str) -> Option<Self> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_name = !text.is_empty() && text.len() <= Self::LONGEST && text.chars().all(is_part);
        is_name.then(|| Self(text.to_owned()))
    }

    /// As the manager writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is given with the request for an instance and is of no other, so that it is found if the answer is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new one.
    pub fn fresh() -> Self {
        Self::of(rand::random())
    }

    /// Of a number that nobody else has: `nestor-0123456789abcdef0123456789abcdef`.
    pub fn of(unique: u128) -> Self {
        Self(format!("nestor-{unique:032x}"))
    }

    /// As it is given to the manager.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A part of the life of an instance, in the order in which it goes through them. A manager may not tell all of them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It was asked for, and its manager does nothing for it yet.
    Pending,
    /// Its image is brought to its node (OpenNebula: prolog).
    Transfer,
    /// Its virtual machine is being started.
    Boot,
    /// The manager takes it for running.
    Running,
    /// It is being ended.
    Shutdown,
    /// What it had on its node is removed (OpenNebula: epilog).
    Cleanup,
    /// It has ended.
    Done,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Transfer, Self::Boot, Self::Running, Self::Shutdown, Self::Cleanup, Self::Done];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Transfer => "transfer",
            Self::Boot => "boot",
            Self::Running => "running",
            Self::Shutdown => "shutdown",
            Self::Cleanup => "cleanup",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state that a manager says an instance is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagedState {
    /// On its way.
    In(Phase),
    /// The manager gave up, or somebody else did something with it.
    Failed {
        /// What the manager says of it.
        message: String,
    },
}

/// When phases began, as the manager itself recorded it: in whole seconds since 1970 of its own clock. Each at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded(Vec<(Phase, u64)>);

impl Recorded {
    /// Adds when a phase began; 0 is how managers write that it did not yet.
    #[must_use]
    pub fn with(mut self, phase: Phase, begin_s: Option<u64>) -> Self {
        self.0.extend(begin_s.filter(|s| *s > 0 && self.begin_s(phase).is_none()).map(|s| (phase, s)));
        self
    }

    /// The same, with what others know of phases of which this knows nothing.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        others.0.iter().fold(self, |all, (phase, begin_s)| all.with(*phase, Some(*begin_s)))
    }

    /// When a phase began; `None` if the manager does not record that.
    pub fn begin_s(&self, phase: Phase) -> Option<u64> {
        self.0.iter().find(|(of, _)| *of == phase).map(|(_, begin_s)| *begin_s)
    }
}

/// What a manager says of an instance at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The state.
    pub state: ManagedState,
    /// What the manager calls that state (`ACTIVE/PROLOG`, `shutting-down`), for people.
    pub name: String,
    /// Why it is in that state, if the manager says so.
    pub reason: Option<String>,
    /// When phases began by the manager's own records.
    pub recorded: Recorded,
    /// What else it says of the instance, name and value: its node, its type.
    pub details: Vec<(&'static str, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_safe_in_a_request_is_a_name() {
        for text in ["i-0123456789abcdef0", "42", "i_1.a"] {
            assert_eq!(InstanceId::read(text).unwrap().as_str(), text);
        }
        let long = "i".repeat(129);
        for text in ["", "i 1", "i-1&Action=x", "i-1\n", "<i>", &long] {
            assert_eq!(InstanceId::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_of_zero_is_none_and_the_first_counts() {
        let recorded = Recorded::default()
            .with(Phase::Boot, Some(0))
            .with(Phase::Transfer, None)
            .with(Phase::Running, Some(7))
            .with(Phase::Running, Some(9));
        assert_eq!(recorded.begin_s(Phase::Boot), None);
        assert_eq!(recorded.begin_s(Phase::Transfer), None);
        assert_eq!(recorded.begin_s(Phase::Running), Some(7));
    }

    #[test]
    fn a_token_is_safe_in_a_request() {
        assert!(InstanceId::read(Token::of(u128::MAX).as_str()).is_some());
        assert_eq!(Token::of(1).as_str(), "nestor-00000000000000000000000000000001");
    }
}
