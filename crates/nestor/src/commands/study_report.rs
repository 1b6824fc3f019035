//! Which runs a study's report shows, and where it is written.

use std::io::Write as _;
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
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    // One that is there is a dead program's, or a link that somebody else made; it is removed, never written through.
    let _ = std::fs::remove_file(&unfinished);
    let made = std::fs::File::options().write(true).create_new(true).open(&unfinished);
    let written = made.and_then(|mut file| file.write_all(html.as_bytes()));
    let written = written.and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written.with_context(|| format!("the report {} could not be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [victim, report] = ["victim", "report.html"].map(|name| folder.path().join(name));
        std::fs::write(&victim, "of somebody else").unwrap();
        let waiting = format!("report.html.{}.unfinished", std::process::id());
        for link in [&report, &folder.path().join("report.html.unfinished"), &folder.path().join(waiting)] {
            std::os::unix::fs::symlink(&victim, link).unwrap();
        }
        write_report(&report, "<html>").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of somebody else");
        assert_eq!(std::fs::read_to_string(&report).unwrap(), "<html>");
        assert!(!report.is_symlink());
    }
}
