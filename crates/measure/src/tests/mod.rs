//! Tests of the crate. All numbers in the fixtures are made up.

mod campaign;
mod fixture;
