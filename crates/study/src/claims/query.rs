//! Running a query that somebody else wrote, without trusting it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use super::evidence::{Evidence, TABLES};
use crate::store::LONGEST_VALUE_BYTES;

/// A query that takes longer has no end.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// More rows are no evidence any more.
const MOST_ROWS: usize = 100_000;
/// More bytes of texts in all rows together neither.
const MOST_BYTES: usize = 32 << 20;
/// Memory of SQLite's own that a query may take besides what was taken before.
const MOST_MEMORY_BYTES: i64 = 256 << 20;
/// Instructions of SQLite's machine between two looks at its memory: a look costs less than they do.
const LOOK_EVERY: i32 = 1_000;
/// Longest query.
const MOST_SQL_BYTES: usize = 100_000;

/// What a query found.
pub(super) struct Found {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// One row of it.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl Found {
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { columns: &self.columns, values })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows of each value of a column, in the order in which they first appear.
    pub fn grouped_by(&self, column: &str) -> Vec<(String, Self)> {
        let mut groups: Vec<(String, Self)> = Vec::new();
        for row in self.rows() {
            let name = row.text(column).unwrap_or_default();
            let values = row.values.to_vec();
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, group)) => group.rows.push(values),
                None => groups.push((name, Self { columns: self.columns.clone(), rows: vec![values] })),
            }
        }
        groups
    }

    /// Refuses a result that lacks a column.
    ///
    /// # Errors
    ///
    /// Which one, and which there are.
    pub fn require(&self, needed: &[&str]) -> Result<(), String> {
        match needed.iter().find(|name| !self.has(name)) {
            None => Ok(()),
            Some(missing) => Err(format!(
                "it gives no column `{missing}`; it gives {}; needed are {}",
                self.columns.join(", "),
                needed.join(", ")
            )),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|c| c == name)
    }
}

impl Row<'_> {
    pub fn value(&self, name: &str) -> Option<&Value> {
        let index = self.columns.iter().position(|c| c == name)?;
        self.values.get(index).filter(|v| **v != Value::Null)
    }

    /// A finite number; a text that is one counts.
    pub fn number(&self, name: &str) -> Option<f64> {
        let number = match self.value(name)? {
            Value::Integer(number) => *number as f64,
            Value::Real(number) => *number,
            Value::Text(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        Some(match self.value(name)? {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            _ => return None,
        })
    }
}

/// Runs a query.
///
/// # Errors
///
/// In a sentence or two: what is wrong with it, in SQLite's words, and what it could have asked for.
pub(super) fn run(evidence: &Evidence, sql: &str) -> Result<Found, String> {
    let connection = evidence.connection();
    within_time(connection, TIME_LIMIT, || run_within_memory(connection, sql))
}

fn run_within_memory(connection: &Connection, sql: &str) -> Result<Found, String> {
    if sql.len() > MOST_SQL_BYTES {
        return Err(format!("it is {} bytes long; {MOST_SQL_BYTES} are the most", sql.len()));
    }
    let exceeded = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&exceeded);
    let most = memory_used().saturating_add(MOST_MEMORY_BYTES);
    let look = move || {
        let too_much = memory_used() > most;
        seen.fetch_or(too_much, Ordering::Relaxed);
        too_much
    };
    let watched = |action: Option<_>| {
        connection.progress_handler(LOOK_EVERY, action).map_err(|e| format!("SQLite says: {e}"))
    };
    watched(Some(look))?;
    let found = run_unlimited(connection, sql);
    watched(None)?;
    if exceeded.load(Ordering::Relaxed) {
        return Err(format!("it was stopped when it took over {} MiB of memory", MOST_MEMORY_BYTES >> 20));
    }
    found
}

/// Bytes that SQLite has allocated in this process.
fn memory_used() -> i64 {
    // SAFETY: it takes nothing, changes nothing, and may be called from any thread at any time.
    unsafe { rusqlite::ffi::sqlite3_memory_used() }
}

fn run_unlimited(connection: &Connection, sql: &str) -> Result<Found, String> {
    let in_words = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => {
            format!("it was stopped after {} s", TIME_LIMIT.as_secs())
        }
        Some(rusqlite::ErrorCode::TooBig) => {
            format!("it makes a value of over {} MiB", LONGEST_VALUE_BYTES >> 20)
        }
        _ => format!("{}; {}", said(&error), what_there_is(connection, sql)),
    };
    let mut statement = connection.prepare(sql).map_err(in_words)?;
    // An ATTACH or a PRAGMA counts as reading, but gives no table that could be evidence.
    let first_word: String = sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    let selects = ["select", "with", "values"].iter().any(|word| first_word.eq_ignore_ascii_case(word));
    if !statement.readonly() || !selects || statement.column_count() == 0 {
        return Err("it is no query that only reads: it has to begin with SELECT or WITH".to_owned());
    }
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let width = columns.len();
    let mut rows = Vec::new();
    let mut bytes = 0_usize;
    let mut cursor = statement.query([]).map_err(in_words)?;
    while let Some(row) = cursor.next().map_err(in_words)? {
        if rows.len() == MOST_ROWS {
            return Err(format!("it gives more than {MOST_ROWS} rows"));
        }
        for column in 0..width {
            bytes = bytes.saturating_add(match row.get_ref(column).map_err(in_words)? {
                ValueRef::Text(value) | ValueRef::Blob(value) => value.len(),
                _ => 0,
            });
        }
        if bytes > MOST_BYTES {
            return Err(format!("its rows have over {} MiB of texts", MOST_BYTES >> 20));
        }
        let values: Result<Vec<Value>, _> = (0..width).map(|i| row.get(i)).collect();
        rows.push(values.map_err(in_words)?);
    }
    Ok(Found { columns, rows })
}

/// Without the text of the query, which SQLite's message repeats.
fn said(error: &rusqlite::Error) -> String {
    let text = error.to_string();
    let said = text.split(" in ").next().unwrap_or(&text);
    format!("SQLite says: {}", said.trim_end_matches(':'))
}

/// `pair has run, block, …`, of the tables that the query names; all tables if it names none.
fn what_there_is(connection: &Connection, sql: &str) -> String {
    let named: Vec<String> = TABLES
        .iter()
        .filter(|table| names(sql, table))
        .filter_map(|table| {
            let statement = connection.prepare(&format!("SELECT * FROM temp.{table} LIMIT 0")).ok()?;
            Some(format!("{table} has {}", statement.column_names().join(", ")))
        })
        .collect();
    if named.is_empty() { format!("there are {}", TABLES.join(", ")) } else { named.join("; ") }
}

/// Whether a query names a table.
pub(super) fn names(sql: &str, table: &str) -> bool {
    sql.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| word.eq_ignore_ascii_case(table))
}

fn within_time<T>(connection: &Connection, limit: Duration, work: impl FnOnce() -> T) -> T {
    let handle = connection.get_interrupt_handle();
    let (ended, watch) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.interrupt();
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::super::functions::add_functions;
    use super::*;

    #[test]
    fn a_query_without_end_is_stopped() {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
        let result = within_time(&connection, Duration::from_millis(10), || run_unlimited(&connection, sql));
        assert_eq!(result.err().as_deref(), Some("it was stopped after 60 s"));
    }

    /// What is said of a query of a connection as claims have it.
    fn refused(sql: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::Store::open(&folder.path().join("results.sqlite")).unwrap();
        let connection = store.reader().unwrap();
        add_functions(&connection).unwrap();
        connection.pragma_update(None, "temp_store", "MEMORY").unwrap();
        run_within_memory(&connection, sql).err().expect("a refusal")
    }

    const NUMBERS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40000000)";

    #[test]
    fn one_value_cannot_take_all_memory() {
        for value in ["zeroblob(100000000)", "printf('%100000000d', 1)", "hex(zeroblob(60000000))"] {
            assert_eq!(refused(&format!("SELECT {value}")), "it makes a value of over 64 MiB", "{value}");
        }
    }

    #[test]
    fn many_values_cannot_take_all_memory() {
        let rows = format!("{NUMBERS} SELECT i, printf('%30000d', i) FROM n LIMIT 90000");
        assert_eq!(refused(&rows), "its rows have over 32 MiB of texts");
        let sorted =
            format!("{NUMBERS} SELECT i, printf('%3000d', i) AS text FROM n ORDER BY text LIMIT 3000000, 5");
        assert_eq!(refused(&sorted), "it was stopped when it took over 256 MiB of memory");
    }

    #[test]
    fn samples_cannot_take_all_memory() {
        let all = format!("{NUMBERS} SELECT median(i) FROM n");
        assert!(refused(&all).contains("statistics are of over 2000000 samples"), "{}", refused(&all));
        let columns: Vec<String> = (0..100).map(|n| format!("median(i + {n})")).collect();
        let many = format!("{NUMBERS} SELECT {} FROM n", columns.join(", "));
        assert!(refused(&many).contains("statistics are of over 2000000 samples"));
    }

    #[test]
    fn a_query_can_be_only_so_long() {
        let sql = format!("SELECT 1 {}", " ".repeat(100_000));
        assert_eq!(refused(&sql), "it is 100009 bytes long; 100000 are the most");
    }

    #[test]
    fn a_table_is_named_as_a_word_only() {
        assert!(names("SELECT 1 FROM pair, x.raw_disk", "raw_disk"));
        assert!(!names("SELECT repair FROM pairs", "pair"));
    }
}
