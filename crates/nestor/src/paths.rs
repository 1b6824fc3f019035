//! Where the program keeps its own files.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use nestor_ownership::{TempDir, WORK_VARIABLE, place_for_temporary, temporary_directory_in};

/// Lab images and what probes found: `$NESTOR_CACHE`, or `nestor` in the user's cache directory.
pub fn cache_directory() -> PathBuf {
    if let Some(directory) = std::env::var_os("NESTOR_CACHE").filter(|d| !d.is_empty()) {
        return directory.into();
    }
    user_directory("XDG_CACHE_HOME", ".cache")
}

/// A new directory for large temporary files of one command; it is removed when it is dropped.
///
/// # Errors
/// When it cannot be made where such files are to be.
pub fn temporary_directory(prefix: &str) -> Result<TempDir> {
    let place = place_for_temporary();
    temporary_directory_in(&place, prefix).with_context(|| {
        format!("{} cannot be used; set {WORK_VARIABLE} to another directory", place.display())
    })
}

/// Results, unless another file is named: `nestor/results.sqlite` in the user's data directory.
pub fn default_store() -> PathBuf {
    data_directory().join("results.sqlite")
}

/// Reports, unless another file is named. The name may come from another user's results file: the report
/// stays in its directory.
pub fn default_report(name: &str) -> PathBuf {
    data_directory().join("reports").join(format!("{}.html", name.replace(['/', '\0'], "_")))
}

fn data_directory() -> PathBuf {
    user_directory("XDG_DATA_HOME", ".local/share")
}

fn user_directory(variable: &str, below_home: &str) -> PathBuf {
    let base = match std::env::var_os(variable).filter(|d| !d.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(below_home),
    };
    base.join("nestor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stays_in_its_directory() {
        let reports = default_report("quick").parent().unwrap().to_owned();
        for name in ["../../.bashrc", "/etc/cron.d/x", "..", "a/b", ""] {
            assert_eq!(default_report(name).parent().unwrap(), reports, "{name}");
        }
    }
}
