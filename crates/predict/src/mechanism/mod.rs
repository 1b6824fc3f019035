//! Time per operation from mechanisms: what an operation asks of each layer, fitted term by term, and what that takes.

mod demand;
mod fitted;
mod time;

pub use demand::{Below, Demand, Machine, Term};
pub use fitted::{Mechanical, TermWeights};
pub(crate) use fitted::{MechanismModel, log_of_rest};
pub use time::{OperationTime, operation_time};
