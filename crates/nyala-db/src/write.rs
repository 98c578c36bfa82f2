//! A request body becomes one batch of the store, or a few when it is very large.
//!
//! Per group of rows (see `ingest`): series get their ids, fields their columns; rows that are too old or
//! whose fields have other types in their shard are refused and counted as InfluxDB does (`refusal`); the
//! rest is handed on as columns, with the records of new series in the same batch.

mod memory;
mod refusal;

use memory::Memories;
use refusal::Refusal;

use crate::catalog::{Catalog, Database, FieldType, Measurement, Members, RetentionPolicy};
use crate::feed::Feed;
use crate::ingest::{
    FieldColumn, FieldKind, FieldValues, LineRequest, ParseErrors, ParseOptions, ParsedBatch, RowGroup,
    SeriesCache, SeriesCacheLimits, TagSet,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::store::{CellColumn, Operation, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, Error, Result, SeriesId, TableId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a request.
#[derive(Debug, Default)]
pub struct WriteReport {
    /// Points stored.
    pub written: u64,
    /// Lines that could not be read.
    pub unreadable: ParseErrors,
    /// Points older than their retention policy keeps.
    pub expired: u64,
    /// Other points that were read but not stored.
    pub dropped: Option<Dropped>,
    /// Whether the points of a shard were not stored because a field that was new there had two types.
    pub conflict: bool,
}

impl WriteReport {
    /// What InfluxDB says of points that were not stored, if there are any: of several kinds of refusal it tells one.
    pub fn complaint(&self) -> Option<String> {
        let partial = |reason: &str, count: u64| Some(format!("partial write: {reason} dropped={count}"));
        if self.conflict {
            return Some("field type conflict".to_owned());
        }
        if let Some(dropped) = &self.dropped {
            return partial(&dropped.reason, dropped.count);
        }
        if self.expired > 0 {
            return partial("points beyond retention policy", self.expired);
        }
        if self.unreadable.is_empty() {
            return None;
        }
        let text = self.unreadable.text();
        let text = String::from_utf8_lossy(&text);
        match self.written {
            0 => Some(text.into_owned()),
            _ => partial(&text, 0),
        }
    }
}

/// Points that were read but not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Why the first of them was not.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// What was written since the start.
#[derive(Debug, Default)]
pub struct WriteCounts {
    /// Requests.
    pub requests: AtomicU64,
    /// Points stored.
    pub written: AtomicU64,
    /// Points that were read but not stored.
    pub dropped: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Series that were looked up in their index, because the writer did not remember them.
    pub looked_up: AtomicU64,
}

impl WriteCounts {
    fn note(&self, written: &Result<WriteReport>) {
        let add = |counter: &AtomicU64, count| {
            counter.fetch_add(count, Ordering::Relaxed);
        };
        add(&self.requests, 1);
        match written {
            Ok(report) => {
                add(&self.written, report.written);
                let dropped = report.expired + report.dropped.as_ref().map_or(0, |dropped| dropped.count);
                if dropped > 0 {
                    add(&self.dropped, dropped);
                }
            }
            Err(_) => add(&self.failed, 1),
        }
    }
}

/// Writes request bodies. Shared by all connections; what is remembered between requests is pooled.
pub struct LineWriter {
    catalog: Arc<Catalog>,
    memories: Memories,
    counts: WriteCounts,
    feed: Option<Feed>,
    series_limit_bytes: usize,
}

impl LineWriter {
    /// A writer to a catalog, which makes no new series once their indexes take `series_limit_bytes`.
    pub fn new(catalog: Arc<Catalog>, cache_limits: SeriesCacheLimits, series_limit_bytes: usize) -> Self {
        let (memories, counts) = (Memories::new(cache_limits), WriteCounts::default());
        Self { catalog, memories, counts, feed: None, series_limit_bytes }
    }

    /// A writer that leaves what subscribers get in a feed.
    #[must_use]
    pub fn with_feed(mut self, feed: Feed) -> Self {
        self.feed = Some(feed);
        self
    }

    /// Where it leaves what subscribers get.
    pub fn feed(&self) -> Option<&Feed> {
        self.feed.as_ref()
    }

    /// What was written since the start.
    pub fn counts(&self) -> &WriteCounts {
        &self.counts
    }

    /// Writes a body of line protocol. Its good lines are stored even when others are not.
    pub async fn write(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
    ) -> Result<WriteReport> {
        let written = self.write_lines(database, policy, options, body).await;
        self.counts.note(&written);
        written
    }

    async fn write_lines(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
    ) -> Result<WriteReport> {
        let known = self
            .catalog
            .database(database)
            .ok_or_else(|| Error::missing(format!("database not found: \"{database}\"")))?;
        let policy = known.existing_policy(policy)?.clone();
        let mut memory = self.memories.take(database, &policy.name);
        let mut report = WriteReport::default();
        let mut request = LineRequest::new(body, options);
        let writing = BatchWrite {
            catalog: &self.catalog,
            database,
            policy: &policy,
            now_ns: options.now_ns,
            series_limit_bytes: self.series_limit_bytes,
        };
        let mut members = Members::default();
        loop {
            let start = request.mark();
            let (mut turn, batch) = memory.turn().await;
            let cache = turn.cache();
            if !request.next_batch(cache, batch) {
                break;
            }
            let measurements = writing.measurements_of(batch).await?;
            if !members.hold(&measurements) {
                members = Members::try_share(&measurements).unwrap_or_default();
            }
            if !members.hold(&measurements) {
                // Somebody removes there. Who has the same turn but other measurements does not wait for that.
                drop(turn);
                members = Members::share(&measurements).await;
                request.rewind(&start);
                continue;
            }
            if renew_series(cache, batch, &measurements) {
                // Rows have ids that were removed before the members were held, and are not any more.
                request.rewind(&start);
                continue;
            }
            let unknown = cache.pending().len() as u64;
            if unknown > 0 {
                self.counts.looked_up.fetch_add(unknown, Ordering::Relaxed);
            }
            // Series that get their ids here are known to all writers, and each of them stores their records until
            // one has succeeded: should this one fail, what is remembered of them is right all the same.
            let full = writing.resolve_series(cache, batch, &measurements);
            drop(turn);
            writing.write(batch, &measurements, full, &mut report).await?;
            members = Members::default();
        }
        report.unreadable = request.errors().clone();
        self.memories.give_back(memory);
        if !known.subscriptions.is_empty() && report.written > 0 {
            self.feed_subscribers(&known, &policy.name, options, body, report.written);
        }
        Ok(report)
    }

    fn feed_subscribers(
        &self,
        database: &Database,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
        points: u64,
    ) {
        let wanted = database.subscriptions.iter().any(|subscription| subscription.policy == policy);
        if let Some(feed) = self.feed.as_ref().filter(|_| wanted) {
            feed.offer(&database.name, policy, options, body, points);
        }
    }
}

/// One batch on its way to the store.
struct BatchWrite<'a> {
    catalog: &'a Arc<Catalog>,
    database: &'a str,
    policy: &'a RetentionPolicy,
    now_ns: i64,
    series_limit_bytes: usize,
}

impl BatchWrite<'_> {
    /// The measurement of each group of a batch, made where there was none.
    async fn measurements_of(&self, batch: &ParsedBatch) -> Result<Vec<Arc<Measurement>>> {
        let mut measurements = Vec::new();
        for group in batch.groups() {
            let name = String::from_utf8_lossy(group.measurement()).into_owned();
            measurements.push(self.catalog.measurement_for_write(self.database, self.policy, &name).await?);
        }
        Ok(measurements)
    }

    async fn write(
        &self,
        batch: &mut ParsedBatch,
        measurements: &[Arc<Measurement>],
        full: Option<String>,
        report: &mut WriteReport,
    ) -> Result<()> {
        let mut refusal = Refusal::new(self.policy, self.now_ns, full);
        batch.groups().zip(measurements).for_each(|(group, own)| refusal.check(group, own));
        let kept = refusal.finish(batch.groups(), report);
        let mut operations = Vec::new();
        let mut touched: Vec<&Arc<Measurement>> = Vec::new();
        let mut written = 0;
        let mut lent: Vec<(usize, Vec<ArrayRef>)> = Vec::new();
        let with_rows = batch.groups_mut().iter_mut().enumerate().filter(|(_, group)| group.row_count() > 0);
        for (((index, group), measurement), keep) in with_rows.zip(measurements).zip(kept) {
            measurement.note_rows(&group.series_ids, &group.times_ns);
            if let Some(upsert) = upsert_of(group, measurement, keep).await? {
                written += upsert.rows() as u64;
                lent.push((index, upsert.columns.iter().map(|cells| cells.values.clone()).collect()));
                operations.push(Operation::Upsert(upsert));
                if !touched.iter().any(|other| other.table() == measurement.table()) {
                    touched.push(measurement);
                }
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        let mut saved = Vec::new();
        for measurement in &touched {
            let records = measurement.unsaved_records(series_of(&operations, measurement.table()));
            let record_operations = records.operations(self.catalog.series_records());
            if !record_operations.is_empty() {
                operations.splice(0..0, record_operations);
                saved.push((measurement, records));
            }
        }
        self.catalog.store().write(WriteBatch { operations }).await?;
        saved.iter().for_each(|(measurement, records)| measurement.saved(records));
        report.written += written;
        for (index, arrays) in lent {
            give_back(&mut batch.groups_mut()[index], arrays);
        }
        Ok(())
    }

    /// Why there is no new series where indexes take all they may.
    fn no_memory(&self) -> String {
        let limit_mib = self.series_limit_bytes >> 20;
        format!(
            "their indexes take all of {limit_mib} MiB, half of memory-limit; DROP SERIES or DELETE those that are not \
             needed, keep points for a shorter time, or raise memory-limit"
        )
    }

    /// Gives ids to the series that the batch is the first to name here. Returns why some got none, if so.
    fn resolve_series(
        &self,
        cache: &mut SeriesCache,
        batch: &mut ParsedBatch,
        measurements: &[Arc<Measurement>],
    ) -> Option<String> {
        let mut full = None;
        let mut tags = TagSet::default();
        let pending = cache.pending().to_vec();
        let of_name: HashMap<&[u8], &Arc<Measurement>> = match pending.is_empty() {
            true => HashMap::new(),
            false => batch.groups().map(RowGroup::measurement).zip(measurements).collect(),
        };
        for handle in pending {
            let measurement = of_name[cache.measurement(handle)];
            cache.read_tags(handle, &mut tags);
            let texts: Vec<_> = tags
                .iter()
                .map(|(key, value)| (String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
                .collect();
            // A tag cannot be called time: its rows stay without a series, and are refused.
            if texts.iter().all(|(key, _)| key != "time") {
                let tags: Vec<(&str, &str)> = texts.iter().map(|(key, value)| (&**key, &**value)).collect();
                let id = if self.catalog.series_memory_bytes() > self.series_limit_bytes {
                    measurement.known_series_id(&tags).ok_or_else(|| self.no_memory())
                } else {
                    measurement.new_series_id(&tags).map(|(id, memory_bytes)| {
                        self.catalog.add_series_memory(memory_bytes);
                        id
                    })
                };
                let id = match id {
                    Ok(id) => id,
                    Err(reason) => {
                        full = Some(reason);
                        continue;
                    }
                };
                cache.set_series_id(handle, id.0);
            }
        }
        batch.resolve(cache);
        full
    }
}

/// Makes sure that a cache has no ids of series that were removed. Whether rows that were read may have such.
fn renew_series(cache: &mut SeriesCache, batch: &ParsedBatch, measurements: &[Arc<Measurement>]) -> bool {
    let mut forgotten = false;
    for (group, measurement) in batch.groups().zip(measurements) {
        let mut series = None;
        let in_use = |id| series.get_or_insert_with(|| measurement.series()).contains(SeriesId(id));
        forgotten |= cache.renew(group.measurement(), measurement.generation(), in_use);
    }
    forgotten
}

/// The series of the rows that are upserted into a table.
fn series_of(operations: &[Operation], table: TableId) -> impl Iterator<Item = u32> {
    let ids = operations.iter().filter_map(move |operation| match operation {
        Operation::Upsert(upsert) if upsert.table == table => upsert.column(SERIES_COLUMN),
        _ => None,
    });
    let ids = ids.filter_map(|cells| cells.values.as_any().downcast_ref::<UInt32Array>());
    ids.flat_map(|ids| ids.values().iter().copied())
}

fn field_type(kind: FieldKind) -> FieldType {
    match kind {
        FieldKind::Float => FieldType::Float,
        FieldKind::Integer => FieldType::Integer,
        FieldKind::Unsigned => FieldType::Unsigned,
        FieldKind::String => FieldType::String,
        FieldKind::Boolean => FieldType::Boolean,
    }
}

/// Moves the rows of a group into columns for the store; `None` when no row is kept.
async fn upsert_of(
    group: &mut RowGroup,
    measurement: &Measurement,
    keep: Option<BooleanBuffer>,
) -> Result<Option<Upsert>> {
    if keep.as_ref().is_some_and(|keep| keep.count_set_bits() == 0) {
        return Ok(None);
    }
    let mut columns: Vec<&mut FieldColumn> =
        group.columns.iter_mut().filter(|column| column.name() != b"time").collect();
    if let Some(keep) = &keep {
        // A column that only dropped rows have must not come into being.
        columns.retain(|column| keep.set_indices().any(|row| column.is_present(row)));
    }
    let wanted: Vec<(String, FieldType)> = columns
        .iter()
        .map(|column| (String::from_utf8_lossy(column.name()).into_owned(), field_type(column.kind())))
        .collect();
    let ids = measurement.columns_for(&wanted).await?;
    let cells = |column: ColumnId, values: ArrayRef| CellColumn { column, values, null_cells: None };
    let mut written = vec![
        cells(SERIES_COLUMN, Arc::new(UInt32Array::from(std::mem::take(&mut group.series_ids)))),
        cells(TIME_COLUMN, Arc::new(TimestampNanosecondArray::from(std::mem::take(&mut group.times_ns)))),
    ];
    for (column, id) in columns.into_iter().zip(ids) {
        written.push(cells(id, array_of(column)));
    }
    if let Some(keep) = &keep {
        written.iter_mut().for_each(|column| column.values = filter(&column.values, keep));
    }
    Ok(Some(Upsert { table: measurement.table(), mode: WriteMode::Upsert, columns: written }))
}

fn array_of(column: &mut FieldColumn) -> ArrayRef {
    let (values, presence) = column.take();
    let present = presence.map(|presence| {
        let length = presence.len();
        NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(presence.into_words()), 0, length))
    });
    match values {
        FieldValues::Float(values) => Arc::new(Float64Array::new(values.into(), present)),
        FieldValues::Integer(values) => Arc::new(Int64Array::new(values.into(), present)),
        FieldValues::Unsigned(values) => Arc::new(UInt64Array::new(values.into(), present)),
        FieldValues::Boolean(values) => {
            let length = values.len();
            let bits = BooleanBuffer::new(Buffer::from_vec(values.into_words()), 0, length);
            Arc::new(BooleanArray::new(bits, present))
        }
        FieldValues::String(strings) => {
            if std::str::from_utf8(&strings.bytes).is_err() {
                let text = |row: usize| {
                    let present = present.as_ref().is_none_or(|present| present.is_valid(row));
                    present.then(|| String::from_utf8_lossy(strings.get(row)))
                };
                return Arc::new((0..strings.len()).map(text).collect::<StringArray>());
            }
            let offsets = OffsetBuffer::new(strings.offsets.into());
            Arc::new(StringArray::new(offsets, strings.bytes.into(), present))
        }
    }
}

/// Takes vectors back that the store has done with, so that the next batch needs no fresh memory.
fn give_back(group: &mut RowGroup, arrays: Vec<ArrayRef>) {
    let mut arrays = arrays.into_iter();
    if let Some(series_ids) = arrays.next().and_then(vector_of) {
        group.series_ids = series_ids;
    }
    if let Some(times_ns) = arrays.next().and_then(vector_of) {
        group.times_ns = times_ns;
    }
    let columns = group.columns.iter_mut().filter(|column| column.name() != b"time");
    // Where rows were dropped columns may be missing, or copies: kinds are compared, the rest is memory.
    for (column, array) in columns.zip(arrays) {
        let values = match column.kind() {
            FieldKind::Float => vector_of(array).map(FieldValues::Float),
            FieldKind::Integer => vector_of(array).map(FieldValues::Integer),
            FieldKind::Unsigned => vector_of(array).map(FieldValues::Unsigned),
            FieldKind::Boolean | FieldKind::String => None,
        };
        values.into_iter().for_each(|values| column.give_back(values));
    }
}

/// The memory of an array of numbers nobody else holds, emptied.
fn vector_of<T: ArrowNativeType>(array: ArrayRef) -> Option<Vec<T>> {
    let data = array.to_data();
    drop(array);
    if data.data_type().primitive_width() != Some(size_of::<T>()) {
        return None;
    }
    let buffer = data.buffers().first()?.clone();
    drop(data);
    let mut values = buffer.into_vec().ok()?;
    values.clear();
    Some(values)
}

/// The rows of an array where `keep` is set.
fn filter(array: &ArrayRef, keep: &BooleanBuffer) -> ArrayRef {
    macro_rules! gather {
        ($type:ty) => {
            if let Some(array) = array.as_any().downcast_ref::<$type>() {
                let value = |row| array.is_valid(row).then(|| array.value(row));
                return Arc::new(keep.set_indices().map(value).collect::<$type>());
            }
        };
    }
    gather!(UInt32Array);
    gather!(TimestampNanosecondArray);
    gather!(Float64Array);
    gather!(Int64Array);
    gather!(UInt64Array);
    gather!(BooleanArray);
    gather!(StringArray);
    unreachable!("a field has no type {}", array.data_type())
}

#[cfg(test)]
mod tests {
    use super::memory::OWN_SERIES_MAX;
    use super::*;
    use nyala_core::store::memory::MemoryStore;

    #[tokio::test]
    async fn writers_of_very_many_series_share_what_they_know_of_them() {
        let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
        catalog.create_database("d", None).await.unwrap();
        let writer = LineWriter::new(catalog.clone(), SeriesCacheLimits::default(), usize::MAX);
        let body = |first: usize, count: usize, time: i64| -> String {
            (first..first + count).map(|host| format!("m,host={host} f=1 {time}\n")).collect()
        };
        let write = async |body: String| {
            let report = writer.write("d", "", ParseOptions::default(), body.as_bytes()).await.unwrap();
            report.written
        };
        let many = OWN_SERIES_MAX + 10;
        assert_eq!(write(body(0, many, 1)).await, many as u64);
        // Two at once, both with new series: neither waits for the other for ever, and ids stay as they were.
        let (one, two) = tokio::join!(write(body(many - 5, 10, 2)), write(body(many, 10, 2)));
        assert_eq!((one, two), (10, 10));
        let policy = catalog.database("d").unwrap().existing_policy("").unwrap().clone();
        let measurement = catalog.measurement_for_write("d", &policy, "m").await.unwrap();
        assert_eq!(measurement.series().len(), many + 10);
        for host in [0, many - 1, many, many + 9] {
            let id = measurement.known_series_id(&[("host", &host.to_string())]);
            assert!(id.is_some_and(|id| host >= many || id == SeriesId(host as u32)), "{host}");
        }
        // What is removed is not remembered.
        catalog.drop_measurement("d", "m").await.unwrap();
        assert_eq!(write(body(0, 20, 3)).await, 20);
        let measurement = catalog.measurement_for_write("d", &policy, "m").await.unwrap();
        assert_eq!(measurement.series().len(), 20);
    }

    #[tokio::test]
    async fn a_batch_takes_the_records_it_needs_though_another_has_them_on_its_way() {
        let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
        catalog.create_database("d", None).await.unwrap();
        let policy = catalog.database("d").unwrap().existing_policy("").unwrap().clone();
        let measurement = catalog.measurement_for_write("d", &policy, "m").await.unwrap();
        let ids: Vec<u32> = ["a", "b", "c"]
            .iter()
            .map(|host| measurement.new_series_id(&[("host", host)]).unwrap().0.0)
            .collect();
        let count = |used: &[u32]| measurement.unsaved_records(used.iter().copied()).series.len();
        assert_eq!(count(&[ids[0]]), 3, "all that nobody has taken");
        assert_eq!(count(&[ids[1], ids[1], 77]), 1, "the first batch may fail");
        assert_eq!(count(&[]), 0);
        measurement.saved(&measurement.unsaved_records(ids.iter().copied()));
        assert_eq!(count(&ids), 0);
    }

    #[tokio::test]
    async fn the_next_batch_is_written_in_the_memory_of_the_last() {
        let catalog = Arc::new(Catalog::open(Arc::new(MemoryStore::default())).await.unwrap());
        catalog.create_database("d", None).await.unwrap();
        let writer = LineWriter::new(catalog, SeriesCacheLimits::default(), usize::MAX);
        let mut held = Vec::new();
        for round in 0..3 {
            let lines = (0..1000).map(|row| format!("m,host=a f={row}.5,g={row}i {}\n", round * 1000 + row));
            let body: String = lines.collect();
            let report = writer.write("d", "", ParseOptions::default(), body.as_bytes()).await.unwrap();
            assert_eq!(report.written, 1000);
            let mut memory = writer.memories.take("d", "autogen");
            let group = &mut memory.batch.groups_mut()[0];
            held.push((group.series_ids.as_ptr(), group.times_ns.as_ptr(), group.lines.as_ptr()));
            assert!(group.times_ns.capacity() >= 1000);
            writer.memories.give_back(memory);
        }
        assert!(held.iter().all(|places| *places == held[0]));
    }
}
