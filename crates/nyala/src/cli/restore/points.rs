//! Reads the points of a measurement of a backup.

use super::source::Source;
use super::target::{FieldColumn, Points, Values};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::Batch;
use nyala_core::{SeriesId, TimeRange};
use nyala_db::catalog::{Field, FieldType, Measurement};
use nyala_db::ingest::{push_checked_tag, push_measurement_name};
use nyala_db::series::TagFilter;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Calls `take` with all points of a measurement within some times, and gives it the name `name`. Returns how many values
/// no point can have, which were left out.
pub(super) fn read(
    source: &Source,
    measurement: &Arc<Measurement>,
    name: &str,
    time: TimeRange,
    take: &mut dyn FnMut(Points<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let words = |error: nyala_core::Error| error.to_string();
    let fields = measurement.fields();
    let columns = std::iter::once(TIME_COLUMN).chain(fields.iter().map(|field| field.column)).collect();
    let opened = source.block_on(async {
        let points = source.catalog.points(measurement, &TagFilter::All, time).await?;
        let rows = points.scan(&source.snapshot, columns).await?;
        // The points keep their series in memory.
        Ok::<_, nyala_core::Error>((points, rows))
    });
    let (_points, rows) = opened.map_err(words)?;
    let Some(mut rows) = rows else { return Ok(0) };
    let mut left_out = 0;
    while let Some(batch) = source.block_on(rows.next()).map_err(words)? {
        let mut start = 0;
        for run in &batch.series {
            let end = start + run.rows as usize;
            let key = key_of(measurement, name, run.series).map_err(words)?;
            left_out += read_run(&batch, start..end, &fields, &key, take)?;
            start = end;
        }
    }
    Ok(left_out)
}

/// A series as a line has it.
fn key_of(measurement: &Measurement, name: &str, series: SeriesId) -> nyala_core::Result<String> {
    let mut key = String::new();
    push_measurement_name(&mut key, name)?;
    for (tag, value) in measurement.series().tags_of(series) {
        push_checked_tag(&mut key, &tag, &value)?;
    }
    Ok(key)
}

/// Hands on the rows of a series. A field may have had several types, each in other shards: they are handed on one after the
/// other.
fn read_run(
    batch: &Batch,
    rows: Range<usize>,
    fields: &[Field],
    key: &str,
    take: &mut dyn FnMut(Points<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
    let of_run = |column: &ArrayRef| column.slice(rows.start, rows.len());
    let mut waiting: Vec<(&Field, ArrayRef)> = fields
        .iter()
        .zip(&batch.columns[1..])
        .map(|(field, column)| (field, of_run(column)))
        .filter(|(_, column)| column.null_count() < column.len())
        .collect();
    let mut left_out = 0;
    while !waiting.is_empty() {
        let mut names = HashSet::new();
        let (now, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(field, _)| names.insert(field.name.as_str()));
        let is_present = |row: &usize| now.iter().any(|(_, column)| is_storable(column, *row));
        let kept: Vec<usize> = (0..rows.len()).filter(is_present).collect();
        let times_ns: Vec<i64> = kept.iter().map(|row| times[rows.start + row]).collect();
        let mut columns = Vec::new();
        for (field, column) in &now {
            let present: Vec<bool> = kept.iter().map(|row| is_storable(column, *row)).collect();
            let stored = present.iter().filter(|is| **is).count();
            left_out += (column.len() - column.null_count() - stored) as u64;
            if stored > 0 {
                let rows = kept.iter().zip(&present).filter(|(_, is)| **is).map(|(row, _)| *row);
                columns.push(FieldColumn { name: &field.name, values: values(field, column, rows), present });
            }
        }
        if !columns.is_empty() {
            take(Points { key, times_ns: &times_ns, fields: &columns })?;
        }
        waiting = later;
    }
    Ok(left_out)
}

/// Whether a cell has a value that a point can have: floats of points are finite.
fn is_storable(column: &ArrayRef, row: usize) -> bool {
    column.is_valid(row)
        && column.as_primitive_opt::<Float64Type>().is_none_or(|floats| floats.value(row).is_finite())
}

fn values(field: &Field, column: &ArrayRef, rows: impl Iterator<Item = usize>) -> Values {
    match field.field_type {
        FieldType::Float => {
            let column = column.as_primitive::<Float64Type>();
            Values::Float(rows.map(|row| column.value(row)).collect())
        }
        FieldType::Integer => {
            let column = column.as_primitive::<Int64Type>();
            Values::Integer(rows.map(|row| column.value(row)).collect())
        }
        FieldType::Unsigned => {
            let column = column.as_primitive::<UInt64Type>();
            Values::Unsigned(rows.map(|row| column.value(row)).collect())
        }
        FieldType::Boolean => {
            let column = column.as_boolean();
            Values::Boolean(rows.map(|row| column.value(row)).collect())
        }
        FieldType::String => {
            let column = column.as_string::<i32>();
            let (mut ends, mut bytes) = (Vec::new(), Vec::new());
            for row in rows {
                bytes.extend_from_slice(column.value(row).as_bytes());
                // A batch has fewer bytes, because its offsets have 31 bits.
                ends.push(bytes.len() as u32);
            }
            Values::String(ends, bytes)
        }
    }
}
