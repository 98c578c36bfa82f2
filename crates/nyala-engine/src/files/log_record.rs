//! A batch as a record of the log.
//!
//! ```text
//! version (8 bits) | operations
//! upsert        1 | table | mode | rows | columns: id | type | presence | values
//! delete keys   2 | table | rows | key columns: type | values
//! delete range  3 | table | range (see tombstone)
//! time          4 | when the record was submitted, ns: of stores that keep the past
//! presence      0 every cell is a value | 1 bitmap of values | 2 bitmap of values, bitmap of NULLs
//! values        integers, times: least value, unit, width 0…8, then (value − least) / unit in that many bytes
//!               floats: as they are | booleans: bitmap | decimals: 16 bytes
//!               strings: lengths as integers, then the bytes
//! ```
//! Invalid slots have some value; only presence counts. Times are mostly whole seconds, so their unit is the
//! largest of 1 s, 1 ms, 1 µs and 1 ns that divides all differences.

use crate::files::schema_format::StoredType;
use crate::rows::column_buffer::{CellSource, NULL, written_state};
use crate::rows::tombstone::DeletedRange;
use crate::rows::wire::{Reader, put_u32};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, PrimitiveArray, StringArray, TimestampNanosecondArray, UInt32Array,
    UInt64Array, types::ArrowPrimitiveType,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use nyala_column::CpuFeatures;
use nyala_column::kernels::min_max_i64;
use nyala_core::store::{CellColumn, DeleteMode, Operation, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, ColumnType, Error, Result, TableId, TableSchema};
use std::sync::Arc;

const VERSION: u8 = 1;
/// Cells of one record at most, keys among them: cells that are all the same take no bytes in it, so that its length
/// does not bound what it decodes to.
const RECORD_CELLS_MAX: usize = 1 << 26;

/// What a record says.
#[derive(Debug, Clone)]
pub(crate) enum Logged {
    Operation(Operation),
    DeleteRange {
        table: TableId,
        range: DeletedRange,
    },
    /// When the record was submitted, ns.
    Time(i64),
}

/// Adds the time at which it is submitted to a record.
pub(crate) fn put_time(record: &mut Vec<u8>, time_ns: i64) {
    record.push(4);
    record.extend_from_slice(&time_ns.to_le_bytes());
}

/// Encodes a validated batch; one that could not be decoded again is refused.
pub(crate) fn encode_batch(
    batch: &WriteBatch,
    schema: impl Fn(TableId) -> Result<Arc<TableSchema>>,
) -> Result<Vec<u8>> {
    check_cells(batch)?;
    let mut out = Vec::with_capacity(bytes_about(batch));
    out.push(VERSION);
    for operation in &batch.operations {
        match operation {
            Operation::Upsert(upsert) => encode_upsert(upsert, &*schema(upsert.table)?, &mut out),
            Operation::DeleteKeys { table, keys, .. } => {
                out.push(2);
                put_u32(&mut out, table.0);
                put_u32(&mut out, keys.first().map_or(0, |array| array.len()) as u32);
                let schema = schema(*table)?;
                out.push(keys.len() as u8);
                for (id, array) in schema.key.iter().zip(keys) {
                    let column_type = schema.column(*id).expect("schemas are validated").column_type;
                    StoredType(column_type).put(&mut out);
                    put_values(&mut out, &CellSource::of(array, column_type), array.len());
                }
            }
        }
    }
    Ok(out)
}

/// About how long the record of a batch of small numbers is: a byte per cell, and headers.
fn bytes_about(batch: &WriteBatch) -> usize {
    let bytes = |operation: &Operation| match operation {
        Operation::Upsert(upsert) => upsert.columns.len() * (upsert.rows() + 32),
        Operation::DeleteKeys { .. } => 0,
    };
    64 + batch.operations.iter().map(bytes).sum::<usize>()
}

/// Refuses batches with more cells than a record may hold.
fn check_cells(batch: &WriteBatch) -> Result<()> {
    let cells = |operation: &Operation| match operation {
        Operation::Upsert(upsert) => upsert.rows().max(1).saturating_mul(upsert.columns.len()),
        Operation::DeleteKeys { keys, .. } => keys.iter().map(|array| array.len()).sum(),
    };
    let cells = batch.operations.iter().map(cells).fold(0, usize::saturating_add);
    if cells > RECORD_CELLS_MAX {
        return Err(Error::limit(format!(
            "{cells} cells in one batch, where at most {RECORD_CELLS_MAX} fit: write fewer rows at once"
        )));
    }
    Ok(())
}

/// Encodes a deleted range.
pub(crate) fn encode_delete_range(table: TableId, range: &DeletedRange) -> Vec<u8> {
    let mut out = vec![VERSION, 3];
    put_u32(&mut out, table.0);
    range.encode(&mut out);
    out
}

/// Decodes a record.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Logged>> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? != VERSION {
        return Err(Error::invalid("a record of an unknown version"));
    }
    let mut logged = Vec::new();
    let mut room = RECORD_CELLS_MAX;
    while !reader.is_empty() {
        logged.push(match reader.u8()? {
            1 => Logged::Operation(Operation::Upsert(decode_upsert(&mut reader, &mut room)?)),
            2 => {
                let (table, rows) = (TableId(reader.u32()?), reader.u32()? as usize);
                let keys = (0..reader.u8()?)
                    .map(|_| {
                        take_room(&mut room, rows)?;
                        let column_type = StoredType::take(&mut reader)?.0;
                        take_values(&mut reader, column_type, rows, None)
                    })
                    .collect::<Result<_>>()?;
                Logged::Operation(Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys })
            }
            3 => {
                let table = TableId(reader.u32()?);
                Logged::DeleteRange { table, range: DeletedRange::decode(&mut reader)? }
            }
            4 => Logged::Time(reader.i64()?),
            other => return Err(Error::invalid(format!("unknown operation {other}"))),
        });
    }
    Ok(logged)
}

/// Reads arbitrary bytes as what a record of the log holds, past its checksums: what a fuzzer calls. Returns how many
/// operations there are. No bytes are a panic.
pub fn decode_record(bytes: &[u8]) -> Result<usize> {
    decode(bytes).map(|operations| operations.len())
}

/// The columns of a logged upsert that the table still has; nothing if one of its key is gone.
pub(crate) fn known_columns(mut upsert: Upsert, schema: &TableSchema) -> Option<Upsert> {
    upsert.columns.retain(|cells| {
        schema.column(cells.column).is_some_and(|c| c.column_type.data_type() == *cells.values.data_type())
    });
    schema.key.iter().all(|id| upsert.column(*id).is_some()).then_some(upsert)
}

/// Takes the cells of a column from what a record may still hold.
fn take_room(room: &mut usize, rows: usize) -> Result<()> {
    *room = room.checked_sub(rows).ok_or_else(|| Error::invalid("a record of too many cells"))?;
    Ok(())
}

fn encode_upsert(upsert: &Upsert, schema: &TableSchema, out: &mut Vec<u8>) {
    let rows = upsert.rows();
    out.push(1);
    put_u32(out, upsert.table.0);
    put_u32(out, rows as u32);
    put_u32(out, upsert.columns.len() as u32);
    for cells in &upsert.columns {
        let column_type = schema.column(cells.column).expect("batches are validated").column_type;
        put_u32(out, cells.column.0);
        StoredType(column_type).put(out);
        let nulls = cells.null_cells.as_ref().is_some_and(|nulls| nulls.count_set_bits() > 0);
        match cells.values.nulls().filter(|_| cells.values.null_count() > 0) {
            None => out.push(0),
            Some(values) => {
                out.push(if nulls { 2 } else { 1 });
                put_bits(out, rows, |row| values.is_valid(row));
                if nulls {
                    put_bits(out, rows, |row| written_state(cells, row) == NULL);
                }
            }
        }
        put_values(out, &CellSource::of(&cells.values, column_type), rows);
    }
}

fn decode_upsert(reader: &mut Reader<'_>, room: &mut usize) -> Result<Upsert> {
    let (table, rows) = (TableId(reader.u32()?), reader.u32()? as usize);
    let mut columns = Vec::new();
    for _ in 0..reader.u32()? {
        take_room(room, rows.max(1))?;
        let column = ColumnId(reader.u32()?);
        let column_type = StoredType::take(reader)?.0;
        let presence = reader.u8()?;
        let valid = if presence > 0 { Some(NullBuffer::new(take_bits(reader, rows)?)) } else { None };
        let null_cells = if presence > 1 { Some(take_bits(reader, rows)?) } else { None };
        columns.push(CellColumn {
            column,
            values: take_values(reader, column_type, rows, valid)?,
            null_cells,
        });
    }
    // Conditions were checked when the batch was accepted.
    Ok(Upsert { table, mode: WriteMode::Upsert, columns })
}

fn put_bits(out: &mut Vec<u8>, rows: usize, bit: impl Fn(usize) -> bool) {
    out.extend_from_slice(&BooleanBuffer::collect_bool(rows, bit).values()[..rows.div_ceil(8)]);
}

fn take_bits(reader: &mut Reader<'_>, rows: usize) -> Result<BooleanBuffer> {
    Ok(BooleanBuffer::new(Buffer::from(reader.take(rows.div_ceil(8))?), 0, rows))
}

fn put_values(out: &mut Vec<u8>, source: &CellSource<'_>, rows: usize) {
    match source {
        CellSource::Int64(values) => put_integers(out, values),
        CellSource::UInt32(values) => put_integers(out, &widen(values)),
        CellSource::Int8(values) => put_integers(out, &widen(values)),
        CellSource::Int16(values) => put_integers(out, &widen(values)),
        CellSource::Int32(values) => put_integers(out, &widen(values)),
        CellSource::UInt64(values) => {
            put_integers(out, &values.iter().map(|value| *value as i64).collect::<Vec<_>>());
        }
        CellSource::Float64(values) => values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        CellSource::Float32(values) => values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        CellSource::Decimal(values) => values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        CellSource::Bool(values) => put_bits(out, rows, |row| values.value(row)),
        CellSource::String(_) | CellSource::Binary(_) => {
            let lengths: Vec<i64> = (0..rows).map(|row| source.bytes(row).len() as i64).collect();
            put_integers(out, &lengths);
            (0..rows).for_each(|row| out.extend_from_slice(source.bytes(row)));
        }
    }
}

fn widen<T: Copy + Into<i64>>(values: &[T]) -> Vec<i64> {
    values.iter().map(|value| (*value).into()).collect()
}

/// Units of differences, ns, tried in order.
const UNITS: [u64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

fn put_integers(out: &mut Vec<u8>, values: &[i64]) {
    if values.is_empty() {
        return;
    }
    let (least, most) = min_max_i64(CpuFeatures::best(), values);
    let range = most.wrapping_sub(least) as u64;
    let offset = |value: &i64| value.wrapping_sub(least) as u64;
    // A unit pays off only where differences are large: then they are times.
    let unit = if range < UNITS[2] {
        3
    } else {
        UNITS.iter().position(|unit| values.iter().all(|v| offset(v).is_multiple_of(*unit))).unwrap_or(3)
    };
    let width = 8 - ((range / UNITS[unit]).leading_zeros() / 8) as usize;
    out.extend_from_slice(&least.to_le_bytes());
    out.push(unit as u8);
    out.push(width as u8);
    // Apart, because the unit is mostly 1, and bytes are mostly enough.
    match (unit, width) {
        (_, 0) => {}
        (3, 1) => out.extend(values.iter().map(|value| offset(value) as u8)),
        (3, _) => put_narrow(out, width, values, offset),
        _ => put_narrow(out, width, values, |value| offset(value) / UNITS[unit]),
    }
}

/// Appends so many bytes of a number of each value.
fn put_narrow(out: &mut Vec<u8>, width: usize, values: &[i64], number: impl Fn(&i64) -> u64) {
    fn put<const WIDTH: usize>(out: &mut Vec<u8>, values: &[i64], number: impl Fn(&i64) -> u64) {
        let start = out.len();
        out.resize(start + WIDTH * values.len(), 0);
        for (bytes, value) in out[start..].as_chunks_mut::<WIDTH>().0.iter_mut().zip(values) {
            bytes.copy_from_slice(&number(value).to_le_bytes()[..WIDTH]);
        }
    }
    match width {
        1 => put::<1>(out, values, number),
        2 => put::<2>(out, values, number),
        3 => put::<3>(out, values, number),
        4 => put::<4>(out, values, number),
        5 => put::<5>(out, values, number),
        6 => put::<6>(out, values, number),
        7 => put::<7>(out, values, number),
        _ => put::<8>(out, values, number),
    }
}

fn take_integers(reader: &mut Reader<'_>, rows: usize) -> Result<Vec<i64>> {
    if rows == 0 {
        return Ok(Vec::new());
    }
    let least = reader.i64()?;
    let unit = reader.u8()? as usize;
    let unit = *UNITS.get(unit).ok_or_else(|| Error::invalid("unknown unit"))?;
    let width = reader.u8()? as usize;
    if width > 8 {
        return Err(Error::invalid(format!("integers of {width} bytes")));
    }
    if width == 0 {
        return Ok(vec![least; rows]);
    }
    let bytes = reader.take(width * rows)?;
    Ok(bytes
        .chunks_exact(width)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(chunk);
            least.wrapping_add(u64::from_le_bytes(word).wrapping_mul(unit) as i64)
        })
        .collect())
}

fn take_values(
    reader: &mut Reader<'_>,
    column_type: ColumnType,
    rows: usize,
    valid: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fn primitive<T: ArrowPrimitiveType>(
        values: Vec<T::Native>,
        valid: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), valid);
        Ok(Arc::new(array.map_err(|error| Error::invalid(error.to_string()))?))
    }
    macro_rules! integers {
        ($array:ident, $native:ty) => {{
            let values = take_integers(reader, rows)?;
            let values: Vec<$native> = values.into_iter().map(|value| value as $native).collect();
            Ok(Arc::new($array::new(ScalarBuffer::from(values), valid)) as ArrayRef)
        }};
    }
    macro_rules! raw {
        ($array:ident, $native:ty) => {{
            let bytes = reader.take(rows * size_of::<$native>())?;
            let values: Vec<$native> = bytes
                .as_chunks::<{ size_of::<$native>() }>()
                .0
                .iter()
                .map(|chunk| <$native>::from_le_bytes(*chunk))
                .collect();
            $array::new(ScalarBuffer::from(values), valid)
        }};
    }
    match column_type {
        ColumnType::Bool => Ok(Arc::new(BooleanArray::new(take_bits(reader, rows)?, valid))),
        ColumnType::Int8 => integers!(Int8Array, i8),
        ColumnType::Int16 => integers!(Int16Array, i16),
        ColumnType::Int32 => integers!(Int32Array, i32),
        ColumnType::Int64 => primitive::<arrow_array::types::Int64Type>(take_integers(reader, rows)?, valid),
        ColumnType::UInt32 => integers!(UInt32Array, u32),
        ColumnType::UInt64 => integers!(UInt64Array, u64),
        ColumnType::Date => integers!(Date32Array, i32),
        ColumnType::Timestamp => integers!(TimestampNanosecondArray, i64),
        ColumnType::Float32 => Ok(Arc::new(raw!(Float32Array, f32))),
        ColumnType::Float64 => Ok(Arc::new(raw!(Float64Array, f64))),
        ColumnType::Decimal { precision, scale } => {
            let array = raw!(Decimal128Array, i128).with_precision_and_scale(precision, scale);
            Ok(Arc::new(array.map_err(|error| Error::invalid(error.to_string()))?))
        }
        ColumnType::String | ColumnType::Binary => {
            let lengths = take_integers(reader, rows)?;
            let mut offsets = vec![0_i32];
            let mut end = 0_i64;
            for length in lengths {
                end = end.saturating_add(length);
                let fits = i32::try_from(end).ok().filter(|_| length >= 0);
                offsets.push(fits.ok_or_else(|| Error::invalid("strings are too long"))?);
            }
            let data = Buffer::from(reader.take(end as usize)?);
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            let fail = |error: arrow_schema::ArrowError| Error::invalid(error.to_string());
            Ok(if column_type == ColumnType::String {
                Arc::new(StringArray::try_new(offsets, data, valid).map_err(fail)?)
            } else {
                Arc::new(BinaryArray::try_new(offsets, data, valid).map_err(fail)?)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::schema::ColumnSchema;

    #[test]
    fn a_short_record_does_not_decode_to_much() {
        let record = |rows: u32, columns: u32| {
            let mut record = vec![VERSION, 1];
            [1, rows, columns].into_iter().for_each(|value| put_u32(&mut record, value));
            for column in 0..columns {
                put_u32(&mut record, column);
                StoredType(ColumnType::Int64).put(&mut record);
                // No NULLs, and the same integer in every row.
                record.extend([0; 1 + 8 + 2]);
            }
            record
        };
        assert_eq!(decode_record(&record(1000, 2)).expect("a record"), 1);
        let error = decode_record(&record(1 << 20, 65)).expect_err("too large");
        assert!(error.to_string().contains("too many cells"), "{error}");
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let mut schema = TableSchema::measurement("m", 1000);
        let ids = (0..65).map(ColumnId);
        schema.columns =
            ids.clone().map(|id| ColumnSchema::new(id, id.to_string(), ColumnType::Int64)).collect();
        let schema = Arc::new(schema);
        let values: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![7; 1 << 20]));
        let encoded = |columns: usize| {
            let cells = |column| CellColumn { column, values: values.clone(), null_cells: None };
            let columns = ids.clone().take(columns).map(cells).collect();
            let upsert = Upsert { table: TableId(1), mode: WriteMode::Upsert, columns };
            encode_batch(&WriteBatch { operations: vec![Operation::Upsert(upsert)] }, |_| Ok(schema.clone()))
        };
        assert_eq!(decode_record(&encoded(64).expect("fits")).expect("a record"), 1);
        let error = encoded(65).expect_err("too large");
        assert!(error.to_string().contains("at most 67108864 fit"), "{error}");
    }
}
