//! A load in a few numbers, from its requests: what [`nestor_workload::Profile`] says.
//!
//! Requests go in one by one, in the order in which they ended; memory does not grow with their number. This crate knows
//! neither where they come from nor where the numbers go.

mod blocks;
mod collector;
mod sizes;
mod span;
mod streams;
mod think_time;
mod threads;

pub use collector::{Collector, Kind, Seen, TooLittle};
pub use think_time::{Closeness, ClosenessRow, fit_think_time};
