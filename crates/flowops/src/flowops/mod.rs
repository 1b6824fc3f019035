//! What each flowop does, by what it is about.

mod data;
mod directories;
mod files;
mod waiting;

pub(crate) use files::raise_file_limit;
