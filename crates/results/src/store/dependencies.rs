//! Runs by what they depend on.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Store, StoreError, StoredRun};
use crate::record::CellRecord;

impl Store {
    /// The first run with numbers that has these dependencies and contradicts nothing.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn run_depending_on(&self, digest: &str) -> Result<Option<StoredRun>, StoreError> {
        let number: Option<i64> = self.on(|c| {
            c.prepare_cached(
                "SELECT run FROM dependencies JOIN runs ON number = run WHERE digest = ? AND outcome = 'measured' AND NOT \
                 EXISTS (SELECT 1 FROM marks WHERE marks.run = number AND mark = 'inconsistent') ORDER BY run LIMIT 1",
            )?
            .query_row([digest], |row| row.get(0))
            .optional()
        })?;
        number.map(|number| self.run(number)).transpose()
    }
}

/// Writes what a run depends on, if that is known.
pub(super) fn note(connection: &Connection, run: i64, record: &CellRecord) -> rusqlite::Result<()> {
    if let Some(digest) = &record.environment.depends_on {
        connection
            .prepare_cached("INSERT INTO dependencies (run, digest) VALUES (?, ?)")?
            .execute(params![run, digest])?;
    }
    Ok(())
}
