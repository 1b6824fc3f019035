//! Runs that were saved under a name, so that later ones can be compared with them.

use rusqlite::{TransactionBehavior, params};

use super::{Store, StoreError, StoredRun};

impl Store {
    /// Saves runs under a name, in place of those that it had before.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save_baseline(&mut self, name: &str, runs: &[i64]) -> Result<(), StoreError> {
        let path = self.path.clone();
        let save = |connection: &mut rusqlite::Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("DELETE FROM baselines WHERE name = ?", [name])?;
            for run in runs {
                transaction.execute("INSERT INTO baselines (name, run) VALUES (?, ?)", params![name, run])?;
            }
            transaction.commit()
        };
        save(&mut self.connection).map_err(|e| StoreError::from_sqlite(&path, &e))
    }

    /// The runs that were saved under a name, in the order of their numbers; none if nothing was.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn baseline(&self, name: &str) -> Result<Vec<StoredRun>, StoreError> {
        let numbers = self.on(|c| {
            c.prepare_cached("SELECT run FROM baselines WHERE name = ? ORDER BY run")?
                .query_map([name], |row| row.get::<_, i64>(0))?
                .collect::<Result<Vec<_>, _>>()
        })?;
        numbers.into_iter().map(|number| self.run(number)).collect()
    }

    /// The names under which runs were saved.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn baseline_names(&self) -> Result<Vec<String>, StoreError> {
        self.on(|c| {
            c.prepare_cached("SELECT DISTINCT name FROM baselines ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }
}
