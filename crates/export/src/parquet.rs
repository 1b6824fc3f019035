//! Apache Parquet: one row a request, one column a field, in the types that pandas, DuckDB and Spark know.

use std::io::Write;
use std::sync::Arc;

use nestor_correlate::LevelIndex;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::ExportError;
use crate::trace::{Row, Trace};
use crate::words;
use crate::written::Written;

/// Rows of a row group; their columns, about 130 bytes a row, are in memory together.
const ROWS: usize = 1 << 17;

/// Lists have the three levels that the format asks for
/// (<https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists>).
const SCHEMA: &str = "
message request {
  required int32 level (INTEGER(32,false));
  required binary layer (STRING);
  required binary kind (STRING);
  required binary machine (STRING);
  required int64 id (INTEGER(64,false));
  required binary operation (STRING);
  required binary class (STRING);
  required binary flags (STRING);
  optional binary origin (STRING);
  required group parents (LIST) { repeated group list { required int64 element (INTEGER(64,false)); } }
  required int64 offset (INTEGER(64,false));
  required int64 bytes (INTEGER(64,false));
  required int64 queued_ns (INTEGER(64,false));
  required int64 issued_ns (INTEGER(64,false));
  required int64 completed_ns (INTEGER(64,false));
  required int32 bios (INTEGER(32,false));
  required int32 pid (INTEGER(32,false));
}";

/// Writes all requests, level after level. Times are on the topmost level's clock.
///
/// # Errors
/// The requests cannot be read, or `out` cannot be written.
pub fn write_parquet(trace: &Trace, out: &mut (dyn Write + Send)) -> Result<Written, ExportError> {
    let bounds = trace.bounds()?;
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("nestor ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut written = Written::default();
    let mut columns = Columns::default();
    for (number, level) in trace.levels.iter().enumerate() {
        let names = [&level.level.layer, &level.level.kind.stored(), &level.level.machine.stored()]
            .map(|name| ByteArray::from(name.as_str()));
        let index = LevelIndex::at(number);
        for request in trace.requests(index, bounds)? {
            let row = trace.row(index, request?);
            written.requests += 1;
            written.links += row.parents.len() as u64;
            columns.push(number, &names, &row);
            if columns.level.len() >= ROWS {
                columns.write(&mut writer)?;
            }
        }
    }
    columns.write(&mut writer)?;
    writer.close()?;
    Ok(written)
}

/// The rows of a row group, column by column.
#[derive(Default)]
struct Columns {
    level: Vec<i32>,
    names: [Vec<ByteArray>; 3],
    id: Vec<i64>,
    operation: Vec<ByteArray>,
    class: Vec<ByteArray>,
    flags: Vec<ByteArray>,
    /// Those that have one; `origin_levels` says which.
    origin: Vec<ByteArray>,
    origin_levels: Vec<i16>,
    parents: Vec<i64>,
    /// 1 for each parent, one 0 for a request without.
    parents_present: Vec<i16>,
    /// 0 for the first parent of a request or none, 1 for the others.
    parents_repeated: Vec<i16>,
    /// Offset, bytes, queued, issued, completed.
    numbers: [Vec<i64>; 5],
    bios: Vec<i32>,
    pid: Vec<i32>,
}

impl Columns {
    fn push(&mut self, level: usize, names: &[ByteArray; 3], row: &Row<'_>) {
        // Unsigned columns hold the same bits; that is how the format defines them.
        let r = &row.request;
        self.level.push(i32::try_from(level).unwrap_or(i32::MAX));
        for (column, name) in self.names.iter_mut().zip(names) {
            column.push(name.clone());
        }
        self.id.push(r.id.cast_signed());
        self.operation.push(ByteArray::from(words::operation(r.operation)));
        self.class.push(ByteArray::from(r.class.name()));
        self.flags.push(ByteArray::from(words::flags(r.flags).as_str()));
        self.origin_levels.push(i16::from(row.origin.is_some()));
        self.origin.extend(row.origin.map(|origin| ByteArray::from(words::origin(origin))));
        for (position, parent) in row.parents.iter().enumerate() {
            self.parents.push(parent.cast_signed());
            self.parents_present.push(1);
            self.parents_repeated.push(i16::from(position > 0));
        }
        if row.parents.is_empty() {
            self.parents_present.push(0);
            self.parents_repeated.push(0);
        }
        let numbers = [r.offset, r.bytes, r.queued_ns, r.issued_ns, r.completed_ns];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.push(number.cast_signed());
        }
        self.bios.push(r.bios.cast_signed());
        self.pid.push(r.pid.cast_signed());
    }

    /// Writes a row group, in the order of the schema, and forgets it.
    fn write<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<(), ExportError> {
        if self.level.is_empty() {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        column::<Int32Type, W>(&mut group, &self.level, None, None)?;
        for names in &self.names {
            column::<ByteArrayType, W>(&mut group, names, None, None)?;
        }
        column::<Int64Type, W>(&mut group, &self.id, None, None)?;
        for texts in [&self.operation, &self.class, &self.flags] {
            column::<ByteArrayType, W>(&mut group, texts, None, None)?;
        }
        column::<ByteArrayType, W>(&mut group, &self.origin, Some(&self.origin_levels), None)?;
        let (present, repeated) = (&self.parents_present, &self.parents_repeated);
        column::<Int64Type, W>(&mut group, &self.parents, Some(present), Some(repeated))?;
        for numbers in &self.numbers {
            column::<Int64Type, W>(&mut group, numbers, None, None)?;
        }
        column::<Int32Type, W>(&mut group, &self.bios, None, None)?;
        column::<Int32Type, W>(&mut group, &self.pid, None, None)?;
        group.close()?;
        *self = Self::default();
        Ok(())
    }
}

pub(crate) fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    present: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<(), ExportError> {
    let mut column = group.next_column()?.expect("one column is written for each column of the schema");
    column.typed::<T>().write_batch(values, present, repeated)?;
    column.close()?;
    Ok(())
}
