//! Another type for a field. Its values are in a column per type; those in columns of other types are converted into the
//! column of the new type, in one stage with the records of types in shards. So the field has its new type in all shards at
//! once.
//!
//! Before that all values are looked at. If one of them cannot be converted without loss, nothing is changed.

use super::{Place, has_field, lacks};
use crate::catalog::record::shard_type_key;
use crate::catalog::{Catalog, Field, FieldType, Measurement, SeriesTable, times_of};
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray, UInt32Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use nyala_core::arrays::{array_of_values, value_at};
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::store::{
    Batch, CellColumn, Feature, Operation, RowSelection, RowStream, ScanRequest, SeriesSet, SnapshotRef,
    Stage, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, Error, Result, SeriesId, TimeRange, Value, before_long_work};
use std::sync::Arc;

/// The most letters of a value in an error.
const SHOWN_LETTERS: usize = 60;

impl Catalog {
    /// Gives a field another type. Returns how many values were converted. The caller holds the table locks of the
    /// measurements exclusively.
    pub(super) async fn change_field_type(
        &self,
        places: &[Place],
        name: &str,
        to: FieldType,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<u64> {
        self.store.capabilities().need(Feature::StagedWrites)?;
        before_long_work().await;
        self.check_convertible(places, name, to, check).await?;
        let mut columns = Vec::new();
        for (_, own) in places.iter().filter(|(_, own)| has_field(own, name)) {
            own.stored().save_removals().await?;
            columns.push((own, self.column_for(own, name, to).await?));
        }
        let mut stage = self.store.stage().await?;
        let mut converted = 0;
        for (own, column) in &columns {
            for field in others(own, name, to) {
                converted += convert(&mut *stage, own, &field, (*column, to), check).await?;
            }
            let operations = own.stored().put_field_type(name, to);
            stage.write(WriteBatch { operations }).await?;
        }
        check()?;
        stage.commit().await?;
        columns.iter().for_each(|(own, _)| own.stored().set_field_type(name, to));
        Ok(converted)
    }

    /// Fails if a value of a field cannot have another type. Returns how many values would be converted.
    pub(super) async fn check_convertible(
        &self,
        places: &[Place],
        name: &str,
        to: FieldType,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<u64> {
        if !places.iter().any(|(_, own)| has_field(own, name)) {
            return Err(lacks(&places[0].1, "field", name));
        }
        let snapshot = self.snapshot().await?;
        let (mut count, mut refused) = (0, 0);
        let mut example = None;
        for (_, own) in places {
            for field in others(own, name, to) {
                let Some(mut rows) = values_of(own, &snapshot, field.column).await? else { continue };
                while let Some(batch) = rows.next().await? {
                    check()?;
                    for (row, value) in values(&batch) {
                        count += 1;
                        if converted(&value, to).is_none() {
                            refused += 1;
                            example.get_or_insert_with(|| shown_point(own, &batch, row, &value));
                        }
                    }
                }
            }
        }
        let Some(example) = example else { return Ok(count) };
        let (type_name, owner) = (to.name(), places[0].1.name());
        Err(Error::conflict(format!(
            "{refused} of {count} values of field {name:?} of {owner:?} cannot become {type_name} without loss, such as \
             {example}: nothing was changed"
        )))
    }

    /// The column of a field with a type, which is added if there is none.
    async fn column_for(
        &self,
        measurement: &Arc<Measurement>,
        name: &str,
        to: FieldType,
    ) -> Result<ColumnId> {
        let fields = [(name.to_owned(), to)];
        let _altering = self.altering.lock().await;
        self.add_columns(&[(measurement, &fields[..])]).await?;
        let columns = measurement.stored().columns_of(&fields);
        Ok(columns.expect("the column was just added")[0])
    }
}

/// The columns of a field that have other types.
fn others(measurement: &Measurement, name: &str, to: FieldType) -> Vec<Field> {
    let fields = measurement.fields();
    fields.iter().filter(|field| field.name == name && field.field_type != to).cloned().collect()
}

/// All points that have a value in a column: their times, and the value.
async fn values_of(
    measurement: &Measurement,
    snapshot: &SnapshotRef,
    column: ColumnId,
) -> Result<Option<Box<dyn RowStream>>> {
    let rows = RowSelection::Series { series: SeriesSet::All, time: TimeRange::ALL };
    let request = ScanRequest {
        skip_empty_rows: true,
        ..ScanRequest::by_key(measurement.table(), rows, vec![TIME_COLUMN, column])
    };
    measurement.scan(snapshot, request).await
}

/// The values of a batch with their rows.
fn values(batch: &Batch) -> impl Iterator<Item = (usize, Value)> {
    let column = &batch.columns[1];
    (0..batch.rows).filter_map(|row| Some((row, value_at(column, row)?)))
}

/// The series of each row of a batch.
fn series_of(batch: &Batch) -> impl Iterator<Item = SeriesId> {
    batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize))
}

/// Stages the values of a column as values of another, which take their place. Returns how many there were.
async fn convert(
    stage: &mut dyn Stage,
    measurement: &Measurement,
    field: &Field,
    (column, to): (ColumnId, FieldType),
    check: &(dyn Fn() -> Result<()> + Send + Sync),
) -> Result<u64> {
    let mut count = 0;
    let snapshot = stage.snapshot().await?;
    let Some(mut rows) = values_of(measurement, &snapshot, field.column).await? else { return Ok(0) };
    while let Some(batch) = rows.next().await? {
        check()?;
        count += batch.rows as u64;
        let new: Vec<Option<Value>> = (0..batch.rows)
            .map(|row| value_at(&batch.columns[1], row).and_then(|value| converted(&value, to)))
            .collect();
        let new = array_of_values(to.column_type(), &new.iter().map(Option::as_ref).collect::<Vec<_>>())?;
        let is_set = BooleanBuffer::collect_bool(batch.rows, |row| batch.columns[1].is_valid(row));
        let cells = |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
        let old = new_null_array(&field.field_type.column_type().data_type(), batch.rows);
        let mut columns = vec![
            cells(SERIES_COLUMN, Arc::new(UInt32Array::from_iter_values(series_of(&batch).map(|id| id.0)))),
            cells(TIME_COLUMN, Arc::new(TimestampNanosecondArray::from(times_of(&batch).to_vec()))),
            cells(column, new),
            CellColumn { column: field.column, values: old, null_cells: Some(is_set) },
        ];
        columns.sort_by_key(|cells| cells.column);
        let upsert = Upsert { table: measurement.table(), mode: WriteMode::Upsert, columns };
        stage.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await?;
        before_long_work().await;
    }
    Ok(count)
}

/// A value as a value of another type; `None` if something would be lost.
fn converted(value: &Value, to: FieldType) -> Option<Value> {
    // The least float that is too large for a number of 64 bits, and the least that is for one with a sign.
    const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let exact = |number: i128| (number as f64 as i128 == number).then_some(Value::Float(number as f64));
    let truth = |number: i128| match number {
        0 => Some(Value::Bool(false)),
        1 => Some(Value::Bool(true)),
        _ => None,
    };
    let number = match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::UInt(number) => Some(i128::from(*number)),
        Value::Bool(truth) => Some(i128::from(*truth)),
        Value::Float(float) if float.fract() == 0.0 && (-TWO_TO_63..TWO_TO_64).contains(float) => {
            // −0 is not 0.
            (*float != 0.0 || float.is_sign_positive()).then_some(*float as i128)
        }
        _ => None,
    };
    match (value, to) {
        (Value::String(text), FieldType::Float) => {
            text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Value::Float)
        }
        (Value::String(text), FieldType::Integer) => text.parse().ok().map(Value::Int),
        (Value::String(text), FieldType::Unsigned) => text.parse().ok().map(Value::UInt),
        (Value::String(text), FieldType::Boolean) => match &**text {
            "t" | "T" | "true" | "True" | "TRUE" => Some(Value::Bool(true)),
            "f" | "F" | "false" | "False" | "FALSE" => Some(Value::Bool(false)),
            _ => None,
        },
        (value, FieldType::String) => text_of(value).map(Value::String),
        (Value::Float(_), FieldType::Float) => Some(value.clone()),
        (_, FieldType::Float) => exact(number?),
        (_, FieldType::Integer) => i64::try_from(number?).ok().map(Value::Int),
        (_, FieldType::Unsigned) => u64::try_from(number?).ok().map(Value::UInt),
        (_, FieldType::Boolean) => truth(number?),
    }
}

/// A value as text: a float with as few digits as it takes to read it again.
fn text_of(value: &Value) -> Option<String> {
    Some(match value {
        Value::Float(float) => {
            let text = format!("{float:?}");
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        }
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    })
}

/// A value with its point, for an error.
fn shown_point(measurement: &Measurement, batch: &Batch, row: usize, value: &Value) -> String {
    let mut shown: String = text_of(value).unwrap_or_default();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_LETTERS) {
        shown.truncate(end);
        shown.push('…');
    }
    if matches!(value, Value::String(_)) {
        shown = format!("{shown:?}");
    }
    let time_ns = times_of(batch)[row];
    let series = measurement.series();
    let id = series_of(batch).nth(row).filter(|id| series.all().contains(id.0));
    let tags = id.map(|id| series.tags_of(id)).unwrap_or_default();
    let tags: String = tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
    format!("{shown} of {}{tags} at {time_ns}", measurement.name())
}

impl SeriesTable {
    /// What writes that a field has one type in all of its shards.
    fn put_field_type(&self, name: &str, to: FieldType) -> Vec<Operation> {
        let starts = self.types_of_field(name).into_iter().map(|(start_ns, _)| start_ns);
        let keys: Vec<Vec<u8>> =
            starts.map(|start_ns| shard_type_key(self.table(), start_ns, name)).collect();
        let code = [to.code()];
        vec![self.records().put(keys.iter().map(|key| (&**key, &code[..])))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_converted_without_loss_or_not_at_all() {
        use FieldType::{Boolean, Float, Integer, String, Unsigned};
        let text = |text: &str| Value::String(text.into());
        let cases = [
            (Value::Float(3.0), Integer, Some(Value::Int(3))),
            (Value::Float(3.5), Integer, None),
            (Value::Float(-0.0), Integer, None),
            (Value::Float(-9_223_372_036_854_775_808.0), Integer, Some(Value::Int(i64::MIN))),
            (Value::Float(9_223_372_036_854_775_808.0), Integer, None),
            (Value::Float(9_223_372_036_854_775_808.0), Unsigned, Some(Value::UInt(1 << 63))),
            (Value::Float(18_446_744_073_709_551_616.0), Unsigned, None),
            (Value::Float(1e300), String, Some(text("1e300"))),
            (Value::Float(0.1), String, Some(text("0.1"))),
            (Value::Float(1.0), Boolean, Some(Value::Bool(true))),
            (Value::Float(2.0), Boolean, None),
            (Value::Int(1 << 53), Float, Some(Value::Float(9_007_199_254_740_992.0))),
            (Value::Int((1 << 53) + 1), Float, None),
            (Value::Int(i64::MAX), Float, None),
            (Value::UInt(u64::MAX), Float, None),
            (Value::Int(-1), Unsigned, None),
            (Value::UInt(u64::MAX), Integer, None),
            (Value::UInt(7), Integer, Some(Value::Int(7))),
            (Value::Bool(true), Float, Some(Value::Float(1.0))),
            (Value::Bool(false), String, Some(text("false"))),
            (text("-7"), Integer, Some(Value::Int(-7))),
            (text("-7"), Unsigned, None),
            (text("1.5e3"), Float, Some(Value::Float(1500.0))),
            (text("nan"), Float, None),
            (text(""), Float, None),
            (text("T"), Boolean, Some(Value::Bool(true))),
            (text("yes"), Boolean, None),
        ];
        for (value, to, expected) in cases {
            assert_eq!(converted(&value, to), expected, "{value:?} to {to:?}");
        }
    }
}
