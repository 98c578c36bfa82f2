//! A table of the naive store.

use super::super::{
    Alteration, Atomicity, Delete, KeyCondition, Operation, PartitionInfo, Predicate, RowPosition,
    RowSelection, Update, Upsert, WriteOutcome,
};
use crate::arrays::value_at;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, SeriesId};
use crate::schema::{KeySpan, Ranges, TableSchema};
use crate::time::{TimeRange, partition_time};
use crate::value::Value;
use arrow_array::ArrayRef;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

pub(super) type Key = Vec<Value>;
pub(super) type Row = BTreeMap<ColumnId, Value>;

#[derive(Clone)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    /// Every write makes a new row, even if the values are the same.
    pub(super) rows: BTreeMap<Key, Arc<Row>>,
    /// The number of alterations after which staged rows are no longer valid.
    pub(super) alterations: u64,
}

impl Table {
    pub(super) fn new(schema: TableSchema) -> Self {
        Self { schema: Arc::new(schema), rows: BTreeMap::new(), alterations: 0 }
    }

    /// Applies an operation of a batch; `number` is its index. Adds the keys that it writes or deletes to `touched`.
    pub(super) fn apply(
        &mut self,
        number: usize,
        operation: &Operation,
        atomicity: Atomicity,
        outcome: &mut WriteOutcome,
        touched: &mut BTreeSet<Key>,
    ) -> Result<()> {
        let leaves_out = operation.ignores() || atomicity == Atomicity::Row;
        let key_arrays = self.key_arrays(operation);
        for row in 0..operation.rows() {
            let key: Key = key_arrays.iter().filter_map(|array| value_at(array, row)).collect();
            let demand = operation.condition();
            let exists = self.rows.contains_key(&key);
            if demand.is_some_and(|demand| exists != (demand == KeyCondition::Present)) {
                if !leaves_out {
                    let words = if exists { "exists" } else { "does not exist" };
                    return Err(Error::conflict(format!("key {key:?} {words}")));
                }
                outcome.conflicts.push(RowPosition { operation: number, row });
                continue;
            }
            outcome.affected += 1;
            touched.insert(key.clone());
            match operation {
                Operation::DeleteKeys { .. } => drop(self.rows.remove(&key)),
                Operation::Upsert(upsert) => self.put(upsert, row, key, !exists)?,
            }
        }
        Ok(())
    }

    fn key_arrays(&self, operation: &Operation) -> Vec<ArrayRef> {
        match operation {
            Operation::Upsert(upsert) => {
                let columns = self.schema.key.iter().filter_map(|id| upsert.column(*id));
                columns.map(|cells| cells.values.clone()).collect()
            }
            Operation::DeleteKeys { keys, .. } => keys.clone(),
        }
    }

    fn put(&mut self, upsert: &Upsert, row: usize, key: Key, comes_into_being: bool) -> Result<()> {
        self.check_range(&key)?;
        let schema = self.schema.clone();
        let mut cells = self.rows.get(&key).map(|row| Row::clone(row)).unwrap_or_default();
        if comes_into_being {
            let defaults =
                schema.columns_of_new_rows().filter_map(|column| Some((column.id, column.default.clone()?)));
            cells.extend(defaults);
        }
        for column in upsert.columns.iter().filter(|column| !schema.is_key(column.column)) {
            if let Some(value) = value_at(&column.values, row) {
                cells.insert(column.column, value);
            } else if column.null_cells.as_ref().is_some_and(|nulls| nulls.value(row)) {
                cells.remove(&column.column);
            }
        }
        self.rows.insert(key, Arc::new(cells));
        Ok(())
    }

    /// Rejects a key that lies in no range.
    fn check_range(&self, key: &Key) -> Result<()> {
        match self.schema.partitioning.ranges {
            Ranges::Keys { .. } if self.span_of(key).is_none() => Err(Error::missing(format!(
                "no range of table {} holds {:?}",
                self.schema.shown_name(),
                self.range_values(key)
            ))),
            _ => Ok(()),
        }
    }

    /// The range that contains a key.
    pub(super) fn span_of(&self, key: &Key) -> Option<&KeySpan> {
        let Ranges::Keys { spans, .. } = &self.schema.partitioning.ranges else { return None };
        let values = self.range_values(key);
        spans.iter().find(|span| span.contains(&values))
    }

    /// The values of the columns that ranges are about.
    fn range_values(&self, key: &Key) -> Vec<Value> {
        let Ranges::Keys { columns, .. } = &self.schema.partitioning.ranges else { return Vec::new() };
        let places = columns.iter().filter_map(|id| self.schema.key.iter().position(|other| other == id));
        places.map(|place| key[place].clone()).collect()
    }

    /// Changes the rows as an alteration requires, before the schema is changed.
    pub(super) fn alter_rows(&mut self, alteration: &Alteration) -> Result<()> {
        match alteration {
            Alteration::AddColumn(column) => {
                if let Some(default) = &column.default {
                    let id = self.schema.next_column;
                    for row in self.rows.values_mut() {
                        Arc::make_mut(row).insert(id, default.clone());
                    }
                }
            }
            Alteration::DropColumn(id) => {
                self.rows.values_mut().for_each(|row| drop(Arc::make_mut(row).remove(id)));
            }
            Alteration::SetNullable(id, false)
                if !self.schema.is_key(*id) && self.rows.values().any(|row| !row.contains_key(id)) =>
            {
                return Err(Error::conflict(format!("rows of column {id} are NULL")));
            }
            Alteration::DropRange(span) => {
                let inside: Vec<Key> =
                    self.rows.keys().filter(|key| span.contains(&self.range_values(key))).cloned().collect();
                inside.iter().for_each(|key| drop(self.rows.remove(key)));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, delete: &Delete) {
        for key in self.keys(&delete.rows, &delete.predicates) {
            self.rows.remove(&key);
        }
    }

    /// Returns the number of rows.
    pub(super) fn update(&mut self, update: &Update) -> u64 {
        let keys = self.keys(&update.rows, &update.predicates);
        for key in &keys {
            let mut row = self.rows.get(key).map(|row| Row::clone(row)).unwrap_or_default();
            for (column, value) in &update.assignments {
                match value {
                    Some(value) => drop(row.insert(*column, value.clone())),
                    None => drop(row.remove(column)),
                }
            }
            self.rows.insert(key.clone(), Arc::new(row));
        }
        keys.len() as u64
    }

    fn keys(&self, selection: &RowSelection, predicates: &[Predicate]) -> Vec<Key> {
        self.select(selection, predicates).into_iter().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn drop_partitions(&mut self, range: TimeRange) -> Vec<PartitionInfo> {
        let mut dropped = self.partitions();
        dropped.retain(|info| range.covers(info.range));
        let is_dropped = |key: &Key| {
            let time_ns = partition_time(self.time_of(key).unwrap_or(0));
            dropped.iter().any(|info| info.range.contains(time_ns))
        };
        let gone: Vec<Key> = self.rows.keys().filter(|key| is_dropped(key)).cloned().collect();
        gone.iter().for_each(|key| drop(self.rows.remove(key)));
        dropped
    }

    pub(super) fn partitions(&self) -> Vec<PartitionInfo> {
        let info = |range, keys, rows| PartitionInfo {
            id: 0,
            range,
            keys,
            rows: Some(rows),
            disk_bytes: 0,
            memory_bytes: 0,
        };
        let mut partitions = Vec::new();
        if let Ranges::Keys { spans, .. } = &self.schema.partitioning.ranges {
            let rows = |span: &KeySpan| {
                self.rows.keys().filter(|key| span.contains(&self.range_values(key))).count() as u64
            };
            partitions.extend(spans.iter().map(|span| info(TimeRange::ALL, Some(span.clone()), rows(span))));
        } else {
            let mut rows_by_range: BTreeMap<(i64, i64), u64> = BTreeMap::new();
            for key in self.rows.keys() {
                let range = self.schema.partition_of(self.time_of(key).unwrap_or(0));
                *rows_by_range.entry((range.start_ns, range.end_ns)).or_default() += 1;
            }
            let ranges = rows_by_range.into_iter();
            partitions
                .extend(ranges.map(|((start, end), rows)| info(TimeRange::new(start, end), None, rows)));
        }
        partitions.iter_mut().zip(0..).for_each(|(info, id)| info.id = id);
        partitions
    }

    pub(super) fn cell<'a>(&self, key: &'a Key, row: &'a Row, column: ColumnId) -> Option<&'a Value> {
        match self.schema.key.iter().position(|id| *id == column) {
            Some(position) => key.get(position),
            None => row.get(&column),
        }
    }

    pub(super) fn select(&self, selection: &RowSelection, predicates: &[Predicate]) -> Vec<(&Key, &Row)> {
        self.rows
            .iter()
            .map(|(key, row)| (key, &**row))
            .filter(|(key, _)| selects(selection, key))
            .filter(|(key, row)| predicates.iter().all(|p| p.comparison.holds(self.cell(key, row, p.column))))
            .collect()
    }

    pub(super) fn time_of(&self, key: &Key) -> Option<i64> {
        match key.get(self.schema.time_key()?) {
            Some(Value::Int(time_ns)) => Some(*time_ns),
            _ => None,
        }
    }
}

fn selects(selection: &RowSelection, key: &Key) -> bool {
    match selection {
        RowSelection::All => true,
        RowSelection::Keys { start, end } => {
            let prefix = |bound: &Key| key[..bound.len().min(key.len())].cmp(bound);
            let after_start = match start {
                Bound::Unbounded => true,
                Bound::Included(bound) => prefix(bound).is_ge(),
                Bound::Excluded(bound) => prefix(bound).is_gt(),
            };
            let before_end = match end {
                Bound::Unbounded => true,
                Bound::Included(bound) => prefix(bound).is_le(),
                Bound::Excluded(bound) => prefix(bound).is_lt(),
            };
            after_start && before_end
        }
        RowSelection::Series { series, time } => match key.as_slice() {
            [Value::UInt(id), Value::Int(time_ns)] => {
                series.contains(SeriesId(*id as u32)) && time.contains(*time_ns)
            }
            _ => false,
        },
    }
}
