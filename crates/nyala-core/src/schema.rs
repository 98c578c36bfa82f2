//! Tables: typed columns, a unique primary key, partitions.

use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::store::Alteration;
use crate::time::{TimeRange, partition_time, window_of_width};
use arrow_schema::{DataType, TimeUnit};

/// The type of a column; each has one Arrow array type across the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// `BooleanArray`.
    Bool,
    /// `Int8Array`.
    Int8,
    /// `Int16Array`.
    Int16,
    /// `Int32Array`.
    Int32,
    /// `Int64Array`.
    Int64,
    /// `UInt32Array`; series ids.
    UInt32,
    /// `UInt64Array`.
    UInt64,
    /// `Float32Array`.
    Float32,
    /// `Float64Array`.
    Float64,
    /// `Decimal128Array`.
    Decimal {
        /// Digits in all, at most 38.
        precision: u8,
        /// Digits after the point.
        scale: i8,
    },
    /// `StringArray`.
    String,
    /// `BinaryArray`.
    Binary,
    /// `Date32Array`, days since 1970.
    Date,
    /// `TimestampNanosecondArray` without a zone.
    Timestamp,
}

impl ColumnType {
    /// The Arrow type its values have across the contract.
    pub fn data_type(self) -> DataType {
        match self {
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Int8 => DataType::Int8,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::UInt32 => DataType::UInt32,
            ColumnType::UInt64 => DataType::UInt64,
            ColumnType::Float32 => DataType::Float32,
            ColumnType::Float64 => DataType::Float64,
            ColumnType::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnType::String => DataType::Utf8,
            ColumnType::Binary => DataType::Binary,
            ColumnType::Date => DataType::Date32,
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }

    /// Whether a key may hold it: everything but floats.
    pub fn can_be_key(self) -> bool {
        !matches!(self, ColumnType::Float32 | ColumnType::Float64)
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Its id, unique in the table for ever.
    pub id: ColumnId,
    /// Its name. Names may repeat with different types (a field of a measurement).
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// Whether a row may lack it. Key columns are never nullable.
    pub nullable: bool,
}

/// How the rows of a table are divided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partitioning {
    /// Hash partitions by key columns: (columns, number of buckets). A store on one machine may keep
    /// all buckets together.
    pub hash: Vec<(Vec<ColumnId>, u32)>,
    /// Ranges of the timestamp key column, created as rows arrive, each this wide, ns; aligned by
    /// [`window_of_width`]. Changing the width touches new ranges only.
    pub time_width_ns: Option<i64>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Its name, unique in the store.
    pub name: String,
    /// Its columns by id, no id twice.
    pub columns: Vec<ColumnSchema>,
    /// Its primary key, in the order rows are kept.
    pub key: Vec<ColumnId>,
    /// Its partitions.
    pub partitioning: Partitioning,
}

/// The series column of a measurement's table.
pub const SERIES_COLUMN: ColumnId = ColumnId(0);
/// The time column of a measurement's table.
pub const TIME_COLUMN: ColumnId = ColumnId(1);

impl TableSchema {
    /// The table of a measurement: key `(series, time)`, ranges of `shard_width_ns`; fields are added later.
    pub fn measurement(name: impl Into<String>, shard_width_ns: i64) -> Self {
        let key_column = |id, name: &str, column_type| ColumnSchema {
            id,
            name: name.into(),
            column_type,
            nullable: false,
        };
        Self {
            name: name.into(),
            columns: vec![
                key_column(SERIES_COLUMN, "series", ColumnType::UInt32),
                key_column(TIME_COLUMN, "time", ColumnType::Timestamp),
            ],
            key: vec![SERIES_COLUMN, TIME_COLUMN],
            partitioning: Partitioning { hash: Vec::new(), time_width_ns: Some(shard_width_ns) },
        }
    }

    /// Whether the key is `(series UInt32, time Timestamp)`: the layout stores have a fast path for.
    pub fn is_series_keyed(&self) -> bool {
        let types = self.key.iter().filter_map(|id| self.column(*id)).map(|c| c.column_type);
        types.eq([ColumnType::UInt32, ColumnType::Timestamp])
    }

    /// The column with this id.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnSchema> {
        // Ids are given in order, so the position is the id unless columns were dropped.
        match self.columns.get(id.0 as usize) {
            Some(column) if column.id == id => Some(column),
            _ => {
                let found = self.columns.binary_search_by_key(&id, |column| column.id);
                found.ok().map(|position| &self.columns[position])
            }
        }
    }

    /// Whether the column is part of the key.
    pub fn is_key(&self, id: ColumnId) -> bool {
        self.key.contains(&id)
    }

    /// The id the next new column gets, given the largest id ever used is among `columns` or below `floor`.
    pub fn next_column_id(&self, floor: ColumnId) -> ColumnId {
        let next = self.columns.last().map_or(0, |column| column.id.0 + 1);
        ColumnId(next.max(floor.0))
    }

    /// The range partition that holds `time_ns` when a new one has to be made for it.
    pub fn partition_of(&self, time_ns: i64) -> TimeRange {
        match self.partitioning.time_width_ns {
            Some(width_ns) => window_of_width(partition_time(time_ns), width_ns),
            None => TimeRange::ALL,
        }
    }

    /// Its name as people know it: parts of a name that zero bytes separate are shown with points between them.
    pub fn shown_name(&self) -> String {
        format!("{:?}", self.name.replace('\0', "."))
    }

    /// Applies alterations, the first one first; `is_taken` says whether a table of the store has a name. Takes as
    /// long as there are columns and alterations. After an error the schema is of no use.
    pub fn alter(
        &mut self,
        alterations: impl IntoIterator<Item = Alteration>,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let table = self.shown_name();
        let find = |schema: &Self, id: ColumnId| {
            let found = schema.columns.binary_search_by_key(&id, |column| column.id);
            found.map_err(|_| Error::missing(format!("table {table} has no column {id}")))
        };
        for alteration in alterations {
            match alteration {
                Alteration::AddColumn { id, name, column_type } => {
                    match self.columns.binary_search_by_key(&id, |column| column.id) {
                        Ok(_) => return Err(Error::conflict(format!("table {table} has a column {id}"))),
                        Err(place) => {
                            let column = ColumnSchema { id, name, column_type, nullable: true };
                            self.columns.insert(place, column);
                        }
                    }
                }
                Alteration::DropColumn(id) if self.is_key(id) => {
                    return Err(Error::invalid(format!("table {table}: column {id} is part of the key")));
                }
                Alteration::DropColumn(id) => drop(self.columns.remove(find(self, id)?)),
                Alteration::RenameColumn(id, name) => {
                    let position = find(self, id)?;
                    self.columns[position].name = name;
                }
                Alteration::Rename(name) if is_taken(&name) => {
                    return Err(Error::conflict(format!("table {name:?} exists")));
                }
                Alteration::Rename(name) => self.name = name,
                Alteration::SetPartitionWidth(width_ns) => self.partitioning.time_width_ns = Some(width_ns),
            }
        }
        self.validate()
    }

    /// Checks what a store may rely on: columns by id, known key columns of key types, not nullable.
    pub fn validate(&self) -> Result<()> {
        let fail = |words: String| Err(Error::invalid(format!("table {}: {words}", self.shown_name())));
        if self.key.is_empty() {
            return fail("a primary key is needed".into());
        }
        if let Some(pair) = self.columns.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            return fail(format!("column {} comes before column {}", pair[0].id, pair[1].id));
        }
        for id in &self.key {
            match self.column(*id) {
                None => return fail(format!("key column {id} does not exist")),
                Some(column) if column.nullable => {
                    return fail(format!("key column {:?} is nullable", column.name));
                }
                Some(column) if !column.column_type.can_be_key() => {
                    return fail(format!("key column {:?} has a float type", column.name));
                }
                Some(_) => {}
            }
        }
        let has_time_key = self
            .key
            .iter()
            .any(|id| self.column(*id).is_some_and(|c| c.column_type == ColumnType::Timestamp));
        match self.partitioning.time_width_ns {
            Some(width_ns) if width_ns <= 0 => fail("partition width must be positive".into()),
            Some(_) if !has_time_key => fail("range partitions need a timestamp key column".into()),
            _ => Ok(()),
        }
    }
}
