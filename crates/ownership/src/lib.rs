//! Whose a file or directory is, who else may put something into it, and how one is made that nobody else can lead elsewhere.

/// For tests of crates that rest on this one.
#[doc(hidden)]
pub mod lists;
mod make;
mod own_file;
mod temporary;
mod walk;
mod writers;

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use make::{Above, NotMade, make_above, open_above};
pub use own_file::FileKind;
pub use temporary::{PUBLIC_PLACE, WORK_VARIABLE, place_for_temporary, temporary_directory_in};
pub use walk::{above, resolved};
pub use writers::{Writers, of_open as writers, of_path as writers_at};

/// Why what lies at a path may not be what its owner put there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It is somebody else's.
    #[error("{} belongs to user {owner}, and this is user {}", .path.display(), user())]
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
    /// Somebody else can lead it elsewhere.
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
    /// Nobody knows.
    #[error("{} cannot be looked at: {reason}", .path.display())]
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

/// What is wrong with a file or directory that should be this user's or root's, and written to by nobody else. Its metadata
/// are those of the path itself, not of what it leads to if it is a link.
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

/// What helps beyond what the mode says.
fn hint(by: Writers) -> String {
    match by {
        Writers::Everybody => String::new(),
        Writers::Group | Writers::AccessList => format!("; {by}"),
    }
}

fn unknown(path: &Path, error: &io::Error) -> Distrust {
    Distrust::Unknown { path: path.to_owned(), reason: error.to_string() }
}
