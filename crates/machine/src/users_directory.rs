//! A directory of the user's in which a run has one of its own.

use serde::{Deserialize, Serialize};

/// A directory that was made in one of the user's, and the file system that both are on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnDirectory {
    /// The absolute path, without links.
    pub path: String,
    /// The kind of its file system, as the kernel has it.
    pub file_system: String,
    /// What is mounted: a block device, or another name.
    pub source: String,
    /// Where that is mounted.
    pub mounted_at: String,
    /// Whether files in it can bypass the page cache (`O_DIRECT`).
    pub takes_direct_io: bool,
}
