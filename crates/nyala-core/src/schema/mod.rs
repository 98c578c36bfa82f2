//! Tables: typed columns, a unique primary key, partitions.

mod alteration;

pub use crate::column_type::ColumnType;
pub use alteration::Alteration;

use crate::arrays::array_of_values;
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::time::{TimeRange, partition_time, window_of_width};
use crate::value::Value;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Its id. It is never used again in the table.
    pub id: ColumnId,
    /// Its name. Names may repeat with different types (a field of a measurement).
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// Whether a row may lack it. Key columns are never nullable.
    pub nullable: bool,
    /// The value in a row that is created by a write that does not name the column; NULL if there is none. Key columns
    /// have no default.
    pub default: Option<Value>,
    /// Hidden from users: query languages neither list it nor include it in `*`.
    pub hidden: bool,
    /// How it is stored.
    pub encoding: Encoding,
}

/// What the encoding of a column is optimised for. The store chooses the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As configured for the store.
    #[default]
    Automatic,
    /// Fast to read.
    Speed,
    /// Small.
    Size,
}

/// What a table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Points of series. The key is `(series UInt32, time Timestamp)`. The store returns series as runs, can scan in
    /// order of time, and computes aggregates. Cells may always be absent.
    Series,
    /// Rows under any key.
    Keyed,
}

/// How the rows of a table are partitioned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partitioning {
    /// Hash partitions by key columns: (columns, number of buckets). A store on one machine may keep all buckets
    /// together.
    pub hash: Vec<(Vec<ColumnId>, u32)>,
    /// Range partitions.
    pub ranges: Ranges,
}

/// Which range partitions a table has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ranges {
    /// One partition that holds everything.
    #[default]
    One,
    /// By the first timestamp column of the key. Partitions are created as rows arrive.
    Time {
        /// The width of each, ns, aligned by [`window_of_width`]. Changing the width affects new partitions only.
        width_ns: i64,
    },
    /// By key columns. [`Alteration`]s create and drop the partitions. A batch is rejected as missing if one of its
    /// rows would be created or changed by its key and lies in no partition. Deletions and changes by condition find no
    /// rows there.
    Keys {
        /// The columns.
        columns: Vec<ColumnId>,
        /// The ranges, ascending; none overlaps another.
        spans: Vec<KeySpan>,
    },
}

/// A range of keys, given by values of the partition columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpan {
    /// The first values inside; unbounded if missing.
    pub start: Option<Vec<Value>>,
    /// The first values behind the range; unbounded if missing.
    pub end: Option<Vec<Value>>,
}

impl KeySpan {
    /// Whether values of the columns are inside.
    pub fn contains(&self, values: &[Value]) -> bool {
        self.start.as_ref().is_none_or(|start| start[..] <= *values)
            && self.end.as_ref().is_none_or(|end| *values < end[..])
    }

    /// Whether all of it lies before all of `other`.
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
    /// The id of the next column. No column ever had this id or a larger one.
    pub next_column: ColumnId,
    /// The columns of its primary key, in sort order.
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

    /// The same column, not nullable.
    #[must_use]
    pub fn required(self) -> Self {
        Self { nullable: false, ..self }
    }

    /// Whether a write that leaves the column out must know if the row exists.
    fn is_demanding(&self) -> bool {
        !self.nullable || self.default.is_some()
    }
}

impl Partitioning {
    /// Range partitions of time, all of one width.
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

/// Logs count the columns of a key in a byte.
const KEY_COLUMNS_MAX: usize = u8::MAX as usize;

impl TableSchema {
    /// The table of a measurement: key `(series, time)`, partitions of `shard_width_ns`. Fields are added later.
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

    /// A table of rows under any key, with one partition.
    pub fn keyed(name: impl Into<String>, columns: Vec<ColumnSchema>, key: Vec<ColumnId>) -> Self {
        let next_column = ColumnId(columns.iter().map(|column| column.id.0 + 1).max().unwrap_or(0));
        let (name, kind, partitioning) = (name.into(), TableKind::Keyed, Partitioning::default());
        Self { name, kind, columns, next_column, key, partitioning }
    }

    /// Whether its rows are points of series.
    pub fn is_series_keyed(&self) -> bool {
        self.kind == TableKind::Series
    }

    /// Whether the key is `(series UInt32, time Timestamp)`, as a table of series needs.
    pub fn has_series_key(&self) -> bool {
        let types = self.key.iter().filter_map(|id| self.column(*id)).map(|c| c.column_type);
        types.eq([ColumnType::UInt32, ColumnType::Timestamp])
    }

    /// The columns outside the key that every new row must have or gets by default.
    pub fn columns_of_new_rows(&self) -> impl Iterator<Item = &ColumnSchema> {
        // Tables of series may be wide, and have no such columns.
        let columns = if self.is_series_keyed() { &[] } else { &self.columns[..] };
        columns.iter().filter(|column| column.is_demanding() && !self.is_key(column.id))
    }

    /// The column with this id.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnSchema> {
        // Ids ascend, so a column's position is its id unless columns were dropped.
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

    /// The range partition to create for `time_ns`.
    pub fn partition_of(&self, time_ns: i64) -> TimeRange {
        match self.partitioning.time_width_ns() {
            Some(width_ns) => window_of_width(partition_time(time_ns), width_ns),
            None => TimeRange::ALL,
        }
    }

    /// The range partition to create for a time that none holds: cut where its neighbours end and begin.
    pub fn partition_between(
        &self,
        before: Option<TimeRange>,
        time_ns: i64,
        after: Option<TimeRange>,
    ) -> TimeRange {
        let range = self.partition_of(time_ns);
        TimeRange {
            start_ns: before.map_or(range.start_ns, |before| range.start_ns.max(before.end_ns)),
            end_ns: after.map_or(range.end_ns, |after| range.end_ns.min(after.start_ns)),
        }
    }

    /// The position in the key of its first timestamp, by which the table can be divided.
    pub fn time_key(&self) -> Option<usize> {
        let is_time = |id| self.column(id).is_some_and(|column| column.column_type == ColumnType::Timestamp);
        self.key.iter().position(|id| is_time(*id))
    }

    /// Its name as users know it: the parts of a name are separated by zero bytes, which are shown as dots.
    pub fn shown_name(&self) -> String {
        format!("{:?}", self.name.replace('\0', "."))
    }

    /// Checks what a store relies on: columns sorted by id, existing key columns that are not nullable and have key
    /// types, defaults of the columns' types, ranges of key columns.
    pub fn validate(&self) -> Result<()> {
        let fail = |words: String| Err(Error::invalid(format!("table {}: {words}", self.shown_name())));
        if self.key.is_empty() {
            return fail("a primary key is needed".into());
        }
        if self.key.len() > KEY_COLUMNS_MAX {
            return fail(format!(
                "a primary key has {KEY_COLUMNS_MAX} columns at most, not {}",
                self.key.len()
            ));
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
        if self.partitioning.hash.iter().any(|(columns, buckets)| {
            *buckets < 2 || columns.is_empty() || columns.iter().any(|id| !self.is_key(*id))
        }) {
            return fail("hash partitions are two at least, of key columns");
        }
        match &self.partitioning.ranges {
            Ranges::One => Ok(()),
            Ranges::Time { width_ns } if *width_ns <= 0 => fail("partition width must be positive"),
            Ranges::Time { .. } if self.time_key().is_none() => {
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
