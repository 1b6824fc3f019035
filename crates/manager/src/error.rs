//! What there is instead of an answer of a manager.

use crate::curl::{ANSWER_LIMIT_S, LONGEST_ANSWER, PROGRAM};

/// What there is instead of an answer of a manager.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// The program that carries requests is not there.
    #[error("{PROGRAM} is not installed, and it carries all requests to managers: apt-get install curl")]
    NoProgram,
    /// The program that carries requests could not be run.
    #[error("{PROGRAM} could not be run: {0}")]
    Program(String),
    /// Nobody is there.
    #[error("the manager at {url} cannot be reached: {reason}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What the program said.
        reason: String,
    },
    /// It does not answer.
    #[error("the manager at {url} did not answer within {ANSWER_LIMIT_S} s")]
    Silent {
        /// Where it is.
        url: String,
    },
    /// It broke off, or speaks something else.
    #[error("the connection to the manager at {url} failed: {reason}")]
    Broken {
        /// Where it is.
        url: String,
        /// What the program said.
        reason: String,
    },
    /// Its answer is longer than any that makes sense.
    #[error("the manager's answer is longer than {} MiB", LONGEST_ANSWER >> 20)]
    TooLong,
    /// Its answer is not what its interface says.
    #[error("the manager's answer is not understood: {0}")]
    NotUnderstood(String),
    /// It refused.
    #[error("the manager refused {action}: {message} ({code}{})", request_words(.request))]
    Refused {
        /// What it was asked for, in its own words.
        action: String,
        /// Its word for why.
        code: String,
        /// The same in words.
        message: String,
        /// How it calls the request, for its operator.
        request: Option<String>,
    },
    /// It has no instance of that name.
    #[error("the manager knows no such instance ({0})")]
    NotKnown(String),
    /// What identifies the user is missing.
    #[error("{0}")]
    Login(String),
}

fn request_words(request: &Option<String>) -> String {
    request.as_ref().map(|id| format!(", request {id}")).unwrap_or_default()
}

impl ManagerError {
    /// Whether the manager may have done what it was asked for although there is no answer.
    pub fn may_be_done(&self) -> bool {
        match self {
            Self::Silent { .. } | Self::Broken { .. } | Self::TooLong | Self::NotUnderstood(_) => true,
            // It may have failed after it had begun.
            Self::Refused { .. } => true,
            Self::NoProgram
            | Self::Program(_)
            | Self::Unreachable { .. }
            | Self::NotKnown(_)
            | Self::Login(_) => false,
        }
    }

    /// Whether there is no manager, or none that answers.
    pub fn is_dead_manager(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Silent { .. } | Self::Broken { .. })
    }
}
