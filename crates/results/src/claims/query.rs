//! Runs a query from a study file without trusting it.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Statement};

use super::evidence::{Evidence, TABLES};
use super::limits::{
    MOST_ARGUMENTS, MOST_COLUMNS, MOST_DEPTH, MOST_INSTRUCTIONS, MOST_MEMORY_BYTES, MOST_VALUE_BYTES, Memory,
    Sizes, with_room,
};
use super::searches::Deadline;
use super::size::Size;

/// A query that takes longer is taken to be endless.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Longest query.
const MOST_SQL_BYTES: usize = 100_000;

/// What a query found.
pub(super) struct Found {
    /// Shared by the groups that the rows are split into, as each row is: a query may have many rows and long names.
    columns: Arc<[String]>,
    rows: Vec<Arc<[Value]>>,
}

/// One row of it.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl Found {
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| self.row(values))
    }

    fn row<'a>(&'a self, values: &'a [Value]) -> Row<'a> {
        Row { columns: &self.columns, values }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Rows that no query was run for.
    #[cfg(test)]
    pub fn of(columns: &[&str], rows: Vec<Vec<Value>>) -> Self {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { columns: columns.into(), rows: rows.into_iter().map(Arc::from).collect() }
    }

    /// The rows of each value of a column, in the order in which they first appear.
    pub fn grouped_by(&self, column: &str) -> Vec<(String, Self)> {
        let mut groups: Vec<(String, Self)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for values in &self.rows {
            let name = self.row(values).text(column).unwrap_or_default();
            let place = *places.entry(name).or_insert_with_key(|name| {
                groups.push((name.clone(), Self { columns: Arc::clone(&self.columns), rows: Vec::new() }));
                groups.len() - 1
            });
            groups[place].1.rows.push(Arc::clone(values));
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
                "it does not return the column `{missing}`; it returns {}; it needs {}",
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

    /// A finite number; a text that holds one counts.
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

/// The columns that a query would return, without rows: it is only prepared.
///
/// # Errors
///
/// As of [`run`].
pub(super) fn columns(evidence: &Evidence, sql: &str) -> Result<Found, String> {
    within_limits(evidence.connection(), sql, |connection, sql| {
        let columns = columns_of(&prepared(connection, sql)?);
        Ok(Found { columns: columns.into(), rows: Vec::new() })
    })
}

fn run_within_memory(connection: &Connection, sql: &str) -> Result<Found, String> {
    within_limits(connection, sql, run_unlimited)
}

fn within_limits(
    connection: &Connection,
    sql: &str,
    work: impl FnOnce(&Connection, &str) -> Result<Found, String>,
) -> Result<Found, String> {
    if sql.len() > MOST_SQL_BYTES {
        return Err(format!("it is {} bytes long; the limit is {MOST_SQL_BYTES}", sql.len()));
    }
    let _memory = Memory::limit();
    let _sizes = Sizes::lower(connection).map_err(|e| format!("SQLite says: {e}"))?;
    work(connection, sql)
}

/// What an error of a query means.
fn in_words(connection: &Connection, sql: &str, error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => {
            format!("it was stopped after {} s", TIME_LIMIT.as_secs())
        }
        Some(rusqlite::ErrorCode::TooBig) => {
            format!("it makes or reads a value of over {} MiB", MOST_VALUE_BYTES >> 20)
        }
        Some(rusqlite::ErrorCode::OutOfMemory) => {
            format!("it was stopped because it took over {} MiB of memory", MOST_MEMORY_BYTES >> 20)
        }
        _ => match too_large(error) {
            Some(limit) => limit,
            None => format!("{}; {}", said(error), what_there_is(connection, sql)),
        },
    }
}

fn columns_of(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().into_iter().map(str::to_owned).collect()
}

/// A query that only reads, ready to be run.
fn prepared<'c>(connection: &'c Connection, sql: &str) -> Result<Statement<'c>, String> {
    let statement = connection.prepare(sql).map_err(|error| match error.sqlite_error_code() {
        // What SQLite says of too many instructions, too.
        Some(rusqlite::ErrorCode::OutOfMemory) => format!(
            "it takes over {MOST_INSTRUCTIONS} instructions or {} MiB of memory to run; make it shorter",
            MOST_MEMORY_BYTES >> 20
        ),
        _ => in_words(connection, sql, &error),
    })?;
    // An ATTACH or a PRAGMA counts as reading, but gives no table that could be evidence.
    let first_word: String = sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    let selects = ["select", "with", "values"].iter().any(|word| first_word.eq_ignore_ascii_case(word));
    if !statement.readonly() || !selects || statement.column_count() == 0 {
        return Err("it is not a read-only query: it must begin with SELECT or WITH".to_owned());
    }
    Ok(statement)
}

fn run_unlimited(connection: &Connection, sql: &str) -> Result<Found, String> {
    let in_words = |error| in_words(connection, sql, &error);
    let mut statement = prepared(connection, sql)?;
    let columns = columns_of(&statement);
    let mut size = Size::of(&columns);
    let mut rows: Vec<Arc<[Value]>> = Vec::new();
    let mut cursor = statement.query([]).map_err(in_words)?;
    while let Some(row) = cursor.next().map_err(in_words)? {
        size.add_row().map_err(|e| e.to_string())?;
        let mut values = Vec::with_capacity(columns.len());
        for column in 0..columns.len() {
            let value = with_room(|| row.get_ref(column)).map_err(in_words)?;
            size.add_value(column, value).map_err(|e| e.to_string())?;
            values.push(Value::try_from(value).map_err(|e| format!("SQLite says: {e}"))?);
        }
        rows.push(values.into());
    }
    Ok(Found { columns: columns.into(), rows })
}

/// Which limit a statement exceeds that SQLite does not even compile.
fn too_large(error: &rusqlite::Error) -> Option<String> {
    let said = error.to_string();
    let limits = [
        ("too many columns", format!("it has over {MOST_COLUMNS} columns")),
        ("too many terms", format!("one of its lists has over {MOST_COLUMNS} terms")),
        ("Expression tree is too large", format!("one of its expressions has over {MOST_DEPTH} levels")),
        (
            "too many arguments on function",
            format!("one of its functions has over {MOST_ARGUMENTS} arguments"),
        ),
    ];
    limits.into_iter().find(|(words, _)| said.contains(words)).map(|(_, limit)| limit)
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
    if named.is_empty() { format!("the tables are {}", TABLES.join(", ")) } else { named.join("; ") }
}

/// Whether a query names a table.
pub(super) fn names(sql: &str, table: &str) -> bool {
    sql.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| word.eq_ignore_ascii_case(table))
}

fn within_time<T>(connection: &Connection, limit: Duration, work: impl FnOnce() -> T) -> T {
    let handle = connection.get_interrupt_handle();
    let (ended, watch) = mpsc::channel::<()>();
    let _deadline = Deadline::after(limit);
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

    /// How many rows a query of a connection as claims have it gives, or what is said of it.
    fn answer(sql: &str) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::Store::open(&folder.path().join("results.sqlite")).unwrap();
        let connection = store.reader().unwrap();
        add_functions(&connection, 0.95).unwrap();
        connection.pragma_update(None, "temp_store", "MEMORY").unwrap();
        run_within_memory(&connection, sql).map(|found| found.len())
    }

    fn refused(sql: &str) -> String {
        answer(sql).expect_err("a refusal")
    }

    const NUMBERS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 40000000)";

    #[test]
    fn one_value_cannot_take_all_memory() {
        for value in ["zeroblob(100000000)", "printf('%100000000d', 1)", "hex(zeroblob(60000000))"] {
            assert_eq!(
                refused(&format!("SELECT {value}")),
                "it makes or reads a value of over 1 MiB",
                "{value}"
            );
        }
    }

    #[test]
    fn many_values_cannot_take_all_memory() {
        let rows = format!("{NUMBERS} SELECT i, printf('%30000d', i) FROM n LIMIT 90000");
        assert!(refused(&rows).starts_with("its rows hold over 16 MiB of texts"), "{}", refused(&rows));
        let sorted =
            format!("{NUMBERS} SELECT i, printf('%3000d', i) AS text FROM n ORDER BY text LIMIT 3000000, 5");
        assert_eq!(refused(&sorted), "it was stopped because it took over 256 MiB of memory");
    }

    #[test]
    fn a_result_has_as_many_values_and_texts_as_are_said_and_no_more() {
        let numbers = |columns: usize, rows: usize| {
            let columns: Vec<String> = (0..columns).map(|c| format!("i + {c} AS c{c}")).collect();
            format!("{NUMBERS} SELECT {} FROM n LIMIT {rows}", columns.join(", "))
        };
        let texts =
            |rows: usize| format!("{NUMBERS} SELECT i, printf('%1000000d', i) AS t FROM n LIMIT {rows}");
        let remedy = "; aggregate in the query (GROUP BY, median, avg), name fewer columns, or add a LIMIT";
        for (most, beyond, refusal) in [
            (
                numbers(200, 2_500),
                numbers(200, 2_501),
                "it returns more than 500000 values: row 2501 of 200 columns exceeds the limit",
            ),
            (
                numbers(200, 2_500),
                numbers(200, 100_000),
                "it returns more than 500000 values: row 2501 of 200 columns exceeds the limit",
            ),
            (numbers(5, 100_000), numbers(5, 100_001), "it returns more than 100000 rows"),
            (texts(16), texts(17), "its rows hold over 16 MiB of texts: `t` in row 17 exceeds the limit"),
        ] {
            assert!(answer(&most).is_ok(), "{:?}", answer(&most));
            assert_eq!(refused(&beyond), format!("{refusal}{remedy}"));
        }
    }

    #[test]
    fn groups_share_the_rows_that_they_are_made_of() {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "SELECT 'a' AS part, 1 AS x UNION ALL SELECT 'b', 2 UNION ALL SELECT 'a', 3";
        let found = run_within_memory(&connection, sql).unwrap();
        let groups = found.grouped_by("part");
        let sizes: Vec<_> = groups.iter().map(|(name, rows)| (name.as_str(), rows.len())).collect();
        assert_eq!(sizes, [("a", 2), ("b", 1)]);
        let shared = groups.iter().flat_map(|(_, group)| &group.rows);
        assert!(shared.into_iter().all(|row| found.rows.iter().any(|other| Arc::ptr_eq(row, other))));
    }

    /// The most that SQLite has held since `work` began.
    fn highest<T>(work: impl FnOnce() -> T) -> (T, i64) {
        let highest_since = |reset| {
            // SAFETY: it takes a flag, and may be called from any thread at any time.
            unsafe { rusqlite::ffi::sqlite3_memory_highwater(reset) }
        };
        highest_since(1);
        let done = work();
        (done, highest_since(0))
    }

    #[test]
    fn no_query_takes_more_memory_between_two_looks_at_it() {
        let columns = |bytes: u32| {
            let columns: Vec<String> = (0..190).map(|n| format!("hex(zeroblob({bytes})) AS c{n}")).collect();
            format!("SELECT 'x' AS what, {}", columns.join(", "))
        };
        let joined = vec!["substr(hex(zeroblob(30000000)),1,100)"; 50].join(" || ");
        let too_long = "it makes or reads a value of over 1 MiB";
        let too_much = "it was stopped because it took over 256 MiB of memory";
        for (sql, refusal) in [
            (columns(30_000_000), too_long),
            (format!("SELECT {joined}"), too_long),
            (columns(500_000), too_much),
        ] {
            let (said, most) = highest(|| refused(&sql));
            assert!(most < MOST_MEMORY_BYTES + (64 << 20), "{} MiB: {sql:.50}", most >> 20);
            assert_eq!(said, refusal, "{sql:.50}");
        }
    }

    #[test]
    fn a_refusal_names_the_limit() {
        let many = |word: &str, between: &str, count| vec![word; count].join(between);
        for (sql, refusal) in [
            (format!("SELECT {}", many("1", ", ", 201)), "it has over 200 columns"),
            (format!("SELECT {}", many("1", " + ", 300)), "one of its expressions has over 200 levels"),
            (format!("SELECT max({})", many("1", ", ", 101)), "one of its functions has over 100 arguments"),
            (format!("SELECT 1 ORDER BY {}", many("1", ", ", 201)), "one of its lists has over 200 terms"),
        ] {
            assert_eq!(refused(&sql), refusal);
        }
    }

    #[test]
    fn a_statement_has_only_so_many_instructions_between_two_looks_at_the_clock() {
        // One call after another, none of which jumps back.
        let calls = |count: usize| {
            let columns = vec![vec!["upper(i)"; count].join("||"); 50].join(", ");
            format!("SELECT {columns} FROM (SELECT max(i) AS i FROM (SELECT 'a' AS i UNION SELECT 'b'))")
        };
        assert_eq!(answer(&calls(20)), Ok(1));
        let refusal = "it takes over 5376 instructions or 256 MiB of memory to run; make it shorter";
        assert_eq!(refused(&calls(150)), refusal);
    }

    #[test]
    fn a_search_after_the_end_of_the_time_is_not_made() {
        let connection = Connection::open_in_memory().unwrap();
        add_functions(&connection, 0.95).unwrap();
        let sql = "SELECT instr(printf('%.*c', 40, 'a'), 'b')";
        let stopped = within_time(&connection, Duration::ZERO, || run_unlimited(&connection, sql));
        assert_eq!(stopped.err().as_deref(), Some("it was stopped after 60 s"));
        assert!(within_time(&connection, TIME_LIMIT, || run_unlimited(&connection, sql)).is_ok());
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
        assert_eq!(refused(&sql), "it is 100009 bytes long; the limit is 100000");
    }

    #[test]
    fn a_table_is_named_as_a_word_only() {
        assert!(names("SELECT 1 FROM pair, x.raw_disk", "raw_disk"));
        assert!(!names("SELECT repair FROM pairs", "pair"));
    }
}
