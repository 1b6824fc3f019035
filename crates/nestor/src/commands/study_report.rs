//! Which runs a study's report shows, and where it is written.

use std::path::Path;

use anyhow::{Context, Result};
use nestor_results::{RunFilter, StudyRecord};

use crate::whole_file;

/// The latest run of each cell of a study.
pub fn of_study(record: &StudyRecord) -> RunFilter {
    RunFilter { study_hash: Some(record.hash.clone()), latest_only: true, ..RunFilter::default() }
}

/// Writes a report where the user finds it; the folder of one that is named has to have been looked at.
pub fn write_report(path: &Path, html: &str) -> Result<()> {
    whole_file::write_in_own(path, html.as_bytes())
        .with_context(|| format!("the report {} could not be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root, because only root can change an owner.
    #[test]
    fn a_report_below_another_users_link_is_refused_and_what_lies_behind_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
        std::fs::create_dir(&real).unwrap();
        std::fs::write(real.join("index.html"), "root's").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_report(&link.join("own/index.html"), "<html>").expect("a link of one's own");
        if std::os::unix::fs::lchown(&link, Some(4321), None).is_err() {
            return;
        }
        for name in ["index.html", "new/index.html"] {
            let refused = format!("{:#}", write_report(&link.join(name), "<html>").unwrap_err());
            assert!(refused.contains("link is a link of user 4321"), "{refused}");
        }
        assert_eq!(std::fs::read_to_string(real.join("index.html")).unwrap(), "root's");
        assert!(!real.join("new").exists());
    }
}
