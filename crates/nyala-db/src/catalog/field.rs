//! Fields: one nullable column per name and type.

use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::{ColumnId, ColumnType, TableSchema};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The types a field can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldType {
    /// 64-bit float.
    Float,
    /// 64-bit signed integer.
    Integer,
    /// 64-bit unsigned integer.
    Unsigned,
    /// UTF-8 text.
    String,
    /// Boolean.
    Boolean,
}

impl FieldType {
    /// Its name in InfluxQL.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Float => "float",
            FieldType::Integer => "integer",
            FieldType::Unsigned => "unsigned",
            FieldType::String => "string",
            FieldType::Boolean => "boolean",
        }
    }

    /// The type of its column.
    pub fn column_type(self) -> ColumnType {
        match self {
            FieldType::Float => ColumnType::Float64,
            FieldType::Integer => ColumnType::Int64,
            FieldType::Unsigned => ColumnType::UInt64,
            FieldType::String => ColumnType::String,
            FieldType::Boolean => ColumnType::Bool,
        }
    }

    fn of_column(column_type: ColumnType) -> Option<Self> {
        match column_type {
            ColumnType::Float64 => Some(FieldType::Float),
            ColumnType::Int64 => Some(FieldType::Integer),
            ColumnType::UInt64 => Some(FieldType::Unsigned),
            ColumnType::String => Some(FieldType::String),
            ColumnType::Bool => Some(FieldType::Boolean),
            _ => None,
        }
    }

    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn of_code(code: u8) -> Option<Self> {
        use FieldType::{Boolean, Float, Integer, String, Unsigned};
        [Float, Integer, Unsigned, String, Boolean].into_iter().find(|field_type| field_type.code() == code)
    }
}

/// One (name, type) of a measurement's fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
    /// Its column.
    pub column: ColumnId,
}

/// The types of fields by shard; a shard is named by the start of its range.
pub(super) type ShardTypes = BTreeMap<i64, HashMap<String, FieldType>>;

/// Those of the columns whose name and type occur in one of the shards.
pub(super) fn present_fields<'a>(
    columns: &[Field],
    shards: impl Iterator<Item = &'a HashMap<String, FieldType>>,
) -> Vec<Field> {
    let present: HashSet<(&str, FieldType)> =
        shards.flatten().map(|(name, field_type)| (name.as_str(), *field_type)).collect();
    columns.iter().filter(|field| present.contains(&(&*field.name, field.field_type))).cloned().collect()
}

/// The column of a field. `fields` is sorted by name and type.
pub(super) fn find(fields: &[Field], name: &str, field_type: FieldType) -> Option<ColumnId> {
    let order = |field: &Field| field.name.as_str().cmp(name).then(field.field_type.cmp(&field_type));
    fields.binary_search_by(order).ok().map(|position| fields[position].column)
}

pub(super) fn sort(fields: &mut [Field]) {
    fields.sort_by(|a, b| a.name.cmp(&b.name).then(a.field_type.cmp(&b.field_type)));
}

/// The fields of a table. If two servers have added a column for the same field, the first of them counts. `renamed`: the
/// names of columns whose fields were renamed.
pub(super) fn fields_of(schema: &TableSchema, renamed: &BTreeMap<ColumnId, String>) -> Vec<Field> {
    let mut fields: Vec<Field> = schema
        .columns
        .iter()
        .filter(|column| column.id != SERIES_COLUMN && column.id != TIME_COLUMN)
        .filter_map(|column| {
            let field_type = FieldType::of_column(column.column_type)?;
            let name = renamed.get(&column.id).unwrap_or(&column.name).clone();
            Some(Field { name, field_type, column: column.id })
        })
        .collect();
    fields.sort_by_key(|field| field.column);
    sort(&mut fields);
    fields.dedup_by(|later, first| later.name == first.name && later.field_type == first.field_type);
    fields
}
