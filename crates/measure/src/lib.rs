//! The laboratory: it runs the cells of a study on stacks that it builds, and records every layer while it measures.

mod bench;
pub mod campaign;
pub mod cell;
mod crew;
mod managed;
mod watcher;

pub use bench::Bench;
pub use crew::{Crew, Order, Said};
pub use managed::ManagerBench;
pub use watcher::Watcher;

#[cfg(test)]
mod tests;
