//! Which runs a study's report shows, and where it is written.

use std::path::Path;

use anyhow::{Context, Result};
use nestor_study::{RunFilter, StudyRecord};

/// The latest run of each cell of a study.
pub fn of_study(record: &StudyRecord) -> RunFilter {
    RunFilter { study_hash: Some(record.hash.clone()), latest_only: true, ..RunFilter::default() }
}

/// Writes a report where the user finds it, making the directory if it is the program's own.
pub fn write_report(path: &Path, html: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("{} could not be made", parent.display()))?;
    }
    // Whole or not at all: the one before stays until this one is there.
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let written = std::fs::write(&unfinished, html).and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written.with_context(|| format!("the report {} could not be written", path.display()))
}
