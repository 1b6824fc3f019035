//! Which runs a study's report shows, and where it is written.

use std::path::Path;

use anyhow::{Context, Result};
use nestor_study::{RunFilter, StudyRecord};

use crate::whole_file;

/// The latest run of each cell of a study.
pub fn of_study(record: &StudyRecord) -> RunFilter {
    RunFilter { study_hash: Some(record.hash.clone()), latest_only: true, ..RunFilter::default() }
}

/// Writes a report where the user finds it, making the directory if it is the program's own.
pub fn write_report(path: &Path, html: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("{} could not be made", parent.display()))?;
    }
    whole_file::write(path, html.as_bytes())
        .with_context(|| format!("the report {} could not be written", path.display()))
}
