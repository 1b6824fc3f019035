//! SQLite's functions that look for one text in another, with a limit on what one call may compare.
//!
//! SQLite looks at the clock only where a statement jumps back, never inside a function nor between two columns of a row. So
//! each of these looks at it first, and none of them takes long. What they find is SQLite's own answer, asked on a connection
//! that has nothing else.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ffi, params_from_iter};

use super::limits::with_room;

/// Bytes of one text times bytes of the other. Comparing that many takes a fraction of a second.
const MOST_COMPARED: usize = 64 << 20;
/// Longest pattern of LIKE and GLOB.
const MOST_PATTERN_BYTES: i32 = 1_000;

/// Functions whose time grows with the product of their first two arguments, and how many they have.
const SEARCHES: [(&str, i32); 10] = [
    ("instr", 2),
    ("replace", 3),
    ("trim", 2),
    ("ltrim", 2),
    ("rtrim", 2),
    ("like", 2),
    ("like", 3),
    ("glob", 2),
    ("unhex", 2),
    ("json_patch", 2),
];

/// Why a call is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` compares {first} bytes with {second}; their product may be at most {MOST_COMPARED}; shorten them with substr"
)]
struct TooMuchToCompare {
    name: &'static str,
    first: usize,
    second: usize,
}

thread_local! {
    /// When this thread's query has to be over.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A deadline for the searches of this thread's query, while this lives.
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub fn after(limit: Duration) -> Self {
        Self(DEADLINE.replace(Instant::now().checked_add(limit)))
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        DEADLINE.set(self.0);
    }
}

/// Puts the limited functions in the place of SQLite's.
pub(super) fn limit_searches(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, arguments) in SEARCHES {
        let own = Connection::open_in_memory()?;
        own.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MOST_PATTERN_BYTES)?;
        own.set_limit(Limit::SQLITE_LIMIT_LENGTH, super::limits::MOST_VALUE_BYTES)?;
        let places: Vec<String> = (1..=arguments).map(|n| format!("?{n}")).collect();
        let sql = format!("SELECT {name}({})", places.join(", "));
        connection.create_scalar_function(name, arguments, flags, move |context| {
            search(context, name, &own, &sql)
        })?;
    }
    Ok(())
}

fn search(context: &Context<'_>, name: &'static str, own: &Connection, sql: &str) -> rusqlite::Result<Value> {
    if DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None));
    }
    let arguments: Vec<ValueRef<'_>> =
        (0..context.len()).map(|index| with_room(|| context.get_raw(index))).collect();
    let bytes = |index: usize| arguments.get(index).map_or(0, |value: &ValueRef<'_>| length(*value));
    let (first, second) = (bytes(0), bytes(1));
    if first.saturating_mul(second) > MOST_COMPARED {
        return Err(rusqlite::Error::UserFunctionError(TooMuchToCompare { name, first, second }.into()));
    }
    own.prepare_cached(sql)?
        .query_row(params_from_iter(arguments.into_iter().map(ToSqlOutput::Borrowed)), |row| {
            with_room(|| row.get(0))
        })
}

fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        // Written out, no number is longer.
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sql: &str) -> Result<Value, String> {
        let connection = Connection::open_in_memory().unwrap();
        limit_searches(&connection).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).map_err(|e| e.to_string())
    }

    #[test]
    fn searches_find_what_those_of_sqlite_find() {
        for sql in [
            "SELECT instr('abcabc', 'ca') || '/' || instr(X'0102', X'02') || '/' || coalesce(instr(NULL, 'a'), 'none')",
            "SELECT replace('a-b-c', '-', '+') || replace(1212, 2, 3) || replace('x', '', 'y')",
            "SELECT trim('xxaxyx', 'xy') || '/' || ltrim('xxax', 'x') || '/' || rtrim('xaxx', 'x')",
            "SELECT ('Abc' LIKE 'a%C') + 2 * ('a_c' LIKE 'a\\_c' ESCAPE '\\') + 4 * ('abc' GLOB 'A*') + 8 * (12 LIKE '1_')",
            "SELECT hex(unhex('AB-CD', '-')) || json_patch('{\"a\":1}', '{\"b\":2}')",
        ] {
            let sqlite = Connection::open_in_memory().unwrap();
            let expected: Value = sqlite.query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(answer(sql), Ok(expected), "{sql}");
        }
    }

    #[test]
    fn no_search_compares_much_more_than_it_may() {
        let long = "printf('%.*c', 10000, 'a')";
        for call in ["instr", "trim", "ltrim", "rtrim", "unhex", "json_patch", "glob", "like"] {
            let refusal = answer(&format!("SELECT {call}({long}, {long})")).unwrap_err();
            let said = format!(
                "`{call}` compares 10000 bytes with 10000; their product may be at most 67108864; shorten"
            );
            assert!(refusal.starts_with(&said), "{refusal}");
        }
        assert!(answer(&format!("SELECT replace({long}, {long}, 'b')")).is_err());
        let pattern = answer("SELECT 'a' LIKE printf('%.*c', 1001, 'a')").unwrap_err();
        assert!(pattern.contains("pattern too complex"), "{pattern}");
        assert!(answer("SELECT 'a' LIKE printf('%.*c', 1000, 'a')").is_ok());
    }

    #[test]
    fn a_search_looks_at_the_clock_where_sqlite_does_not() {
        let connection = Connection::open_in_memory().unwrap();
        limit_searches(&connection).unwrap();
        let ask = || connection.query_row("SELECT instr('ab', 'b')", [], |row| row.get::<_, i64>(0));
        let deadline = Deadline::after(Duration::ZERO);
        let code = ask().unwrap_err().sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
        drop(deadline);
        assert_eq!(ask(), Ok(2));
    }
}
