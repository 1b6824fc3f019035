//! How far a study is: what its cells reached, and how long cells take.

use super::{Store, StoreError, StudyRecord};
use crate::WrittenPlace;
use crate::estimate::PastCell;
use crate::stopping::{CellSample, throughput};

impl Store {
    /// The study that was worked on last on a ground.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn study_begun_last(&self, ground: &WrittenPlace) -> Result<Option<StudyRecord>, StoreError> {
        let began = |record: &StudyRecord| record.sessions.last().map(|s| s.began_at.clone());
        let studies = self.studies()?.into_iter().filter(|r| r.ground == *ground && began(r).is_some());
        Ok(studies.max_by_key(began))
    }

    /// What the measured cells of a study reached, the latest run of each, without untraced repeats and without runs that
    /// violate an identity.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn cell_samples(&self, study_hash: &str) -> Result<Vec<CellSample>, StoreError> {
        self.on(|c| {
            c.prepare(
                "SELECT stack, workload, block, repeat, bytes_per_second, operations_per_second, cell_s, \
                 ground FROM runs \
                 WHERE study_hash = ? AND outcome = 'measured' AND NOT untraced_twin AND NOT EXISTS \
                 (SELECT 1 FROM marks WHERE run = runs.number AND mark = 'inconsistent') AND NOT EXISTS \
                 (SELECT 1 FROM runs AS later WHERE later.study_hash = runs.study_hash AND later.stack = runs.stack \
                 AND later.workload = runs.workload AND later.block = runs.block AND later.repeat = runs.repeat \
                 AND NOT later.untraced_twin AND later.number > runs.number) ORDER BY number",
            )?
            .query_map([study_hash], |row| {
                Ok(CellSample {
                    stack: row.get(0)?,
                    workload: row.get(1)?,
                    block: row.get(2)?,
                    repeat: row.get(3)?,
                    throughput: throughput(row.get(4)?, row.get(5)?),
                    cell_s: row.get(6)?,
                    in_virtual_time: row.get::<_, WrittenPlace>(7)?.is_in_virtual_time(),
                })
            })?
            .collect()
        })
    }

    /// How long the cells measured on a ground took, the latest of each stack and workload last.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn past_cells(&self, ground: &WrittenPlace) -> Result<Vec<PastCell>, StoreError> {
        self.on(|c| {
            c.prepare(
                "SELECT stack, workload, cell_s, elapsed_ns, loads.real_s FROM runs LEFT JOIN loads ON loads.run = runs.number \
                 WHERE ground = ? AND outcome = 'measured' ORDER BY number",
            )?
            .query_map([ground], |row| {
                let (elapsed_ns, real_s): (i64, Option<f64>) = (row.get(3)?, row.get(4)?);
                let (cell_s, measured_s) = (row.get(2)?, elapsed_ns as f64 / 1e9);
                Ok(PastCell {
                    stack: row.get(0)?,
                    workload: row.get(1)?,
                    cell_s,
                    load_s: real_s.unwrap_or(measured_s.min(cell_s)),
                    measured_s,
                })
            })?
            .collect()
        })
    }
}
