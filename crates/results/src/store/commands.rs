//! What a command such as `nestor run` or `nestor compare` measured together: runs of no study, summed up as those of one.
//!
//! Runs of different commands are not put together: between them a machine, a kernel or a program may have become another.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{Store, StoreError, StoredRun, StudyRecord, number_of, summaries};
use crate::numbers::CellNumbers;
use crate::record::sha256_hex;
use crate::{SavedBaseline, Study, WrittenPlace};

/// What version 19 adds.
///
/// As in the views before, a column without a declared type would be taken for bytes by some programs: the first part of each
/// union gives the types.
pub(super) const VERSION_19: &str = "
CREATE TABLE commands (             -- what was measured together and belongs to no study
    hash TEXT PRIMARY KEY,
    record TEXT NOT NULL,           -- StudyRecord as JSON
    ground TEXT NOT NULL            -- the place where it ran
) STRICT;
CREATE TABLE command_runs (
    hash TEXT NOT NULL REFERENCES commands (hash) ON DELETE CASCADE,
    run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    PRIMARY KEY (hash, run)
) STRICT, WITHOUT ROWID;
DROP VIEW cell;
CREATE VIEW cell AS
SELECT studies.name AS study, studies.scale AS scale, studies.ground AS ground, cells.*
FROM cells JOIN studies ON studies.hash = cells.study_hash
WHERE cells.study_hash NOT IN (SELECT outdated.study_hash FROM outdated)
UNION ALL
SELECT NULL AS study, NULL AS scale, commands.ground AS ground, cells.*
FROM cells JOIN commands ON commands.hash = cells.study_hash
WHERE cells.study_hash NOT IN (SELECT outdated.study_hash FROM outdated);
DROP VIEW comparison;
CREATE VIEW comparison AS
SELECT studies.name AS study, studies.scale AS scale, studies.ground AS ground, comparisons.*
FROM comparisons JOIN studies ON studies.hash = comparisons.study_hash
WHERE comparisons.study_hash NOT IN (SELECT outdated.study_hash FROM outdated)
UNION ALL
SELECT NULL AS study, NULL AS scale, commands.ground AS ground, comparisons.*
FROM comparisons JOIN commands ON commands.hash = comparisons.study_hash
WHERE comparisons.study_hash NOT IN (SELECT outdated.study_hash FROM outdated);
DROP VIEW pair;
CREATE VIEW pair AS
SELECT studies.name AS study, studies.scale AS scale, studies.ground AS ground, pairs.*
FROM pairs JOIN studies ON studies.hash = pairs.study_hash
WHERE pairs.study_hash NOT IN (SELECT outdated.study_hash FROM outdated)
UNION ALL
SELECT NULL AS study, NULL AS scale, commands.ground AS ground, pairs.*
FROM pairs JOIN commands ON commands.hash = pairs.study_hash
WHERE pairs.study_hash NOT IN (SELECT outdated.study_hash FROM outdated);
";

/// What version 22 adds. Commands that were compared with saved runs before it do not say with which.
pub(super) const VERSION_22: &str = "
ALTER TABLE comparisons ADD COLUMN saved_baseline TEXT; -- the name of the baseline, which was measured before; NULL: measured in turn
";

/// Digits of what names a command, as many as of a study.
const HASH_DIGITS: usize = 16;

/// A command with the ids of its runs, which are the same in every file.
struct Command {
    record: StudyRecord,
    ids: Vec<String>,
}

impl Command {
    fn new(study: &Study, ground: &WrittenPlace, mut ids: Vec<String>) -> Self {
        ids.sort();
        ids.dedup();
        let mut identity = format!("{} {}", study.hash(ground), ids.join(" "));
        if let Some(SavedBaseline { name, runs }) = &study.against {
            identity += &format!(" against {name} {}", runs.join(" "));
        }
        let record = StudyRecord {
            hash: sha256_hex(identity.as_bytes())[..HASH_DIGITS].to_owned(),
            ground: ground.clone(),
            study: study.clone(),
            sentinels: false,
            ended_early: None,
            sessions: Vec::new(),
        };
        Self { record, ids }
    }

    fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let hash = self.record.hash.as_str();
        let json = serde_json::to_string(&self.record).expect("a study holds texts and whole numbers");
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let new = transaction.execute(
            "INSERT OR IGNORE INTO commands (hash, record, ground) VALUES (?, ?, ?)",
            params![hash, json, self.record.ground],
        )?;
        if new > 0 {
            for id in &self.ids {
                transaction.execute(
                    "INSERT INTO command_runs (hash, run) SELECT ?, number FROM runs WHERE id = ?",
                    [hash, id],
                )?;
            }
            summaries::note_study(&transaction, hash)?;
        }
        transaction.commit()
    }
}

impl Store {
    /// Keeps which runs a command made of `study`, whose first stack is the baseline of the others, and sums them up. The runs are
    /// in the file already; a command without any is not kept.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn save_command(&mut self, study: &Study, runs: &[StoredRun]) -> Result<(), StoreError> {
        let Some(first) = runs.first() else { return Ok(()) };
        let ids = runs.iter().map(|run| run.id.clone()).collect();
        let command = Command::new(study, &first.record.environment.ground, ids);
        let path = self.path.clone();
        command.write(&mut self.connection).map_err(|e| StoreError::from_sqlite(&path, &e))?;
        self.sum_up(&command.record.hash)
    }

    /// Takes over the commands of another file, whose runs are here already.
    pub(super) fn merge_commands(&mut self, other: &Self) -> Result<(), StoreError> {
        let hashes: Vec<String> = other.on(|c| {
            c.prepare("SELECT hash FROM commands ORDER BY rowid")?.query_map([], |row| row.get(0))?.collect()
        })?;
        for hash in hashes {
            let Some(record) = other.command(&hash)? else { continue };
            let ids = other.on(|c| {
                c.prepare_cached(
                    "SELECT id FROM command_runs JOIN runs ON runs.number = command_runs.run WHERE hash = ?",
                )?
                .query_map([&hash], |row| row.get(0))?
                .collect()
            })?;
            let command = Command { record, ids };
            let path = self.path.clone();
            command.write(&mut self.connection).map_err(|e| StoreError::from_sqlite(&path, &e))?;
        }
        Ok(())
    }

    /// A command by its hash.
    pub(super) fn command(&self, hash: &str) -> Result<Option<StudyRecord>, StoreError> {
        let text: Option<String> = self.on(|c| {
            c.prepare_cached("SELECT record FROM commands WHERE hash = ?")?
                .query_row([hash], |row| row.get(0))
                .optional()
        })?;
        text.map(|text| self.decode_study(&text)).transpose()
    }

    /// The runs of a command in numbers, cell by cell.
    pub(super) fn cells_of_command(&self, hash: &str) -> Result<Vec<CellNumbers>, StoreError> {
        let numbers: Vec<i64> = self.on(|c| {
            c.prepare_cached("SELECT run FROM command_runs WHERE hash = ? ORDER BY run")?
                .query_map([hash], |row| row.get(0))?
                .collect()
        })?;
        let runs = numbers.into_iter().map(|run| self.run(run)).collect::<Result<Vec<_>, _>>()?;
        Ok(cells_of(&runs))
    }

    /// The saved runs that a command was compared with, in numbers; `None` of one that was not, or if they are not in the file.
    pub(super) fn saved_cell(
        &self,
        saved: Option<&SavedBaseline>,
    ) -> Result<Option<CellNumbers>, StoreError> {
        let ids = saved.map(|saved| saved.runs.as_slice()).unwrap_or_default();
        let numbers = ids.iter().map(|id| self.on(|c| number_of(c, id))).collect::<Result<Vec<_>, _>>()?;
        let runs = numbers.into_iter().flatten().map(|run| self.run(run)).collect::<Result<Vec<_>, _>>()?;
        Ok(cells_of(&runs).pop())
    }
}

/// Runs in numbers, cell by cell.
fn cells_of(runs: &[StoredRun]) -> Vec<CellNumbers> {
    let mut cells: Vec<Vec<&StoredRun>> = Vec::new();
    for run in runs {
        let is_same = |cell: &&mut Vec<&StoredRun>| {
            (&cell[0].record.stack, &cell[0].record.workload) == (&run.record.stack, &run.record.workload)
        };
        match cells.iter_mut().find(is_same) {
            Some(cell) => cell.push(run),
            None => cells.push(vec![run]),
        }
    }
    cells.iter().filter_map(|cell| CellNumbers::of(cell)).collect()
}
