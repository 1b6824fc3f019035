//! Blocks that claims and figures leave out, because a baseline changed while the study ran: nothing is averaged across
//! a change point.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use crate::compare::{Counted, Sample};
use crate::{Study, WrittenPlace, WrittenStack};

/// A workload of which only some blocks count.
pub(super) struct Parted {
    pub workload: String,
    /// What changed and what is left, in a sentence.
    pub said: String,
}

/// A workload's runs, by stack.
type Runs = BTreeMap<String, Vec<Sample>>;

/// Removes the blocks beyond a change point of a baseline from the table `counted`.
pub(super) fn leave_out(connection: &Connection, study: &Study) -> rusqlite::Result<Vec<Parted>> {
    let baselines: BTreeSet<&str> = study.baselines.values().map(WrittenStack::as_str).collect();
    let mut parted = Vec::new();
    for (workload, runs) in runs_by_workload(connection)? {
        let all: Vec<Sample> = runs.values().flatten().cloned().collect();
        for baseline in &baselines {
            let Some(series) = runs.get(*baseline) else { continue };
            let change = Counted::of(series).change(&Counted::of(&all), |s| s.operations_per_second);
            let Some(change) = change else { continue };
            let (first, last) = change.keep;
            connection.execute(LEAVE_OUT, params![workload, first, last])?;
            let said = format!("{workload}: {}", change.doubt());
            parted.push(Parted { workload: workload.clone(), said });
        }
    }
    Ok(parted)
}

fn runs_by_workload(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Runs>> {
    let mut query = connection.prepare(SAMPLES)?;
    let mut rows = query.query([])?;
    let mut found: BTreeMap<String, Runs> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let sample = Sample {
            run: row.get(2)?,
            block: row.get(3)?,
            repeat: row.get(4)?,
            position: row.get(5)?,
            bytes_per_second: row.get(6)?,
            operations_per_second: row.get(7)?,
            violated: None,
            in_virtual_time: row.get::<_, WrittenPlace>(8)?.is_in_virtual_time(),
        };
        found.entry(row.get(1)?).or_default().entry(row.get(0)?).or_default().push(sample);
    }
    Ok(found)
}

/// Untraced repeats do not count as runs of the baseline.
const SAMPLES: &str = "
SELECT stack, workload, number, block, repeat, position, coalesce(bytes_per_second, 0), operations_per_second, ground
FROM temp.counted JOIN main.runs ON number = run
WHERE untraced_twin = 0 AND operations_per_second > 0 ORDER BY number";

const LEAVE_OUT: &str = "
DELETE FROM temp.counted WHERE run IN (
    SELECT number FROM main.runs WHERE workload = ?1 AND block NOT BETWEEN ?2 AND ?3)";
