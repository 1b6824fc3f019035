//! The report of a study from what is kept of it.

use std::path::Path;

use anyhow::{Context, Result};
use nestor_report::StudyReport;
use nestor_study::claims::judge_and_draw;
use nestor_study::{RunFilter, Store, StudyRecord};

/// The report of a study from what is kept of it, with its claims judged and its figures filled.
pub fn report_of(store: &Store, record: &StudyRecord) -> Result<StudyReport> {
    let cells = store.cells(&record.hash)?;
    let report = StudyReport::read(record, &cells, &mut |number| store.run(number))?;
    let (claims, figures) = judge_and_draw(store, record)?;
    Ok(report.with(claims, figures))
}

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
