//! The naive store: maps of maps in memory. Slow and obviously right, it judges the real stores.

use super::*;
use crate::error::{Error, ErrorKind};
use crate::ids::{ColumnId, SeriesId};
use crate::store::convert::{array_of_values, value_at};
use crate::time::partition_time;
use crate::value::Value;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

type Key = Vec<Value>;
type Row = BTreeMap<ColumnId, Value>;

/// A store that keeps everything in ordered maps and copies a table to change it.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<Arc<State>>,
}

#[derive(Clone, Default)]
struct State {
    sequence: u64,
    next_table: u32,
    tables: BTreeMap<TableId, Arc<Table>>,
}

#[derive(Clone)]
struct Table {
    schema: Arc<TableSchema>,
    rows: BTreeMap<Key, Row>,
}

struct MemorySnapshot {
    state: Arc<State>,
}

impl State {
    fn table(&self, id: TableId) -> Result<&Arc<Table>> {
        self.tables.get(&id).ok_or_else(|| Error::missing(format!("table {id}")))
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut Table> {
        self.tables.get_mut(&id).map(Arc::make_mut).ok_or_else(|| Error::missing(format!("table {id}")))
    }

    fn is_taken(&self, name: &str) -> bool {
        self.tables.values().any(|table| table.schema.name == name)
    }

    fn create(&mut self, schema: TableSchema) -> Result<TableId> {
        schema.validate()?;
        if self.is_taken(&schema.name) {
            return Err(Error::conflict(format!("table {} exists", schema.shown_name())));
        }
        let id = TableId(self.next_table);
        self.next_table += 1;
        self.tables.insert(id, Arc::new(Table { schema: Arc::new(schema), rows: BTreeMap::new() }));
        Ok(id)
    }

    fn alter(&mut self, id: TableId, alterations: Vec<Alteration>) -> Result<Arc<TableSchema>> {
        let mut schema = TableSchema::clone(&self.table(id)?.schema);
        for alteration in &alterations {
            if let Alteration::DropColumn(column) = alteration {
                self.table_mut(id)?.rows.values_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        schema.alter(alterations, |name| self.is_taken(name))?;
        let table = self.table_mut(id)?;
        table.schema = Arc::new(schema);
        Ok(table.schema.clone())
    }

    fn apply(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Upsert(upsert) => self.table_mut(upsert.table)?.upsert(upsert),
            Operation::DeleteKeys { table, keys } => {
                let table = self.table_mut(*table)?;
                for row in 0..keys.first().map_or(0, |array| array.len()) {
                    let key: Key = keys.iter().filter_map(|array| value_at(array, row)).collect();
                    table.rows.remove(&key);
                }
                Ok(())
            }
        }
    }
}

impl Table {
    fn upsert(&mut self, upsert: &Upsert) -> Result<()> {
        let schema = self.schema.clone();
        let key_columns: Vec<_> = schema.key.iter().filter_map(|id| upsert.column(*id)).collect();
        // The keys of one batch meet each other's demands too: a second insert of a key is a conflict.
        for row in 0..upsert.rows() {
            let key: Key = key_columns.iter().filter_map(|column| value_at(&column.values, row)).collect();
            match (upsert.mode, self.rows.contains_key(&key)) {
                (WriteMode::Insert, true) => return Err(Error::conflict(format!("key {key:?} exists"))),
                (WriteMode::Update, false) => {
                    return Err(Error::conflict(format!("key {key:?} does not exist")));
                }
                _ => {}
            }
            let cells = self.rows.entry(key).or_default();
            for column in upsert.columns.iter().filter(|column| !schema.is_key(column.column)) {
                if let Some(value) = value_at(&column.values, row) {
                    cells.insert(column.column, value);
                } else if column.null_cells.as_ref().is_some_and(|nulls| nulls.value(row)) {
                    cells.remove(&column.column);
                }
            }
        }
        Ok(())
    }

    fn cell<'a>(&self, key: &'a Key, row: &'a Row, column: ColumnId) -> Option<&'a Value> {
        match self.schema.key.iter().position(|id| *id == column) {
            Some(position) => key.get(position),
            None => row.get(&column),
        }
    }

    fn select(&self, selection: &RowSelection, predicates: &[Predicate]) -> Vec<(&Key, &Row)> {
        self.rows
            .iter()
            .filter(|(key, _)| selects(selection, key))
            .filter(|(key, row)| predicates.iter().all(|p| p.comparison.holds(self.cell(key, row, p.column))))
            .collect()
    }

    fn time_of(&self, key: &Key) -> Option<i64> {
        let position =
            self.schema.key.iter().position(|id| {
                self.schema.column(*id).is_some_and(|c| c.column_type == ColumnType::Timestamp)
            })?;
        match key.get(position) {
            Some(Value::Int(time_ns)) => Some(*time_ns),
            _ => None,
        }
    }

    fn partitions(&self) -> Vec<PartitionInfo> {
        let mut rows_by_range: BTreeMap<(i64, i64), u64> = BTreeMap::new();
        for key in self.rows.keys() {
            let range = self.schema.partition_of(self.time_of(key).unwrap_or(0));
            *rows_by_range.entry((range.start_ns, range.end_ns)).or_default() += 1;
        }
        rows_by_range
            .into_iter()
            .enumerate()
            .map(|(id, ((start_ns, end_ns), rows))| PartitionInfo {
                id: id as u64,
                range: TimeRange::new(start_ns, end_ns),
                rows,
                disk_bytes: 0,
                memory_bytes: 0,
            })
            .collect()
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

impl MemoryStore {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = State::clone(&guard);
        let answer = change(&mut state)?;
        state.sequence += 1;
        *guard = Arc::new(state);
        Ok(answer)
    }

    fn state(&self) -> Arc<State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic_batches: true,
            reverse_scans: true,
            range_deletes: true,
            aggregates: true,
            columns_max: usize::MAX,
        }
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        self.state().tables.iter().map(|(id, table)| (*id, table.schema.clone())).collect()
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.state().table(table)?.schema.clone())
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        self.change(|state| schemas.into_iter().map(|schema| state.create(schema)).collect())
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        self.change(|state| {
            changes.into_iter().map(|(id, alterations)| state.alter(id, alterations)).collect()
        })
    }

    async fn drop_tables(&self, tables: Vec<TableId>) -> Result<()> {
        self.change(|state| {
            tables.iter().try_for_each(|id| match state.tables.remove(id) {
                Some(_) => Ok(()),
                None => Err(Error::missing(format!("table {id}"))),
            })
        })
    }

    fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        Ok(self.state().table(table)?.partitions())
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        self.change(|state| {
            let table = state.table_mut(table)?;
            let dropped: Vec<_> =
                table.partitions().into_iter().filter(|info| range.covers(info.range)).collect();
            let keys: Vec<Key> = table
                .rows
                .keys()
                .filter(|key| {
                    let time_ns = partition_time(table.time_of(key).unwrap_or(0));
                    dropped.iter().any(|info| info.range.contains(time_ns))
                })
                .cloned()
                .collect();
            keys.iter().for_each(|key| drop(table.rows.remove(key)));
            Ok(dropped)
        })
    }

    async fn write(&self, batch: WriteBatch) -> Result<Sequence> {
        self.change(|state| {
            // What is wrong with a batch itself is said before what it meets.
            for operation in &batch.operations {
                if let Operation::Upsert(upsert) = operation {
                    let schema = &state.table(upsert.table)?.schema;
                    upsert.validate(schema)?;
                    upsert.check_times(schema)?;
                }
            }
            batch.operations.iter().try_for_each(|operation| state.apply(operation))?;
            Ok(Sequence(state.sequence + 1))
        })
    }

    async fn delete(&self, delete: Delete) -> Result<Sequence> {
        self.change(|state| {
            let table = state.table_mut(delete.table)?;
            let keys: Vec<Key> = table
                .select(&delete.rows, &delete.predicates)
                .into_iter()
                .map(|(key, _)| key.clone())
                .collect();
            keys.iter().for_each(|key| drop(table.rows.remove(key)));
            Ok(Sequence(state.sequence + 1))
        })
    }

    async fn update(&self, update: Update) -> Result<u64> {
        self.change(|state| {
            let table = state.table_mut(update.table)?;
            update.validate(&table.schema)?;
            let keys: Vec<Key> = table
                .select(&update.rows, &update.predicates)
                .into_iter()
                .map(|(key, _)| key.clone())
                .collect();
            for key in &keys {
                let row = table.rows.entry(key.clone()).or_default();
                for (column, value) in &update.assignments {
                    match value {
                        Some(value) => drop(row.insert(*column, value.clone())),
                        None => drop(row.remove(column)),
                    }
                }
            }
            Ok(keys.len() as u64)
        })
    }

    fn snapshot(&self) -> SnapshotRef {
        Arc::new(MemorySnapshot { state: self.state() })
    }
}

#[async_trait]
impl Snapshot for MemorySnapshot {
    fn sequence(&self) -> Sequence {
        Sequence(self.state.sequence)
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.state.table(table)?.schema.clone())
    }

    async fn scan(&self, request: ScanRequest) -> Result<Box<dyn RowStream>> {
        let table = self.state.table(request.table)?;
        request.validate(&table.schema)?;
        let mut rows = table.select(&request.rows, &request.predicates);
        if request.skip_empty_rows {
            rows.retain(|(key, row)| {
                request
                    .columns
                    .iter()
                    .any(|id| !table.schema.is_key(*id) && table.cell(key, row, *id).is_some())
            });
        }
        sort(&mut rows, &table.schema, request.order, &request.ties);
        if let Some(limit) = request.limit_per_prefix {
            let mut seen = 0;
            let mut last: Option<&Value> = None;
            rows.retain(|(key, _)| {
                seen = if last == key.first() { seen + 1 } else { 1 };
                last = key.first();
                seen <= limit
            });
        }
        rows.truncate(request.limit.unwrap_or(usize::MAX));
        // Small batches, so that callers meet series and windows that go on in the next one.
        let batches = rows
            .chunks(5)
            .map(|rows| batch_of(table, rows, &request.columns))
            .collect::<Result<std::collections::VecDeque<_>>>()?;
        Ok(Box::new(MemoryRows { batches }))
    }

    async fn aggregate(&self, request: AggregateRequest) -> Result<AggregateStates> {
        aggregate::aggregate_by_scan(self, &request).await
    }

    fn time_bounds(&self, table: TableId, within: TimeRange) -> Result<Option<TimeRange>> {
        let table = self.state.table(table)?;
        let times =
            || table.rows.keys().filter_map(|key| table.time_of(key)).filter(|time| within.contains(*time));
        Ok(times()
            .min()
            .zip(times().max())
            .map(|(first, last)| TimeRange::new(first, last.saturating_add(1))))
    }

    fn estimate_rows(&self, table: TableId, within: TimeRange) -> Result<u64> {
        let table = self.state.table(table)?;
        let inside = |key: &&Key| table.time_of(key).is_some_and(|time| within.contains(time));
        Ok(table.rows.keys().filter(inside).count() as u64)
    }
}

fn sort(rows: &mut [(&Key, &Row)], schema: &TableSchema, order: Order, ties: &[SeriesId]) {
    let series_keyed = schema.is_series_keyed();
    let rank = |key: &Key| {
        let listed = |id: &SeriesId| key[0] == Value::UInt(id.0.into());
        (ties.iter().position(listed).unwrap_or(ties.len()), key[0].clone())
    };
    rows.sort_by(|(a, _), (b, _)| match order {
        Order::Key(Direction::Forward) => a.cmp(b),
        Order::Key(Direction::Backward) if series_keyed => a[0].cmp(&b[0]).then(b[1].cmp(&a[1])),
        Order::Key(Direction::Backward) => b.cmp(a),
        Order::Time(Direction::Forward) => a[1].cmp(&b[1]).then_with(|| rank(a).cmp(&rank(b))),
        Order::Time(Direction::Backward) => b[1].cmp(&a[1]).then_with(|| rank(a).cmp(&rank(b))),
    });
}

fn batch_of(table: &Table, rows: &[(&Key, &Row)], columns: &[ColumnId]) -> Result<Batch> {
    let mut series: Vec<SeriesRun> = Vec::new();
    if table.schema.is_series_keyed() {
        for (key, _) in rows {
            let Value::UInt(id) = key[0] else {
                return Err(Error::new(ErrorKind::Invalid, "a series key is an unsigned integer"));
            };
            match series.last_mut() {
                Some(run) if run.series.0 as u64 == id => run.rows += 1,
                _ => series.push(SeriesRun { series: SeriesId(id as u32), rows: 1 }),
            }
        }
    }
    let columns = columns
        .iter()
        .map(|id| {
            let values: Vec<Option<&Value>> =
                rows.iter().map(|(key, row)| table.cell(key, row, *id)).collect();
            let column = table.schema.column(*id).ok_or_else(|| Error::missing(format!("column {id}")))?;
            array_of_values(column.column_type, &values)
        })
        .collect::<Result<_>>()?;
    Ok(Batch { rows: rows.len(), series, columns })
}

struct MemoryRows {
    batches: std::collections::VecDeque<Batch>,
}

#[async_trait]
impl RowStream for MemoryRows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Ok(self.batches.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Float64Array, TimestampNanosecondArray, UInt32Array};

    fn points(series: &[u32], times: &[i64], field: &[Option<f64>]) -> WriteBatch {
        let cells = |id, values: ArrayRef| CellColumn { column: ColumnId(id), values, null_cells: None };
        WriteBatch {
            operations: vec![Operation::Upsert(Upsert {
                table: TableId(0),
                mode: WriteMode::Upsert,
                columns: vec![
                    cells(0, Arc::new(UInt32Array::from(series.to_vec()))),
                    cells(1, Arc::new(TimestampNanosecondArray::from(times.to_vec()))),
                    cells(2, Arc::new(Float64Array::from(field.to_vec()))),
                ],
            })],
        }
    }

    #[tokio::test]
    async fn a_point_is_written_scanned_and_aggregated() -> Result<()> {
        let store = MemoryStore::default();
        let table = store.create_table(TableSchema::measurement("cpu", 10)).await?;
        let field =
            Alteration::AddColumn { id: ColumnId(2), name: "v".into(), column_type: ColumnType::Float64 };
        store.alter_table(table, vec![field]).await?;
        store.write(points(&[1, 1, 2], &[1, 12, 1], &[Some(1.5), Some(2.0), None])).await?;
        let before = store.snapshot();
        store.write(points(&[1], &[1], &[Some(9.0)])).await?;
        let request = AggregateRequest {
            table,
            series: Arc::new([(SeriesId(1), 0), (SeriesId(2), 0)]),
            groups: 1,
            time: TimeRange::ALL,
            windows: Windows::Regular { start_ns: 0, width_ns: 10, count: 2 },
            predicates: Vec::new(),
            measures: vec![
                Measure { column: ColumnId(2), function: AggregateFunction::Sum },
                Measure { column: ColumnId(1), function: AggregateFunction::Count },
            ],
            times: true,
        };
        let states = before.aggregate(request.clone()).await?;
        assert_eq!(states.measures[0], MeasureState::SumFloat { sums: vec![1.5, 2.0], counts: vec![1, 1] });
        assert_eq!(states.measures[1], MeasureState::Count(vec![2, 1]));
        let states = store.snapshot().aggregate(request).await?;
        assert_eq!(states.measures[0], MeasureState::SumFloat { sums: vec![9.0, 2.0], counts: vec![1, 1] });
        assert_eq!(store.partitions(table)?.len(), 2);
        Ok(())
    }
}
