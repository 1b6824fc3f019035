//! Who watches a replay.

use serde::{Deserialize, Serialize};

/// What takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// A file is filled with data; counted in bytes.
    Filling,
    /// Requests are sent; counted in requests.
    Replaying,
}

/// An observer that may stop the replay.
pub trait Watcher {
    /// How far it is. Called often: from the thread that keeps the times, so it has to be quick.
    fn progress(&self, _step: Step, _done: u64, _all: u64) {}

    /// Whether to stop: no further request is sent, those in flight are waited for.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody watches.
impl Watcher for () {}
