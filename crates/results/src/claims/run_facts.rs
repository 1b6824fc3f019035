//! What is asked of every run behind a claim, read once for all runs of the file: a claim may have tens of thousands.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;

/// The marks that a comparison must not be made without.
const DOUBTS: [&str; 5] = ["cached", "cpu-bound", "events-dropped", "not-steady", "unmatched"];

/// Of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RunFact {
    /// A bit for each of [`DOUBTS`].
    doubts: u8,
    /// How much was recorded, as a position in [`RunFacts::modes`]; `None` of results that do not say it.
    mode: Option<usize>,
    is_untraced_twin: bool,
}

/// Of all runs of a file.
#[derive(Debug, Default)]
pub(super) struct RunFacts {
    runs: HashMap<i64, RunFact>,
    modes: Vec<String>,
}

impl RunFacts {
    /// Reads them.
    pub fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut facts = Self::default();
        let mut recorded = connection
            .prepare("SELECT number, trace, untraced_twin FROM main.runs INDEXED BY runs_recorded")?;
        let mut rows = recorded.query([])?;
        while let Some(row) = rows.next()? {
            let mode = row.get_ref(1)?.as_str_or_null()?.map(|mode| facts.mode(mode));
            let fact = RunFact { doubts: 0, mode, is_untraced_twin: row.get(2)? };
            facts.runs.insert(row.get(0)?, fact);
        }
        let mut marks = connection.prepare("SELECT run, mark FROM main.marks")?;
        let mut rows = marks.query([])?;
        while let Some(row) = rows.next()? {
            let mark = row.get_ref(1)?.as_str()?;
            if let Some(doubt) = DOUBTS.iter().position(|doubt| *doubt == mark)
                && let Some(fact) = facts.runs.get_mut(&row.get(0)?)
            {
                fact.doubts |= 1 << doubt;
            }
        }
        Ok(facts)
    }

    fn mode(&mut self, mode: &str) -> usize {
        self.modes.iter().position(|known| known == mode).unwrap_or_else(|| {
            self.modes.push(mode.to_owned());
            self.modes.len() - 1
        })
    }

    /// The first of these runs that is not in the file.
    pub fn unknown_run(&self, runs: &BTreeSet<i64>) -> Option<i64> {
        runs.iter().copied().find(|run| !self.runs.contains_key(run))
    }

    /// How many of these runs have a mark that a comparison must not be made without, by mark.
    pub fn marked(&self, runs: &BTreeSet<i64>) -> BTreeMap<String, usize> {
        let mut counts = [0_usize; DOUBTS.len()];
        for fact in runs.iter().filter_map(|run| self.runs.get(run)) {
            for (doubt, count) in counts.iter_mut().enumerate() {
                *count += usize::from(fact.doubts >> doubt & 1);
            }
        }
        let counted = DOUBTS.iter().zip(counts).filter(|(_, count)| *count > 0);
        counted.map(|(mark, count)| ((*mark).to_owned(), count)).collect()
    }

    /// The pairs of which one side was recorded otherwise, by what was recorded: `full / layers`. Claims about untraced repeats are exempt.
    pub fn traced_differently(&self, pairs: impl IntoIterator<Item = (i64, i64)>) -> BTreeMap<String, usize> {
        let mut differing: BTreeMap<String, usize> = BTreeMap::new();
        for (run, baseline) in pairs {
            let (Some(a), Some(b)) = (self.runs.get(&run), self.runs.get(&baseline)) else { continue };
            if let (Some(one), Some(other)) = (a.mode, b.mode)
                && one != other
                && a.is_untraced_twin == b.is_untraced_twin
            {
                let (one, other) = (&self.modes[one], &self.modes[other]);
                *differing.entry(format!("{} / {}", one.min(other), one.max(other))).or_default() += 1;
            }
        }
        differing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs as the file keeps them: number, what was recorded, whether it is an untraced repeat; and marks.
    fn facts() -> RunFacts {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE runs (number INTEGER PRIMARY KEY, trace TEXT, untraced_twin INTEGER NOT NULL);
                CREATE INDEX runs_recorded ON runs (number, trace, untraced_twin);
                CREATE TABLE marks (run INTEGER, mark TEXT);
                INSERT INTO runs VALUES (1, 'layers', 0), (2, 'full', 0), (3, 'layers', 0), (4, 'none', 1), (5, NULL, 0);
                INSERT INTO marks VALUES (1, 'cached'), (1, 'cached'), (2, 'cached'), (2, 'unmatched'), (3, 'short'), (9, 'cached');",
            )
            .unwrap();
        RunFacts::read(&connection).unwrap()
    }

    #[test]
    fn a_doubt_counts_once_for_each_run_that_is_asked_of() {
        let facts = facts();
        let marked = |runs: &[i64]| facts.marked(&runs.iter().copied().collect());
        assert_eq!(
            marked(&[1, 2, 3]),
            BTreeMap::from([("cached".to_owned(), 2), ("unmatched".to_owned(), 1)])
        );
        assert_eq!(marked(&[3, 4]), BTreeMap::new());
    }

    #[test]
    fn a_run_that_is_not_in_the_file_is_found() {
        assert_eq!(facts().unknown_run(&[1, 2, 9, 10].into()), Some(9));
        assert_eq!(facts().unknown_run(&[1, 5].into()), None);
    }

    #[test]
    fn sides_that_were_recorded_otherwise_are_counted_without_untraced_repeats() {
        let differing = facts().traced_differently([(1, 2), (2, 1), (1, 3), (1, 4), (1, 5), (1, 9)]);
        assert_eq!(differing, BTreeMap::from([("full / layers".to_owned(), 2)]));
    }
}
