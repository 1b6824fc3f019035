//! Studies: many cells in a fair order, their results kept in one file.

pub mod record;

pub use record::{CellRecord, Environment, LayerRecord, Mark, Measured, Outcome};
