//! What is asked of the results.

use std::collections::HashSet;

use nestor_workload::RateUnit;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, StoredRun, StudyRecord};
use crate::{CellKey, WrittenPlace, WrittenStack, WrittenWorkload};

/// Which runs are wanted; what is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// A study's hash.
    pub study_hash: Option<String>,
    /// A study's name.
    pub study: Option<String>,
    /// A stack.
    pub stack: Option<WrittenStack>,
    /// A workload.
    pub workload: Option<WrittenWorkload>,
    /// Where it ran.
    pub ground: Option<WrittenPlace>,
    /// Leaves out runs of which a later one of the same study, stack, workload, block and repeat exists: failures that were tried
    /// again. Of runs outside of studies, it leaves out those that a later one repeats, because both depend on the same in virtual time
    /// (`--verify`, `--again`): it has the same numbers, and is no second sample.
    pub latest_only: bool,
}

/// One line of a list of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunListing {
    /// Its number in this file.
    pub number: i64,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// The study it belongs to.
    pub study: Option<String>,
    /// The stack.
    pub stack: WrittenStack,
    /// The workload.
    pub workload: WrittenWorkload,
    /// Where it ran.
    pub ground: WrittenPlace,
    /// Throughput; `None` if it failed.
    pub bytes_per_second: Option<f64>,
    /// Operations per second; `None` if it failed.
    pub operations_per_second: Option<f64>,
    /// The error message, if it failed.
    pub failure: Option<String>,
    /// The names of its marks.
    pub marks: Vec<String>,
}

impl RunListing {
    /// Its throughput and what that is in; `None` if it failed.
    pub fn throughput(&self) -> Option<(RateUnit, f64)> {
        let bytes = self.bytes_per_second?;
        Some(match RateUnit::of_moved(bytes) {
            RateUnit::BytesPerSecond => (RateUnit::BytesPerSecond, bytes),
            RateUnit::OperationsPerSecond => (RateUnit::OperationsPerSecond, self.operations_per_second?),
        })
    }
}

impl Store {
    /// A run by its number.
    ///
    /// # Errors
    ///
    /// If no run has this number, or the file cannot be read.
    pub fn run(&self, number: i64) -> Result<StoredRun, StoreError> {
        let row = self.on(|c| {
            c.prepare_cached("SELECT number, id, record FROM runs WHERE number = ?")?
                .query_row([number], run_columns)
                .optional()
        })?;
        match row {
            Some(row) => self.decode(row),
            None => Err(self.no_such_run(number)?),
        }
    }

    /// The number of the run that was stored last.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn latest(&self) -> Result<Option<i64>, StoreError> {
        self.on(|c| c.query_row("SELECT max(number) FROM runs", [], |row| row.get(0)))
    }

    /// The wanted runs with everything that was measured, in the order of their numbers.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn runs(&self, filter: &RunFilter) -> Result<Vec<StoredRun>, StoreError> {
        let (condition, values) = filter.condition();
        let statement = format!("SELECT number, id, record FROM runs WHERE {condition} ORDER BY number");
        let rows = self.on(|c| {
            c.prepare(&statement)?
                .query_map(params_from_iter(&values), run_columns)?
                .collect::<Result<Vec<_>, _>>()
        })?;
        rows.into_iter().map(|row| self.decode(row)).collect()
    }

    /// The numbers of the wanted runs, ascending.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn numbers(&self, filter: &RunFilter) -> Result<Vec<i64>, StoreError> {
        let (condition, values) = filter.condition();
        let statement = format!("SELECT number FROM runs WHERE {condition} ORDER BY number");
        self.on(|c| c.prepare(&statement)?.query_map(params_from_iter(&values), |row| row.get(0))?.collect())
    }

    /// The wanted runs, one line each, newest first.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunListing>, StoreError> {
        self.list_newest(filter, None)
    }

    /// The newest of the wanted runs, up to a limit if given, one line each, newest first.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn list_newest(
        &self,
        filter: &RunFilter,
        most: Option<usize>,
    ) -> Result<Vec<RunListing>, StoreError> {
        let (condition, values) = filter.condition();
        let statement = format!(
            "SELECT number, started_at, study, stack, workload, ground, bytes_per_second, operations_per_second, failure, \
             (SELECT group_concat(DISTINCT mark) FROM marks WHERE run = number) FROM runs WHERE {condition} \
             ORDER BY number DESC LIMIT {}",
            // SQLite takes a negative limit for none.
            most.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX))
        );
        self.on(|c| c.prepare(&statement)?.query_map(params_from_iter(&values), listing)?.collect())
    }

    /// The cells of a study that were measured. Failed ones are not among them, so that they are tried again.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn finished(&self, study_hash: &str) -> Result<HashSet<CellKey>, StoreError> {
        self.on(|c| {
            c.prepare(
                "SELECT stack, workload, block, repeat, untraced_twin FROM runs WHERE study_hash = ? \
                 AND outcome = 'measured'",
            )?
            .query_map([study_hash], |row| {
                Ok(CellKey {
                    stack: row.get(0)?,
                    workload: row.get(1)?,
                    block: row.get(2)?,
                    repeat: row.get(3)?,
                    untraced_twin: row.get(4)?,
                })
            })?
            .collect()
        })
    }

    /// All studies, by name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn studies(&self) -> Result<Vec<StudyRecord>, StoreError> {
        let texts: Vec<String> = self.on(|c| {
            c.prepare("SELECT record FROM studies ORDER BY name, hash")?
                .query_map([], |row| row.get(0))?
                .collect()
        })?;
        texts.iter().map(|text| self.decode_study(text)).collect()
    }

    /// A study by its hash.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn study(&self, hash: &str) -> Result<Option<StudyRecord>, StoreError> {
        let text: Option<String> = self.on(|c| {
            c.query_row("SELECT record FROM studies WHERE hash = ?", [hash], |row| row.get(0)).optional()
        })?;
        text.map(|text| self.decode_study(&text)).transpose()
    }

    /// Whether anything was run on a ground.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn has_runs_on(&self, ground: &WrittenPlace) -> Result<bool, StoreError> {
        self.on(|c| {
            c.query_row("SELECT EXISTS (SELECT 1 FROM runs WHERE ground = ?)", [ground], |row| row.get(0))
        })
    }

    /// The median seconds of the cells measured so far on a ground: what one more will take.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn usual_cell_s(&self, ground: &WrittenPlace) -> Result<Option<f64>, StoreError> {
        let seconds: Vec<f64> = self.on(|c| {
            c.prepare("SELECT cell_s FROM runs WHERE ground = ? AND outcome = 'measured'")?
                .query_map([ground], |row| row.get(0))?
                .collect()
        })?;
        Ok(nestor_statistics::median(&seconds))
    }

    fn decode(&self, (number, id, json): (i64, String, String)) -> Result<StoredRun, StoreError> {
        let record = serde_json::from_str(&json).map_err(|e| StoreError::Damaged {
            path: self.path.clone(),
            reason: format!("run {number} does not read back ({e})"),
        })?;
        Ok(StoredRun { number, id, record })
    }

    pub(super) fn decode_study(&self, text: &str) -> Result<StudyRecord, StoreError> {
        serde_json::from_str(text).map_err(|e| StoreError::Damaged {
            path: self.path.clone(),
            reason: format!("a study does not read back ({e})"),
        })
    }

    fn no_such_run(&self, number: i64) -> Result<StoreError, StoreError> {
        let ends: (Option<i64>, Option<i64>) = self.on(|c| {
            c.query_row("SELECT min(number), max(number) FROM runs", [], |r| Ok((r.get(0)?, r.get(1)?)))
        })?;
        let range = match ends {
            (Some(first), Some(last)) => format!("its runs are numbered {first} to {last}"),
            _ => "it has no runs yet".to_owned(),
        };
        Ok(StoreError::NoSuchRun { path: self.path.clone(), number, range })
    }
}

const LATEST_ONLY: &str = "CASE WHEN runs.study_hash IS NOT NULL THEN NOT EXISTS (SELECT 1 FROM runs AS later \
    WHERE later.study_hash = runs.study_hash AND later.stack = runs.stack AND later.workload = runs.workload \
        AND later.block = runs.block AND later.repeat = runs.repeat AND later.untraced_twin = runs.untraced_twin \
        AND later.number > runs.number) \
    ELSE NOT EXISTS (SELECT 1 FROM dependencies AS own JOIN dependencies AS same USING (digest) \
        JOIN runs AS later ON later.number = same.run \
    WHERE own.run = runs.number AND later.number > runs.number AND later.study_hash IS NULL \
        AND later.untraced_twin = runs.untraced_twin AND later.outcome = 'measured') END";

impl RunFilter {
    fn condition(&self) -> (String, Vec<Value>) {
        let columns = [
            ("study_hash", self.study_hash.as_deref()),
            ("study", self.study.as_deref()),
            ("stack", self.stack.as_deref()),
            ("workload", self.workload.as_deref()),
            ("ground", self.ground.as_deref()),
        ];
        let mut conditions = vec!["1".to_owned()];
        let mut values = Vec::new();
        for (column, wanted) in columns {
            if let Some(wanted) = wanted {
                conditions.push(format!("runs.{column} = ?"));
                values.push(Value::from(wanted.to_owned()));
            }
        }
        if self.latest_only {
            conditions.push(LATEST_ONLY.to_owned());
        }
        (conditions.join(" AND "), values)
    }
}

fn run_columns(row: &Row<'_>) -> rusqlite::Result<(i64, String, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn listing(row: &Row<'_>) -> rusqlite::Result<RunListing> {
    let marks: Option<String> = row.get(9)?;
    Ok(RunListing {
        number: row.get(0)?,
        started_at: row.get(1)?,
        study: row.get(2)?,
        stack: row.get(3)?,
        workload: row.get(4)?,
        ground: row.get(5)?,
        bytes_per_second: row.get(6)?,
        operations_per_second: row.get(7)?,
        failure: row.get(8)?,
        marks: marks.map(|m| m.split(',').map(str::to_owned).collect()).unwrap_or_default(),
    })
}
