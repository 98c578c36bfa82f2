//! Entries of the log of schema changes, as JSON: people and other programs read the same rows.

use nyala_core::schema::{
    ColumnSchema, ColumnType, Encoding, KeySpan, Partitioning, Ranges, TableKind, TableSchema,
};
use nyala_core::{ColumnId, Error, Result, Value};
use serde::{Deserialize, Serialize};

/// What one entry says; all of it, or nothing, is so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) changes: Vec<Change>,
}

impl Entry {
    /// Whether it says all there is.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.changes.first(), Some(Change::Everything { .. }))
    }
}

/// A range of times: a number that no other range has or had, its first time, the first that is not in it, ns.
pub(crate) type Bounds = (u32, i64, i64);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// All there is; entries before this one are not needed any more.
    Everything { next_table: u32, next_range: u32, tables: Vec<WholeTable> },
    /// A new table.
    Create { table: u32, schema: Table },
    /// A table's schema from now on.
    Alter {
        table: u32,
        schema: Table,
        /// What rows that are older than new columns have of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<(u32, Scalar)>,
    },
    /// A table's ranges of time from now on.
    Ranges {
        table: u32,
        ranges: Vec<Bounds>,
        /// The numbers of new ones, which are not in the cluster yet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmade: Vec<u32>,
        /// The numbers of those that somebody begins to drop.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leaving: Vec<u32>,
    },
    /// More sheets may have rows in ranges of a table, or are there now: pairs of a range's number and a sheet's.
    Sheets {
        table: u32,
        sheets: Vec<(u32, u32)>,
        #[serde(default, skip_serializing_if = "Progress::is_unknown")]
        progress: Progress,
    },
    /// A table is gone.
    Drop { table: u32 },
}

/// How far sheets are made in ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Progress {
    /// The first versions did not say it.
    #[default]
    Unknown,
    /// They are not in the cluster yet.
    Wanted,
    /// They are.
    Made,
}

impl Progress {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// All that is known of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WholeTable {
    pub(crate) table: u32,
    pub(crate) schema: Table,
    pub(crate) ranges: Vec<Bounds>,
    /// Sheets after the first that may have rows in ranges: pairs of a range's number and a sheet's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sheets: Vec<(u32, u32)>,
    /// Sheets that are not in the cluster yet in ranges: pairs as above, the first sheet among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unmade: Vec<(u32, u32)>,
    /// The numbers of ranges that somebody is dropping, with the entry that said so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) leaving: Vec<(u32, i64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) added: Vec<(u32, Scalar)>,
}

/// A [`TableSchema`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    name: String,
    kind: Kind,
    columns: Vec<Column>,
    next_column: u32,
    key: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hash: Vec<(Vec<u32>, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range_width_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_ranges: Option<KeyRanges>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Series,
    Keyed,
}

/// The first values inside, or outside, of a range of keys; none: it has no end there.
type KeyBound = Option<Vec<Scalar>>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KeyRanges {
    columns: Vec<u32>,
    spans: Vec<(KeyBound, KeyBound)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Column {
    id: u32,
    name: String,
    #[serde(rename = "type")]
    column_type: Type,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default: Option<Scalar>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<Leaning>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Leaning {
    Speed,
    Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Type {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Float32,
    Float64,
    Decimal(u8, i8),
    String,
    Binary,
    Date,
    Timestamp,
}

/// A [`Value`]. Floats are their bits, since JSON has neither infinities nor NaN; decimals text, bytes numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Uint(u64),
    FloatBits(u64),
    Decimal(String),
    String(String),
    Binary(Vec<u8>),
}

impl From<&Value> for Scalar {
    fn from(value: &Value) -> Self {
        match value {
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Int(value) => Scalar::Int(*value),
            Value::UInt(value) => Scalar::Uint(*value),
            Value::Float(value) => Scalar::FloatBits(value.to_bits()),
            Value::Decimal(value) => Scalar::Decimal(value.to_string()),
            Value::String(value) => Scalar::String(value.clone()),
            Value::Binary(value) => Scalar::Binary(value.clone()),
        }
    }
}

impl TryFrom<Scalar> for Value {
    type Error = Error;

    fn try_from(scalar: Scalar) -> Result<Self> {
        Ok(match scalar {
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::Uint(value) => Value::UInt(value),
            Scalar::FloatBits(bits) => Value::Float(f64::from_bits(bits)),
            Scalar::Decimal(text) => Value::Decimal(text.parse().map_err(|_| malformed("a decimal"))?),
            Scalar::String(value) => Value::String(value),
            Scalar::Binary(value) => Value::Binary(value),
        })
    }
}

macro_rules! types {
    ($($type:ident = $column_type:ident),*) => {
        impl From<ColumnType> for Type {
            fn from(column_type: ColumnType) -> Self {
                match column_type {
                    $(ColumnType::$column_type => Type::$type,)*
                    ColumnType::Decimal { precision, scale } => Type::Decimal(precision, scale),
                }
            }
        }

        impl From<Type> for ColumnType {
            fn from(column_type: Type) -> Self {
                match column_type {
                    $(Type::$type => ColumnType::$column_type,)*
                    Type::Decimal(precision, scale) => ColumnType::Decimal { precision, scale },
                }
            }
        }
    };
}

types!(
    Bool = Bool,
    Int8 = Int8,
    Int16 = Int16,
    Int32 = Int32,
    Int64 = Int64,
    Uint32 = UInt32,
    Uint64 = UInt64,
    Float32 = Float32,
    Float64 = Float64,
    String = String,
    Binary = Binary,
    Date = Date,
    Timestamp = Timestamp
);

impl From<&TableSchema> for Table {
    fn from(schema: &TableSchema) -> Self {
        let ids = |ids: &[ColumnId]| ids.iter().map(|id| id.0).collect();
        let values = |values: &Vec<Value>| values.iter().map(Scalar::from).collect();
        let columns = schema.columns.iter().map(|column| Column {
            id: column.id.0,
            name: column.name.clone(),
            column_type: column.column_type.into(),
            required: !column.nullable,
            default: column.default.as_ref().map(Scalar::from),
            hidden: column.hidden,
            encoding: match column.encoding {
                Encoding::Automatic => None,
                Encoding::Speed => Some(Leaning::Speed),
                Encoding::Size => Some(Leaning::Size),
            },
        });
        let key_ranges = match &schema.partitioning.ranges {
            Ranges::Keys { columns, spans } => Some(KeyRanges {
                columns: ids(columns),
                spans: spans
                    .iter()
                    .map(|span| (span.start.as_ref().map(values), span.end.as_ref().map(values)))
                    .collect(),
            }),
            _ => None,
        };
        Self {
            name: schema.name.clone(),
            kind: if schema.is_series_keyed() { Kind::Series } else { Kind::Keyed },
            columns: columns.collect(),
            next_column: schema.next_column.0,
            key: ids(&schema.key),
            hash: schema.partitioning.hash.iter().map(|(columns, count)| (ids(columns), *count)).collect(),
            range_width_ns: schema.partitioning.time_width_ns(),
            key_ranges,
        }
    }
}

impl TryFrom<Table> for TableSchema {
    type Error = Error;

    fn try_from(table: Table) -> Result<Self> {
        let ids = |ids: Vec<u32>| -> Vec<ColumnId> { ids.into_iter().map(ColumnId).collect() };
        let values = |values: Option<Vec<Scalar>>| -> Result<Option<Vec<Value>>> {
            values.map(|values| values.into_iter().map(Value::try_from).collect()).transpose()
        };
        let column = |column: Column| -> Result<ColumnSchema> {
            Ok(ColumnSchema {
                id: ColumnId(column.id),
                name: column.name,
                column_type: column.column_type.into(),
                nullable: !column.required,
                default: column.default.map(Value::try_from).transpose()?,
                hidden: column.hidden,
                encoding: match column.encoding {
                    None => Encoding::Automatic,
                    Some(Leaning::Speed) => Encoding::Speed,
                    Some(Leaning::Size) => Encoding::Size,
                },
            })
        };
        let ranges = match (table.range_width_ns, table.key_ranges) {
            (None, None) => Ranges::One,
            (Some(width_ns), None) => Ranges::Time { width_ns },
            (None, Some(KeyRanges { columns, spans })) => {
                let span = |(start, end)| Ok(KeySpan { start: values(start)?, end: values(end)? });
                let spans = spans.into_iter().map(span).collect::<Result<_>>()?;
                Ranges::Keys { columns: ids(columns), spans }
            }
            (Some(_), Some(_)) => return Err(malformed("a table divided twice")),
        };
        let schema = TableSchema {
            name: table.name,
            kind: match table.kind {
                Kind::Series => TableKind::Series,
                Kind::Keyed => TableKind::Keyed,
            },
            columns: table.columns.into_iter().map(column).collect::<Result<_>>()?,
            next_column: ColumnId(table.next_column),
            key: ids(table.key),
            partitioning: Partitioning {
                hash: table.hash.into_iter().map(|(columns, count)| (ids(columns), count)).collect(),
                ranges,
            },
        };
        schema.validate()?;
        Ok(schema)
    }
}

fn malformed(what: &str) -> Error {
    Error::invalid(format!("the schema log holds {what} that cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut schema = TableSchema::measurement("db\0rp\0m", 1000);
        for (id, column_type) in [
            (2, ColumnType::Float64),
            (3, ColumnType::Decimal { precision: 12, scale: -3 }),
            (7, ColumnType::UInt64),
        ] {
            schema.columns.push(ColumnSchema::new(ColumnId(id), format!("f \"{id}\""), column_type));
        }
        schema.next_column = ColumnId(9);
        schema.partitioning.hash = vec![(vec![ColumnId(0)], 4)];
        let mut keyed = TableSchema::keyed(
            "k",
            vec![
                ColumnSchema::new(ColumnId(0), "a", ColumnType::String).required(),
                ColumnSchema {
                    default: Some(Value::Float(f64::NEG_INFINITY)),
                    hidden: true,
                    encoding: Encoding::Size,
                    ..ColumnSchema::new(ColumnId(1), "b", ColumnType::Float64)
                },
            ],
            vec![ColumnId(0)],
        );
        let span = KeySpan { start: None, end: Some(vec![Value::String("m".into())]) };
        keyed.partitioning.ranges = Ranges::Keys { columns: vec![ColumnId(0)], spans: vec![span] };
        for schema in [schema, keyed] {
            let text = serde_json::to_string(&Table::from(&schema)).expect("it is plain data");
            let table: Table = serde_json::from_str(&text).expect("it was just written");
            assert_eq!(TableSchema::try_from(table).expect("it is valid"), schema);
        }
    }
}
