//! Rows of the catalogue: cells by the names of their columns, which become columns of a plan.

use super::builtin_function::BuiltinFunction;
use super::system_table::SystemTable;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder,
    IntervalMonthDayNanoBuilder, ListBuilder, StringBuilder, TimestampNanosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// A moment, ns since 1970.
    Moment(i64),
    List(Vec<Cell>),
}

/// A row: cells by the names of their columns. Columns that are not named are NULL, or zero, false or empty where NULL is
/// not allowed.
pub(crate) type Row = Vec<(&'static str, Cell)>;

macro_rules! cells {
    ($($of:ty => |$value:ident| $cell:expr;)*) => {
        $(impl From<$of> for Cell {
            fn from($value: $of) -> Self {
                $cell
            }
        })*
    };
}

cells! {
    bool => |value| Cell::Bool(value);
    i16 => |value| Cell::Int(value.into());
    i32 => |value| Cell::Int(value.into());
    u32 => |value| Cell::Int(value.into());
    i64 => |value| Cell::Int(value);
    f64 => |value| Cell::Float(value);
    &str => |value| Cell::Text(value.to_owned());
    &String => |value| Cell::Text(value.clone());
    String => |value| Cell::Text(value);
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

impl<T: Into<Cell>> From<Vec<T>> for Cell {
    fn from(values: Vec<T>) -> Self {
        Cell::List(values.into_iter().map(Into::into).collect())
    }
}

/// The chosen columns of rows.
pub(crate) fn batch(table: &SystemTable, rows: &[Row], projection: &[usize]) -> Result<RecordBatch> {
    let fields: Vec<Field> = projection.iter().map(|place| table.fields.field(*place).clone()).collect();
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(projection.len());
    for (place, field) in projection.iter().zip(&fields) {
        let column = &table.columns[*place];
        let absent = if column.is_not_null { zero(field.data_type()) } else { Cell::Null };
        // Rows of one table name their columns in the same order.
        let mut usual = 0;
        let cells = rows.iter().map(|row| {
            if row.get(usual).is_none_or(|(name, _)| *name != column.name) {
                usual = row.iter().position(|(name, _)| *name == column.name).unwrap_or(usize::MAX);
            }
            row.get(usual).map_or(&absent, |(_, cell)| cell)
        });
        arrays.push(if column.of.name == "regproc" {
            let numbers: Vec<Cell> = cells.map(function_number).collect();
            array(field.data_type(), numbers.iter())?
        } else {
            array(field.data_type(), cells)?
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

/// The number of the function that a cell names.
fn function_number(cell: &Cell) -> Cell {
    match cell {
        Cell::Text(name) => BuiltinFunction::of_name(name).first().map_or(0, |own| own.oid).into(),
        other => other.clone(),
    }
}

fn zero(data_type: &DataType) -> Cell {
    match data_type {
        DataType::Boolean => Cell::Bool(false),
        DataType::Float32 | DataType::Float64 => Cell::Float(0.0),
        DataType::Utf8 => Cell::Text(String::new()),
        DataType::List(_) => Cell::List(Vec::new()),
        _ => Cell::Int(0),
    }
}

/// Appends cells to a builder; a cell of another kind than the column's becomes NULL.
macro_rules! build {
    ($builder:expr, $cells:expr, $($cell:pat => $value:expr),*) => {{
        let mut builder = $builder;
        for cell in $cells {
            match cell {
                $($cell => builder.append_value($value),)*
                _ => builder.append_null(),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

fn array<'a>(data_type: &DataType, cells: impl Iterator<Item = &'a Cell>) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Boolean => build!(BooleanBuilder::new(), cells, Cell::Bool(own) => *own),
        DataType::Int16 => build!(Int16Builder::new(), cells, Cell::Int(own) => *own as i16),
        DataType::Int32 => build!(Int32Builder::new(), cells, Cell::Int(own) => *own as i32),
        DataType::Int64 => build!(Int64Builder::new(), cells, Cell::Int(own) => *own),
        DataType::Float32 => build!(Float32Builder::new(), cells, Cell::Float(own) => *own as f32),
        DataType::Float64 => build!(Float64Builder::new(), cells, Cell::Float(own) => *own),
        DataType::Utf8 => build!(StringBuilder::new(), cells, Cell::Text(own) => own),
        DataType::Binary => build!(BinaryBuilder::new(), cells, Cell::Text(own) => own),
        DataType::Timestamp(_, zone) => {
            let builder = TimestampNanosecondBuilder::new().with_timezone_opt(zone.clone());
            build!(builder, cells, Cell::Moment(own) => *own)
        }
        DataType::Interval(_) => {
            let mut builder = IntervalMonthDayNanoBuilder::new();
            cells.for_each(|_| builder.append_null());
            Arc::new(builder.finish())
        }
        DataType::List(element) => list(element, cells)?,
        other => {
            let words = format!("the system catalogue has no column of type {other}");
            return Err(DataFusionError::Internal(words));
        }
    })
}

fn list<'a>(element: &Arc<Field>, cells: impl Iterator<Item = &'a Cell>) -> Result<ArrayRef> {
    let mut lengths = ListBuilder::new(arrow_array::builder::NullBuilder::new());
    let mut inner: Vec<&Cell> = Vec::new();
    for cell in cells {
        match cell {
            Cell::List(own) => {
                inner.extend(own);
                lengths.values().append_nulls(own.len());
                lengths.append(true);
            }
            _ => lengths.append(false),
        }
    }
    let (_, offsets, _, nulls) = lengths.finish().into_parts();
    let values = array(element.data_type(), inner.into_iter())?;
    Ok(Arc::new(arrow_array::ListArray::try_new(element.clone(), offsets, values, nulls)?))
}
