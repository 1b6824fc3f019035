//! A load in a few numbers, from its requests: what [`nestor_workload::Profile`] says.
//!
//! Requests go in one by one, in the order in which they ended; memory does not grow with their number. Only [`read`] and [`of_traces`]
//! open files.

mod blocks;
mod collector;
mod devices;
mod error;
mod sizes;
mod span;
mod streams;
mod think_time;
mod threads;
mod traces;
mod watched;

pub use collector::{Collector, Kind, Seen, TooLittle};
pub use devices::{Collectors, Observed};
pub use error::CharacterizeError;
pub use think_time::{Closeness, ClosenessRow, fit_think_time};
pub use traces::{of_traces, read};
pub use watched::Watched;
