//! Random tables, values and batches. There are few distinct keys, so that operations meet.

use super::super::{
    CellColumn, DeleteMode, KeyBound, Operation, RowSelection, SeriesSet, Upsert, WriteBatch, WriteMode,
};
use crate::arrays::array_of_values;
use crate::ids::{ColumnId, SeriesId, TableId};
use crate::schema::{ColumnSchema, ColumnType, Encoding, KeySpan, Partitioning, Ranges, TableSchema};
use crate::time::{MAX_TIME_NS, MIN_TIME_NS, TimeRange};
use crate::value::Value;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::ops::Bound;

/// Types of columns outside keys.
const TYPES: [ColumnType; 14] = [
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::String,
    ColumnType::Bool,
    ColumnType::UInt64,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::UInt32,
    ColumnType::Float32,
    ColumnType::Decimal { precision: 12, scale: 3 },
    ColumnType::Binary,
    ColumnType::Date,
    ColumnType::Timestamp,
];
/// Times at which ranges end. The last one is not a valid time in a table of series.
const ENDS_NS: [i64; 6] = [i64::MIN, MIN_TIME_NS, MIN_TIME_NS + 1, MAX_TIME_NS - 1, MAX_TIME_NS, i64::MAX];
/// Most times are below this, ns.
pub(super) const TIME_SPAN_NS: i64 = 4000;
/// Most series are below this.
pub(super) const SERIES: u64 = 7;
const TABLES_MAX: usize = 5;
/// How many keys of a table are remembered, to be written again.
const WRITTEN_KEYS: usize = 16;

/// A table in both stores.
#[derive(Debug, Clone)]
pub struct KnownTable {
    /// Its id in the store under test.
    pub subject: TableId,
    /// Its id in the naive store.
    pub model: TableId,
    /// Its schema now.
    pub schema: TableSchema,
    /// Whether its partition width was changed. Its partitions can no longer be compared then.
    pub(super) width_changed: bool,
}

/// The source of operations. It knows the tables that they created.
#[derive(Debug)]
pub struct Generator {
    random: SmallRng,
    pub(super) tables: Vec<KnownTable>,
    pub(super) names: u64,
    /// Dropped tables, kept to check that they stay dropped.
    pub(super) dropped: Vec<(TableId, TableId)>,
    /// The time at which in-order writes to a table continue, ns.
    clock_ns: i64,
    /// Some of the keys that were written last, by table of the naive store.
    written: HashMap<TableId, Vec<Vec<Value>>>,
}

impl Generator {
    /// A generator whose operations depend only on the seed and the outcomes.
    pub fn new(seed: u64) -> Self {
        Self::beside_others(seed, 0)
    }

    /// One of several generators for one store. Each number has its own table names.
    pub fn beside_others(seed: u64, number: u64) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed),
            tables: Vec::new(),
            names: number << 32,
            dropped: Vec::new(),
            clock_ns: 0,
            written: HashMap::new(),
        }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.random.random_range(0..end)
    }

    /// True with a chance of one in `times`.
    pub fn chance(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// The tables' ids in both stores.
    pub fn table_ids(&self) -> Vec<(TableId, TableId)> {
        let live = self.tables.iter().map(|table| (table.subject, table.model));
        live.chain(self.dropped.iter().copied()).collect()
    }

    /// A random table.
    pub fn any_table(&mut self) -> Option<KnownTable> {
        if self.tables.is_empty() {
            return None;
        }
        let at = self.below(self.tables.len() as u64) as usize;
        Some(self.tables[at].clone())
    }

    /// Whether another table may be created.
    pub(super) fn wants_table(&mut self) -> bool {
        self.tables.len() < 2 || (self.tables.len() < TABLES_MAX && self.chance(15))
    }

    pub(super) fn new_table(&mut self) -> TableSchema {
        self.names += 1;
        let name = format!("table {}", self.names);
        if self.tables.is_empty() || self.chance(2) {
            let widths_ns = [300, 1000, TIME_SPAN_NS * 2];
            let mut schema = TableSchema::measurement(name, widths_ns[self.below(3) as usize]);
            // Ids far apart, as if many columns had been dropped: a store may keep such columns in different places.
            let step = if self.chance(3) { 130 } else { 1 };
            for number in 0..2 + self.below(4) {
                let (id, column_type) = (ColumnId(2 + (number * step) as u32), self.column_type());
                schema.columns.push(ColumnSchema::new(id, format!("column {id}"), column_type));
                schema.next_column = ColumnId(id.0 + 1);
            }
            return schema;
        }
        let key_types: Vec<ColumnType> = TYPES.into_iter().filter(|each| each.can_be_key()).collect();
        let mut columns = Vec::new();
        let keys = 1 + self.below(3) as usize;
        for id in 0..keys {
            let column_type = key_types[self.below(key_types.len() as u64) as usize];
            columns.push(ColumnSchema::new(ColumnId(id as u32), format!("key {id}"), column_type).required());
        }
        for id in keys as u64..keys as u64 + self.below(5) {
            columns.push(self.new_column(ColumnId(id as u32)));
        }
        let key: Vec<_> = (0..keys as u32).map(ColumnId).collect();
        let has_time = columns[..keys].iter().any(|column| column.column_type == ColumnType::Timestamp);
        let ranges = match self.below(6) {
            0..3 if has_time => Ranges::Time { width_ns: 700 },
            3 => {
                let column = &columns[self.below(keys as u64) as usize];
                let (id, column_type) = (column.id, column.column_type);
                let mut bounds: Vec<_> = (0..self.below(4)).map(|_| self.value(column_type)).collect();
                bounds.sort();
                bounds.dedup();
                let span = |pair: &[Value]| KeySpan {
                    start: Some(vec![pair[0].clone()]),
                    end: Some(vec![pair[1].clone()]),
                };
                Ranges::Keys { columns: vec![id], spans: bounds.windows(2).map(span).collect() }
            }
            _ => Ranges::One,
        };
        let hash = if self.chance(4) { vec![(key.clone(), 3)] } else { Vec::new() };
        TableSchema { partitioning: Partitioning { hash, ranges }, ..TableSchema::keyed(name, columns, key) }
    }

    /// A column outside the key of a keyed table.
    pub(super) fn new_column(&mut self, id: ColumnId) -> ColumnSchema {
        let column_type = self.column_type();
        ColumnSchema {
            nullable: !self.chance(8),
            default: self.chance(6).then(|| self.value(column_type)),
            hidden: self.chance(8),
            encoding: [Encoding::Automatic, Encoding::Speed, Encoding::Size][self.below(3) as usize],
            ..ColumnSchema::new(id, format!("column {id}"), column_type)
        }
    }

    /// A range of keys of a table that is partitioned by such ranges. For other tables it means nothing.
    pub(super) fn key_span(&mut self, schema: &TableSchema) -> KeySpan {
        let Ranges::Keys { columns, spans } = &schema.partitioning.ranges else {
            return KeySpan { start: None, end: None };
        };
        if !spans.is_empty() && self.chance(2) {
            return spans[self.below(spans.len() as u64) as usize].clone();
        }
        let column_type = schema.column(columns[0]).expect("the key's columns exist").column_type;
        let mut bound = |unbounded| (!self.chance(unbounded)).then(|| vec![self.value(column_type)]);
        KeySpan { start: bound(8), end: bound(8) }
    }

    pub(super) fn column_type(&mut self) -> ColumnType {
        // The first five types can be aggregated.
        let among = if self.chance(2) { 5 } else { TYPES.len() as u64 };
        TYPES[self.below(among) as usize]
    }

    /// A value of a type, one of few.
    pub(super) fn value(&mut self, column_type: ColumnType) -> Value {
        let small = self.below(40) as i64 - 10;
        let rare = self.chance(20);
        match column_type {
            ColumnType::Bool => Value::Bool(small > 5),
            ColumnType::Int8 => Value::Int(if rare { self.end(i8::MIN, i8::MAX).into() } else { small }),
            ColumnType::Int16 => Value::Int(if rare { self.end(i16::MIN, i16::MAX).into() } else { small }),
            ColumnType::Int32 | ColumnType::Date => {
                Value::Int(if rare { self.end(i32::MIN, i32::MAX).into() } else { small })
            }
            ColumnType::Int64 if self.chance(30) => Value::Int(self.end(i64::MIN, i64::MAX)),
            ColumnType::Int64 => Value::Int(if rare { i64::MAX - small.abs() } else { small }),
            ColumnType::UInt32 => Value::UInt(if rare { u32::MAX.into() } else { small.unsigned_abs() }),
            ColumnType::UInt64 => Value::UInt(if rare { u64::MAX } else { small.unsigned_abs() }),
            ColumnType::Float32 => Value::Float(f64::from(small as f32 / 4.0)),
            ColumnType::Float64 if rare => {
                let special = [f64::NAN, -0.0, f64::INFINITY, 1e300, 0.1 + 0.2];
                Value::Float(special[self.below(5) as usize])
            }
            ColumnType::Float64 => Value::Float(small as f64 * 0.1),
            ColumnType::Decimal { .. } => Value::Decimal(i128::from(small) * if rare { 1 << 30 } else { 1 }),
            ColumnType::String => Value::String(self.text()),
            ColumnType::Binary => Value::Binary(self.text().into_bytes()),
            ColumnType::Timestamp => Value::Int(self.time()),
        }
    }

    fn end<T>(&mut self, least: T, most: T) -> T {
        if self.chance(2) { least } else { most }
    }

    fn text(&mut self) -> String {
        let texts = ["", "a", "ab", "b\0", "b\0a", "ünï", "a longer text that goes on and on and on"];
        let text = texts[self.below(texts.len() as u64) as usize];
        if self.chance(10) { text.repeat(1 + self.below(20) as usize) } else { text.to_owned() }
    }

    /// A time, rarely far away.
    pub(super) fn time(&mut self) -> i64 {
        match self.below(60) {
            0 => -1,
            1 => -TIME_SPAN_NS * 3,
            2 => TIME_SPAN_NS * 1000,
            3 => ENDS_NS[self.below(ENDS_NS.len() as u64) as usize],
            _ => self.below(TIME_SPAN_NS as u64) as i64,
        }
    }

    pub(super) fn series(&mut self) -> u64 {
        if self.chance(50) { u64::from(u32::MAX) } else { self.below(SERIES) }
    }

    /// A range of times, sometimes all times or empty.
    pub fn time_range(&mut self) -> TimeRange {
        match self.below(10) {
            0..3 => TimeRange::ALL,
            3 => TimeRange::new(10, 10),
            _ => {
                let (start, end) = (self.time(), self.time());
                TimeRange::new(start.min(end), start.max(end).saturating_add(1))
            }
        }
    }

    /// A key of a table.
    pub(super) fn key(&mut self, schema: &TableSchema) -> Vec<Value> {
        if schema.is_series_keyed() {
            return vec![Value::UInt(self.series()), Value::Int(self.time())];
        }
        let types: Vec<_> =
            schema.key.iter().filter_map(|id| schema.column(*id)).map(|column| column.column_type).collect();
        types.into_iter().map(|column_type| self.value(column_type)).collect()
    }

    fn keys(&mut self, schema: &TableSchema) -> Vec<Vec<Value>> {
        if schema.is_series_keyed() && self.chance(3) {
            // As clients write: some series, at times that advance.
            let rows_max = if self.chance(8) { 900 } else { 20 };
            let (rows, series) = (1 + self.below(rows_max), 1 + self.below(SERIES));
            let step_ns = 1 + self.below(3) as i64;
            if self.chance(4) {
                self.clock_ns = self.below(TIME_SPAN_NS as u64) as i64;
            }
            let mut keys = Vec::new();
            for row in 0..rows {
                if row % series == 0 {
                    self.clock_ns = (self.clock_ns + step_ns) % TIME_SPAN_NS;
                }
                keys.push(vec![Value::UInt(row % series), Value::Int(self.clock_ns)]);
            }
            return keys;
        }
        let rows = self.below(12);
        (0..rows).map(|_| self.key(schema)).collect()
    }

    /// The keys of an operation, often keys that were written before.
    fn keys_for(&mut self, table: &KnownTable) -> Vec<Vec<Value>> {
        let mut written = self.written.remove(&table.model).unwrap_or_default();
        let keys = match written.is_empty() || !self.chance(3) {
            true => self.keys(&table.schema),
            false => {
                let count = self.below(8);
                (0..count).map(|_| written[self.below(written.len() as u64) as usize].clone()).collect()
            }
        };
        written.extend(keys.iter().take(4).cloned());
        written.drain(..written.len().saturating_sub(WRITTEN_KEYS));
        self.written.insert(table.model, written);
        keys
    }

    fn key_arrays(schema: &TableSchema, keys: &[Vec<Value>]) -> Vec<ArrayRef> {
        schema
            .key
            .iter()
            .enumerate()
            .map(|(position, id)| {
                let column_type = schema.column(*id).expect("the key's columns exist").column_type;
                let values: Vec<_> = keys.iter().map(|key| Some(&key[position])).collect();
                array_of_values(column_type, &values).expect("values fit their types")
            })
            .collect()
    }

    /// A batch for up to three tables. It names tables of the naive store.
    pub(super) fn batch(&mut self) -> Option<WriteBatch> {
        let mut operations = Vec::new();
        for _ in 0..1 + self.below(3) {
            let table = self.any_table()?;
            let schema = &table.schema;
            let keys = self.keys_for(&table);
            let key_arrays = Self::key_arrays(schema, &keys);
            if self.chance(8) {
                let mode = match self.below(6) {
                    0 => DeleteMode::Delete,
                    1 => DeleteMode::DeleteIgnore,
                    _ => DeleteMode::Blind,
                };
                operations.push(Operation::DeleteKeys { table: table.model, mode, keys: key_arrays });
                continue;
            }
            let mode = match self.below(20) {
                0 => WriteMode::Insert,
                1 => WriteMode::Update,
                2 | 3 => WriteMode::InsertIgnore,
                4 => WriteMode::UpdateIgnore,
                _ => WriteMode::Upsert,
            };
            let mut columns: Vec<CellColumn> = schema
                .key
                .iter()
                .zip(key_arrays)
                .map(|(column, values)| CellColumn { column: *column, values, null_cells: None })
                .collect();
            let gaps = self.chance(2);
            for column in schema.columns.iter().filter(|column| !schema.is_key(column.id)) {
                // Most of the time the required columns are present.
                if self.chance(if column.nullable { 4 } else { 20 }) {
                    continue;
                }
                let has_gaps = gaps && (column.nullable || self.chance(20));
                columns.push(self.cells(column, keys.len(), has_gaps));
            }
            operations.push(Operation::Upsert(Upsert { table: table.model, mode, columns }));
        }
        Some(WriteBatch { operations })
    }

    fn cells(&mut self, column: &ColumnSchema, rows: usize, gaps: bool) -> CellColumn {
        let mut nulls = vec![false; rows];
        let values: Vec<Option<Value>> = nulls
            .iter_mut()
            .map(|null| {
                let (absent, set_null) = (gaps && self.chance(4), gaps && self.chance(6));
                *null = set_null;
                (!absent && !set_null).then(|| self.value(column.column_type))
            })
            .collect();
        let values: Vec<_> = values.iter().map(Option::as_ref).collect();
        let null_cells = nulls.contains(&true).then(|| BooleanBuffer::from(nulls));
        let values = array_of_values(column.column_type, &values).expect("values fit their types");
        CellColumn { column: column.id, values, null_cells }
    }

    /// A random selection of rows.
    pub(super) fn selection(&mut self, schema: &TableSchema) -> RowSelection {
        match self.below(5) {
            0 => RowSelection::All,
            1 | 2 if schema.is_series_keyed() => {
                let time = self.time_range();
                RowSelection::Series { series: self.series_set(), time }
            }
            1 | 2 => {
                let key = Bound::Included(self.key(schema));
                RowSelection::Keys { start: key.clone(), end: key }
            }
            _ => RowSelection::Keys { start: self.bound(schema), end: self.bound(schema) },
        }
    }

    pub(super) fn series_set(&mut self) -> SeriesSet {
        if self.chance(3) {
            return SeriesSet::All;
        }
        let mut ids: Vec<SeriesId> = (0..self.below(5)).map(|_| SeriesId(self.series() as u32)).collect();
        ids.sort_unstable();
        ids.dedup();
        SeriesSet::Ids(ids.into())
    }

    fn bound(&mut self, schema: &TableSchema) -> KeyBound {
        let mut key = self.key(schema);
        if schema.is_series_keyed() && self.chance(30) {
            key[0] = Value::UInt(u64::from(u32::MAX) + self.below(2));
        }
        key.truncate(self.below(key.len() as u64 + 1) as usize);
        match self.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key),
            _ => Bound::Included(key),
        }
    }
}
