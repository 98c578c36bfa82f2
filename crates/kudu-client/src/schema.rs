//! The columns of a table and their order: key columns come first.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Field;

use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::pb;
use crate::value::Value;

/// How the values of a column are encoded on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Kudu's choice for the type.
    #[default]
    Auto = 0,
    /// Unencoded.
    Plain = 1,
    /// Stores common prefixes once; for text and bytes.
    Prefix = 2,
    /// Stores run lengths; for integers, dates, times and booleans.
    RunLength = 4,
    /// Stores distinct values once; for text and bytes.
    Dictionary = 5,
    /// Transposes bits, then compresses with LZ4; for integers, floats and decimals.
    BitShuffle = 6,
}

impl Encoding {
    pub(crate) fn code(self) -> i32 {
        self as i32
    }

    fn from_code(code: Option<i32>) -> Self {
        let all =
            [Self::Auto, Self::Plain, Self::Prefix, Self::RunLength, Self::Dictionary, Self::BitShuffle];
        let known = all.into_iter().find(|known| Some(known.code()) == code);
        known.unwrap_or_default()
    }
}

/// How blocks of a column are compressed on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// The server's default.
    #[default]
    Default = 0,
    /// Not at all.
    None = 1,
    /// Snappy.
    Snappy = 2,
    /// LZ4.
    Lz4 = 3,
    /// Zlib.
    Zlib = 4,
}

impl Compression {
    pub(crate) fn code(self) -> i32 {
        self as i32
    }

    fn from_code(code: Option<i32>) -> Self {
        let all = [Self::Default, Self::None, Self::Snappy, Self::Lz4, Self::Zlib];
        let known = all.into_iter().find(|known| Some(known.code()) == code);
        known.unwrap_or_default()
    }
}

/// One column: its type and storage.
///
/// ```
/// use kudu_client::{Column, Compression, DataType, Encoding};
///
/// let column = Column::new("city", DataType::String)
///     .nullable()
///     .default_value("Berlin")
///     .encoding(Encoding::Dictionary)
///     .compression(Compression::Lz4);
/// assert_eq!(column.name(), "city");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) is_key: bool,
    pub(crate) is_nullable: bool,
    pub(crate) default_value: Option<Value>,
    pub(crate) encoding: Encoding,
    pub(crate) compression: Compression,
    pub(crate) block_size_bytes: i32,
    pub(crate) comment: String,
    pub(crate) is_immutable: bool,
    pub(crate) is_auto_incrementing: bool,
}

impl Column {
    /// A NOT NULL column that is not part of the key.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            is_key: false,
            is_nullable: false,
            default_value: None,
            encoding: Encoding::Auto,
            compression: Compression::Default,
            block_size_bytes: 0,
            comment: String::new(),
            is_immutable: false,
            is_auto_incrementing: false,
        }
    }

    /// A last key column that servers fill with rising numbers, so that the other key columns need not be unique.
    pub fn auto_incrementing() -> Self {
        Self { is_auto_incrementing: true, ..Self::new("auto_incrementing_id", DataType::Int64).key() }
    }

    /// Makes it part of the primary key.
    #[must_use]
    pub fn key(mut self) -> Self {
        self.is_key = true;
        self
    }

    /// Allows NULL.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.is_nullable = true;
        self
    }

    /// Sets the value of rows that do not set the column.
    #[must_use]
    pub fn default_value(mut self, value: impl Into<Value>) -> Self {
        self.default_value = Some(value.into());
        self
    }

    /// Sets the encoding on disk.
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Sets the compression on disk.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the size of a block on disk, before encoding; 0 leaves it to the server.
    #[must_use]
    pub fn block_size_bytes(mut self, bytes: i32) -> Self {
        self.block_size_bytes = bytes;
        self
    }

    /// Sets a comment, up to 256 bytes.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = comment.into();
        self
    }

    /// Forbids changing a value after it is written.
    #[must_use]
    pub fn immutable(mut self) -> Self {
        self.is_immutable = true;
        self
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The column's type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Whether it is part of the primary key.
    pub fn is_key(&self) -> bool {
        self.is_key
    }

    /// Whether it may hold NULL.
    pub fn is_nullable(&self) -> bool {
        self.is_nullable
    }

    /// Whether the servers fill it with rising numbers.
    pub fn is_auto_incrementing(&self) -> bool {
        self.is_auto_incrementing
    }

    /// The value of rows that do not set the column.
    pub fn default(&self) -> Option<&Value> {
        self.default_value.as_ref()
    }

    /// The comment; empty if there is none.
    pub fn comment_text(&self) -> &str {
        &self.comment
    }

    /// The encoding and compression on disk.
    pub fn storage(&self) -> (Encoding, Compression) {
        (self.encoding, self.compression)
    }

    /// The message for creating and altering tables.
    pub(crate) fn to_pb(&self) -> Result<pb::ColumnSchema> {
        let default = self.default_value.as_ref().map(|value| value.to_wire(self.data_type)).transpose();
        let default =
            default.map_err(|error| error.context(&format!("default of column {:?}", self.name)))?;
        Ok(pb::ColumnSchema {
            read_default_value: default,
            encoding: Some(self.encoding.code()),
            compression: Some(self.compression.code()),
            cfile_block_size: (self.block_size_bytes > 0).then_some(self.block_size_bytes),
            comment: (!self.comment.is_empty()).then(|| self.comment.clone()),
            immutable: self.is_immutable.then_some(true),
            ..self.to_plain_pb()
        })
    }

    /// The message for writes and scans: without id, default and storage.
    pub(crate) fn to_plain_pb(&self) -> pb::ColumnSchema {
        pb::ColumnSchema {
            name: self.name.clone(),
            data_type: self.data_type.code(),
            is_key: Some(self.is_key),
            is_nullable: Some(self.is_nullable),
            type_attributes: self.data_type.attributes(),
            is_auto_incrementing: self.is_auto_incrementing.then_some(true),
            ..Default::default()
        }
    }

    pub(crate) fn from_pb(column: &pb::ColumnSchema) -> Result<Self> {
        let data_type = DataType::from_pb(column.data_type, column.type_attributes.as_ref());
        // The other one is what rows have that are older than the column.
        let default_value = match (&column.write_default_value, data_type) {
            (None, _) | (_, DataType::Unknown(_)) => None,
            (Some(bytes), data_type) => Some(Value::from_bytes(data_type, bytes)?),
        };
        Ok(Self {
            name: column.name.clone(),
            data_type,
            is_key: column.is_key.unwrap_or(false),
            is_nullable: column.is_nullable.unwrap_or(false),
            default_value,
            encoding: Encoding::from_code(column.encoding),
            compression: Compression::from_code(column.compression),
            block_size_bytes: column.cfile_block_size.unwrap_or(0),
            comment: column.comment.clone().unwrap_or_default(),
            is_immutable: column.immutable.unwrap_or(false),
            is_auto_incrementing: column.is_auto_incrementing.unwrap_or(false),
        })
    }

    pub(crate) fn arrow_field(&self) -> Field {
        Field::new(&self.name, self.data_type.arrow_type(), self.is_nullable)
    }
}

/// The columns of a table, key columns first.
#[derive(Clone, Debug)]
pub struct Schema {
    columns: Vec<Column>,
    ids: Vec<u32>,
    index_of: HashMap<String, usize>,
    key_columns: usize,
    pub(crate) has_nullable: bool,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns
    }
}

impl Schema {
    /// A schema of these columns. Key columns must come first, and there must be at least one.
    ///
    /// # Errors
    /// When the columns cannot form a table; the servers check the rest.
    pub fn new(columns: Vec<Column>) -> Result<Self> {
        Self::with_ids(columns, Vec::new())
    }

    fn with_ids(columns: Vec<Column>, ids: Vec<u32>) -> Result<Self> {
        let key_columns = columns.iter().take_while(|column| column.is_key).count();
        if key_columns == 0 || columns[key_columns..].iter().any(|column| column.is_key) {
            return Err(Error::invalid("the key columns must come first, and there must be at least one"));
        }
        let mut index_of = HashMap::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            if index_of.insert(column.name.clone(), index).is_some() {
                return Err(Error::invalid(format!("two columns are named {:?}", column.name)));
            }
            if column.is_key && column.is_nullable {
                return Err(Error::invalid(format!("the key column {:?} cannot be nullable", column.name)));
            }
        }
        let has_nullable = columns.iter().any(|column| column.is_nullable);
        Ok(Self { columns, ids, index_of, key_columns, has_nullable })
    }

    /// All columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of the primary key.
    pub fn key_columns(&self) -> &[Column] {
        &self.columns[..self.key_columns]
    }

    /// The index of a column.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.index_of.get(name).copied()
    }

    pub(crate) fn find(&self, name: &str) -> Result<usize> {
        self.index_of(name).ok_or_else(|| Error::invalid(format!("there is no column {name:?}")))
    }

    pub(crate) fn index_of_id(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|&known| known == id)
    }

    /// The Arrow schema of a scan of all columns.
    pub fn to_arrow(&self) -> arrow_schema::Schema {
        arrow_schema::Schema::new(self.columns.iter().map(Column::arrow_field).collect::<Vec<_>>())
    }

    pub(crate) fn to_pb(&self) -> Result<pb::Schema> {
        Ok(pb::Schema { columns: self.columns.iter().map(Column::to_pb).collect::<Result<_>>()? })
    }

    pub(crate) fn to_plain_pb(&self) -> pb::Schema {
        pb::Schema { columns: self.columns.iter().map(Column::to_plain_pb).collect() }
    }

    pub(crate) fn from_pb(schema: &pb::Schema) -> Result<Arc<Self>> {
        let columns = schema.columns.iter().map(Column::from_pb).collect::<Result<Vec<_>>>()?;
        let ids = schema.columns.iter().enumerate();
        let ids = ids.map(|(index, column)| column.id.unwrap_or(index as u32)).collect();
        Self::with_ids(columns, ids)
            .map(Arc::new)
            .map_err(|error| error.with_kind(crate::ErrorKind::Protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_first_and_names_differ() {
        let key = || Column::new("k", DataType::Int32).key();
        assert!(Schema::new(vec![]).is_err());
        assert!(Schema::new(vec![Column::new("v", DataType::Int32), key()]).is_err());
        assert!(Schema::new(vec![key(), Column::new("k", DataType::Int8)]).is_err());
        assert!(Schema::new(vec![key().nullable()]).is_err());
        assert_eq!(
            Schema::new(vec![key(), Column::new("v", DataType::Int32)]).unwrap().key_columns().len(),
            1
        );
    }

    proptest::proptest! {
        #[test]
        fn no_schema_of_a_master_makes_the_client_panic(
            columns in proptest::collection::vec(proptest::prelude::any::<([i32; 4], bool, bool, Vec<u8>)>(), 0..6),
        ) {
            let column = |(index, (numbers, key, nullable, default)): (usize, ([i32; 4], bool, bool, Vec<u8>))| {
                let small = |number: i32, bound: i32| Some(number.rem_euclid(bound) - 1);
                pb::ColumnSchema {
                    name: index.to_string(),
                    data_type: numbers[0].rem_euclid(24),
                    is_key: Some(key),
                    is_nullable: Some(nullable),
                    write_default_value: Some(default.into()),
                    type_attributes: Some(pb::ColumnTypeAttributes {
                        precision: small(numbers[1], 45),
                        scale: small(numbers[2], 45),
                        length: Some(numbers[3]),
                    }),
                    ..Default::default()
                }
            };
            let columns = columns.into_iter().enumerate().map(column).collect();
            if let Ok(schema) = Schema::from_pb(&pb::Schema { columns }) {
                schema.to_arrow();
                schema.to_plain_pb();
            }
        }
    }
}
