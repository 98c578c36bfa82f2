//! Tables: typed columns, a unique primary key, partitions.

use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::store::Alteration;
use crate::store::convert::array_of_values;
use crate::time::{TimeRange, partition_time, window_of_width};
use crate::value::Value;
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

    /// Whether every value of this type is one of `other`, too, and reads the same there.
    pub fn widens_to(self, other: ColumnType) -> bool {
        use ColumnType::{Decimal, Float32, Float64, Int8, Int16, Int32, Int64, UInt32, UInt64};
        match (self, other) {
            (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
            (UInt32, UInt64) | (Float32, Float64) => true,
            (Decimal { precision: from, scale }, Decimal { precision: to, scale: same }) => {
                scale == same && from < to
            }
            _ => false,
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
    /// What it is in a row that comes into being without a word of it; NULL otherwise. Not of key columns.
    pub default: Option<Value>,
    /// Kept from people: languages neither list it nor take it for `*`.
    pub hidden: bool,
    /// How it is stored.
    pub encoding: Encoding,
}

/// What the encoding of a column is chosen for; which one it becomes is the store's own affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As the store is set up.
    #[default]
    Automatic,
    /// Quick to read.
    Speed,
    /// Small.
    Size,
}

/// What a table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Points of series: the key is `(series UInt32, time Timestamp)`, series are read as runs, in an order of time, too,
    /// and aggregated by the store. Cells may always be absent.
    Series,
    /// Rows under any key.
    Keyed,
}

/// How the rows of a table are divided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partitioning {
    /// Hash partitions by key columns: (columns, number of buckets). A store on one machine may keep
    /// all buckets together.
    pub hash: Vec<(Vec<ColumnId>, u32)>,
    /// Range partitions.
    pub ranges: Ranges,
}

/// Which range partitions a table has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ranges {
    /// One that holds everything.
    #[default]
    One,
    /// Of the first timestamp column of the key, made as rows arrive.
    Time {
        /// Each this wide, ns; aligned by [`window_of_width`]. Changing the width touches new ranges only.
        width_ns: i64,
    },
    /// Of key columns, made and dropped by [`Alteration`]s. A row that would come into being or be changed by its key, and
    /// lies in none of them, is refused with its batch as missing; deletions and changes by condition find none there.
    Keys {
        /// The columns.
        columns: Vec<ColumnId>,
        /// The ranges, ascending; none overlaps another.
        spans: Vec<KeySpan>,
    },
}

/// A range of keys by values of the columns it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpan {
    /// The first values that are inside; unbounded when missing.
    pub start: Option<Vec<Value>>,
    /// The first values that are not; unbounded when missing.
    pub end: Option<Vec<Value>>,
}

impl KeySpan {
    /// Whether values of the columns are inside.
    pub fn contains(&self, values: &[Value]) -> bool {
        self.start.as_ref().is_none_or(|start| start[..] <= *values)
            && self.end.as_ref().is_none_or(|end| *values < end[..])
    }

    /// Whether nothing of it comes after `other`, nor the other way.
    fn is_before(&self, other: &Self) -> bool {
        matches!((&self.end, &other.start), (Some(end), Some(start)) if end <= start)
    }

    fn is_empty(&self) -> bool {
        matches!((&self.start, &self.end), (Some(start), Some(end)) if start >= end)
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Its name, unique in the store.
    pub name: String,
    /// What it is for.
    pub kind: TableKind,
    /// Its columns by id, no id twice.
    pub columns: Vec<ColumnSchema>,
    /// The id of the next column: no column ever had it, nor one above it.
    pub next_column: ColumnId,
    /// Its primary key, in the order rows are kept.
    pub key: Vec<ColumnId>,
    /// Its partitions.
    pub partitioning: Partitioning,
}

/// The series column of a measurement's table.
pub const SERIES_COLUMN: ColumnId = ColumnId(0);
/// The time column of a measurement's table.
pub const TIME_COLUMN: ColumnId = ColumnId(1);

impl ColumnSchema {
    /// A column that a row may lack, without a default.
    pub fn new(id: ColumnId, name: impl Into<String>, column_type: ColumnType) -> Self {
        Self {
            id,
            name: name.into(),
            column_type,
            nullable: true,
            default: None,
            hidden: false,
            encoding: Encoding::Automatic,
        }
    }

    /// The same column, which every row has.
    #[must_use]
    pub fn required(self) -> Self {
        Self { nullable: false, ..self }
    }

    /// Whether a write that leaves it out has to know if the row is there.
    fn is_demanding(&self) -> bool {
        !self.nullable || self.default.is_some()
    }
}

impl Partitioning {
    /// Ranges of time of one width.
    pub fn by_time(width_ns: i64) -> Self {
        Self { hash: Vec::new(), ranges: Ranges::Time { width_ns } }
    }

    /// The width of ranges of time, ns.
    pub fn time_width_ns(&self) -> Option<i64> {
        match self.ranges {
            Ranges::Time { width_ns } => Some(width_ns),
            _ => None,
        }
    }
}

impl TableSchema {
    /// The table of a measurement: key `(series, time)`, ranges of `shard_width_ns`; fields are added later.
    pub fn measurement(name: impl Into<String>, shard_width_ns: i64) -> Self {
        let columns = vec![
            ColumnSchema::new(SERIES_COLUMN, "series", ColumnType::UInt32).required(),
            ColumnSchema::new(TIME_COLUMN, "time", ColumnType::Timestamp).required(),
        ];
        Self {
            kind: TableKind::Series,
            partitioning: Partitioning::by_time(shard_width_ns),
            ..Self::keyed(name, columns, vec![SERIES_COLUMN, TIME_COLUMN])
        }
    }

    /// A table of rows under a key, undivided.
    pub fn keyed(name: impl Into<String>, columns: Vec<ColumnSchema>, key: Vec<ColumnId>) -> Self {
        let next_column = ColumnId(columns.iter().map(|column| column.id.0 + 1).max().unwrap_or(0));
        let (name, kind, partitioning) = (name.into(), TableKind::Keyed, Partitioning::default());
        Self { name, kind, columns, next_column, key, partitioning }
    }

    /// Whether its rows are points of series.
    pub fn is_series_keyed(&self) -> bool {
        self.kind == TableKind::Series
    }

    /// Whether the key is `(series UInt32, time Timestamp)`, as that of points has to be.
    pub fn has_series_key(&self) -> bool {
        let types = self.key.iter().filter_map(|id| self.column(*id)).map(|c| c.column_type);
        types.eq([ColumnType::UInt32, ColumnType::Timestamp])
    }

    /// The columns outside the key that a row which comes into being must have, or gets by default.
    pub fn demanding_columns(&self) -> impl Iterator<Item = &ColumnSchema> {
        // Tables of series may be wide, and have none.
        let columns = if self.is_series_keyed() { &[] } else { &self.columns[..] };
        columns.iter().filter(|column| column.is_demanding() && !self.is_key(column.id))
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

    /// The range partition that holds `time_ns` when a new one has to be made for it.
    pub fn partition_of(&self, time_ns: i64) -> TimeRange {
        match self.partitioning.time_width_ns() {
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
        alterations.into_iter().try_for_each(|alteration| self.apply(alteration, &is_taken))?;
        self.validate()
    }

    /// Applies an alteration, without a look at whether the schema is valid then.
    pub(crate) fn apply(&mut self, alteration: Alteration, is_taken: &dyn Fn(&str) -> bool) -> Result<()> {
        let table = self.shown_name();
        match alteration {
            Alteration::AddColumn(column) => {
                if !column.nullable && column.default.is_none() {
                    return Err(Error::invalid(format!(
                        "table {table}: the new column {:?} needs a default for the rows there are, or may be NULL",
                        column.name
                    )));
                }
                let id = self.next_column;
                self.next_column = ColumnId(id.0 + 1);
                // No column has a larger id.
                self.columns.push(ColumnSchema { id, ..column });
            }
            Alteration::DropColumn(id) if self.is_key(id) => {
                return Err(Error::invalid(format!("table {table}: column {id} is part of the key")));
            }
            Alteration::DropColumn(id) => {
                let place = self.place_of(id)?;
                self.columns.remove(place);
            }
            Alteration::RenameColumn(id, name) => self.column_mut(id)?.name = name,
            Alteration::SetDefault(id, default) => self.column_mut(id)?.default = default,
            Alteration::SetNullable(id, nullable) => self.column_mut(id)?.nullable = nullable,
            Alteration::SetEncoding(id, encoding) => self.column_mut(id)?.encoding = encoding,
            Alteration::SetHidden(id, hidden) => self.column_mut(id)?.hidden = hidden,
            Alteration::Widen(id, wider) => {
                let column = self.column_mut(id)?;
                if !column.column_type.widens_to(wider) {
                    return Err(Error::invalid(format!(
                        "table {table}, column {:?}: {:?} does not hold every {:?}",
                        column.name, wider, column.column_type
                    )));
                }
                column.column_type = wider;
            }
            Alteration::Rename(name) if is_taken(&name) => {
                return Err(Error::conflict(format!("table {name:?} exists")));
            }
            Alteration::Rename(name) => self.name = name,
            Alteration::SetPartitionWidth(width_ns) if self.partitioning.time_width_ns().is_some() => {
                self.partitioning.ranges = Ranges::Time { width_ns };
            }
            Alteration::SetPartitionWidth(_) => {
                return Err(Error::invalid(format!("table {table} is not divided by ranges of time")));
            }
            Alteration::AddRange(span) => {
                let spans = self.spans_mut()?;
                let place = spans.partition_point(|other| other.is_before(&span));
                if spans.get(place).is_some_and(|next| !span.is_before(next)) {
                    return Err(Error::conflict(format!("table {table}: the range {span:?} meets another")));
                }
                spans.insert(place, span);
            }
            Alteration::DropRange(span) => {
                let spans = self.spans_mut()?;
                let place = spans.iter().position(|other| *other == span);
                spans.remove(
                    place.ok_or_else(|| Error::missing(format!("table {table} has no range {span:?}")))?,
                );
            }
        }
        Ok(())
    }

    fn place_of(&self, id: ColumnId) -> Result<usize> {
        let found = self.columns.binary_search_by_key(&id, |column| column.id);
        found.map_err(|_| Error::missing(format!("table {} has no column {id}", self.shown_name())))
    }

    fn column_mut(&mut self, id: ColumnId) -> Result<&mut ColumnSchema> {
        let place = self.place_of(id)?;
        Ok(&mut self.columns[place])
    }

    fn spans_mut(&mut self) -> Result<&mut Vec<KeySpan>> {
        let table = self.shown_name();
        match &mut self.partitioning.ranges {
            Ranges::Keys { spans, .. } => Ok(spans),
            _ => Err(Error::invalid(format!("table {table} is not divided by ranges of keys"))),
        }
    }

    /// Checks what a store may rely on: columns by id, known key columns of key types, not nullable, defaults of the
    /// columns' types, ranges of the key.
    pub fn validate(&self) -> Result<()> {
        let fail = |words: String| Err(Error::invalid(format!("table {}: {words}", self.shown_name())));
        if self.key.is_empty() {
            return fail("a primary key is needed".into());
        }
        if let Some(pair) = self.columns.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            return fail(format!("column {} comes before column {}", pair[0].id, pair[1].id));
        }
        if self.columns.last().is_some_and(|column| column.id >= self.next_column) {
            return fail(format!("column {} is not before the next one", self.next_column));
        }
        for id in &self.key {
            match self.column(*id) {
                None => return fail(format!("key column {id} does not exist")),
                Some(column) if column.nullable => {
                    return fail(format!("key column {:?} is nullable", column.name));
                }
                Some(column) if column.default.is_some() => {
                    return fail(format!("key column {:?} has a default", column.name));
                }
                Some(column) if !column.column_type.can_be_key() => {
                    return fail(format!("key column {:?} has a float type", column.name));
                }
                Some(_) => {}
            }
        }
        let is_field = |column: &&ColumnSchema| !self.is_key(column.id);
        if self.is_series_keyed() {
            if !self.has_series_key() {
                return fail("points of series are keyed by (UInt32, Timestamp)".into());
            }
            if let Some(column) = self.columns.iter().filter(is_field).find(|column| column.is_demanding()) {
                return fail(format!("column {:?}: a point may lack any field", column.name));
            }
        }
        for column in &self.columns {
            if let ColumnType::Decimal { precision, scale } = column.column_type
                && (precision == 0 || precision > 38 || scale > precision as i8)
            {
                return fail(format!("column {:?}: a decimal has 1 to 38 digits", column.name));
            }
            if let Some(default) = &column.default {
                array_of_values(column.column_type, &[Some(default)])
                    .map_err(|error| error.context(format!("the default of column {:?}", column.name)))?;
            }
        }
        self.validate_ranges()
    }

    fn validate_ranges(&self) -> Result<()> {
        let fail = |words: &str| Err(Error::invalid(format!("table {}: {words}", self.shown_name())));
        let is_time =
            |id: &ColumnId| self.column(*id).is_some_and(|c| c.column_type == ColumnType::Timestamp);
        if self.partitioning.hash.iter().any(|(columns, buckets)| {
            *buckets < 2 || columns.is_empty() || columns.iter().any(|id| !self.is_key(*id))
        }) {
            return fail("hash partitions are two at least, of key columns");
        }
        match &self.partitioning.ranges {
            Ranges::One => Ok(()),
            Ranges::Time { width_ns } if *width_ns <= 0 => fail("partition width must be positive"),
            Ranges::Time { .. } if !self.key.iter().any(is_time) => {
                fail("range partitions need a timestamp key column")
            }
            Ranges::Time { .. } => Ok(()),
            Ranges::Keys { .. } if self.is_series_keyed() => fail("points are divided by ranges of time"),
            Ranges::Keys { columns, spans } => {
                let types: Vec<_> = columns.iter().filter(|id| self.is_key(**id)).collect();
                if columns.is_empty() || types.len() != columns.len() {
                    return fail("ranges are of key columns");
                }
                let fits = |values: &Vec<Value>| {
                    values.len() == columns.len()
                        && columns.iter().zip(values).all(|(id, value)| {
                            self.column(*id).is_some_and(|column| {
                                array_of_values(column.column_type, &[Some(value)]).is_ok()
                            })
                        })
                };
                let bounds = spans.iter().flat_map(|span| span.start.iter().chain(&span.end));
                if !bounds.into_iter().all(fits) {
                    return fail("a bound of a range has one value of each of its columns");
                }
                if spans.iter().any(KeySpan::is_empty) {
                    return fail("a range of keys is empty");
                }
                match spans.windows(2).all(|pair| pair[0].is_before(&pair[1])) {
                    true => Ok(()),
                    false => fail("ranges of keys overlap or are not in order"),
                }
            }
        }
    }
}
