//! Workloads: what is run on a stack, and the one type that every engine's result becomes.

pub mod result;

pub use result::{LoadResult, OperationClass, OperationResult};
