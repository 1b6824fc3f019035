//! Blocks that claims and figures leave out, because a baseline changed while the study ran: nothing is averaged across
//! a change point.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use crate::compare::{Counted, Sample};
use crate::store::StudyRecord;
use crate::{WrittenPlace, WrittenStack};

/// A workload of which only some blocks count.
pub(super) struct Parted {
    pub workload: String,
    /// What changed and what is left, in a sentence.
    pub said: String,
}

/// A workload's runs, by stack.
type Runs = BTreeMap<String, Vec<Sample>>;

/// Removes the blocks beyond a change point of a baseline from the table `counted`.
pub(super) fn leave_out(connection: &Connection, record: &StudyRecord) -> rusqlite::Result<Vec<Parted>> {
    let baselines: BTreeSet<&str> = record.study.baselines.values().map(WrittenStack::as_str).collect();
    let mut parted = Vec::new();
    for (workload, runs) in runs_by_workload(connection, &record.hash)? {
        let all: Vec<Sample> = runs.values().flatten().cloned().collect();
        let all = Counted::of(&all);
        for baseline in &baselines {
            let Some(series) = runs.get(*baseline) else { continue };
            let change = Counted::of(series).change(&all, |s| s.operations_per_second);
            let Some(change) = change else { continue };
            let (first, last) = change.keep;
            connection.execute(LEAVE_OUT, params![workload, first, last])?;
            let said = format!("{workload}: {}", change.doubt());
            parted.push(Parted { workload: workload.clone(), said });
        }
    }
    Ok(parted)
}

fn runs_by_workload(connection: &Connection, study_hash: &str) -> rusqlite::Result<BTreeMap<String, Runs>> {
    let mut query = connection.prepare(SAMPLES)?;
    let mut rows = query.query([study_hash])?;
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
    found.values_mut().flat_map(Runs::values_mut).for_each(|runs| runs.sort_by_key(|sample| sample.run));
    Ok(found)
}

/// Untraced repeats do not count as runs of the baseline. Both indexes hold all that is asked, and not the rows, which are long.
const SAMPLES: &str = "
SELECT r.stack, r.workload, r.number, r.block, r.repeat, r.position, coalesce(r.bytes_per_second, 0), r.operations_per_second, t.ground
FROM main.runs AS r INDEXED BY runs_in_numbers
JOIN temp.counted ON counted.run = r.number
JOIN main.runs AS t INDEXED BY runs_recorded ON t.number = r.number
WHERE r.study_hash = ?1 AND r.untraced_twin = 0 AND r.operations_per_second > 0";

const LEAVE_OUT: &str = "
DELETE FROM temp.counted WHERE run IN (
    SELECT number FROM main.runs WHERE workload = ?1 AND block NOT BETWEEN ?2 AND ?3)";
