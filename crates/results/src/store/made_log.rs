//! The write-ahead log that reading makes beside a file, and its removal.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// Where SQLite keeps the write-ahead log of a file.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// A write-ahead log that was not there before a file was opened for reading, with the memory by which its readers and writers know of one
/// another. SQLite removes both with the last connection that may write to the file, and a reader may not.
#[derive(Debug)]
pub(super) struct MadeLog(PathBuf);

impl MadeLog {
    /// To be asked before the file is opened; `None` if it has a log, which is another process's or was left by one that was killed.
    pub(super) fn before_opening(path: &Path) -> Option<Self> {
        (!log_of(path).exists()).then(|| Self(path.to_owned()))
    }
}

impl Drop for MadeLog {
    fn drop(&mut self) {
        if !log_of(&self.0).exists() {
            return;
        }
        // If it fails, two small files remain, and the results are as they were.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if let Ok(connection) = Connection::open_with_flags(&self.0, flags) {
            let _ = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use crate::tests::fixture::{MIB, record};
    use crate::{RunFilter, StoreError};

    #[test]
    fn reading_leaves_nothing_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.sqlite");
        Store::open(&path).unwrap().insert(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
        let store = Store::open_read_only(&path).unwrap();
        assert_eq!(store.numbers(&RunFilter::default()).unwrap(), [1]);
        drop(store);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_log_of_a_writer_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.sqlite");
        let mut writer = Store::open(&path).unwrap();
        drop(Store::open_read_only(&path).unwrap());
        writer.insert(&record("ext3/kvm/hdd", 0, MIB)).unwrap();
        drop(writer);
        assert_eq!(Store::open_read_only(&path).unwrap().numbers(&RunFilter::default()).unwrap(), [1]);
    }

    #[test]
    fn reading_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/typo.sqlite");
        assert!(matches!(Store::open_read_only(&path), Err(StoreError::Missing { .. })));
        let empty = Store::not_begun(&path).unwrap();
        assert_eq!((empty.count().unwrap(), empty.path()), (0, path.as_path()));
        assert_eq!(empty.again().unwrap().count().unwrap(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
