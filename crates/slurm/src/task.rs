//! What a task leaves in the shared directory: how far it is, and its results.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nestor_ownership::replace;
use nestor_results::{CellRecord, RunFilter, Store, StoreError};
use serde::{Deserialize, Serialize};

/// How far a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The node that it runs on.
    pub node: String,
    /// The cell under way, by its place among the task's cells.
    pub under_way: Option<usize>,
    /// Cells whose stack cannot be built as written.
    pub refused_stacks: Vec<usize>,
    /// Cells that were not begun, because they would not end before the deadline.
    pub left_out: Vec<usize>,
    /// Why the node cannot run any cell.
    pub refusal: Option<String>,
    /// Whether it has ended by itself.
    pub ended: bool,
}

/// The files of a task. Only the task writes them, and each is always whole: a new one takes the place of the old one at once.
#[derive(Clone, Debug)]
pub struct TaskFiles {
    status: PathBuf,
    store: PathBuf,
    own: PathBuf,
    output: PathBuf,
}

/// Which version of a file is there.
pub(crate) type FileVersion = (u64, i64, i64, u64);

impl TaskFiles {
    /// Those of a task of the array job in `directory`.
    pub fn of(directory: &Path, task: usize) -> Self {
        let file = |ending: &str| directory.join(format!("task-{task}.{ending}"));
        Self { status: file("json"), store: file("sqlite"), own: file("own.sqlite"), output: file("log") }
    }

    /// Those of all tasks that have published results in `directory`.
    pub(crate) fn in_directory(directory: &Path) -> impl Iterator<Item = Self> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let number = |name: &str| name.strip_prefix("task-")?.strip_suffix(".sqlite")?.parse().ok();
        entries.filter_map(move |entry| Some(Self::of(directory, number(entry.file_name().to_str()?)?)))
    }

    /// What the task printed.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// The task's own results file, which only the task opens.
    pub fn own(&self) -> &Path {
        &self.own
    }

    /// The results as they were published last.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Says how far the task is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn say(&self, status: &TaskStatus) -> io::Result<()> {
        replace(&self.status, 0o600, &serde_json::to_vec(status)?)
    }

    /// How far the task is; `None` if it has said nothing yet.
    pub fn status(&self) -> Option<TaskStatus> {
        serde_json::from_slice(&std::fs::read(&self.status).ok()?).ok()
    }

    /// Puts what the task has measured where the controller reads it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn publish(&self, store: &Store) -> Result<(), StoreError> {
        store.copy_to(&self.store)
    }

    pub(crate) fn version(&self) -> Option<FileVersion> {
        let file = std::fs::metadata(&self.store).ok()?;
        Some((file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
    }

    /// The results that are there, each with its id, which is the hash of its content.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn results(&self) -> Result<Vec<(String, CellRecord)>, StoreError> {
        if !self.store.exists() {
            return Ok(Vec::new());
        }
        let runs = Store::open_read_only(&self.store)?.runs(&RunFilter::default())?;
        Ok(runs.into_iter().map(|run| (run.id, run.record)).collect())
    }
}
