//! Keeps the tables `cells`, `cell_latencies`, `comparisons` and `pairs` at what a report says of the runs that are there.
//!
//! A view cannot compute it: intervals need quantiles of Student's t distribution, percentiles the merged histograms, and what is compared
//! the search for change points. So it is computed here, by the functions that reports use, when a run is kept. Until then the run is in
//! `outdated`, and the views leave its study out: they never show what does not hold all runs. Whoever changes what is computed adds a
//! version of the tables that puts all studies into `outdated`.

use std::collections::{BTreeMap, HashMap, HashSet};

use nestor_statistics::LatencySummary;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::summary_rows::{self, SummaryRows};
use super::{Store, StoreError, StudyRecord};
use crate::numbers::CellNumbers;
use crate::stopping::{CellSample, Decisions};
use crate::{WrittenStack, WrittenWorkload};

/// A cell by its stack and workload.
type Key = (WrittenStack, WrittenWorkload);

/// Cells without operations have one row as well.
const LATENCIES: &str = "
SELECT cells.stack, cells.workload, class, operations, mean_ns, min_ns, p50_ns, p90_ns, p99_ns, max_ns
FROM cells LEFT JOIN cell_latencies AS l
    ON l.study_hash = cells.study_hash AND l.workload = cells.workload AND l.stack = cells.stack
WHERE cells.study_hash = ?1 AND NOT EXISTS (SELECT 1 FROM outdated WHERE study_hash = ?1)";

/// Notes a run that is not in the summaries of its study. Of a study that is not kept there are none.
pub(super) fn note_run(connection: &Connection, study_hash: Option<&str>, run: i64) -> rusqlite::Result<()> {
    let Some(study_hash) = study_hash else { return Ok(()) };
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO outdated (study_hash, run) SELECT hash, ?2 FROM studies WHERE hash = ?1",
        )?
        .execute(params![study_hash, run])
        .map(|_| ())
}

/// Notes a study none of whose summaries are right.
pub(super) fn note_study(connection: &Connection, study_hash: &str) -> rusqlite::Result<()> {
    connection
        .execute("INSERT OR IGNORE INTO outdated (study_hash, run) VALUES (?, 0)", [study_hash])
        .map(|_| ())
}

/// The runs that the summaries of a study do not know.
fn unknown_runs(connection: &Connection, study_hash: &str) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT run FROM outdated WHERE study_hash = ? ORDER BY run")?
        .query_map([study_hash], |row| row.get(0))?
        .collect()
}

impl Store {
    /// Brings the views `cell`, `pair` and `comparison` to what is in the file. It is done whenever a file is opened for writing, a run is
    /// [kept](Self::keep), a study is saved or a file merged; runs that were [inserted](Self::insert) wait for it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written. A study with a damaged run is left out.
    pub fn sum_up_outdated(&mut self) -> Result<(), StoreError> {
        let studies: Vec<String> = self.on(|c| {
            c.prepare("SELECT DISTINCT study_hash FROM outdated")?.query_map([], |row| row.get(0))?.collect()
        })?;
        studies.iter().try_for_each(|study_hash| self.sum_up(study_hash))
    }

    /// Sums up what is not known of a study. Of one run it is its own cell and what that is compared with.
    pub(super) fn sum_up(&mut self, study_hash: &str) -> Result<(), StoreError> {
        let unknown = self.on(|c| unknown_runs(c, study_hash))?;
        let computed = match unknown.as_slice() {
            [] => return Ok(()),
            [run] if *run > 0 => self.rows_of_run(study_hash, *run),
            _ => self.rows_of_study(study_hash),
        };
        let rows = match computed {
            Ok(Some(rows)) => rows,
            // It must not keep others from being summed up, nor runs from being kept; reading it says what is wrong.
            Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let path = self.path.clone();
        let write = |connection: &mut Connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Another program may have added runs meanwhile, and sums them up itself.
            if unknown_runs(&transaction, study_hash)? == unknown {
                summary_rows::write(&transaction, study_hash, &rows)?;
                transaction.execute("DELETE FROM outdated WHERE study_hash = ?", [study_hash])?;
            }
            transaction.commit()
        };
        write(&mut self.connection).map_err(|e| StoreError::from_sqlite(&path, &e))
    }

    /// The latencies of each cell by class of operation, as they were when its study was summed up; of no cell if runs were added since.
    pub(super) fn latencies_in_summaries(
        &self,
        study_hash: &str,
    ) -> Result<HashMap<Key, BTreeMap<String, LatencySummary>>, StoreError> {
        self.on(|c| {
            let mut statement = c.prepare(LATENCIES)?;
            let mut rows = statement.query([study_hash])?;
            let mut found: HashMap<Key, BTreeMap<String, LatencySummary>> = HashMap::new();
            while let Some(row) = rows.next()? {
                let of_cell = found.entry((row.get(0)?, row.get(1)?)).or_default();
                of_cell.extend(summary_rows::latency_of(row, 2)?);
            }
            Ok(found)
        })
    }

    /// All rows of a study, or of a command; `None` if neither is kept.
    fn rows_of_study(&self, study_hash: &str) -> Result<Option<SummaryRows>, StoreError> {
        let (record, cells) = match self.study(study_hash)? {
            Some(record) => (record, self.cells(study_hash)?),
            None => {
                let Some(record) = self.command(study_hash)? else { return Ok(None) };
                (record, self.cells_of_command(study_hash)?)
            }
        };
        let study = &record.study;
        let all =
            study.workloads.iter().flat_map(|w| study.stacks.iter().map(move |s| (s.clone(), w.clone())));
        let held: Vec<Key> = all.filter(|(stack, workload)| study.holds(stack, workload)).collect();
        let saved = self.saved_cell(study.against.as_ref())?;
        let mut rows = rows_of(&record, &cells, saved.as_ref(), &held, &held);
        rows.is_whole = true;
        Ok(Some(rows))
    }

    /// The rows that a run changes; `None` if its study is not kept or has no such cell.
    fn rows_of_run(&self, study_hash: &str, run: i64) -> Result<Option<SummaryRows>, StoreError> {
        let Some(record) = self.study(study_hash)? else { return Ok(None) };
        let cell: Option<Key> = self.on(|c| {
            c.query_row("SELECT stack, workload FROM runs WHERE number = ?", [run], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
        })?;
        let study = &record.study;
        let Some((stack, workload)) = cell.filter(|(stack, workload)| study.holds(stack, workload)) else {
            return Ok(Some(SummaryRows::default()));
        };
        let of_pair = |other: &WrittenStack| match study.compared_with(other, &workload) {
            Some(baseline) => *other == stack || *baseline == stack,
            None => false,
        };
        let compared: Vec<&WrittenStack> = study.stacks.iter().filter(|s| of_pair(s)).collect();
        let baselines = compared.iter().filter_map(|s| study.compared_with(s, &workload));
        let needed: HashSet<&str> =
            compared.iter().copied().chain(baselines).chain([&stack]).map(WrittenStack::as_str).collect();
        let cells = self.some_cells(
            study_hash,
            |s, w| w == workload.as_str() && needed.contains(s),
            |s, w| w == workload.as_str() && s == stack.as_str(),
        )?;
        let compared: Vec<Key> = compared.into_iter().map(|s| (s.clone(), workload.clone())).collect();
        Ok(Some(rows_of(&record, &cells, None, &[(stack, workload)], &compared)))
    }
}

/// The rows of some cells, and of the comparisons of some; `saved`: what a command was compared with.
fn rows_of(
    record: &StudyRecord,
    cells: &[CellNumbers],
    saved: Option<&CellNumbers>,
    own: &[Key],
    compared: &[Key],
) -> SummaryRows {
    let study = &record.study;
    let by_key: HashMap<(&str, &str), &CellNumbers> =
        cells.iter().map(|cell| ((cell.stack.as_str(), cell.workload.as_str()), cell)).collect();
    let samples: Vec<CellSample> = cells.iter().flat_map(CellNumbers::decision_samples).collect();
    let decisions = Decisions::of(study, &samples, None);
    let mut rows = SummaryRows::default();
    for (stack, workload) in own {
        let none = CellNumbers::new(stack.clone(), workload.clone());
        let cell = by_key.get(&(stack.as_str(), workload.as_str())).copied().unwrap_or(&none);
        rows.add_cell(study, cell);
    }
    for (stack, workload) in compared {
        let numbers = |stack: &WrittenStack| by_key.get(&(stack.as_str(), workload.as_str())).copied();
        let baseline = match &study.against {
            Some(_) => saved,
            None => study.compared_with(stack, workload).and_then(numbers),
        };
        let sides = numbers(stack).zip(baseline);
        if let Some((candidate, baseline)) = sides {
            rows.add_comparison(study, candidate, baseline, decisions.get(stack, workload));
        }
    }
    rows
}
