//! Reads a file that cannot be read in place, without changing it: from a temporary copy.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nestor_ownership::{place_for_temporary, temporary_directory_in};
use rusqlite::OpenFlags;
use tempfile::TempDir;

use super::made_log::log_of;
use super::{Store, StoreError};

/// The copy's name in its folder.
const COPY: &str = "copy.sqlite";

impl Store {
    /// The same results in the present version of the tables, in a file of this store's own. Its [`path`](Store::path) stays the
    /// user's.
    pub(super) fn copied(self) -> Result<Self, StoreError> {
        let folder = folder_for_copies(&self.path)?;
        let copy = folder.path().join(COPY);
        self.on(|c| c.execute("VACUUM INTO ?", [copy.to_string_lossy()]).map(|_| ()))?;
        Self::brought_forward(&self.path, folder)
    }

    /// An empty store in place of a file that nothing has been written to yet. The file is not made.
    ///
    /// # Errors
    ///
    /// If there is no room for a temporary file.
    pub fn not_begun(path: &Path) -> Result<Self, StoreError> {
        Self::brought_forward(path, folder_for_copies(path)?)
    }

    /// The copy in a folder, with the present version of the tables, in place of a file.
    fn brought_forward(path: &Path, folder: TempDir) -> Result<Self, StoreError> {
        let copy = folder.path().join(COPY);
        drop(Self::open(&copy)?);
        let connection = Self::connect(&copy, OpenFlags::SQLITE_OPEN_READ_ONLY)?.connection;
        Ok(Self { connection, made_log: None, path: path.to_owned(), copy: Some(Arc::new(folder)) })
    }

    /// Writes all results to another file, in one step: whoever reads it finds the old file or the whole new one. It has no
    /// write-ahead log, so other machines can read it too.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let not_written =
            |e: std::io::Error| StoreError::CannotOpen { path: path.to_owned(), reason: e.to_string() };
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        match std::fs::remove_file(&part) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(not_written(e)),
            _ => {}
        }
        self.on(|c| c.execute("VACUUM INTO ?", [part.to_string_lossy()]).map(|_| ()))?;
        // Its name must not be on the medium before its contents are.
        let synced = std::fs::File::open(&part).and_then(|file| file.sync_all());
        synced.and_then(|()| std::fs::rename(&part, path)).map_err(not_written)
    }

    /// A file in a folder that may not be written to: SQLite cannot make the file by which readers and writers of a write-ahead log
    /// know of one another. `None` if it cannot be read at all.
    pub(super) fn of_read_only_folder(path: &Path) -> Result<Option<Self>, StoreError> {
        if log_of(path).exists() {
            return Self::copied_with_its_log(path).map(Some);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let Ok(mut store) = Self::connect(Path::new(&immutable_uri(path)), flags) else { return Ok(None) };
        store.path = path.to_owned();
        Self::with_version(store)?.0.copied().map(Some)
    }

    /// The same of a file with a log, in which its latest runs are.
    fn copied_with_its_log(path: &Path) -> Result<Self, StoreError> {
        let cannot_open = |reason: String| StoreError::CannotOpen { path: path.to_owned(), reason };
        let folder = folder_for_copies(path)?;
        let copy = folder.path().join(COPY);
        let both = [(path.to_owned(), copy.clone()), (log_of(path), log_of(&copy))];
        let states =
            || both.each_ref().map(|(from, _)| fs::metadata(from).map(|m| (m.len(), m.modified().ok())).ok());
        let before = states();
        for (from, to) in &both {
            fs::copy(from, to).map_err(|e| cannot_open(e.to_string()))?;
        }
        if states() != before {
            return Err(cannot_open("another process writes to it at this moment".to_owned()));
        }
        let mut copied = Self::connect(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        copied.path = path.to_owned();
        copied.require_readable()?;
        drop(copied);
        Self::brought_forward(path, folder)
    }

    /// The file that is really read.
    pub(super) fn file(&self) -> PathBuf {
        self.copy.as_ref().map_or_else(|| self.path.clone(), |folder| folder.path().join(COPY))
    }
}

/// In the place of work directories: results are large, and `/tmp` may be memory.
fn folder_for_copies(path: &Path) -> Result<TempDir, StoreError> {
    let place = place_for_temporary();
    temporary_directory_in(&place, "nestor-copy-").map_err(|e| StoreError::CannotOpen {
        path: path.to_owned(),
        reason: format!(
            "reading it needs a temporary file in {}, which cannot be made: {e}",
            place.display()
        ),
    })
}

/// The path as SQLite takes it with an option, with all but letters, digits and `/._-` escaped.
fn immutable_uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let bytes = absolute.as_os_str().as_bytes().iter();
    let escaped: String = bytes
        .map(|&byte| match byte {
            b'/' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    format!("file://{escaped}?immutable=1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunFilter;
    use crate::tests::fixture::{MIB, record};

    #[test]
    fn a_copy_is_whole_and_has_nothing_beside_it() {
        let folder = TempDir::new().unwrap();
        let mut store = Store::open(&folder.path().join("r.sqlite")).unwrap();
        let copies = folder.path().join("copies");
        std::fs::create_dir(&copies).unwrap();
        let copy = copies.join("it's a copy.sqlite");
        for block in 0..3 {
            store.insert(&record("ext3/kvm/hdd", block, MIB)).unwrap();
            store.copy_to(&copy).unwrap();
            let copied = Store::open_read_only(&copy).unwrap();
            assert_eq!(
                copied.runs(&RunFilter::default()).unwrap(),
                store.runs(&RunFilter::default()).unwrap()
            );
            drop(copied);
            assert_eq!(std::fs::read_dir(&copies).unwrap().count(), 1, "no log, no part");
        }
        std::fs::remove_dir_all(&copies).unwrap();
        assert!(matches!(store.copy_to(&copy), Err(StoreError::CannotOpen { .. })));
    }

    #[test]
    fn a_file_can_be_read_without_anything_beside_it() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("50 % of it? #1.sqlite");
        let mut store = Store::open(&path).unwrap();
        store.insert(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
        let copied = Store::of_read_only_folder(&path).unwrap().unwrap();
        assert_eq!(copied.numbers(&RunFilter::default()).unwrap(), [1], "the run is still in the log");
        assert_eq!(copied.path(), path);
        drop((copied, store));
        let copied = Store::of_read_only_folder(&path).unwrap().unwrap();
        assert_eq!(copied.numbers(&RunFilter::default()).unwrap(), [1]);
        assert_eq!(copied.path(), path);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made beside it");
    }
}
