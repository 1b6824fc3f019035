//! The results file of a command, opened for what the command does with it.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use nestor_results::Store;

use crate::arguments::LabArguments;
use crate::{paths, whole_file};

/// What a command does with results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads them: nothing is created or changed, and a file that may not be written to will do.
    Reads,
    /// It says what it would add: as [`Self::Reads`], but the file may not be there yet.
    Plans,
    /// It adds some.
    Adds,
}

/// Opens the file that was named or, if none was, the user's own.
///
/// # Errors
/// It cannot be used. To read, a file that was named has to exist; the user's own may not have been begun. The folder of a file that
/// was named is not made.
pub fn open(named: Option<&PathBuf>, access: Access) -> Result<Store> {
    let usual = paths::default_store();
    let path = named.unwrap_or(&usual);
    if let Some(named) = named.filter(|_| access != Access::Reads) {
        whole_file::require_folder(named)
            .with_context(|| format!("the results file {} cannot be made", named.display()))?;
    }
    Ok(match access {
        Access::Adds => Store::open(path)?,
        Access::Reads if named.is_none() && !path.exists() => Store::not_begun(path)?,
        Access::Plans if !path.exists() => Store::not_begun(path)?,
        Access::Reads | Access::Plans => Store::open_read_only(path)?,
    })
}

/// The same of a command that can also measure.
///
/// # Errors
/// As [`open`].
pub fn open_for(arguments: &LabArguments, access: Access) -> Result<Store> {
    open(arguments.store.as_ref(), access)
}
