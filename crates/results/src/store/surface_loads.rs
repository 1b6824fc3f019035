//! Which loads measure a surface, for queries: only their engine knows.

use rusqlite::Connection;

use crate::WrittenWorkload;

/// Makes the temporary table `surface_loads` of the file's workloads that measure many points.
pub(crate) fn note(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("CREATE TEMP TABLE surface_loads (workload TEXT PRIMARY KEY) WITHOUT ROWID")?;
    let mut named = connection.prepare("SELECT workload FROM main.workloads")?;
    let mut insert = connection.prepare("INSERT INTO temp.surface_loads VALUES (?)")?;
    let mut rows = named.query([])?;
    while let Some(row) = rows.next()? {
        let workload: WrittenWorkload = row.get(0)?;
        if workload.value().is_some_and(|workload| workload.demand().is_surface) {
            insert.execute([&workload])?;
        }
    }
    Ok(())
}
