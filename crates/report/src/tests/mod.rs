//! Tests of the crate. All numbers in the fixtures are made up.

mod browser;
mod fixture;
mod html;
mod text;
mod trace;
mod traced;
