//! Conditional writes: batches that depend on the rows there are, by demands on their keys or by defaults of new rows.

use super::claims::{ClaimedKey, Claims};
use crate::memory::memtable::{PreparedKeys, PreparedUpsert};
use crate::memory::version::TableVersion;
use crate::reading::scan::existence::existing;
use crate::reading::scan::lookup::newest_row;
use crate::reading::scan::partition::PartitionReader;
use crate::reading::snapshot::EngineSnapshot;
use crate::rows::projection::Projection;
use hashbrown::HashMap;
use nyala_core::memory::{Charge, Component};
use nyala_core::store::{KeyCondition, Operation, RowPosition, WriteBatch};
use nyala_core::{Error, Result, SeriesId, TableId, TableSchema, TimeRange};

/// What a key takes while it is looked for, beside its bytes, about: its places in two lists and in a map.
const KEY_BYTES: u64 = 144;
/// Keys are charged when they take so much more. What a small batch takes is little beside its rows.
const CHARGED_AT_ONCE: u64 = 256 << 10;

/// The outcome of a look at the rows there are.
pub(crate) enum Evaluation {
    /// The batch without rows that are left out, and with the defaults of new ones.
    Ready { batch: WriteBatch, conflicts: Vec<RowPosition>, keys: Vec<ClaimedKey> },
    /// The batch with this sequence has claimed a key. The outcome is known when it is visible or has failed.
    Claimed(u64),
}

/// Evaluates a validated batch against a snapshot and the operations before each. An error of kind conflict when a
/// required demand does not hold.
pub(crate) fn evaluate(snapshot: &EngineSnapshot, batch: &WriteBatch, claims: &Claims) -> Result<Evaluation> {
    // Whether a key exists after earlier operations of the batch.
    let mut changed: HashMap<ClaimedKey, bool> = HashMap::new();
    let mut held = snapshot.budget.charge(Component::Query, 0);
    let (mut operations, mut conflicts) = (Vec::with_capacity(batch.operations.len()), Vec::new());
    for (number, operation) in batch.operations.iter().enumerate() {
        let id = operation.table();
        let table = snapshot.version.table(id)?;
        let depends = depends_on_rows(operation, &table.schema);
        let deletes = matches!(operation, Operation::DeleteKeys { .. });
        let mut rows = RowOutcomes { existed: vec![false; operation.rows()], left_out: Vec::new() };
        let keys = keys_of(table, operation);
        let encoded = encoded_keys(id, &keys, &mut held)?;
        if let Some(sequence) = claims.find_any(&encoded) {
            return Ok(Evaluation::Claimed(sequence));
        }
        let existed = match depends {
            true => Lookup::new(snapshot, table).exist(&keys, &encoded)?,
            false => Vec::new(),
        };
        for (row, key) in encoded.into_iter().enumerate() {
            if depends {
                let exists = changed.get(&key).copied().unwrap_or(existed[row]);
                if operation.condition().is_some_and(|demand| exists != (demand == KeyCondition::Present)) {
                    if !operation.ignores() {
                        let words = if exists { "exists" } else { "does not exist" };
                        let name = table.schema.shown_name();
                        return Err(Error::conflict(format!("table {name}: a key of row {row} {words}")));
                    }
                    conflicts.push(RowPosition { operation: number, row });
                    rows.left_out.push(row);
                    continue;
                }
                rows.existed[row] = exists;
            }
            changed.insert(key, !deletes);
        }
        let operation = match operation {
            Operation::Upsert(upsert) if depends && upsert.mode.makes_rows() => {
                Operation::Upsert(upsert.clone().with_defaults(&table.schema, |row| !rows.existed[row])?)
            }
            other => other.clone(),
        };
        rows.push_kept(operation, &mut operations);
    }
    let keys = changed.into_keys().collect();
    Ok(Evaluation::Ready { batch: WriteBatch { operations }, conflicts, keys })
}

/// The keys of an operation, encoded. They are charged while they are made: nobody knows before what they take.
fn encoded_keys(table: TableId, keys: &PreparedKeys<'_>, held: &mut Charge) -> Result<Vec<ClaimedKey>> {
    let (mut encoded, mut uncharged_bytes) = (Vec::new(), 0);
    for row in 0..keys.rows {
        let key = keys.encoded(row);
        uncharged_bytes += KEY_BYTES + key.capacity() as u64;
        encoded.push((table, key));
        if uncharged_bytes >= CHARGED_AT_ONCE {
            held.try_grow(std::mem::take(&mut uncharged_bytes))?;
        }
    }
    Ok(encoded)
}

/// Whether the effect of an operation depends on the rows there are.
pub(crate) fn depends_on_rows(operation: &Operation, schema: &TableSchema) -> bool {
    match operation {
        Operation::Upsert(upsert) => upsert.depends_on_rows(schema),
        Operation::DeleteKeys { mode, .. } => mode.condition().is_some(),
    }
}

/// Which rows of an operation existed, and which are left out.
struct RowOutcomes {
    existed: Vec<bool>,
    left_out: Vec<usize>,
}

impl RowOutcomes {
    /// Appends an operation without the rows that are left out.
    fn push_kept(&self, operation: Operation, operations: &mut Vec<Operation>) {
        if self.left_out.is_empty() {
            operations.push(operation);
            return;
        }
        let mut begin = 0;
        for end in self.left_out.iter().copied().chain([operation.rows()]) {
            if begin < end {
                operations.push(operation.slice(begin, end - begin));
            }
            begin = end + 1;
        }
    }
}

/// The keys that an operation names.
pub(crate) fn keys_of<'a>(table: &TableVersion, operation: &'a Operation) -> PreparedKeys<'a> {
    match operation {
        Operation::Upsert(upsert) => PreparedUpsert::new(upsert, &table.schema).keys,
        Operation::DeleteKeys { keys, .. } => PreparedKeys::of_delete(keys, &table.schema),
    }
}

/// The key of a row.
pub(crate) enum RowKey<'a> {
    /// In a series-keyed table.
    Point { series: SeriesId, time_ns: i64 },
    /// In any other: encoded, and the time by which it is partitioned.
    Encoded { key: &'a [u8], time_ns: i64 },
}

impl<'a> RowKey<'a> {
    /// The key of a row, which is also given encoded.
    pub(crate) fn of(table: &TableVersion, keys: &PreparedKeys<'_>, row: usize, key: &'a [u8]) -> Self {
        let time_ns = table.schema.time_key().map(|position| keys.columns[position].0.word(row) as i64);
        match (table.schema.is_series_keyed(), time_ns) {
            (true, Some(time_ns)) => {
                RowKey::Point { series: SeriesId(keys.columns[0].0.word(row) as u32), time_ns }
            }
            _ => RowKey::Encoded { key, time_ns: time_ns.unwrap_or(0) },
        }
    }

    /// The time by which it is partitioned.
    pub(crate) fn time_ns(&self) -> i64 {
        match self {
            RowKey::Point { time_ns, .. } | RowKey::Encoded { time_ns, .. } => *time_ns,
        }
    }
}

/// Finds out which keys of a table have rows.
pub(crate) struct Lookup<'a> {
    table: &'a TableVersion,
    sequence: u64,
    /// Readers of the partitions that were looked into, by position.
    readers: HashMap<usize, PartitionReader>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(snapshot: &EngineSnapshot, table: &'a TableVersion) -> Self {
        Self { table, sequence: snapshot.sequence, readers: HashMap::new() }
    }

    /// Whether each key has a row.
    fn exist(&mut self, keys: &PreparedKeys<'_>, encoded: &[ClaimedKey]) -> Result<Vec<bool>> {
        if !self.table.schema.is_series_keyed() {
            return existing(self.table, self.sequence, encoded.iter().map(|(_, key)| key.as_slice()));
        }
        let table = self.table;
        (0..keys.rows).map(|row| self.exists(&RowKey::of(table, keys, row, &encoded[row].1))).collect()
    }

    /// Whether a key has a row.
    pub(crate) fn exists(&mut self, key: &RowKey<'_>) -> Result<bool> {
        let (series, time_ns) = match key {
            RowKey::Point { series, time_ns } => (*series, *time_ns),
            RowKey::Encoded { key, .. } => {
                return Ok(newest_row(self.table, self.sequence, key, &Projection::keys_only())?.is_some());
            }
        };
        let Some(position) = self.table.partition_at(time_ns) else { return Ok(false) };
        let reader = match self.readers.entry(position) {
            hashbrown::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            hashbrown::hash_map::Entry::Vacant(entry) => entry.insert(PartitionReader::new(
                &self.table.partitions[position],
                &self.table.tombstones,
                self.sequence,
                TimeRange::ALL,
                Projection::keys_only(),
            )?),
        };
        let time = TimeRange::new(time_ns, time_ns.saturating_add(1));
        for segment in reader.segments(series, time)? {
            if reader.read(series, segment)?.rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
