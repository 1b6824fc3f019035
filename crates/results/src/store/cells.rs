//! The runs of a study in numbers, cell by cell, without reading their records.
//!
//! A record is hundreds of kilobytes; a report of a hundred thousand runs needs a hundred bytes of each, and the whole
//! record of one per cell.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nestor_statistics::latency_sum::LatencySum;
use nestor_statistics::{HistogramError, LatencySummary};
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use super::conditions::conditions;
use super::{Store, StoreError, StudyRecord};
use crate::Environment;
use crate::compare::{CountedMark, LifeSample};
use crate::life::LifeState;
use crate::numbers::{CellNumbers, RunNumbers};
use crate::record::Mark;

/// Readers of one file that wait for it at once, for each processor.
const READERS_PER_PROCESSOR: usize = 2;

/// What each of them keeps of the file: the inner pages of the latencies' tree, of which every look passes several.
const READER_CACHE_KIB: i64 = 16 << 10;

/// Cells in the order in which they are found, and where each run is.
struct Found {
    cells: Vec<CellNumbers>,
    /// Cell and place in it of a run by its number.
    places: HashMap<i64, (usize, usize)>,
}

impl Store {
    /// The runs of a study, cell by cell: of each stack, workload, block and repeat the latest, without the untraced
    /// repeats of traced cells. Cells come in the order of stack and workload, runs in that of their numbers.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a histogram in it is damaged.
    pub fn cells(&self, study_hash: &str) -> Result<Vec<CellNumbers>, StoreError> {
        // One view of the file: a run that is added meanwhile is neither among the runs nor in the summaries.
        let view = self.connection.unchecked_transaction().map_err(|e| self.reading_error(&e))?;
        let mut found = self.found(study_hash, |_, _| true)?;
        let mut summed_up = self.latencies_in_summaries(study_hash)?;
        drop(view);
        let mut others = Vec::new();
        for cell in &mut found.cells {
            match summed_up.remove(&(cell.stack.clone(), cell.workload.clone())) {
                Some(latency) => cell.latency = latency,
                None => others.push(cell),
            }
        }
        self.add_latencies(&mut others)?;
        Ok(found.cells)
    }

    /// The same of some cells, with the latencies of one: `wanted` and `with_latencies` are asked for the stack and workload.
    pub(super) fn some_cells(
        &self,
        study_hash: &str,
        wanted: impl Fn(&str, &str) -> bool,
        with_latencies: impl Fn(&str, &str) -> bool,
    ) -> Result<Vec<CellNumbers>, StoreError> {
        let mut found = self.found(study_hash, wanted)?;
        let is_asked = |cell: &&mut CellNumbers| with_latencies(&cell.stack, &cell.workload);
        found.cells.iter_mut().filter(is_asked).try_for_each(|cell| self.add_latency(cell))?;
        Ok(found.cells)
    }

    /// The cells that are wanted, without their latencies.
    fn found(&self, study_hash: &str, wanted: impl Fn(&str, &str) -> bool) -> Result<Found, StoreError> {
        self.on(|c| c.pragma_update(None, "cache_size", -READER_CACHE_KIB))?;
        let mut found = self.on(|c| runs(c, study_hash, wanted))?;
        self.add_conditions(&mut found, study_hash)?;
        self.add_marks(&mut found)?;
        self.add_lives(&mut found)?;
        Ok(found)
    }

    /// Reads the conditions of one run for each digest there is.
    fn add_conditions(&self, found: &mut Found, study_hash: &str) -> Result<(), StoreError> {
        let digests: Vec<(i64, String)> = self.on(|c| {
            c.prepare(
                "SELECT conditions.run, digest FROM runs INDEXED BY runs_in_numbers \
                 JOIN conditions ON conditions.run = runs.number WHERE study_hash = ?",
            )?
            .query_map([study_hash], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
        })?;
        let mut known: HashMap<String, Arc<Environment>> = HashMap::new();
        for (run, digest) in digests {
            let Some(&(cell, place)) = found.places.get(&run) else { continue };
            let environment = match known.get(&digest) {
                Some(environment) => Arc::clone(environment),
                None => {
                    let read = Arc::new(conditions(&self.run(run)?.record.environment));
                    known.insert(digest, Arc::clone(&read));
                    read
                }
            };
            found.cells[cell].runs[place].conditions = environment;
        }
        Ok(())
    }

    /// Counts the marks of each cell by kind.
    fn add_marks(&self, found: &mut Found) -> Result<(), StoreError> {
        let Some((first, last)) = ends(found) else { return Ok(()) };
        let mut kinds: HashMap<(usize, String, String), Kind> = HashMap::new();
        self.on(|c| {
            let mut statement = c.prepare(
                "SELECT run, place, mark, detail, about FROM marks WHERE run BETWEEN ? AND ? ORDER BY run, place",
            )?;
            let mut rows = statement.query([first, last])?;
            while let Some(row) = rows.next()? {
                count_mark(found, &mut kinds, row)?;
            }
            Ok(())
        })?;
        let mut kinds: Vec<((usize, String, String), Kind)> = kinds.into_iter().collect();
        kinds.sort_by_key(|((cell, ..), kind)| (*cell, kind.first_run, kind.first_place));
        for ((cell, name, _), kind) in kinds {
            let mark = match Mark::of_words(&name, &kind.detail) {
                Some(mark) => mark,
                None => self.mark(kind.first_run, kind.first_place)?,
            };
            found.cells[cell].marks.push(CountedMark { mark, runs: kind.runs });
        }
        Ok(())
    }

    /// A mark whose words do not hold all of it.
    fn mark(&self, run: i64, place: i64) -> Result<Mark, StoreError> {
        let text: Option<String> = self.on(|c| {
            c.prepare_cached(
                "SELECT json_extract(record, '$.marks[' || ?2 || ']') FROM runs WHERE number = ?1",
            )?
            .query_row([run, place], |row| row.get(0))
        })?;
        serde_json::from_str(&text.unwrap_or_default()).map_err(|e| self.damaged(run, &e.to_string()))
    }

    /// Reads what instances took, of several in a run their means.
    fn add_lives(&self, found: &mut Found) -> Result<(), StoreError> {
        let Some((first, last)) = ends(found) else { return Ok(()) };
        self.on(|c| {
            let mut wholes = c.prepare(
                "SELECT run, count(*), avg(whole_s) FROM lives WHERE run BETWEEN ? AND ? GROUP BY run",
            )?;
            let mut states =
                c.prepare("SELECT state, avg(seconds) FROM states WHERE run = ? GROUP BY state")?;
            let mut rows = wholes.query([first, last])?;
            while let Some(row) = rows.next()? {
                let run: i64 = row.get(0)?;
                let Some(&(cell, place)) = found.places.get(&run) else { continue };
                let (instances, whole_s): (u32, f64) = (row.get(1)?, row.get(2)?);
                let states = states_of(&mut states, run)?;
                found.cells[cell].runs[place].lives =
                    Some(LifeSample { instances: instances as usize, states, whole_s });
            }
            Ok(())
        })
    }

    /// Merges the latencies of each cell's runs by class of operation. They are spread over the file, so several
    /// connections read it in parallel.
    fn add_latencies(&self, cells: &mut [&mut CellNumbers]) -> Result<(), StoreError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) * READERS_PER_PROCESSOR;
        let share = cells.len().div_ceil(threads).max(1);
        let path = &self.file();
        std::thread::scope(|scope| {
            let read = |cells: &mut [&mut CellNumbers]| -> Result<(), StoreError> {
                let store = Self::open_read_only(path)?;
                store.on(|c| c.pragma_update(None, "cache_size", -READER_CACHE_KIB))?;
                cells.iter_mut().try_for_each(|cell| store.add_latency(cell))
            };
            let started: Vec<_> =
                cells.chunks_mut(share).map(|cells| scope.spawn(move || read(cells))).collect();
            started.into_iter().try_for_each(|thread| thread.join().expect("reading does not panic"))
        })
    }

    fn add_latency(&self, cell: &mut CellNumbers) -> Result<(), StoreError> {
        let mut sums: BTreeMap<String, LatencySum> = BTreeMap::new();
        for run in cell.runs.iter().filter(|r| r.rates.is_some() && r.violated.is_none()) {
            let added = self.on(|c| add_run(c, run.number, &mut sums))?;
            added.map_err(|error| self.damaged(run.number, &error.to_string()))?;
        }
        let summary = |(class, sum): (String, LatencySum)| Some((class, sum.finish().summary()?));
        cell.latency = sums.into_iter().filter_map(summary).collect::<BTreeMap<String, LatencySummary>>();
        Ok(())
    }

    fn damaged(&self, run: i64, reason: &str) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            reason: format!("run {run} does not read back ({reason})"),
        }
    }

    /// How many runs there are.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn count(&self) -> Result<usize, StoreError> {
        let count: i64 = self.on(|c| c.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// The study of a name that was kept last; of several with the name, the one with the latest run.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn study_named(&self, name: &str) -> Result<Option<StudyRecord>, StoreError> {
        let text: Option<String> = self.on(|c| {
            c.query_row(
                "SELECT record FROM studies WHERE name = ?1 ORDER BY \
                 (SELECT max(started_at) FROM runs INDEXED BY runs_in_numbers WHERE study_hash = studies.hash) DESC, \
                 rowid DESC LIMIT 1",
                [name],
                |row| row.get(0),
            )
            .optional()
        })?;
        text.map(|text| self.decode_study(&text)).transpose()
    }
}

/// How often a kind of mark was seen in a cell, and where first.
struct Kind {
    first_run: i64,
    first_place: i64,
    detail: String,
    runs: usize,
    last_run: i64,
}

/// What each state of a run's instances took in the mean, in the order of the states.
fn states_of(query: &mut Statement<'_>, run: i64) -> rusqlite::Result<Vec<(LifeState, f64)>> {
    let mut states = Vec::new();
    let mut rows = query.query([run])?;
    while let Some(row) = rows.next()? {
        if let Some(state) = LifeState::of_name(row.get_ref(0)?.as_str()?) {
            states.push((state, row.get(1)?));
        }
    }
    states.sort_by_key(|(state, _)| *state);
    Ok(states)
}

fn ends(found: &Found) -> Option<(i64, i64)> {
    Some((*found.places.keys().min()?, *found.places.keys().max()?))
}

fn runs(
    connection: &Connection,
    study_hash: &str,
    wanted: impl Fn(&str, &str) -> bool,
) -> rusqlite::Result<Found> {
    let mut found = Found { cells: Vec::new(), places: HashMap::new() };
    let none = Arc::new(Environment::default());
    // Everything is in the index, in this order; what is not is in tables of short rows.
    let mut statement = connection.prepare(
        "SELECT runs.number, stack, workload, block, repeat, position, started_at, cell_s, elapsed_ns, bytes_per_second, \
         operations_per_second, outcome, loads.working_set_bytes, loads.real_s FROM runs INDEXED BY runs_in_numbers \
         LEFT JOIN loads ON loads.run = runs.number WHERE study_hash = ? AND untraced_twin = 0 \
         ORDER BY stack, workload, block, repeat",
    )?;
    let mut rows = statement.query([study_hash])?;
    while let Some(row) = rows.next()? {
        let (stack, workload) = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
        if !wanted(stack, workload) {
            continue;
        }
        if !found.cells.last().is_some_and(|c| c.stack == stack && c.workload == workload) {
            found.cells.push(CellNumbers::new(stack.into(), workload.into()));
        }
        let run = run_numbers(row, &none)?;
        let runs = &mut found.cells.last_mut().expect("pushed above").runs;
        match runs.iter_mut().rev().find(|r| (r.block, r.repeat) == (run.block, run.repeat)) {
            Some(earlier) if earlier.number < run.number => *earlier = run,
            Some(_) => {}
            None => runs.push(run),
        }
    }
    let mut failure = connection.prepare("SELECT failure FROM runs WHERE number = ?")?;
    for (c, cell) in found.cells.iter_mut().enumerate() {
        cell.runs.sort_by_key(|r| r.number);
        for (place, run) in cell.runs.iter_mut().enumerate() {
            found.places.insert(run.number, (c, place));
            if run.rates.is_none() {
                run.failure = failure.query_row([run.number], |row| row.get(0))?;
            }
        }
    }
    Ok(found)
}

fn run_numbers(row: &Row<'_>, conditions: &Arc<Environment>) -> rusqlite::Result<RunNumbers> {
    let elapsed_ns: Option<i64> = row.get(8)?;
    let rates: (Option<f64>, Option<f64>) = (row.get(9)?, row.get(10)?);
    let measured = row.get_ref(11)?.as_str()? == "measured";
    let working_set: Option<i64> = row.get(12)?;
    Ok(RunNumbers {
        number: row.get(0)?,
        block: row.get(3)?,
        repeat: row.get(4)?,
        position: row.get(5)?,
        started_at: row.get(6)?,
        cell_s: row.get(7)?,
        measured_s: elapsed_ns.map(|ns| ns as f64 / 1e9),
        load_s: row.get(13)?,
        rates: if measured { rates.0.zip(rates.1) } else { None },
        lives: None,
        failure: None,
        violated: None,
        working_set_bytes: working_set.and_then(|bytes| u64::try_from(bytes).ok()),
        conditions: Arc::clone(conditions),
    })
}

fn count_mark(
    found: &mut Found,
    kinds: &mut HashMap<(usize, String, String), Kind>,
    row: &Row<'_>,
) -> rusqlite::Result<()> {
    let run: i64 = row.get(0)?;
    let Some(&(cell, place)) = found.places.get(&run) else { return Ok(()) };
    let (name, detail) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
    let marked = &mut found.cells[cell].runs[place];
    if name == Mark::INCONSISTENT && marked.rates.is_some() {
        // Several are one sentence, as in `Sample::of`.
        let before = marked.violated.take().map(|reasons| format!("{reasons}; "));
        marked.violated = Some(format!("{}{detail}", before.unwrap_or_default()));
    }
    let key = (cell, name.to_owned(), row.get(4)?);
    let kind = match kinds.get_mut(&key) {
        Some(kind) => kind,
        None => kinds.entry(key).or_insert(Kind {
            first_run: run,
            first_place: row.get(1)?,
            detail: detail.to_owned(),
            runs: 0,
            last_run: 0,
        }),
    };
    // Two marks of one kind in one run are one.
    if kind.last_run != run {
        kind.runs += 1;
        kind.last_run = run;
    }
    Ok(())
}

/// Adds a run's latencies; the inner error is what is wrong with a histogram.
fn add_run(
    connection: &Connection,
    run: i64,
    sums: &mut BTreeMap<String, LatencySum>,
) -> rusqlite::Result<Result<(), HistogramError>> {
    let mut statement = connection.prepare_cached("SELECT class, histogram FROM latencies WHERE run = ?")?;
    let mut rows = statement.query([run])?;
    while let Some(row) = rows.next()? {
        let class = row.get_ref(0)?.as_str()?;
        let text = row.get_ref(1)?.as_str()?;
        let sum = match sums.get_mut(class) {
            Some(sum) => sum,
            None => sums.entry(class.to_owned()).or_default(),
        };
        if let Err(reason) = sum.add(text) {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(()))
}
