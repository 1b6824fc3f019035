//! The directory that a workload may work in, and what it leaves there.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nestor_report::units::bytes;
use nestor_text::shell_quoted;

/// The directory of `--dir` by its canonical path. It is not made: a mistyped path would be filled instead of the storage that was meant.
///
/// # Errors
/// It is not there, or is no directory.
pub fn directory(named: &Path) -> Result<PathBuf> {
    let written = named.display();
    let found = match fs::canonicalize(named) {
        Err(e) if e.kind() == ErrorKind::NotFound => bail!(
            "cannot use --dir {written}: there is no such directory\n  make it first: mkdir -p {}",
            shell_quoted(&written.to_string())
        ),
        found => found.with_context(|| format!("cannot use --dir {written}"))?,
    };
    if !found.is_dir() {
        bail!("cannot use --dir {written}: it is not a directory");
    }
    Ok(found)
}

/// What is said of the files that stay.
pub fn left_in(own: &Path) -> String {
    let size = match bytes_below(own) {
        Ok(size) => format!("its files, {} together, stay in", bytes(size)),
        Err(_) => "its files stay in".to_owned(),
    };
    format!("{size} {}; --remove removes them at the end of a run", own.display())
}

fn bytes_below(directory: &Path) -> io::Result<u64> {
    fs::read_dir(directory)?.try_fold(0, |sum: u64, entry| {
        let entry = entry?;
        let about = entry.metadata()?;
        let size = if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
        Ok(sum.saturating_add(size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        let place = tempfile::tempdir().unwrap();
        let missing = place.path().join("no pe");
        let said = directory(&missing).unwrap_err().to_string();
        assert!(said.ends_with(&format!("mkdir -p '{}'", missing.display())) && !missing.exists(), "{said}");
        fs::write(&missing, "").unwrap();
        assert!(directory(&missing).unwrap_err().to_string().contains("not a directory"));
    }

    #[test]
    fn what_is_left_is_said_with_its_size() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("below")).unwrap();
        fs::write(place.path().join("below/one"), vec![0; 3 << 20]).unwrap();
        fs::write(place.path().join("two"), vec![0; 1 << 20]).unwrap();
        assert!(
            left_in(place.path()).starts_with("its files, 4.00 MiB together, stay in /"),
            "{}",
            left_in(place.path())
        );
    }
}
