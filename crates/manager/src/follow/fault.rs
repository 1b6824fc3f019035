//! What went wrong in the life of an instance.

use std::fmt;

use crate::{InstanceId, ManagerError, Phase};

/// Why a life was not gone through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultCause {
    /// The manager gave no answer, or refused.
    #[error("{0}")]
    Manager(#[from] ManagerError),
    /// It knew the instance, or should have, and does not.
    #[error("the manager forgot the instance: it knows none of that name any more")]
    Forgotten,
    /// It gave up.
    #[error("the manager failed: {message}")]
    Failed {
        /// What it says of it.
        message: String,
    },
    /// Nobody had asked for its end.
    #[error("the instance ended although nobody had told it to: {name}{}", .reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default())]
    EndedByItself {
        /// What the manager calls the state.
        name: String,
        /// Why, if it says so.
        reason: Option<String>,
    },
    /// It began again, so that its times are of two attempts.
    #[error("the manager put the instance back from {from} to {to}")]
    WentBack {
        /// Where it was.
        from: Phase,
        /// Where it is.
        to: Phase,
    },
    /// It takes longer than it may.
    #[error("it was not {} within {} s", words(*.goal), .limit_ns / 1_000_000_000)]
    TimedOut {
        /// How long it may take.
        limit_ns: u64,
        /// What it should have come to.
        goal: Phase,
    },
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

fn words(goal: Phase) -> &'static str {
    if goal == Phase::Done { "at its end" } else { "running" }
}

/// What is left on a manager of an instance that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: there was no instance, or it has ended.
    Nothing,
    /// It was told to end, and says that it knows no such instance.
    NotKnown {
        /// What a person may make sure with.
        by_hand: String,
    },
    /// An instance that could not be ended, or is not at its end yet.
    Instance {
        /// Why not.
        why: String,
        /// What ends it.
        by_hand: String,
    },
    /// It is not known whether there is one.
    Perhaps {
        /// Why not.
        why: String,
        /// What finds it.
        find_by_hand: String,
    },
}

/// What is left of one of the instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOf {
    /// The instance, if the manager named one.
    pub id: Option<InstanceId>,
    /// What is left of it.
    pub left: Left,
}

impl LeftOf {
    /// Whether something of it may still be there.
    pub fn may_be_there(&self) -> bool {
        matches!(self.left, Left::Instance { .. } | Left::Perhaps { .. })
    }
}

/// What went wrong in the life of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The state in which it happened.
    pub phase: Phase,
    /// What.
    pub cause: FaultCause,
    /// The instance, if the manager named one.
    pub id: Option<InstanceId>,
    /// What is left of it.
    pub left: Left,
    /// What is left of those that were asked for with it.
    pub others: Vec<LeftOf>,
}

impl Fault {
    /// Whether an instance may still be there.
    pub fn leaves_something(&self) -> bool {
        let of_this = LeftOf { id: self.id.clone(), left: self.left.clone() };
        of_this.may_be_there() || self.others.iter().any(LeftOf::may_be_there)
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    /// The cause, and of each instance what is left, each on a line; the state is said by whoever tells the life.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) if !self.others.is_empty() => write!(f, "instance {id}: {}", self.cause)?,
            _ => write!(f, "{}", self.cause)?,
        }
        write_left(f, self.id.as_ref(), &self.left)?;
        self.others.iter().try_for_each(|other| write_left(f, other.id.as_ref(), &other.left))
    }
}

fn write_left(f: &mut fmt::Formatter<'_>, id: Option<&InstanceId>, left: &Left) -> fmt::Result {
    let named = id.map(|id| format!("instance {id}"));
    let instance = named.as_deref().unwrap_or("the instance");
    match left {
        Left::Nothing if id.is_none() => Ok(()),
        Left::Nothing => write!(f, "\n  {instance} was ended; nothing is left on the manager"),
        Left::NotKnown { by_hand } => write!(
            f,
            "\n  {instance} was told to end, and the manager knows none of that name; to make sure: {by_hand}"
        ),
        Left::Instance { why, by_hand } => {
            write!(f, "\n  {instance} MAY STILL BE THERE ({why}); end it with: {by_hand}")
        }
        Left::Perhaps { why, find_by_hand } => {
            write!(f, "\n  there may be an instance nevertheless ({why}); look for it with: {find_by_hand}")
        }
    }
}
