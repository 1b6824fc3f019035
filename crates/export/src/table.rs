//! A table of results in the formats of other programs: columns that have names, one type each, and gaps.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::csv::field;
use crate::error::ExportError;
use crate::parquet::column;

/// The values of a column, one a row; `None` is a gap.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers; what is not finite is written as a gap.
    Number(Vec<Option<f64>>),
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Its name, of lower-case letters, digits and `_`; a unit stands at its end.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
}

/// Columns of the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<TableColumn>,
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Number(values) => values.len(),
        }
    }

    /// As a field of a CSV file; a gap is empty.
    fn field(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values[row].as_deref().map(field),
            Self::Whole(values) => values[row].map(|number| number.to_string()),
            Self::Number(values) => finite(values[row]).map(|number| number.to_string()),
        }
        .unwrap_or_default()
    }

    /// As a Parquet file's schema has it.
    fn parquet_type(&self) -> (&'static str, &'static str) {
        match self {
            Self::Text(_) => ("binary", " (STRING)"),
            Self::Whole(_) => ("int64", ""),
            Self::Number(_) => ("double", ""),
        }
    }
}

impl Table {
    /// Adds a column.
    ///
    /// # Panics
    /// If it is not as long as those before it.
    #[must_use]
    pub fn with(mut self, name: &'static str, values: Values) -> Self {
        assert!(self.columns.is_empty() || values.len() == self.rows(), "{name} has another length");
        self.columns.push(TableColumn { name, values });
        self
    }

    /// The columns in their order.
    pub fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// Comma-separated values with a heading, as RFC 4180 has them, but with bare line feeds.
    pub fn csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let mut text = format!("{}\n", names.join(","));
        for row in 0..self.rows() {
            let fields: Vec<String> = self.columns.iter().map(|column| column.values.field(row)).collect();
            text.push_str(&fields.join(","));
            text.push('\n');
        }
        text
    }

    /// Writes an Apache Parquet file; every column is optional.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_parquet(&self, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        let column_type = |c: &TableColumn| {
            let (physical, logical) = c.values.parquet_type();
            format!("optional {physical} {}{logical};", c.name)
        };
        let columns: Vec<String> = self.columns.iter().map(column_type).collect();
        let schema = Arc::new(parse_message_type(&format!("message row {{ {} }}", columns.join(" ")))?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("nestor ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for TableColumn { values, .. } in &self.columns {
            match values {
                Values::Text(values) => {
                    let texts = values.iter().map(|text| text.as_deref().map(ByteArray::from));
                    let (values, levels) = present(texts);
                    column::<ByteArrayType, _>(&mut group, &values, Some(&levels), None)?;
                }
                Values::Whole(values) => {
                    let (values, levels) = present(values.iter().copied());
                    column::<Int64Type, _>(&mut group, &values, Some(&levels), None)?;
                }
                Values::Number(values) => {
                    let (values, levels) = present(values.iter().map(|number| finite(*number)));
                    column::<DoubleType, _>(&mut group, &values, Some(&levels), None)?;
                }
            }
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

fn finite(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite())
}

/// The values that are there, and 1 for each of them and 0 for each gap.
fn present<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    (there, levels)
}
