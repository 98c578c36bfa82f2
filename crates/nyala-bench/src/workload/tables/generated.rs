//! Rows of made-up tables: each value depends on its column and its row only, so that any part can be made again.

use crate::random::hash;
use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: u64 = 4096;
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// What a column has.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the variants say what their numbers are")]
pub enum Values {
    /// The number of the row, from 1 on.
    RowNumber,
    /// Large numbers, each of them once.
    Scattered,
    /// Whole numbers from `low` on, so many different ones; the first ones are more frequent.
    Integers { low: i64, distinct: u64 },
    /// Another number now and then: in so many percent of the rows.
    Often { percent: u64, value: i64, others: Box<Values> },
    /// Numbers with digits, up to so many units of the last one.
    Decimals { below: u64 },
    /// Floats around 0.
    Floats,
    /// So many different texts that begin with one of these words; in so many percent of the rows an empty one.
    Texts { words: &'static [&'static str], distinct: u64, empty_percent: u64 },
    /// Moments in the order of rows, microseconds since 1970, so far apart.
    Moments { first: i64, step: i64 },
    /// The days of such moments.
    Days { first: i64, step: i64 },
}

/// A column of a made-up table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name, in lower case.
    pub name: String,
    /// Its type in SQL, and what else is said there.
    pub definition: String,
    /// How it is sent.
    pub data_type: DataType,
    /// What it has.
    pub values: Values,
    /// In how many percent of the rows it is NULL.
    pub null_percent: u64,
}

/// A made-up table.
#[derive(Clone, Debug)]
pub struct Generated {
    columns: Vec<Column>,
    schema: SchemaRef,
    seed: u64,
    rows: Range<u64>,
}

impl Column {
    /// A column that is never NULL.
    pub fn new(name: impl Into<String>, definition: &str, data_type: DataType, values: Values) -> Column {
        Column { name: name.into(), definition: definition.to_owned(), data_type, values, null_percent: 0 }
    }
}

impl Generated {
    /// So many rows of these columns.
    pub fn new(columns: Vec<Column>, seed: u64, rows: u64) -> Generated {
        let field =
            |column: &Column| Field::new(&column.name, column.data_type.clone(), column.null_percent > 0);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        Generated { columns, schema, seed, rows: 0..rows }
    }

    /// What a `CREATE TABLE` has between its brackets.
    pub fn definition(&self) -> String {
        let definition = |column: &Column| format!("{} {}", column.name, column.definition);
        self.columns.iter().map(definition).collect::<Vec<_>>().join(", ")
    }

    /// The columns as they are sent.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn array(&self, at: usize, rows: Range<u64>) -> ArrayRef {
        let column = &self.columns[at];
        let seed = hash(self.seed, at as u64, rows_apart(&column.name));
        let is_null = |row: u64| hash(seed, row, 1) % 100 < column.null_percent;
        let shown = |row: u64| (!is_null(row)).then_some(row);
        let number = |row: u64| shown(row).map(|row| column.values.number(seed, row));
        match &column.data_type {
            DataType::Int16 => {
                Arc::new(rows.map(|row| number(row).map(|n| n as i16)).collect::<Int16Array>())
            }
            DataType::Int32 => {
                Arc::new(rows.map(|row| number(row).map(|n| n as i32)).collect::<Int32Array>())
            }
            DataType::Int64 => Arc::new(rows.map(number).collect::<Int64Array>()),
            DataType::Float64 => {
                let float = |row: u64| shown(row).map(|row| float(seed, row));
                Arc::new(rows.map(float).collect::<Float64Array>())
            }
            DataType::Decimal128(precision, scale) => {
                let values = rows.map(|row| number(row).map(i128::from)).collect::<Decimal128Array>();
                Arc::new(values.with_precision_and_scale(*precision, *scale).expect("at most 38 digits"))
            }
            DataType::Date32 => {
                Arc::new(rows.map(|row| number(row).map(|n| n as i32)).collect::<Date32Array>())
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Arc::new(rows.map(number).collect::<TimestampMicrosecondArray>())
            }
            _ => {
                let text = |row: u64| shown(row).map(|row| column.values.text(seed, row));
                Arc::new(rows.map(text).collect::<StringArray>())
            }
        }
    }
}

impl Iterator for Generated {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let rows = self.rows.start..self.rows.end.min(self.rows.start + BATCH_ROWS);
        if rows.is_empty() {
            return None;
        }
        self.rows.start = rows.end;
        let arrays = (0..self.columns.len()).map(|at| self.array(at, rows.clone())).collect();
        Some(RecordBatch::try_new(self.schema.clone(), arrays).expect("arrays of the types of the schema"))
    }
}

/// Columns of one type differ by their names, too.
fn rows_apart(name: &str) -> u64 {
    name.bytes().fold(0, |sum, byte| hash(sum, u64::from(byte), 0))
}

/// A number below `limit`; small ones are more frequent, as in most tables.
fn skewed(bits: u64, limit: u64) -> u64 {
    let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    ((unit * unit * limit as f64) as u64).min(limit.saturating_sub(1))
}

/// With few digits, as measured values have.
fn float(seed: u64, row: u64) -> f64 {
    let units = (hash(seed, row, 2) % 2_000_001) as f64 - 1_000_000.0;
    units / 1000.0
}

impl Values {
    /// The value of a column of numbers or times.
    fn number(&self, seed: u64, row: u64) -> i64 {
        let bits = hash(seed, row, 0);
        match self {
            Values::RowNumber => row as i64 + 1,
            Values::Scattered => (bits >> 1) as i64,
            Values::Integers { low, distinct } => low + skewed(bits, *distinct) as i64,
            Values::Often { percent, value, others } => match hash(seed, row, 3) % 100 < *percent {
                true => *value,
                false => others.number(seed, row),
            },
            Values::Decimals { below } => (bits % (*below).max(1)) as i64,
            Values::Moments { first, step } => first + row as i64 * step,
            Values::Days { first, step } => (first + row as i64 * step).div_euclid(MICROSECONDS_PER_DAY),
            Values::Floats | Values::Texts { .. } => 0,
        }
    }

    fn text(&self, seed: u64, row: u64) -> String {
        match self {
            Values::Texts { words, distinct, empty_percent } => {
                if hash(seed, row, 4) % 100 < *empty_percent {
                    return String::new();
                }
                let number = skewed(hash(seed, row, 0), *distinct);
                let word = words[(number % words.len() as u64) as usize];
                format!("{word}{}", number / words.len() as u64)
            }
            other => other.number(seed, row).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Generated {
        let decimals = DataType::Decimal128(12, 2);
        let columns = vec![
            Column::new("id", "bigint PRIMARY KEY", DataType::Int64, Values::RowNumber),
            Column {
                null_percent: 50,
                ..Column::new("f", "double precision", DataType::Float64, Values::Floats)
            },
            Column::new("d", "numeric(12,2)", decimals, Values::Decimals { below: 100 }),
        ];
        Generated::new(columns, 1, 5000)
    }

    #[test]
    fn rows_are_the_same_each_time() {
        let (a, b): (Vec<_>, Vec<_>) = (table().collect(), table().collect());
        assert_eq!(a, b);
        assert_eq!(a.iter().map(RecordBatch::num_rows).sum::<usize>(), 5000);
        let nulls: usize = a.iter().map(|batch| batch.column(1).null_count()).sum();
        assert!((2000..3000).contains(&nulls), "{nulls} of 5000 are NULL");
    }
}
