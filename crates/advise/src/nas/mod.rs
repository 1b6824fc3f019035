//! Network storage: where the file system should be, and what a failure of the client or the server loses.

mod loss;
mod placement;

pub use loss::{Basis, Failure, FailureLoss, Lost, losses};
pub use placement::{Placement, machines, space};
