//! `RETURNING` of points: what became of them, or what was deleted.

use super::inserted_column::InsertedColumn;
use super::{PointChange, Preparing};
use crate::error::SqlResult;
use crate::measurement::{MeasurementTable, Source};
use crate::session::change::returning::{ChangedRows, Returning, of_rows};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{Ident, SelectItem};
use std::sync::Arc;

/// Prepares what is returned.
pub(super) fn prepare(
    preparing: &mut Preparing<'_>,
    alias: &Ident,
    items: &[SelectItem],
) -> SqlResult<Returning> {
    preparing.check_readable()?;
    let table = preparing.table;
    let shown = table.columns().map(|(name, _)| name.to_owned()).collect();
    let rows = ChangedRows { alias, schema: table.shown_schema(), shown };
    of_rows(&rows, preparing.session.state(), &mut preparing.types, items)
}

impl PointChange {
    /// Points as a query has found them. Some fields have other values then.
    pub(super) fn found(&self, old: &[ArrayRef], new: &[(&str, ArrayRef)]) -> SqlResult<RecordBatch> {
        let column = |((name, _), old): ((&str, _), &ArrayRef)| {
            new.iter().find(|(changed, _)| *changed == name).map_or(old, |(_, values)| values).clone()
        };
        batch_of(&self.table, self.table.columns().zip(old).map(column))
    }

    /// Points that are inserted. What is not given is NULL, but for the time.
    pub(super) fn inserted(
        &self,
        stored: &[(&InsertedColumn, ArrayRef)],
        count: usize,
        now_ns: i64,
    ) -> SqlResult<RecordBatch> {
        let is_time = |source: &Source| matches!(source, Source::Time | Source::TimeNs);
        let fields = self.table.shown_schema().fields().iter();
        let columns = self.table.columns().zip(fields).map(|((_, source), field)| {
            let is_it = |own: &Source| own == source || is_time(own) && is_time(source);
            match stored.iter().find(|(own, _)| is_it(&own.source)) {
                Some((_, values)) if matches!(source, Source::Tag(_)) => present(values),
                Some((_, values)) => values.clone(),
                None if is_time(source) => Arc::new(Int64Array::from_value(now_ns, count)),
                None => new_null_array(field.data_type(), count),
            }
        });
        batch_of(&self.table, columns)
    }
}

/// A tag without a letter is none.
fn present(values: &ArrayRef) -> ArrayRef {
    match values.as_string_opt::<i32>() {
        Some(texts) => {
            Arc::new(texts.iter().map(|own| own.filter(|own| !own.is_empty())).collect::<StringArray>())
        }
        None => values.clone(),
    }
}

fn batch_of(table: &MeasurementTable, columns: impl Iterator<Item = ArrayRef>) -> SqlResult<RecordBatch> {
    let schema = table.shown_schema();
    let columns = columns.zip(schema.fields()).map(|(values, field)| match values.data_type() {
        own if own == field.data_type() => Ok(values),
        _ => cast(&values, field.data_type()),
    });
    let batch = columns
        .collect::<Result<Vec<_>, _>>()
        .and_then(|columns| RecordBatch::try_new(schema.clone(), columns));
    batch.map_err(|error| DataFusionError::from(error).into())
}
