//! How fast an application will be in a virtual machine, from what it does natively: the arithmetic.
//!
//! Each method is a few lines with its source. None of them knows where its numbers come from.

pub mod completion;
pub mod learnt;
mod learnt_fit;
pub mod null_models;
pub mod per_request;
pub mod transaction;

pub use completion::{CellPrediction, Completion, MeasuredCell};
pub use learnt::{Learnt, LearntRate};
pub use null_models::{NullModel, NullModelInput};
pub use per_request::{PerRequestCost, RequestTime};
pub use transaction::{Rounding, TargetMachine, Transaction, capacity};
