//! Schemas in bytes, as manifest and rowsets have them.
//!
//! ```text
//! schema: name | count (32 bits), columns | key: ids | count (32 bits), hash partitions | width of ranges of time (64
//! bits, ns; 0: none) | dropped columns: ids
//! column: id (32 bits) | name | type (24 bits) | whether it may be NULL (8 bits)
//! hash partition: ids | buckets (32 bits)
//! ids: count (32 bits), each 32 bits
//! ```
//! The key `(UInt32, Timestamp)` says that a table is of series, and no column has a default. Where that is not so, or
//! a column is hidden or has an encoding of its own, what this form lacks stands in front of it:
//! ```text
//! extension: 32 bits set, which no name is long | kind (8 bits; 0: series, 1: keyed) | count (32 bits), columns
//! column: id (32 bits) | hidden (8 bits) | encoding (8 bits) | default (8 bits: whether there is one; a value)
//! ```

use crate::rows::wire::{Reader, put_bytes, put_u32, text_of};
use nyala_core::{
    ColumnId, ColumnSchema, ColumnType, Encoding, Error, Partitioning, Ranges, Result, TableKind,
    TableSchema, Value,
};

/// The column of row markers, beside the table's own.
pub(crate) const MARKER_COLUMN: ColumnId = ColumnId(u32::MAX);
/// The column of the sequences of rows, where the past is kept: a rowset of a flush has it, of any other it is not needed.
pub(crate) const SEQUENCE_COLUMN: ColumnId = ColumnId(u32::MAX - 1);

/// A column type as written in files; wraps so that its numbers live here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredType(pub(crate) ColumnType);

impl StoredType {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let (tag, precision, scale) = match self.0 {
            ColumnType::Bool => (1, 0, 0),
            ColumnType::Int8 => (2, 0, 0),
            ColumnType::Int16 => (3, 0, 0),
            ColumnType::Int32 => (4, 0, 0),
            ColumnType::Int64 => (5, 0, 0),
            ColumnType::UInt32 => (6, 0, 0),
            ColumnType::UInt64 => (7, 0, 0),
            ColumnType::Float32 => (8, 0, 0),
            ColumnType::Float64 => (9, 0, 0),
            ColumnType::Decimal { precision, scale } => (10, precision, scale),
            ColumnType::String => (11, 0, 0),
            ColumnType::Binary => (12, 0, 0),
            ColumnType::Date => (13, 0, 0),
            ColumnType::Timestamp => (14, 0, 0),
        };
        out.extend_from_slice(&[tag, precision, scale as u8]);
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let (tag, precision, scale) = (reader.u8()?, reader.u8()?, reader.u8()? as i8);
        Ok(Self(match tag {
            1 => ColumnType::Bool,
            2 => ColumnType::Int8,
            3 => ColumnType::Int16,
            4 => ColumnType::Int32,
            5 => ColumnType::Int64,
            6 => ColumnType::UInt32,
            7 => ColumnType::UInt64,
            8 => ColumnType::Float32,
            9 => ColumnType::Float64,
            10 => ColumnType::Decimal { precision, scale },
            11 => ColumnType::String,
            12 => ColumnType::Binary,
            13 => ColumnType::Date,
            14 => ColumnType::Timestamp,
            other => return Err(Error::invalid(format!("unknown column type {other}"))),
        }))
    }
}

const EXTENDED: u32 = u32::MAX;
const ENCODINGS: [Encoding; 3] = [Encoding::Automatic, Encoding::Speed, Encoding::Size];

fn put_ids(out: &mut Vec<u8>, ids: &[ColumnId]) {
    put_u32(out, ids.len() as u32);
    ids.iter().for_each(|id| put_u32(out, id.0));
}

fn take_ids(reader: &mut Reader<'_>) -> Result<Vec<ColumnId>> {
    (0..reader.u32()?).map(|_| Ok(ColumnId(reader.u32()?))).collect()
}

fn kind_by_key(schema: &TableSchema) -> TableKind {
    if schema.has_series_key() { TableKind::Series } else { TableKind::Keyed }
}

fn is_extended(column: &ColumnSchema) -> bool {
    column.hidden || column.encoding != Encoding::Automatic || column.default.is_some()
}

/// Appends a schema, and the columns that its table had before.
pub(crate) fn put_schema(out: &mut Vec<u8>, schema: &TableSchema, dropped_columns: &[ColumnId]) {
    let extended: Vec<_> = schema.columns.iter().filter(|column| is_extended(column)).collect();
    if !extended.is_empty() || schema.kind != kind_by_key(schema) {
        put_u32(out, EXTENDED);
        out.push(u8::from(schema.kind == TableKind::Keyed));
        put_u32(out, extended.len() as u32);
        for column in extended {
            put_u32(out, column.id.0);
            let encoding = ENCODINGS.iter().position(|encoding| *encoding == column.encoding);
            out.extend_from_slice(&[column.hidden.into(), encoding.expect("all are listed") as u8]);
            out.push(column.default.is_some().into());
            column.default.iter().for_each(|value| put_value(out, value));
        }
    }
    put_bytes(out, schema.name.as_bytes());
    put_u32(out, schema.columns.len() as u32);
    for column in &schema.columns {
        put_u32(out, column.id.0);
        put_bytes(out, column.name.as_bytes());
        StoredType(column.column_type).put(out);
        out.push(column.nullable.into());
    }
    put_ids(out, &schema.key);
    put_u32(out, schema.partitioning.hash.len() as u32);
    for (columns, buckets) in &schema.partitioning.hash {
        put_ids(out, columns);
        put_u32(out, *buckets);
    }
    // No width is negative or zero.
    let width_ns = schema.partitioning.time_width_ns().unwrap_or(0);
    out.extend_from_slice(&width_ns.to_le_bytes());
    put_ids(out, dropped_columns);
}

/// What a column has beyond its type.
struct Extension {
    id: ColumnId,
    hidden: bool,
    encoding: Encoding,
    default: Option<Value>,
}

impl Extension {
    fn take(reader: &mut Reader<'_>) -> Result<Self> {
        let (id, hidden) = (ColumnId(reader.u32()?), reader.u8()? != 0);
        let encoding = ENCODINGS.get(usize::from(reader.u8()?)).copied();
        let encoding = encoding.ok_or_else(|| Error::invalid("an unknown encoding"))?;
        let default = if reader.u8()? != 0 { Some(take_value(reader)?) } else { None };
        Ok(Self { id, hidden, encoding, default })
    }
}

/// A schema, and the columns that its table had before.
pub(crate) fn take_schema(reader: &mut Reader<'_>) -> Result<(TableSchema, Vec<ColumnId>)> {
    let mut first = reader.u32()?;
    let (mut kind, mut extensions) = (None, Vec::new());
    if first == EXTENDED {
        kind = Some(if reader.u8()? == 0 { TableKind::Series } else { TableKind::Keyed });
        extensions = (0..reader.u32()?).map(|_| Extension::take(reader)).collect::<Result<_>>()?;
        first = reader.u32()?;
    }
    let name = text_of(reader.take(first as usize)?)?;
    let mut columns = Vec::new();
    for _ in 0..reader.u32()? {
        let id = ColumnId(reader.u32()?);
        let column = ColumnSchema::new(id, reader.text()?, StoredType::take(reader)?.0);
        columns.push(if reader.u8()? == 0 { column.required() } else { column });
    }
    // No earlier version asked for this order, though all databases kept it.
    columns.sort_by_key(|column| column.id);
    let key = take_ids(reader)?;
    let hash = (0..reader.u32()?).map(|_| Ok((take_ids(reader)?, reader.u32()?))).collect::<Result<_>>()?;
    let width_ns = reader.i64()?;
    let dropped_columns = take_ids(reader)?;
    let ranges = if width_ns > 0 { Ranges::Time { width_ns } } else { Ranges::One };
    let partitioning = Partitioning { hash, ranges };
    if columns
        .iter()
        .map(|column| column.id)
        .chain(dropped_columns.iter().copied())
        .any(|id| id == MARKER_COLUMN || id == SEQUENCE_COLUMN)
    {
        return Err(Error::invalid("a column with the number of row markers or sequences"));
    }
    let mut schema = TableSchema { partitioning, ..TableSchema::keyed(name, columns, key) };
    schema.kind = kind.unwrap_or_else(|| kind_by_key(&schema));
    if kind.is_none() {
        // Earlier versions took what nobody asks for any more: points without a gap, buckets of anything.
        let is_series_keyed = schema.is_series_keyed();
        let TableSchema { columns, key, partitioning, .. } = &mut schema;
        let fields = columns.iter_mut().filter(|column| is_series_keyed && !key.contains(&column.id));
        fields.for_each(|column| column.nullable = true);
        let is_of_key =
            |columns: &[ColumnId]| !columns.is_empty() && columns.iter().all(|id| key.contains(id));
        partitioning.hash.retain(|(columns, buckets)| *buckets > 1 && is_of_key(columns));
    }
    // Rowsets may hold cells of columns that were dropped, which would come back under their ids.
    let after_dropped = dropped_columns.iter().map(|id| id.0 + 1).max().unwrap_or(0);
    schema.next_column = ColumnId(schema.next_column.0.max(after_dropped));
    for Extension { id, hidden, encoding, default } in extensions {
        let column = schema.columns.iter_mut().find(|column| column.id == id);
        let column = column.ok_or_else(|| Error::invalid(format!("column {id} does not exist")))?;
        (column.hidden, column.encoding, column.default) = (hidden, encoding, default);
    }
    schema.validate()?;
    Ok((schema, dropped_columns))
}

/// ```text
/// value: tag (8 bits) | 8 bits (0), 64 bits (1, 2, 3), 128 bits (4), or length (32 bits) and bytes (5, 6)
/// ```
fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(bool) => out.extend_from_slice(&[0, (*bool).into()]),
        Value::Int(int) => put_number(out, 1, &int.to_le_bytes()),
        Value::UInt(int) => put_number(out, 2, &int.to_le_bytes()),
        Value::Float(float) => put_number(out, 3, &float.to_bits().to_le_bytes()),
        Value::Decimal(wide) => put_number(out, 4, &wide.to_le_bytes()),
        Value::String(text) => {
            out.push(5);
            put_bytes(out, text.as_bytes());
        }
        Value::Binary(bytes) => {
            out.push(6);
            put_bytes(out, bytes);
        }
    }
}

fn put_number(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn take_value(reader: &mut Reader<'_>) -> Result<Value> {
    Ok(match reader.u8()? {
        0 => Value::Bool(reader.u8()? != 0),
        1 => Value::Int(reader.i64()?),
        2 => Value::UInt(reader.u64()?),
        3 => Value::Float(f64::from_bits(reader.u64()?)),
        4 => Value::Decimal(i128::from(reader.u64()?) | i128::from(reader.i64()?) << 64),
        5 => Value::String(reader.text()?),
        6 => Value::Binary(reader.bytes()?.to_vec()),
        other => return Err(Error::invalid(format!("a value of the unknown kind {other}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::ColumnType;

    #[test]
    fn what_earlier_versions_took_opens() {
        let mut schema = TableSchema::measurement("points", 1000);
        schema.columns.push(ColumnSchema::new(ColumnId(2), "v", ColumnType::Int64).required());
        schema.next_column = ColumnId(3);
        schema.partitioning.hash =
            vec![(vec![ColumnId(0)], 1), (vec![ColumnId(2)], 4), (vec![ColumnId(1)], 4)];
        let mut bytes = Vec::new();
        put_schema(&mut bytes, &schema, &[]);
        let (read, _) = take_schema(&mut Reader::new(&bytes)).expect("it opens");
        assert_eq!(read.partitioning.hash, [(vec![ColumnId(1)], 4)]);
        assert!(read.is_series_keyed() && read.columns[2].nullable);
    }

    #[test]
    fn schemas_survive_their_encoding() {
        let mut measurement = TableSchema::measurement("db\0autogen\0cpu", 1000);
        measurement.columns.push(ColumnSchema::new(ColumnId(4), "usage", ColumnType::Float64));
        measurement.next_column = ColumnId(8);
        let id = ColumnSchema::new(ColumnId(0), "id", ColumnType::UInt32).required();
        let at = ColumnSchema::new(ColumnId(1), "at", ColumnType::Timestamp).required();
        let mut keyed =
            TableSchema::keyed("of the key of series", vec![id, at], vec![ColumnId(0), ColumnId(1)]);
        let defaults = [
            (ColumnType::Bool, Value::Bool(true)),
            (ColumnType::Int16, Value::Int(-7)),
            (ColumnType::UInt64, Value::UInt(u64::MAX)),
            (ColumnType::Float64, Value::Float(f64::NAN)),
            (ColumnType::Decimal { precision: 38, scale: 2 }, Value::Decimal(-(1 << 100) + 17)),
            (ColumnType::String, Value::String("as it was".to_owned())),
            (ColumnType::Binary, Value::Binary(vec![0, 255])),
        ];
        for ((column_type, default), id) in defaults.into_iter().zip(2..) {
            keyed.columns.push(ColumnSchema {
                default: Some(default),
                hidden: id == 3,
                encoding: Encoding::Size,
                ..ColumnSchema::new(ColumnId(id), format!("column {id}"), column_type)
            });
        }
        keyed.next_column = ColumnId(9);
        for (schema, dropped, is_plain) in
            [(measurement, vec![ColumnId(7)], true), (keyed, Vec::new(), false)]
        {
            let mut bytes = Vec::new();
            put_schema(&mut bytes, &schema, &dropped);
            assert_eq!(bytes[..4] != EXTENDED.to_le_bytes(), is_plain);
            let mut reader = Reader::new(&bytes);
            assert_eq!(take_schema(&mut reader).expect("decodes"), (schema, dropped));
            assert!(reader.is_empty());
            for length in 0..bytes.len() {
                assert!(take_schema(&mut Reader::new(&bytes[..length])).is_err(), "cut off at {length}");
            }
        }
    }
}
