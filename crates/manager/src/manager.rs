//! What every manager can be asked.

use nestor_stack::ManagerKind;

use crate::{InstanceId, ManagerError, Phase, Sight, Token};

/// How an instance is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As an instance usually ends: it is asked to shut itself down, where the manager does that.
    Usual,
    /// At once, in whatever state it is.
    AtOnce,
}

/// A program that starts instances and ends them. Each request is answered within a time that is bounded.
pub trait Manager {
    /// Which it is.
    fn kind(&self) -> ManagerKind;

    /// The phases that it tells from the one before, in order.
    fn phases(&self) -> &'static [Phase];

    /// What it says of itself, if it does: its version.
    ///
    /// # Errors
    /// Whatever there is instead of an answer.
    fn version(&self) -> Result<Option<String>, ManagerError>;

    /// Asks for an instance.
    ///
    /// # Errors
    /// Whatever there is instead of an answer. If [`ManagerError::may_be_done`], there may be an instance nevertheless.
    fn ask(&self, token: &Token) -> Result<InstanceId, ManagerError>;

    /// The instance that was asked for with a token, if there is one that has not ended.
    ///
    /// # Errors
    /// Whatever there is instead of an answer.
    fn find(&self, token: &Token) -> Result<Option<InstanceId>, ManagerError>;

    /// What it says of an instance; `None` if it knows none of that name.
    ///
    /// # Errors
    /// Whatever there is instead of an answer.
    fn look(&self, id: &InstanceId) -> Result<Option<Sight>, ManagerError>;

    /// Tells it to end an instance.
    ///
    /// # Errors
    /// Whatever there is instead of an answer.
    fn end(&self, id: &InstanceId, how: Ending) -> Result<(), ManagerError>;

    /// The command with which a person ends an instance.
    fn by_hand(&self, id: &InstanceId) -> String;

    /// How a person finds an instance by its token.
    fn find_by_hand(&self, token: &Token) -> String;
}
