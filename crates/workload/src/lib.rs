//! Workloads: what is run on a stack, and the one type that every engine's result becomes.
//!
//! A workload is written like a stack: `fio:rand-read:bs=4k:depth=32`. [`Workload`] is that text, understood; an
//! [`Engine`] turns it into commands to run on a machine ([`Step`]) and what they print ([`StepOutput`]) into a
//! [`LoadResult`]. This crate runs nothing itself; the caller, which has the machine, does.
//!
//! An engine is one file (or folder) under `engines/` and one line in [`engines::ENGINES`].

mod complete;
mod demand;
pub mod engine;
pub mod engines;
pub mod errno;
mod error;
pub mod flow_report;
mod notation;
pub mod papers;
mod personalities;
pub mod profile;
mod rate_unit;
pub mod result;
pub mod timed;
pub mod value;

pub use complete::completions;
pub use demand::Demand;
pub use engine::{
    About, Case, DataSet, Ended, Engine, Misfit, OperationLog, OptionSpec, Place, RecordedStep, Step,
    StepOutput, Target, Untimed, WorksOn,
};
pub use engines::{LifeCycle, SurfacePoint, WorkloadSummary, catalogue};
pub use error::{LoadError, Problem, WorkloadError};
pub use notation::Workload;
pub use personalities::{personality, personality_names};
pub use profile::{Profile, ProfileError};
pub use rate_unit::RateUnit;
pub use result::{Direction, LoadResult, OperationClass, OperationResult};
pub use timed::Timed;
pub use value::{Kind, Value};
