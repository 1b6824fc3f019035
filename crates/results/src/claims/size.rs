//! How large the result of a query may be: it is kept as a whole, outside the memory that SQLite counts.

use rusqlite::types::{Value, ValueRef};

/// A query with more rows is refused: it is not evidence for a claim.
pub(super) const MOST_ROWS: usize = 100_000;
/// Values of all rows together: five columns in each of the most rows.
pub(super) const MOST_CELLS: usize = 500_000;
/// Bytes of texts and blobs in all rows together.
pub(super) const MOST_TEXT_BYTES: usize = 16 << 20;

/// What a result may take in memory.
const MOST_BYTES: usize = 64 << 20;
/// What an allocator may add to a small text: its own words, and what it rounds up to. The C library's adds less.
const PER_TEXT: usize = 32;
/// Memory of a row in addition to its values: its place in a list that grows by doubling, its counts, and the
/// allocator's overhead.
const PER_ROW: usize = 96;
const _: () = assert!(
    MOST_ROWS * PER_ROW + MOST_CELLS * (size_of::<Value>() + PER_TEXT) + MOST_TEXT_BYTES < MOST_BYTES,
    "the largest result takes less than is said"
);

/// Why a result is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    /// It has more than [`MOST_ROWS`].
    #[error("it returns more than {MOST_ROWS} rows; {REMEDY}")]
    Rows,
    /// It has more than [`MOST_CELLS`].
    #[error(
        "it returns more than {MOST_CELLS} values: row {row} of {columns} columns exceeds the limit; {REMEDY}"
    )]
    Cells {
        /// The first row without room, from 1.
        row: usize,
        /// Columns of each row.
        columns: usize,
    },
    /// It has more than [`MOST_TEXT_BYTES`].
    #[error(
        "its rows hold over {} MiB of texts: `{column}` in row {row} exceeds the limit; {REMEDY}",
        MOST_TEXT_BYTES >> 20
    )]
    Texts {
        /// The row without room, from 1.
        row: usize,
        /// The column whose value did not fit.
        column: String,
    },
}

/// What to do about it.
const REMEDY: &str = "aggregate in the query (GROUP BY, median, avg), name fewer columns, or add a LIMIT";

/// Counts the rows and values of a result before they are kept.
pub(super) struct Size<'c> {
    columns: &'c [String],
    rows: usize,
    text_bytes: usize,
}

impl<'c> Size<'c> {
    pub fn of(columns: &'c [String]) -> Self {
        Self { columns, rows: 0, text_bytes: 0 }
    }

    /// Counts one more row.
    pub fn add_row(&mut self) -> Result<(), TooLarge> {
        let row = self.rows + 1;
        if row > MOST_ROWS {
            return Err(TooLarge::Rows);
        }
        if row.saturating_mul(self.columns.len()) > MOST_CELLS {
            return Err(TooLarge::Cells { row, columns: self.columns.len() });
        }
        self.rows = row;
        Ok(())
    }

    /// Counts a value of the last row.
    pub fn add_value(&mut self, column: usize, value: ValueRef<'_>) -> Result<(), TooLarge> {
        let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = value else { return Ok(()) };
        self.text_bytes = self.text_bytes.saturating_add(bytes.len());
        if self.text_bytes > MOST_TEXT_BYTES {
            let column = self.columns.get(column).cloned().unwrap_or_default();
            return Err(TooLarge::Texts { row: self.rows, column });
        }
        Ok(())
    }
}
