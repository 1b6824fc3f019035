//! Under which conditions a run was made, kept so that runs with equal ones are known without reading their records.

use rusqlite::{Connection, params};

use crate::Environment;
use crate::record::{CellRecord, sha256_hex};

/// What has to be told of the place of runs and compared between them: everything but the settings, of which only the
/// remarks are kept, and the machines' memory, which is never quite the same.
pub(crate) fn conditions(environment: &Environment) -> Environment {
    let mut conditions = environment.clone();
    conditions.depends_on = None;
    conditions.settings.clear();
    conditions.machines.iter_mut().for_each(|machine| machine.memory_bytes = 0);
    conditions
}

/// Writes the digest of a run's conditions.
pub(super) fn note(connection: &Connection, run: i64, record: &CellRecord) -> rusqlite::Result<()> {
    let text = serde_json::to_string(&conditions(&record.environment))
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    connection
        .prepare_cached("INSERT OR REPLACE INTO conditions (run, digest) VALUES (?, ?)")?
        .execute(params![run, &sha256_hex(text.as_bytes())[..32]])?;
    Ok(())
}
