//! Taking over the runs of another results file, and what two files say of the same measurement.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{RunFilter, Store, StoreError, not_storable, number_of};
use crate::record::{CellRecord, sha256_hex};

/// Values that are named of a run that did not repeat.
const DIFFERENCES: usize = 3;

/// The result of merging two files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeReport {
    /// Runs that were new.
    pub added: usize,
    /// Runs that were there already.
    pub known: usize,
    /// New runs that repeat one of here, measured by itself: the same in all that decides their numbers, and in each number.
    pub repeated: usize,
    /// New runs that are the same as one of here in all that decides their numbers, and have other numbers.
    pub unlike: Vec<UnlikeRun>,
}

/// Two runs in virtual time that ought to be the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlikeRun {
    /// Number of the run that was here.
    pub here: i64,
    /// Number that the other one has now.
    pub taken_over: i64,
    /// The first values that differ: where, here and there.
    pub differences: Vec<String>,
}

impl Store {
    /// Takes over the runs and studies of another file, which is not changed.
    ///
    /// # Errors
    ///
    /// If either file cannot be used. Runs that were taken over before the error stay.
    pub fn merge(&mut self, other: &Path) -> Result<MergeReport, StoreError> {
        let other = Self::open_read_only(other)?;
        let newest_before: i64 =
            self.on(|c| c.query_row("SELECT coalesce(max(number), 0) FROM runs", [], |row| row.get(0)))?;
        let mut report = MergeReport::default();
        for number in other.numbers(&RunFilter::default())? {
            let record = other.run(number)?.record;
            let Some(taken_over) = self.take_over(&other, number, &record)? else {
                report.known += 1;
                continue;
            };
            report.added += 1;
            match self.differences_from_repeated(&record, newest_before)? {
                None => {}
                Some((_, differences)) if differences.is_empty() => report.repeated += 1,
                Some((here, differences)) => {
                    report.unlike.push(UnlikeRun { here, taken_over, differences });
                }
            }
        }
        for study in other.studies()? {
            if self.study(&study.hash)?.is_none() {
                self.save_study(&study)?;
            }
        }
        self.merge_commands(&other)?;
        self.sum_up_outdated()?;
        Ok(report)
    }

    /// Takes over a run of another file as its text is there; its number here if it was new.
    ///
    /// A run is named by the hash of the text that the program wrote which measured it. A later program writes the same record with other
    /// fields, so the hash of what this one would write is asked for, too: files have it from merges by earlier versions.
    fn take_over(
        &mut self,
        other: &Self,
        number: i64,
        record: &CellRecord,
    ) -> Result<Option<i64>, StoreError> {
        let text: String = other
            .on(|c| c.query_row("SELECT record FROM runs WHERE number = ?", [number], |row| row.get(0)))?;
        let written_now = sha256_hex(self.json_of(record)?.as_bytes());
        if self.on(|c| number_of(c, &written_now))?.is_some() {
            return Ok(None);
        }
        let id = sha256_hex(text.as_bytes());
        let path = self.path.clone();
        let inserted = self.insert_json(record, &id, &text);
        let (number, is_new) = inserted.map_err(|e| StoreError::from_sqlite(&path, &e))?;
        Ok(is_new.then_some(number))
    }

    /// The run, of those up to a number, that depends on the same as this one, and the first values that differ. `None`: there is none,
    /// or this one has no numbers.
    fn differences_from_repeated(
        &self,
        record: &CellRecord,
        newest: i64,
    ) -> Result<Option<(i64, Vec<String>)>, StoreError> {
        let Some(digest) = record.environment.depends_on.as_ref().filter(|_| record.measured().is_some())
        else {
            return Ok(None);
        };
        let Some(here) = self.run_depending_on(digest)?.filter(|run| run.number <= newest) else {
            return Ok(None);
        };
        let differences = here.record.differences_from(record, DIFFERENCES);
        Ok(Some((here.number, differences.map_err(|e| not_storable(record, e.to_string()))?)))
    }
}
