//! Writing a request body as one batch of the store, or as several if it is very large.
//!
//! For each group of rows (see `ingest`), series get their ids and fields their columns. Rows that are too old, or
//! whose fields have another type in their shard, are rejected and counted as InfluxDB does it (`rejected_rows`). The
//! other rows are passed on as columns, in one batch with the records of new series.

mod arrays;
mod columns;
mod new_names;
mod new_series;
mod pending;
mod rejected_rows;
mod report;
mod whole;
mod writer_cache;

use arrays::{array_of, filter, give_back};
pub use columns::{ColumnBatches, ColumnReport};
use new_names::NewNames;
use new_series::NoSeries;
use pending::{pending_members, reload_evicted, renew_series};
use rejected_rows::RejectedRows;
pub use report::{Dropped, WriteCounts, WriteReport};
use whole::{WholeWrite, begun_anew};
use writer_cache::WriterCaches;

use crate::catalog::{Catalog, Database, FieldType, FieldsToWrite, Measurement, RetentionPolicy, TableLocks};
use crate::feed::Feed;
use crate::ingest::{
    FieldColumn, FieldKind, Generation, LineRequest, ParseOptions, ParsedBatch, RowGroup, SeriesCache,
    SeriesCacheLimits,
};
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray, UInt32Array};
use arrow_buffer::BooleanBuffer;
use nyala_core::memory::MemoryBudget;
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN};
use nyala_core::span::Instrument;
use nyala_core::store::{Atomicity, CellColumn, Operation, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, Error, ErrorKind, Result, span};
use std::borrow::Cow;
use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

/// How often a batch is written again because what it needs was dropped meanwhile.
const TRIES_MAX: u32 = 100;

/// What the lines of a request contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Points of any measurements.
    Lines,
    /// Samples of metrics: measurements with a single field that share a table.
    Samples,
}

/// Writes request bodies. All connections share it. What it caches between requests is pooled.
pub struct LineWriter {
    catalog: Arc<Catalog>,
    caches: WriterCaches,
    counts: WriteCounts,
    feed: Option<Feed>,
    series_limit_bytes: usize,
    /// Held while somebody with a quota of series creates some.
    series_quotas: tokio::sync::Mutex<()>,
}

impl LineWriter {
    /// A writer to a catalog. It creates no series once the indexes take `series_limit_bytes`. What it caches is
    /// charged to `memory`.
    pub fn new(catalog: Arc<Catalog>, memory: Arc<MemoryBudget>, series_limit_bytes: usize) -> Self {
        let caches = WriterCaches::new(SeriesCacheLimits::default(), memory);
        let counts = WriteCounts::default();
        let series_quotas = tokio::sync::Mutex::default();
        Self { catalog, caches, counts, feed: None, series_limit_bytes, series_quotas }
    }

    /// Makes the writer put copies of requests for subscribers into a feed.
    #[must_use]
    pub fn with_feed(mut self, feed: Feed) -> Self {
        self.feed = Some(feed);
        self
    }

    /// The catalog that it writes to.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The feed for subscribers.
    pub fn feed(&self) -> Option<&Feed> {
        self.feed.as_ref()
    }

    /// No series are created once the indexes take so many bytes.
    pub fn series_limit_bytes(&self) -> usize {
        self.series_limit_bytes
    }

    /// Counters of writes since the start.
    pub fn counts(&self) -> &WriteCounts {
        &self.counts
    }

    /// Writes a body of line protocol. Its valid lines are stored even if others are not.
    pub async fn write(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
    ) -> Result<WriteReport> {
        self.write_form(database, policy, options, body, Form::Lines).await
    }

    /// The same for samples of metrics, which are floats in the field `value`. New measurements become members of the
    /// policy's group. The body contains no measurement that has a table of its own ([`Catalog::own_tables`]).
    pub async fn write_samples(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
    ) -> Result<WriteReport> {
        self.write_form(database, policy, options, body, Form::Samples).await
    }

    async fn write_form(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
        form: Form,
    ) -> Result<WriteReport> {
        let result = self.write_batches(database, policy, options, body, form, &mut None).await;
        self.counts.note(&result);
        result
    }

    async fn write_batches(
        &self,
        database: &str,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
        form: Form,
        whole: &mut Option<WholeWrite>,
    ) -> Result<WriteReport> {
        let (database_entry, policy) = match self.policy(database, policy) {
            // Another server may just have created it.
            Err(_) if self.catalog.is_shared() => {
                self.catalog.follow().await?;
                self.policy(database, policy)?
            }
            found => found?,
        };
        let mut writer_cache = self.caches.take(database, &policy.name, form);
        let mut report = WriteReport::default();
        let mut request = LineRequest::new(body, options);
        let batch_write = BatchWrite {
            catalog: &self.catalog,
            database,
            policy: &policy,
            now_ns: options.now_ns,
            series_limit_bytes: self.series_limit_bytes,
            series_max: options.series_max,
            series_quotas: &self.series_quotas,
            form,
        };
        let (mut locks, mut names, mut tries) = (TableLocks::default(), NewNames::default(), 0);
        loop {
            let start = request.mark();
            // In a shared store a batch is written again if its tables or series were dropped meanwhile.
            let before = self.catalog.is_shared().then(|| (report.clone(), names.clone()));
            let (mut lease, batch) = writer_cache.lease().await;
            let cache = lease.cache();
            if !span!("parse").in_scope(|| request.next_batch(cache, batch)) {
                break;
            }
            let measurements = batch_write.measurements_of(batch, &mut names).await?;
            let existing: Vec<Arc<Measurement>> = measurements.iter().flatten().cloned().collect();
            // What is staged already needs its tables locked until the commit.
            let is_staged = whole.as_ref().is_some_and(WholeWrite::is_staged);
            // After a wait and a rewind the locks are held already.
            if !locks.try_cover(&existing, is_staged) {
                // Somebody is removing series there. Requests that use the same cache for other tables need not wait
                // for that.
                drop(lease);
                // Released before the others are locked: one of their tables may have been dropped since.
                drop(std::mem::take(&mut locks));
                if is_staged {
                    return Err(begun_anew(&existing).await);
                }
                locks = TableLocks::lock(&existing).await;
                request.rewind(&start);
                continue;
            }
            // Read before cached ids are compared with it.
            let generations: Vec<Generation> =
                existing.iter().map(|measurement| measurement.stored().generation()).collect();
            if renew_series(cache, batch, &measurements) {
                // Some rows have ids of series that were removed before the tables were locked. The ids are no longer
                // cached.
                request.rewind(&start);
                continue;
            }
            let (pending_count, mut was_full) = (cache.pending().len() as u64, batch_write.is_memory_full());
            let mut room = None;
            if pending_count > 0 {
                self.counts.looked_up.fetch_add(pending_count, Ordering::Relaxed);
                room = batch_write.series_room().await?;
                was_full |= room.as_ref().is_some_and(|room| room.left == 0);
                batch_write.create_members(cache, &measurements, was_full).await?;
                if let Err(error) = reload_evicted(cache, batch, &measurements, was_full).await {
                    drop(lease);
                    self.catalog.follow().await?;
                    if !existing.iter().any(|measurement| measurement.was_dropped()) {
                        return Err(error);
                    }
                    locks = TableLocks::default();
                    (report, names) = before.unwrap_or_default();
                    request.rewind(&start);
                    tries = count_try(tries)?;
                    continue;
                }
            }
            // All writers know the series that get their ids here, and each writes their records until one succeeds. So
            // the cache is right even if this batch fails.
            let no_series_reason = batch_write.resolve_series(cache, batch, &measurements, was_full, room);
            drop(lease);
            if let Some(whole) = whole {
                whole.begin_batch(&self.catalog, batch, &measurements, request.has_more()).await?;
                // A batch that is the whole body is written at once.
                if !request.errors().is_empty() {
                    report.unreadable = request.errors().clone();
                    drop(locks);
                    return whole.give_up(&self.catalog, report).await;
                }
            }
            let writing = batch_write.write(
                batch,
                &measurements,
                no_series_reason,
                &mut names,
                &mut report,
                whole.as_mut(),
            );
            let written = pin!(writing).instrument(span!("write")).await;
            if let Some(whole) = whole
                && report.complaint().is_some()
            {
                drop(locks);
                return whole.give_up(&self.catalog, report).await;
            }
            if whole.as_ref().is_none_or(|whole| !whole.is_staged()) {
                locks = TableLocks::default();
            }
            let Some(before) = before else {
                written?;
                continue;
            };
            self.catalog.follow().await?;
            let is_same = |(measurement, generation): (&Arc<Measurement>, &Generation)| {
                !measurement.was_dropped() && measurement.stored().generation() == *generation
            };
            // The database may have been dropped, and one of its tables created again since.
            self.policy(database, &policy.name)?;
            match existing.iter().zip(&generations).all(is_same) {
                true if written? => tries = 0,
                _ => {
                    (report, names) = before;
                    request.rewind(&start);
                    tries = count_try(tries)?;
                }
            }
        }
        report.unreadable = request.errors().clone();
        if let Some(whole) = whole {
            if report.complaint().is_some() {
                drop(locks);
                return whole.give_up(&self.catalog, report).await;
            }
            whole.commit().await?;
        }
        self.caches.give_back(writer_cache);
        if !database_entry.subscriptions.is_empty() && report.written > 0 {
            self.feed_subscribers(&database_entry, &policy.name, options, body, report.written);
        }
        Ok(report)
    }

    /// A database and one of its policies.
    fn policy(&self, database: &str, policy: &str) -> Result<(Arc<Database>, RetentionPolicy)> {
        let missing = || Error::missing(format!("database not found: \"{database}\""));
        let entry = self.catalog.database(database).ok_or_else(missing)?;
        let policy = entry.existing_policy(policy)?.clone();
        Ok((entry, policy))
    }

    fn feed_subscribers(
        &self,
        database: &Database,
        policy: &str,
        options: ParseOptions,
        body: &[u8],
        points: u64,
    ) {
        if let Some(feed) = self.feed.as_ref().filter(|_| database.has_subscription(policy)) {
            feed.offer(&database.name, policy, options, body, points);
        }
    }
}

/// Counts that a batch must be written once more. Each time another server has dropped something that it needs.
fn count_try(tries: u32) -> Result<u32> {
    let words =
        || Error::new(ErrorKind::Retry, "its series are dropped again and again: send it again later");
    (tries < TRIES_MAX).then_some(tries + 1).ok_or_else(words)
}

/// A batch that is being written.
struct BatchWrite<'a> {
    catalog: &'a Arc<Catalog>,
    database: &'a str,
    policy: &'a RetentionPolicy,
    now_ns: i64,
    series_limit_bytes: usize,
    series_max: Option<u64>,
    series_quotas: &'a tokio::sync::Mutex<()>,
    form: Form,
}

impl BatchWrite<'_> {
    /// Creates the measurements that the batch names for the first time, if it holds samples: they become members of the
    /// policy's group.
    async fn create_members(
        &self,
        cache: &SeriesCache,
        measurements: &[Option<Arc<Measurement>>],
        was_full: bool,
    ) -> Result<()> {
        let shared = measurements.iter().flatten().find(|measurement| measurement.is_group());
        let Some(shared) = shared.filter(|_| !was_full) else { return Ok(()) };
        let names = pending_members(cache);
        self.catalog.create_members(self.database, &self.policy.name, shared, &names).await
    }

    /// The measurement of each group of rows. New ones are created, unless the policy rejects all of their points, or
    /// no more may be created.
    async fn measurements_of(
        &self,
        batch: &ParsedBatch,
        names: &mut NewNames,
    ) -> Result<Vec<Option<Arc<Measurement>>>> {
        if self.form == Form::Samples {
            // The policy's group is looked up each time, because it may be dropped like any measurement.
            let shared = self.catalog.group(self.database, self.policy).await?;
            return Ok(batch.groups().map(|_| Some(shared.clone())).collect());
        }
        let text = |group| String::from_utf8_lossy(RowGroup::measurement(group));
        let named: Vec<Cow<'_, str>> = batch.groups().map(text).collect();
        let writable_ns = LazyLock::new(|| self.writable_ns(batch));
        let is_writable = |time_ns: &i64| {
            writable_ns.is_none_or(|(first_ns, last_ns)| (first_ns..=last_ns).contains(time_ns))
        };
        let (mut counted, mut taken): (HashSet<&str>, Vec<(usize, &RowGroup)>) = Default::default();
        let (mut tries, mut is_counted) = (0, false);
        names.series_quota = None;
        loop {
            let found = self.catalog.measurements_named(self.database, &self.policy.name, &named).await?;
            names.memory_full_message = self.is_memory_full().then(|| self.memory_full_message());
            let mut new: Vec<String> = Vec::new();
            let groups = batch.groups().zip(&named).enumerate();
            for (index, (group, name)) in groups.filter(|(index, _)| found[*index].is_none()) {
                let is_new = !counted.contains(&**name) && group.times_ns.iter().any(is_writable);
                if is_new && !is_counted {
                    // Nor would a measurement without a series be of use.
                    let room = self.series_room().await?;
                    names.series_quota = room.filter(|room| room.left == 0).map(|room| room.most);
                    is_counted = true;
                }
                if names.series_quota.is_some() {
                    continue;
                }
                // Without its fields a new measurement would be useless.
                if is_new && names.take(1 + group.columns.len()) {
                    counted.insert(name);
                    taken.push((index, group));
                }
                if counted.contains(&**name) {
                    new.push(name.clone().into_owned());
                }
            }
            if new.is_empty() {
                for (measurement, group) in
                    taken.iter().filter_map(|(index, group)| Some((found[*index].as_ref()?, group)))
                {
                    group.columns.iter().map(field_of).for_each(|(name, field_type)| {
                        names.admit(measurement, name, field_type);
                    });
                }
                return Ok(found);
            }
            self.catalog.create_measurements(self.database, self.policy, new).await?;
            // They are looked up, and may have been dropped again.
            tries = count_try(tries)?;
        }
    }

    /// The first and last time of points that may be written.
    fn writable_ns(&self, batch: &ParsedBatch) -> Option<(i64, i64)> {
        self.policy.writable_ns(self.now_ns, batch.groups().map(|group| &group.times_ns[..]))
    }

    /// Whether the memory for series and names is full.
    fn is_memory_full(&self) -> bool {
        self.catalog.series_memory_bytes() > self.series_limit_bytes
    }

    /// Writes the rows that are not rejected. Returns false if nothing was written, because another server was faster to give
    /// a field its type.
    async fn write(
        &self,
        batch: &mut ParsedBatch,
        measurements: &[Option<Arc<Measurement>>],
        no_series_reason: Option<NoSeries>,
        names: &mut NewNames,
        report: &mut WriteReport,
        whole: Option<&mut WholeWrite>,
    ) -> Result<bool> {
        let cell_bytes_max = self.catalog.store().capabilities().cell_bytes_max;
        if matches!(no_series_reason, Some(NoSeries::Quota(_))) || names.series_quota.is_some() {
            self.note_series_refused();
            report.is_over_quota = true;
        }
        let mut rejected = RejectedRows::new(self.writable_ns(batch), no_series_reason, cell_bytes_max);
        for (group, measurement) in batch.groups().zip(measurements) {
            match measurement {
                Some(measurement) => {
                    let starts = measurement.stored().current_shard_starts().await?;
                    rejected.check(group, measurement, &starts, names);
                }
                None => rejected.reject_all(group, names),
            }
        }
        let keeps = rejected.finish(batch.groups(), report);
        if whole.is_some() && report.complaint().is_some() {
            return Ok(true);
        }
        let stage = whole.and_then(WholeWrite::stage);
        let mut kept: Vec<KeptRows<'_>> = Vec::new();
        let with_rows = batch.groups_mut().iter().enumerate().filter(|(_, group)| group.row_count() > 0);
        for (((index, group), measurement), keep) in with_rows.zip(measurements).zip(keeps) {
            let any = keep.as_ref().is_none_or(|keep| keep.count_set_bits() > 0);
            if let Some(measurement) = measurement.as_ref().filter(|_| any) {
                let fields = group.columns.iter().filter(|column| is_stored(column, keep.as_ref()));
                kept.push(KeptRows { index, measurement, fields: fields.map(field_of).collect(), keep });
            }
        }
        if kept.is_empty() {
            return Ok(true);
        }
        let to_write: Vec<FieldsToWrite<'_>> =
            kept.iter().map(|rows| (rows.measurement, &*rows.fields)).collect();
        let columns = self.catalog.columns_for_write(&to_write).await?;
        drop(to_write);
        let mut operations = Vec::with_capacity(kept.len());
        let mut written = 0;
        let mut written_arrays: Vec<(usize, Vec<ArrayRef>)> = Vec::with_capacity(kept.len());
        for (kept, columns) in kept.iter().zip(columns) {
            let group = &mut batch.groups_mut()[kept.index];
            kept.measurement.stored().note_rows(&group.series_ids, &group.times_ns);
            let upsert = upsert_of(group, kept, columns);
            written += upsert.rows() as u64;
            if let Some(values) = &mut report.values {
                let fields = upsert.columns[2..].iter();
                let count: usize = fields.map(|cells| cells.values.len() - cells.values.null_count()).sum();
                *values.entry(kept.measurement.name().to_owned()).or_default() += count as u64;
            }
            written_arrays
                .push((kept.index, upsert.columns.iter().map(|cells| cells.values.clone()).collect()));
            operations.push(Operation::Upsert(upsert));
        }
        // Sorted by table, because a measurement may have several groups of rows.
        let mut touched: Vec<(&Arc<Measurement>, &Operation)> =
            kept.iter().map(|rows| rows.measurement).zip(&operations).collect();
        touched.sort_by_key(|(measurement, _)| measurement.table());
        let (mut saved, mut records) = (Vec::new(), Vec::new());
        for of_table in touched.chunk_by(|(a, _), (b, _)| a.table() == b.table()) {
            let measurement = of_table[0].0;
            if let Some(log) = measurement.stored().change_log() {
                // Series are registered already.
                if !measurement.stored().register_names(log).await? {
                    return Ok(false);
                }
                continue;
            }
            let series = of_table.iter().flat_map(|(_, operation)| series_of(operation));
            let taken = measurement.stored().unsaved_records(series);
            let before = records.len();
            records.extend(taken.operations(self.catalog.series_records()));
            if records.len() > before {
                saved.push((measurement, taken));
            }
        }
        if !records.is_empty() {
            // If batches are not atomic, the records that points need are written first. Nor are they staged: other writers
            // write the same records, and whoever commits second would be refused.
            if stage.is_some() || self.catalog.store().capabilities().atomicity == Atomicity::Row {
                self.catalog.store().write(WriteBatch { operations: std::mem::take(&mut records) }).await?;
            }
            records.append(&mut operations);
            operations = records;
        }
        match stage {
            Some(stage) => stage.write(WriteBatch { operations }).await?,
            None => self.catalog.store().write(WriteBatch { operations }).await?,
        };
        saved.iter().for_each(|(measurement, records)| measurement.stored().saved(records));
        report.written += written;
        for (index, arrays) in written_arrays {
            give_back(&mut batch.groups_mut()[index], arrays);
        }
        Ok(true)
    }

    /// Why no series can be created when the indexes have taken all their memory.
    fn memory_full_message(&self) -> String {
        let limit_mib = self.series_limit_bytes >> 20;
        format!(
            "names and series take all of {limit_mib} MiB, half of memory-limit; DROP SERIES or DELETE those that are not \
             needed, keep points for a shorter time, or raise memory-limit"
        )
    }
}

/// The stored rows of one group of rows.
struct KeptRows<'a> {
    /// The position of their group of rows in the batch.
    index: usize,
    measurement: &'a Arc<Measurement>,
    /// The fields that occur in them.
    fields: Vec<(String, FieldType)>,
    /// Which rows of their group they are; `None` means all.
    keep: Option<BooleanBuffer>,
}

/// Whether a column of a group of rows is stored. A field that occurs only in rejected rows must not be created.
fn is_stored(column: &FieldColumn, keep: Option<&BooleanBuffer>) -> bool {
    let any = || keep.is_none_or(|keep| keep.set_indices().any(|row| column.is_present(row)));
    column.name() != b"time" && any()
}

/// The series of the rows of an upsert.
fn series_of(operation: &Operation) -> impl Iterator<Item = u32> {
    let ids = match operation {
        Operation::Upsert(upsert) => upsert.column(SERIES_COLUMN),
        Operation::DeleteKeys { .. } => None,
    };
    let ids = ids.and_then(|cells| cells.values.as_any().downcast_ref::<UInt32Array>());
    ids.into_iter().flat_map(|ids| ids.values().iter().copied())
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

fn field_of(column: &FieldColumn) -> (String, FieldType) {
    (String::from_utf8_lossy(column.name()).into_owned(), field_type(column.kind()))
}

/// Moves the kept rows of a group of rows into columns for the store.
fn upsert_of(group: &mut RowGroup, kept: &KeptRows<'_>, ids: Vec<ColumnId>) -> Upsert {
    let keep = kept.keep.as_ref();
    let cells = |column: ColumnId, values: ArrayRef| CellColumn { column, values, null_cells: None };
    let mut written = vec![
        cells(SERIES_COLUMN, Arc::new(UInt32Array::from(std::mem::take(&mut group.series_ids)))),
        cells(TIME_COLUMN, Arc::new(TimestampNanosecondArray::from(std::mem::take(&mut group.times_ns)))),
    ];
    let columns = group.columns.iter_mut().filter(|column| is_stored(column, keep));
    for (column, id) in columns.zip(ids) {
        written.push(cells(id, array_of(column)));
    }
    if let Some(keep) = keep {
        written.iter_mut().for_each(|column| column.values = filter(&column.values, keep));
    }
    Upsert { table: kept.measurement.table(), mode: WriteMode::Upsert, columns: written }
}

#[cfg(test)]
mod tests;
