//! The naive store: maps of maps in memory. It is slow and obviously correct, so it is the reference for the real
//! stores.
//!
//! It can be configured to lack features, so that their emulation is tested without a store that lacks them.

mod changes;
mod snapshot;
mod stage;
mod table;

use super::*;
use crate::env::ClockRef;
use crate::error::Error;
use changes::MemoryChanges;
use snapshot::MemorySnapshot;
use stage::MemoryStage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use table::{Key, Table};

/// A store that keeps everything in ordered maps and copies a table to change it.
pub struct MemoryStore {
    shared: Arc<Shared>,
    capabilities: Capabilities,
}

/// What the store and its stages share.
#[derive(Default)]
struct Shared {
    state: Mutex<Arc<State>>,
    history: Option<History>,
}

/// The states of the store with their times. The last one is the current state.
struct History {
    clock: ClockRef,
    states: Mutex<Vec<(i64, Arc<State>)>>,
}

/// Keys that were written or deleted.
type Touched = BTreeMap<TableId, BTreeSet<Key>>;

#[derive(Clone, Default)]
struct State {
    sequence: u64,
    next_table: u32,
    tables: BTreeMap<TableId, Arc<Table>>,
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
        self.tables.insert(id, Arc::new(Table::new(schema)));
        Ok(id)
    }

    /// Has a table as another state has it, unless it is there.
    fn adopt(&mut self, id: TableId, other: &Self) -> Result<()> {
        other.table(id)?;
        self.tables.entry(id).or_insert_with(|| other.tables[&id].clone());
        Ok(())
    }

    /// Alters a table, or only its schema.
    fn alter(
        &mut self,
        (id, alterations): (TableId, Vec<Alteration>),
        with_rows: bool,
    ) -> Result<Arc<TableSchema>> {
        for alteration in alterations {
            let mut schema = TableSchema::clone(&self.table(id)?.schema);
            schema.apply(alteration.clone(), &|name| self.is_taken(name))?;
            let table = self.table_mut(id)?;
            if with_rows {
                table.alter_rows(&alteration)?;
                table.alterations += u64::from(!alteration.suits_staged_rows());
            }
            table.schema = Arc::new(schema);
        }
        let schema = self.table(id)?.schema.clone();
        schema.validate()?;
        Ok(schema)
    }

    fn write(&mut self, batch: &WriteBatch, atomicity: Atomicity) -> Result<(WriteOutcome, Touched)> {
        // Errors of the batch itself come before conflicts with what is stored.
        for operation in &batch.operations {
            operation.validate(&self.table(operation.table())?.schema)?;
        }
        let sequence = Sequence(self.sequence + 1);
        let mut outcome = WriteOutcome { sequence, affected: 0, conflicts: Vec::new() };
        let mut touched = Touched::new();
        for (number, operation) in batch.operations.iter().enumerate() {
            let (table, mut keys) = (operation.table(), BTreeSet::new());
            self.table_mut(table)?.apply(number, operation, atomicity, &mut outcome, &mut keys)?;
            if !keys.is_empty() {
                touched.entry(table).or_default().append(&mut keys);
            }
        }
        Ok((outcome, touched))
    }
}

impl Shared {
    fn state(&self) -> Arc<State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = State::clone(&guard);
        let answer = change(&mut state)?;
        state.sequence += 1;
        *guard = Arc::new(state);
        if let Some(History { clock, states }) = &self.history {
            let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
            states.push((clock.now_ns(), guard.clone()));
        }
        Ok(answer)
    }
}

impl Default for MemoryStore {
    /// A store with all features except those that need the past.
    fn default() -> Self {
        Self::with_capabilities(Capabilities {
            atomicity: Atomicity::Batch,
            features: Features::ALL,
            is_shared: false,
            columns_max: usize::MAX,
            cell_bytes_max: usize::MAX,
            key_bytes_max: usize::MAX,
        })
    }
}

impl MemoryStore {
    /// A store with these capabilities and no past.
    pub fn with_capabilities(capabilities: Capabilities) -> Self {
        let features = capabilities.features.without(Feature::History).without(Feature::ChangeFeed);
        Self { shared: Arc::default(), capabilities: Capabilities { features, ..capabilities } }
    }

    /// The reference for a store with these capabilities: it also has every feature that is emulated.
    pub fn model_of(capabilities: Capabilities) -> Self {
        let emulated = Feature::all().filter(|feature| feature.is_emulated());
        let features = emulated.fold(capabilities.features, Features::with);
        Self::with_capabilities(Capabilities { features, ..capabilities })
    }

    /// A store with these capabilities that remembers its past states by the time of a clock.
    pub fn with_history(capabilities: Capabilities, clock: ClockRef) -> Self {
        let beginning = (i64::MIN, Arc::default());
        let history = Some(History { clock, states: Mutex::new(vec![beginning]) });
        Self { shared: Arc::new(Shared { history, ..Shared::default() }), capabilities }
    }

    /// Forgets all past states.
    pub fn forget_history(&self) {
        if let Some(history) = &self.shared.history {
            let mut states = history.states.lock().unwrap_or_else(PoisonError::into_inner);
            let last = states.len() - 1;
            states.drain(..last);
        }
    }

    /// A snapshot of the current state.
    pub fn latest(&self) -> SnapshotRef {
        self.snapshot_of(self.state())
    }

    /// A store of its own with the current state, and no past.
    #[cfg(feature = "battery")]
    pub(in crate::store) fn copied(&self) -> Self {
        let copy = Self::with_capabilities(self.capabilities);
        *copy.shared.state.lock().unwrap_or_else(PoisonError::into_inner) = self.state();
        copy
    }

    fn snapshot_of(&self, state: Arc<State>) -> SnapshotRef {
        Arc::new(MemorySnapshot { state, capabilities: self.capabilities })
    }

    fn state(&self) -> Arc<State> {
        self.shared.state()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.shared.change(change)
    }

    /// The past. A store that has a feature which needs the past has one.
    fn history(&self, feature: Feature) -> Result<&History> {
        self.capabilities.need(feature)?;
        Ok(self.shared.history.as_ref().expect("a store without it lacks the feature"))
    }

    /// Refuses alterations that need a missing feature.
    fn check_alterations(&self, changes: &[(TableId, Vec<Alteration>)]) -> Result<()> {
        let mut needed =
            changes.iter().flat_map(|(_, alterations)| alterations).filter_map(Alteration::feature);
        needed.try_for_each(|feature| self.capabilities.need(feature))
    }
}

/// Refuses conditional writes if the store lacks them.
fn check_demands(capabilities: &Capabilities, batch: &WriteBatch) -> Result<()> {
    match batch.operations.iter().any(|operation| operation.condition().is_some()) {
        true => capabilities.need(Feature::ConditionalRows),
        false => Ok(()),
    }
}

/// Checks a selection and conditions as a scan does.
fn check_selection(table: &Table, rows: &RowSelection, predicates: &[Predicate]) -> Result<()> {
    let scan = ScanRequest::by_key(TableId(0), rows.clone(), Vec::new());
    ScanRequest { predicates: predicates.to_vec(), ..scan }.validate(&table.schema)
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn tables(&self) -> Vec<(TableId, Arc<TableSchema>)> {
        self.state().tables.iter().map(|(id, table)| (*id, table.schema.clone())).collect()
    }

    fn tables_version(&self) -> u64 {
        self.state().sequence
    }

    fn schema(&self, table: TableId) -> Result<Arc<TableSchema>> {
        Ok(self.state().table(table)?.schema.clone())
    }

    async fn create_tables(&self, schemas: Vec<TableSchema>) -> Result<Vec<TableId>> {
        schemas.iter().try_for_each(|schema| self.capabilities.need_for(schema))?;
        self.change(|state| schemas.into_iter().map(|schema| state.create(schema)).collect())
    }

    async fn alter_tables(&self, changes: Vec<(TableId, Vec<Alteration>)>) -> Result<Vec<Arc<TableSchema>>> {
        self.check_alterations(&changes)?;
        self.change(|state| {
            // Errors of schemas come before errors of rows.
            let mut schemas = state.clone();
            for change in changes.iter().cloned() {
                self.capabilities.need_for(&*schemas.alter(change, false)?)?;
            }
            changes.into_iter().map(|change| state.alter(change, true)).collect()
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

    async fn partitions(&self, table: TableId) -> Result<Vec<PartitionInfo>> {
        Ok(self.state().table(table)?.partitions())
    }

    async fn drop_partitions(&self, table: TableId, range: TimeRange) -> Result<Vec<PartitionInfo>> {
        self.change(|state| Ok(state.table_mut(table)?.drop_partitions(range)))
    }

    async fn write(&self, batch: WriteBatch) -> Result<WriteOutcome> {
        check_demands(&self.capabilities, &batch)?;
        self.change(|state| Ok(state.write(&batch, self.capabilities.atomicity)?.0))
    }

    async fn delete(&self, delete: Delete) -> Result<Sequence> {
        self.capabilities.need(Feature::ChangesByPredicate)?;
        self.change(|state| {
            check_selection(state.table(delete.table)?, &delete.rows, &delete.predicates)?;
            state.table_mut(delete.table)?.delete(&delete);
            Ok(Sequence(state.sequence + 1))
        })
    }

    async fn update(&self, update: Update) -> Result<WriteOutcome> {
        self.capabilities.need(Feature::ChangesByPredicate)?;
        self.change(|state| {
            let sequence = Sequence(state.sequence + 1);
            let table = state.table_mut(update.table)?;
            update.validate(&table.schema)?;
            check_selection(table, &update.rows, &update.predicates)?;
            Ok(WriteOutcome { sequence, affected: table.update(&update), conflicts: Vec::new() })
        })
    }

    async fn around(&self, sequence: Sequence) -> Result<Around> {
        let states = &self.history(Feature::History)?.states;
        if sequence.0 > self.state().sequence {
            return Err(Error::invalid(format!("nothing was written under sequence {sequence} yet")));
        }
        let states = states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |at: usize| self.snapshot_of(states[at].1.clone());
        match states.partition_point(|(_, state)| state.sequence < sequence.0) {
            0 => Err(Error::missing(format!("what was before sequence {sequence} is not known any more"))),
            after => Ok(Around { before: state(after - 1), after: state(after) }),
        }
    }

    fn past_begin(&self) -> Option<Moment> {
        let history = self.shared.history.as_ref()?;
        let states = history.states.lock().unwrap_or_else(PoisonError::into_inner);
        states
            .first()
            .map(|(time_ns, state)| Moment { sequence: Sequence(state.sequence), time_ns: *time_ns })
    }

    async fn snapshot(&self, freshness: Freshness) -> Result<SnapshotRef> {
        let time_ns = match freshness {
            Freshness::Latest => return Ok(self.latest()),
            Freshness::AtLeast(sequence) if sequence.0 <= self.state().sequence => return Ok(self.latest()),
            Freshness::AtLeast(sequence) => {
                return Err(Error::invalid(format!("nothing was written under sequence {sequence} yet")));
            }
            Freshness::Past(time_ns) => time_ns,
        };
        let states = &self.history(Feature::History)?.states;
        let states = states.lock().unwrap_or_else(PoisonError::into_inner);
        match states.partition_point(|(since_ns, _)| *since_ns <= time_ns) {
            0 => Err(Error::missing(format!("what was at time {time_ns} is not known any more"))),
            after => Ok(self.snapshot_of(states[after - 1].1.clone())),
        }
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        self.capabilities.need(Feature::StagedWrites)?;
        Ok(Box::new(MemoryStage::open(self.shared.clone(), self.capabilities)))
    }

    async fn changes(&self, request: ChangesRequest) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(MemoryChanges::new(self.history(Feature::ChangeFeed)?, &request)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::ManualClock;
    use crate::error::ErrorKind;
    use crate::ids::{ColumnId, SeriesId};
    use crate::schema::ColumnType;
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
        store.alter_table(table, vec![Alteration::add_column("v", ColumnType::Float64)]).await?;
        store.write(points(&[1, 1, 2], &[1, 12, 1], &[Some(1.5), Some(2.0), None])).await?;
        let before = store.latest();
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
        assert_eq!(
            states.measures[0],
            PartialAggregate::SumFloat { sums: vec![1.5, 2.0], counts: vec![1, 1] }
        );
        assert_eq!(states.measures[1], PartialAggregate::Count(vec![2, 1]));
        let states = store.latest().aggregate(request).await?;
        assert_eq!(
            states.measures[0],
            PartialAggregate::SumFloat { sums: vec![9.0, 2.0], counts: vec![1, 1] }
        );
        assert_eq!(store.partitions(table).await?.len(), 2);
        Ok(())
    }

    #[tokio::test]
    async fn a_store_with_a_clock_remembers_the_past() -> Result<()> {
        let clock = Arc::new(ManualClock::new(100));
        let all = Capabilities { features: Features::ALL, ..MemoryStore::default().capabilities };
        let store = MemoryStore::with_history(all, clock.clone());
        let table = store.create_table(TableSchema::measurement("cpu", 10)).await?;
        store.alter_table(table, vec![Alteration::add_column("v", ColumnType::Float64)]).await?;
        clock.set(200);
        store.write(points(&[1], &[1], &[Some(1.5)])).await?;
        for (time_ns, rows) in
            [(i64::MIN, None), (99, None), (199, Some(0)), (200, Some(1)), (i64::MAX, Some(1))]
        {
            let past = store.snapshot(Freshness::Past(time_ns)).await?;
            assert_eq!(past.estimate_rows(table, TimeRange::ALL).await.ok(), rows, "at {time_ns}");
        }
        store.forget_history();
        let error = store.snapshot(Freshness::Past(199)).await.err().expect("it is forgotten");
        assert_eq!(error.kind(), ErrorKind::Missing);
        store.snapshot(Freshness::Past(200)).await?;
        let without = MemoryStore::default();
        let error = without.snapshot(Freshness::Past(0)).await.err().expect("there is no past");
        assert_eq!(error.to_string(), "this store has no reads of the past");
        Ok(())
    }
}
