//! Tests of the crate. All numbers in the fixtures are made up.

mod accessible;
mod axe;
mod browser;
mod claims;
mod columns;
mod devtools;
mod fixture;
mod html;
mod instructions;
mod interaction;
mod life;
mod network;
mod perfetto;
mod study;
mod tables;
mod text;
mod trace;
mod traced;
mod views;
mod why;
mod widths;
