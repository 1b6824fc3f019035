//! Why a stack could not be built.

use nestor_machine::MachineError;
use nestor_stack::{Layer, StackError};

use crate::lab_problem::LabProblem;

/// Why a stack could not be built. Everything that was made for it has been taken down again.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The stack itself is at fault; the message points at the layer.
    #[error("{0}")]
    Stack(#[from] StackError),
    /// A layer could not be made.
    #[error("the layer `{layer}` could not be built: {source}")]
    Layer {
        /// The layer in its canonical notation.
        layer: String,
        /// What its machine says.
        source: MachineError,
    },
    /// A layer cannot be made as asked.
    #[error("the layer `{layer}` could not be built: {message}")]
    Refused {
        /// The layer in its canonical notation.
        layer: String,
        /// Why, and what to do.
        message: String,
    },
    /// A layer cannot be made because the one below it has no room.
    #[error("the layer `{layer}` could not be built: {message}")]
    NoRoom {
        /// The layer in its canonical notation.
        layer: String,
        /// How much is missing, and what to do.
        message: String,
    },
    /// A copy is not what it is a copy of.
    #[error(
        "the layer `{layer}` could not be built: what arrived is not what left: SHA-256 {arrived} on the node, {sent} at the repository"
    )]
    OtherBytes {
        /// The layer in its canonical notation.
        layer: String,
        /// The digest of the image at the repository, in hexadecimal digits.
        sent: String,
        /// The same of its copy.
        arrived: String,
    },
    /// A layer could not be made while a server on the stack's network had ended.
    #[error("{source}\n{ended}")]
    ServerEnded {
        /// Why the layer could not be made.
        source: Box<BuildError>,
        /// Which servers have ended, and what they said.
        ended: String,
    },
    /// The place where stacks are built is not ready.
    #[error("{0}")]
    Lab(#[from] LabProblem),
    /// A machine does not answer.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl BuildError {
    /// The layer cannot be made as asked.
    pub(crate) fn refused(layer: &Layer, message: impl Into<String>) -> Self {
        Self::Refused { layer: layer.label(), message: message.into() }
    }

    /// Whether a machine failed rather than a layer: the machines are then started anew for the next stack.
    pub fn machine_is_lost(&self) -> bool {
        match self {
            Self::Layer { source, .. } | Self::Machine(source) => source.machine_is_lost(),
            Self::ServerEnded { source, .. } => source.machine_is_lost(),
            _ => false,
        }
    }
}
