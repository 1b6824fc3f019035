//! Replay of block traces: the requests of a recording, sent again to a device or a file.
//!
//! A [`ReplayPlan`] is what is to be sent and when: made of the events of a trace ([`PlanBuilder`]) or read from its files
//! ([`read_plan`]), placed on a target of another size ([`ReplayPlan::fit`]), without any I/O. [`replay`] sends it to a
//! [`Target`] and says in a [`ReplayReport`] how true to the trace that was.

mod clock;
mod data;
mod engine;
mod error;
mod options;
mod order;
mod pace;
mod plan;
mod report;
mod run;
mod speed;
mod target;
#[cfg(test)]
mod tests;
mod watcher;

pub use data::{Pool, WriteData};
pub use engine::EngineChoice;
pub use error::ReplayError;
pub use options::{ReplayOptions, USUAL_DEPTH};
pub use order::{Depth, Ordering, Span, depth, overtaken};
pub use plan::{
    Fit, Fitted, LONGEST_DATA_BYTES, LeftOut, PlanBuilder, PlanOptions, PlanStatistics, PlannedRequest,
    ReplayPlan, SourceDevice, Stage, read_plan, read_trace,
};
pub use report::{Amount, ClassReport, ReplayReport};
pub use run::replay;
pub use speed::Speed;
pub use target::{MADE_NAME, Target, TargetKind, TargetOptions};
pub use watcher::{Step, Watcher};
