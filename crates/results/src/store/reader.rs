//! A second connection to the same file, for queries that others wrote.

use rusqlite::{Connection, OpenFlags};

use super::{Store, StoreError};

impl Store {
    /// A connection that cannot write to the file; its temporary tables are its own.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub(crate) fn reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(Self::connect(&self.file(), flags)?.connection)
    }

    /// The same results by a connection of their own, for another thread to read. What was copied is not copied again.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn again(&self) -> Result<Self, StoreError> {
        Ok(Self {
            connection: self.reader()?,
            made_log: None,
            path: self.path.clone(),
            copy: self.copy.clone(),
        })
    }

    /// What an error of such a connection means for this file.
    pub(crate) fn reading_error(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(&self.path, error)
    }
}
