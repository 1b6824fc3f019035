//! The engine that runs a workload of flowops: files, threads, rates, and what each operation took.
//!
//! `nestor-wml` reads a script; [`run_script`] makes its file sets, starts its threads, and reports what they did. All threads of
//! all processes of a script are threads of one process: Linux gives each its own priority, and nothing has to be shared
//! between address spaces.

mod aio;
mod check;
mod cpu;
mod ending;
mod error;
mod flowops;
mod listener;
mod measured;
mod memory;
mod options;
mod pace;
mod places;
mod points;
mod pool;
mod program;
mod random;
mod recorder;
mod run;
mod sets;
mod signals;
mod source;
mod system;
mod tree;
mod worker;

pub use check::{check, plan};
pub use error::FlowError;
pub use listener::Listener;
pub use nestor_workload::flow_report::{
    Ended, FileSetReport, FlowFailure, FlowReport, FlowopReport, PaceReport, RunReport,
};
pub use options::{
    FlowOptions, Scale, Scaled, TINY_BYTES, file_sets, mean_bytes, relocate, scale, scale_files,
};
pub use places::make_places;
pub use run::run_script;
pub use source::Source;
