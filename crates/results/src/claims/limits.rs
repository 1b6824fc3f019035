//! Limits of a query from an untrusted study file: sizes on its connection, and memory of SQLite.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::limits::Limit;
use rusqlite::{Connection, ffi};

/// Memory of SQLite's own that a query may take besides what was taken before.
pub(super) const MOST_MEMORY_BYTES: i64 = 256 << 20;
/// Longest text or blob that it makes or reads. A histogram, the longest of what is asked for, has up to 590 KB.
pub(super) const MOST_VALUE_BYTES: i32 = 1 << 20;
/// Columns of its result, and terms of each of its lists.
pub(super) const MOST_COLUMNS: i32 = 200;
/// Levels of an expression.
pub(super) const MOST_DEPTH: i32 = 200;
/// Arguments of a function.
pub(super) const MOST_ARGUMENTS: i32 = 100;

/// Instructions of a statement: SQLite looks at the clock only where it jumps back, and doubles its room for them.
pub(super) const MOST_INSTRUCTIONS: i32 = 5_376;

const SIZES: [(Limit, i32); 5] = [
    (Limit::SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES),
    (Limit::SQLITE_LIMIT_COLUMN, MOST_COLUMNS),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, MOST_DEPTH),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, MOST_ARGUMENTS),
    (Limit::SQLITE_LIMIT_VDBE_OP, MOST_INSTRUCTIONS),
];

/// What SQLite may take over the limit for handing one row or argument to us: without memory for that it gives nothing,
/// for which `rusqlite` reads an empty value or panics. The rows' texts are counted besides, so a row takes no more than this.
const ROOM_BYTES: i64 = 128 << 20;

/// Sizes of a connection, which are set back when this is dropped.
pub(super) struct Sizes<'a> {
    connection: &'a Connection,
    before: Vec<(Limit, i32)>,
}

impl<'a> Sizes<'a> {
    /// Lowers those of [`SIZES`].
    pub fn lower(connection: &'a Connection) -> rusqlite::Result<Self> {
        let mut sizes = Self { connection, before: Vec::new() };
        for (limit, most) in SIZES {
            let before = connection.limit(limit)?;
            if most < before {
                connection.set_limit(limit, most)?;
                sizes.before.push((limit, before));
            }
        }
        Ok(sizes)
    }
}

impl Drop for Sizes<'_> {
    fn drop(&mut self) {
        for (limit, before) in &self.before {
            // It was set to this before.
            let _ = self.connection.set_limit(*limit, *before);
        }
    }
}

/// A limit that SQLite looks at before it allocates, while this lives.
///
/// SQLite has one for the whole process. So one query at a time has it, it is only ever lowered, what other connections
/// hold is allowed beyond [`MOST_MEMORY_BYTES`], and what was before is set again in the end. Another connection that
/// allocates at the same time can be refused memory only where the query has taken nearly all of that.
pub(super) struct Memory {
    hard_before: i64,
    soft_before: i64,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

thread_local! {
    /// What this thread's query may take; 0 without one.
    static LIMIT: Cell<i64> = const { Cell::new(0) };
}

impl Memory {
    /// Waits until no other query is limited, and limits this thread's.
    pub fn limit() -> Self {
        // What it guards is nothing that a panic could leave half done.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (hard_before, soft_before) = (hard_limit(-1), soft_limit(-1));
        let wanted = used().saturating_add(MOST_MEMORY_BYTES);
        let limit = if hard_before > 0 { wanted.min(hard_before) } else { wanted };
        hard_limit(limit);
        LIMIT.set(limit);
        Self { hard_before, soft_before, _alone: alone }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        LIMIT.set(0);
        hard_limit(self.hard_before);
        // It is lowered along with the other.
        soft_limit(self.soft_before);
    }
}

/// Takes from SQLite what it has made, with room for what handing it over takes.
pub(super) fn with_room<T>(take: impl FnOnce() -> T) -> T {
    struct Room(i64);
    impl Drop for Room {
        fn drop(&mut self) {
            hard_limit(self.0);
        }
    }
    let limit = LIMIT.get();
    let _room = (limit > 0).then(|| {
        hard_limit(limit.saturating_add(ROOM_BYTES));
        Room(limit)
    });
    take()
}

/// Bytes that SQLite has allocated in this process.
fn used() -> i64 {
    // SAFETY: it takes nothing, changes nothing, and may be called from any thread at any time.
    unsafe { ffi::sqlite3_memory_used() }
}

/// Sets the limit that is never exceeded, 0 for none, or leaves it where `bytes` is negative; says what it was.
fn hard_limit(bytes: i64) -> i64 {
    // SAFETY: it takes a number, and may be called from any thread at any time.
    unsafe { ffi::sqlite3_hard_heap_limit64(bytes) }
}

/// The same of the limit above which caches are given up.
fn soft_limit(bytes: i64) -> i64 {
    // SAFETY: it takes a number, and may be called from any thread at any time.
    unsafe { ffi::sqlite3_soft_heap_limit64(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_before_is_set_again() {
        let connection = Connection::open_in_memory().unwrap();
        let before = connection.limit(Limit::SQLITE_LIMIT_LENGTH).unwrap();
        let memory = Memory::limit();
        let sizes = Sizes::lower(&connection).unwrap();
        assert_eq!(connection.limit(Limit::SQLITE_LIMIT_LENGTH).unwrap(), MOST_VALUE_BYTES);
        let limit = hard_limit(-1);
        assert!(limit >= MOST_MEMORY_BYTES && limit == LIMIT.get(), "{limit}");
        assert_eq!(with_room(|| hard_limit(-1)), limit + ROOM_BYTES);
        assert_eq!(hard_limit(-1), limit);
        drop((sizes, memory));
        assert_eq!(connection.limit(Limit::SQLITE_LIMIT_LENGTH).unwrap(), before);
        assert_eq!(LIMIT.get(), 0);
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!((hard_limit(-1), soft_limit(-1)), (0, 0), "no other query has limited it");
    }

    #[test]
    fn what_was_found_is_handed_over_where_the_query_took_the_last_memory() {
        // In a process of its own: so low a limit would stop the other tests.
        const ALONE: &str = "NESTOR_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name =
                "claims::limits::tests::what_was_found_is_handed_over_where_the_query_took_the_last_memory";
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let connection = Connection::open_in_memory().unwrap();
        let _memory = Memory::limit();
        // Zeros that are only made when they are asked for.
        let mut statement =
            connection.prepare("SELECT zeroblob(i) FROM (SELECT 1000000 AS i UNION ALL SELECT 2)").unwrap();
        let mut rows = statement.query([]).unwrap();
        let row = rows.next().unwrap().unwrap();
        LIMIT.set(used() + 1000);
        hard_limit(LIMIT.get());
        assert_eq!(with_room(|| row.get_ref(0)).unwrap().as_blob().unwrap().len(), 1_000_000);
    }
}
