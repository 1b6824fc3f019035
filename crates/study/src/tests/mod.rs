//! Tests of the crate. All numbers in the fixtures are made up.

mod checks;
mod compare;
mod file;
mod fixture;
mod plan;
mod store;
mod tracing;
