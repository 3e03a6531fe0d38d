//! Rows in memory, column by column, until a row group of them is written.

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Whole(u64),
    Double(f64),
    Float(f32),
    /// Nothing, in a column that may have nothing.
    Null,
}

/// Type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A JSON document as text.
    Json,
    /// A number from 0.
    Whole,
    /// Milliseconds since 1970 (UTC).
    Time,
    Double,
    Float,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) optional: bool,
}

/// A column that always has a value.
pub(super) const fn required(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        optional: false,
    }
}

/// A column that may have none.
pub(super) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        optional: true,
    }
}

/// The schema of a table in Parquet's own words.
pub(super) fn schema(fields: &[Field]) -> String {
    let column = |field: &Field| {
        let presence = if field.optional { "optional" } else { "required" };
        let (before, after) = match field.kind {
            Kind::Text => ("binary", " (STRING)"),
            Kind::Json => ("binary", " (JSON)"),
            Kind::Whole => ("int64", " (INTEGER(64,false))"),
            Kind::Time => ("int64", " (TIMESTAMP(MILLIS,true))"),
            Kind::Double => ("double", ""),
            Kind::Float => ("float", ""),
        };
        format!("  {presence} {before} {}{after};\n", field.name)
    };
    let columns: String = fields.iter().map(column).collect();
    format!("message weir {{\n{columns}}}\n")
}

/// Values of one column, without those that are nothing.
enum Values {
    Texts(Vec<ByteArray>),
    Wholes(Vec<i64>),
    Doubles(Vec<f64>),
    Floats(Vec<f32>),
}

struct Column {
    values: Values,
    /// For each row whether it has a value, where a column may have none.
    levels: Option<Vec<i16>>,
}

impl Column {
    fn new(field: &Field) -> Self {
        Self {
            values: match field.kind {
                Kind::Text | Kind::Json => Values::Texts(Vec::new()),
                Kind::Whole | Kind::Time => Values::Wholes(Vec::new()),
                Kind::Double => Values::Doubles(Vec::new()),
                Kind::Float => Values::Floats(Vec::new()),
            },
            levels: field.optional.then(Vec::new),
        }
    }

    /// Adds a value. One of another kind than the column's is nothing.
    fn push(&mut self, cell: Cell<'_>) {
        let is_there = match (&mut self.values, cell) {
            (Values::Texts(values), Cell::Text(text)) => {
                values.push(ByteArray::from(text.as_bytes().to_vec()));
                true
            }
            (Values::Wholes(values), Cell::Whole(number)) => {
                values.push(number.cast_signed());
                true
            }
            (Values::Doubles(values), Cell::Double(number)) => {
                values.push(number);
                true
            }
            (Values::Floats(values), Cell::Float(number)) => {
                values.push(number);
                true
            }
            _ => false,
        };
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(is_there));
        }
    }

    fn write(&self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let levels = self.levels.as_deref();
        let written = match (&self.values, writer) {
            (Values::Texts(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (Values::Wholes(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (Values::Doubles(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (Values::Floats(values), ColumnWriter::FloatColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            _ => Err(ParquetError::General(
                "a column is of another type than its values".to_owned(),
            )),
        };
        written.map(drop)
    }
}

/// See the module.
pub(super) struct Columns {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl Columns {
    pub(super) fn new(fields: &[Field]) -> Self {
        Self {
            columns: fields.iter().map(Column::new).collect(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds a row, whose cells are in the order of the columns.
    pub(super) fn push(&mut self, row: &[Cell<'_>]) {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            self.bytes += match cell {
                // The text, and where it is.
                Cell::Text(text) => text.len() + size_of::<ByteArray>(),
                _ => size_of::<u64>(),
            };
            column.push(*cell);
        }
        self.rows += 1;
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// About how much memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the values of a column.
    pub(super) fn write(&self, column: usize, writer: &mut ColumnWriter<'_>) -> Result<()> {
        match self.columns.get(column) {
            Some(column) => column.write(writer),
            None => Err(ParquetError::General("a table has too many columns".to_owned())),
        }
    }
}
