//! A guest as the vhost-user library tells of it.

use crate::{Memory, Vring};

/// What is known of a guest. It has come when both are known.
#[derive(Default)]
pub struct Guest {
    /// Its memory.
    pub memory: Option<Memory>,
    /// Its queues; none before its driver has told of them.
    pub vrings: Vec<Vring>,
}

impl Guest {
    /// The queues of an event: those of a new connection, or as before, which are not copied again.
    pub fn set_vrings(&mut self, vrings: &[Vring]) {
        if self.vrings.len() != vrings.len() {
            self.vrings = vrings.to_vec();
        }
    }

    /// Whether its memory and its queues are known.
    pub fn has_come(&self) -> bool {
        self.memory.is_some() && !self.vrings.is_empty()
    }
}
