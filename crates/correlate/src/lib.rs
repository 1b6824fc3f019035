//! One request through all layers: guest, hypervisor, host file system, host block layer, medium.
//!
//! [`correlate`] reads the requests of each level twice. The first reading finds out how long requests take, samples
//! them at places that a hash chooses, and estimates the machines' clocks from these; the second one goes over all
//! levels at once in the order of issue and joins every request with those above that wait for it.

mod agreement;
mod blame;
mod choice;
mod clock;
mod engine;
mod error;
mod input;
mod join;
mod kind;
mod order;
mod outside;
mod passage;
#[cfg(test)]
mod played;
mod recording;
mod space;
pub mod stamps;
mod survey;
mod text;
mod tree;

pub use blame::{Blame, BlameBuilder, Cause, Spent, Transition};
pub use choice::{Choice, Rank};
pub use clock::{SharedClock, SharedReading};
pub use engine::{CorrelateOptions, correlate, correlate_observed};
pub use error::CorrelateError;
pub use input::{Absorption, CacheBetween, LevelInput, RequestStream, StoredRequests};
pub use join::{Joined, Observer};
pub use kind::LevelKind;
pub use outside::{Confused, Judged, OutsideView, Share, judge_from_outside};
pub use passage::{Passage, Passed, TimeAtLevel};
pub use recording::{RecordedCell, RecordedLevel, Recording};
pub use space::{
    ExtentError, ExtentMap, MappedExtent, MappedPiece, SpaceMap, read_extents, read_extents_from,
};
pub use tree::{
    Correlation, Join, Level, LevelIndex, LevelTimes, Node, Origin, SampledTree, Unmatched, UnmatchedRequests,
};
