//! Traces in the formats of other programs: Perfetto, Parquet, CSV; and [`Table`]s of results in the last two.
//!
//! A [`Trace`] is the requests of one or more trace points ([`Level`](nestor_correlate::Level)s), topmost first, and
//! what is known of who caused whom ([`Links`]). All writers stream: the requests are read from where they lie, and
//! what is held in memory is the requests in flight, and for links three words each.

mod csv;
mod error;
mod input;
mod links;
mod order;
mod output;
mod parquet;
mod perfetto;
mod table;
mod trace;
mod trees;
mod words;
mod written;

pub use csv::write_csv;
pub use error::ExportError;
pub use input::{Inputs, open_inputs};
pub use links::Links;
pub use output::{Format, export_to_file};
pub use parquet::write_parquet;
pub use perfetto::write_perfetto;
pub use table::{Table, TableColumn, Values};
pub use trace::{ClockMap, ExportLevel, TimeWindow, Trace};
pub use written::Written;

#[cfg(test)]
mod tests;
