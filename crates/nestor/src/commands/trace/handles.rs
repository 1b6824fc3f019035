//! `nestor trace handles`: by which handles a server of NFS knows its files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use nestor_capture::file_handles;

use crate::output::print_json;

/// Arguments of `nestor trace handles`.
#[derive(Args, Debug)]
pub struct HandlesArguments {
    /// The exported directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Runs it.
///
/// # Errors
/// When the directory is not exported to a client.
pub fn run(arguments: &HandlesArguments) -> Result<()> {
    print_json(&file_handles(&arguments.directory)?)
}
