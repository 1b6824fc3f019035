//! Who owns a file or directory, who else may write to it, how to create one that no other user can redirect, and how to
//! write one whole or not at all.

mod beside;
/// For tests of dependent crates.
#[doc(hidden)]
pub mod lists;
mod locked_directory;
mod make;
mod own_file;
mod temporary;
mod walk;
mod writers;

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use beside::{new_beside, new_file, replace, replace_durably};
pub use locked_directory::LockedDirectory;
pub use make::{Above, NotMade, make_above, open_above};
pub use own_file::FileKind;
pub use tempfile::TempDir;
pub use temporary::{PUBLIC_PLACE, WORK_VARIABLE, place_for_temporary, temporary_directory_in, unnamed_file};
pub use walk::{above, resolved};
pub use writers::{Writers, of_open as writers, of_path as writers_at};

/// Why what lies at a path may not be what its owner put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Another user owns it.
    #[error("{} belongs to user {owner}, but Nestor runs as user {}", .path.display(), user())]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// Number of its owner.
        owner: u32,
    },
    /// Others may change what is in it.
    #[error("{} may be written to by others than its owner (mode {mode:04o}){}", .path.display(), hint(*.by))]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Who.
        by: Writers,
    },
    /// Another user can redirect it.
    #[error("{} is a link of user {owner}, who can lead it elsewhere at any time", .path.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Number of its owner.
        owner: u32,
    },
    /// It is a link, or of another kind than it should be.
    #[error("{} is not {wanted} but a link or something else", .path.display())]
    Kind {
        /// Where.
        path: PathBuf,
        /// `a directory`, `a file`.
        wanted: &'static str,
    },
    /// It is not known.
    #[error("{} cannot be examined: {reason}", .path.display())]
    Unknown {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        reason: String,
    },
}

/// The user that this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that a file or directory is this user's or root's, and that no other user may write to it. The metadata
/// are those of the path itself, not of the target of a link.
///
/// # Errors
/// Whose it is, or who may write to it.
pub fn of_user_or_root(path: &Path, metadata: &Metadata) -> Result<(), Distrust> {
    let owner = metadata.uid();
    if owner != user() && owner != 0 {
        return Err(Distrust::Owner { path: path.to_owned(), owner });
    }
    match writers::of_path(path, metadata) {
        Some(by) => Err(Distrust::Writable { path: path.to_owned(), mode: metadata.mode() & 0o7777, by }),
        None => Ok(()),
    }
}

/// Advice in addition to the mode.
fn hint(by: Writers) -> String {
    match by {
        Writers::Everybody => String::new(),
        Writers::Group | Writers::AccessList => format!("; {by}"),
    }
}

fn unknown(path: &Path, error: &io::Error) -> Distrust {
    Distrust::Unknown { path: path.to_owned(), reason: error.to_string() }
}
