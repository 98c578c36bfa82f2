//! Sessions: where row operations are collected and from where they are sent.
//!
//! Rows go into one open batch per tablet. A full batch is sealed and queued; per tablet one batch is under way
//! at a time, so that operations on a row keep their order. What is buffered, queued and under way is counted in
//! bytes against one bound, and who writes faster than the servers take waits.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

use super::batch::{Batch, Outcome, PendingErrors, failed_rows};
use super::send::{Payload, send_batch};
use crate::error::{Error, ErrorKind, Result};
use crate::pb;
use crate::row::{EncodedRows, Row, RowReader};
use crate::table::{Table, TableInner};
use crate::tablets::{Found, Tablet};

/// When buffered rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Each row at once; [`Session::apply`] returns its verdict.
    Sync,
    /// When a batch is full or has waited for the flush interval; verdicts are collected.
    Background,
    /// Only by [`Session::flush`]; a full buffer is an error.
    Manual,
}

/// Servers remember outcomes for about ten minutes; a retry after that could be applied twice.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(8 * 60);

/// Servers drop connections that send more than 50 MiB at once; a last row of the largest size must still fit.
const LARGEST_BATCH_BYTES: usize = 16 << 20;

/// Settings of a session, from [`Table::session`].
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    table: Table,
    mode: FlushMode,
    buffer_bytes: usize,
    batch_bytes: usize,
    flush_interval: Duration,
    timeout: Duration,
    max_errors: usize,
    fixed_pause: Option<Duration>,
}

impl SessionBuilder {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            table,
            mode: FlushMode::Background,
            buffer_bytes: 16 << 20,
            batch_bytes: 1 << 20,
            flush_interval: Duration::from_millis(500),
            timeout: Duration::from_secs(60),
            max_errors: 10_000,
            fixed_pause: None,
        }
    }

    /// When rows are sent; by default in the background.
    #[must_use]
    pub fn mode(mut self, mode: FlushMode) -> Self {
        self.mode = mode;
        self
    }

    /// The most bytes of rows buffered, queued and under way (16 MiB).
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes.max(1);
        self
    }

    /// The size at which a batch is sent (1 MiB, at most 16 MiB).
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes.clamp(1, LARGEST_BATCH_BYTES);
        self
    }

    /// How long a row may wait in an open batch in background mode (500 ms).
    #[must_use]
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How long after a batch was sealed (full, or flushed) its rows fail if they are not written, waiting behind
    /// others included (60 s, at most 8 min).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST_TIMEOUT);
        self
    }

    /// How many failed rows are kept until they are asked for (10 000).
    #[must_use]
    pub fn max_errors(mut self, errors: usize) -> Self {
        self.max_errors = errors;
        self
    }

    /// Pauses this long after each refusal instead of adapting; to measure what that costs.
    #[cfg(feature = "test-cluster")]
    #[doc(hidden)]
    #[must_use]
    pub fn fixed_pause_when_busy(mut self, pause: Duration) -> Self {
        self.fixed_pause = Some(pause);
        self
    }

    /// Opens the session. Must be called within a tokio runtime.
    pub fn open(self) -> Session {
        let inner = Arc::new(Inner {
            wire_schema: self.table.schema().to_plain_pb(),
            table: self.table.inner.clone(),
            settings: self,
            used_bytes: AtomicUsize::new(0),
            freed: Notify::new(),
            lanes: Mutex::default(),
            unfinished: Mutex::default(),
            finished: Notify::new(),
            errors: Mutex::default(),
        });
        if inner.settings.mode == FlushMode::Background {
            let session = Arc::downgrade(&inner);
            let interval = inner.settings.flush_interval;
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(interval / 2).await;
                    let Some(inner) = session.upgrade() else { return };
                    inner.seal(Some(Instant::now() - interval / 2));
                }
            });
        }
        Session { inner }
    }
}

/// A stream of row operations to one table. Clones share buffers and errors.
///
/// Rows still buffered when the last clone is dropped are **not** written: call [`Self::flush`] first.
///
/// ```no_run
/// # async fn example(table: kudu_client::Table) -> kudu_client::Result<()> {
/// use kudu_client::Operation;
///
/// let session = table.session().open();
/// for id in 0..1_000_000_i64 {
///     let mut row = table.row(Operation::Upsert);
///     row.set("id", id)?.set("name", "x")?;
///     session.apply(&row).await?;
/// }
/// session.flush().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: Arc<TableInner>,
    settings: SessionBuilder,
    wire_schema: pb::Schema,
    /// Bytes of rows in open, queued and travelling batches.
    used_bytes: AtomicUsize,
    freed: Notify,
    lanes: Mutex<Lanes>,
    /// Numbers of the batches with rows that are not settled.
    unfinished: Mutex<BTreeSet<u64>>,
    finished: Notify,
    errors: Mutex<PendingErrors>,
}

#[derive(Debug, Default)]
struct Lanes {
    by_tablet: HashMap<Bytes, Lane>,
    last_number: u64,
}

/// The way to one tablet.
#[derive(Debug, Default)]
struct Lane {
    open: Option<Batch>,
    queue: VecDeque<Batch>,
    is_sending: bool,
}

/// Space for keys, reused over rows.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    key: Vec<u8>,
    columns: Vec<u8>,
}

impl Session {
    /// Adds a row operation. Waits while the buffer is full.
    ///
    /// # Errors
    /// A row that is incomplete or that no partition covers is refused here. In sync mode the servers' verdict
    /// is returned too; in the other modes see [`Self::flush`] and [`Self::take_errors`].
    pub async fn apply(&self, row: &Row) -> Result<()> {
        self.apply_with(row, &mut Scratch::default()).await
    }

    pub(super) async fn apply_with(&self, row: &Row, scratch: &mut Scratch) -> Result<()> {
        let inner = &self.inner;
        if !Arc::ptr_eq(row.schema(), &inner.table.schema) && **row.schema() != *inner.table.schema {
            return Err(Error::invalid("the row was made for another table"));
        }
        row.check()?;
        inner.table.partitions.partition_key(
            &inner.table.schema,
            row,
            &mut scratch.columns,
            &mut scratch.key,
        )?;
        let tablet = inner.tablet_of(&scratch.key).await?;
        match inner.settings.mode {
            FlushMode::Sync => inner.write_now(row, tablet).await,
            FlushMode::Background => {
                inner.wait_for_space(row.encoded_bytes()).await;
                inner.append(row, tablet);
                Ok(())
            }
            FlushMode::Manual => {
                let used = inner.used_bytes.load(Ordering::Relaxed);
                if used > 0 && used + row.encoded_bytes() > inner.settings.buffer_bytes {
                    let message = format!("the buffer of {} bytes is full", inner.settings.buffer_bytes);
                    return Err(Error::new(ErrorKind::Limit, message));
                }
                inner.append(row, tablet);
                Ok(())
            }
        }
    }

    pub(super) fn table(&self) -> &Arc<TableInner> {
        &self.inner.table
    }

    /// Sends what is buffered and waits until all rows given so far are settled.
    ///
    /// # Errors
    /// When rows failed since errors were last taken: the first row's error. [`Self::take_errors`] has them all.
    pub async fn flush(&self) -> Result<()> {
        let inner = &self.inner;
        inner.seal(None);
        let upto = inner.lanes.lock().last_number;
        loop {
            let finished = inner.finished.notified();
            if inner.unfinished.lock().first().is_none_or(|&first| first > upto) {
                break;
            }
            finished.await;
        }
        let errors = inner.errors.lock();
        match errors.errors.first() {
            None if errors.dropped == 0 => Ok(()),
            first => {
                let error = first.map(|first| first.error.clone());
                let error = error.unwrap_or_else(|| Error::new(ErrorKind::Server, "details were dropped"));
                Err(error.context(&format!("{} rows were not written; the first", errors.count())))
            }
        }
    }

    /// The rows that failed since the last call.
    pub fn take_errors(&self) -> PendingErrors {
        std::mem::take(&mut self.inner.errors.lock())
    }

    /// Bytes of rows buffered and under way; never far above the bound.
    pub fn used_bytes(&self) -> usize {
        self.inner.used_bytes.load(Ordering::Relaxed)
    }
}

impl Inner {
    async fn tablet_of(&self, key: &[u8]) -> Result<Arc<Tablet>> {
        let found = match self.table.tablets.cached(key) {
            Some(found) => found,
            None => {
                let deadline = Instant::now() + self.settings.timeout;
                self.table.tablets.find(&self.table.client.inner, key, deadline).await?
            }
        };
        match found {
            Found::Tablet(tablet) => Ok(tablet),
            Found::Gap { .. } => Err(Error::new(ErrorKind::NotFound, "no range partition covers the row")),
        }
    }

    async fn wait_for_space(self: &Arc<Self>, bytes: usize) {
        let most = self.settings.buffer_bytes;
        let fits = || {
            let used = self.used_bytes.load(Ordering::Relaxed);
            // A single row larger than the buffer must still get through.
            used == 0 || used + bytes <= most
        };
        if fits() {
            return;
        }
        // Open batches hold space too; without sending them it might never be freed.
        self.seal(None);
        loop {
            let freed = self.freed.notified();
            if fits() {
                return;
            }
            freed.await;
        }
    }

    fn append(self: &Arc<Self>, row: &Row, tablet: Arc<Tablet>) {
        let mut lanes = self.lanes.lock();
        let lanes = &mut *lanes;
        let lane = match lanes.by_tablet.get_mut(&tablet.id) {
            Some(lane) => lane,
            None => lanes.by_tablet.entry(tablet.id.clone()).or_default(),
        };
        let batch = lane.open.get_or_insert_with(|| {
            lanes.last_number += 1;
            self.unfinished.lock().insert(lanes.last_number);
            Batch::new(tablet, lanes.last_number)
        });
        let before = batch.rows.bytes();
        row.encode_into(&mut batch.rows);
        let bytes = batch.rows.bytes();
        self.used_bytes.fetch_add(bytes - before, Ordering::Relaxed);
        if bytes >= self.settings.batch_bytes && self.settings.mode == FlushMode::Background {
            self.seal_lane(lane);
        }
    }

    /// Queues open batches; with `before` only those whose first row is older.
    fn seal(self: &Arc<Self>, before: Option<Instant>) {
        let mut lanes = self.lanes.lock();
        for lane in lanes.by_tablet.values_mut() {
            if lane
                .open
                .as_ref()
                .is_some_and(|batch| before.is_none_or(|before| batch.first_row_at <= before))
            {
                self.seal_lane(lane);
            }
        }
    }

    fn seal_lane(self: &Arc<Self>, lane: &mut Lane) {
        let Some(mut batch) = lane.open.take() else { return };
        batch.deadline = Some(Instant::now() + self.settings.timeout);
        let tablet_id = batch.tablet.id.clone();
        lane.queue.push_back(batch);
        if !lane.is_sending {
            lane.is_sending = true;
            let session = self.clone();
            tokio::spawn(async move { session.send_lane(tablet_id).await });
        }
    }

    /// Sends the batches of a tablet, one after the other, until none is queued.
    async fn send_lane(self: Arc<Self>, tablet_id: Bytes) {
        loop {
            let batch = {
                let mut lanes = self.lanes.lock();
                let Some(lane) = lanes.by_tablet.get_mut(&tablet_id) else { return };
                match lane.queue.pop_front() {
                    Some(batch) => batch,
                    None => {
                        lane.is_sending = false;
                        // Lanes of tablets that are gone must not pile up.
                        if lane.open.is_none() {
                            lanes.by_tablet.remove(&tablet_id);
                        }
                        return;
                    }
                }
            };
            let bytes = batch.rows.bytes();
            let number = batch.number;
            self.send_one(batch).await;
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.freed.notify_waiters();
            self.unfinished.lock().remove(&number);
            self.finished.notify_waiters();
        }
    }

    fn payload(&self, rows: EncodedRows) -> Payload {
        Payload {
            schema: self.wire_schema.clone(),
            count: rows.count,
            rows: Bytes::from(rows.rows),
            indirect: Bytes::from(rows.indirect),
            fixed_pause: self.settings.fixed_pause,
        }
    }

    async fn send_one(&self, batch: Batch) {
        let deadline = batch.deadline.unwrap_or_else(|| Instant::now() + self.settings.timeout);
        let payload = self.payload(batch.rows);
        let span = tracing::debug_span!("kudu_write", tablet = %batch.tablet.id_text(), rows = payload.count);
        let outcome = send_batch(&self.table, batch.tablet, &payload, deadline).instrument(span).await;
        match &outcome {
            Outcome::Applied { row_errors } if row_errors.is_empty() => {}
            Outcome::Moved => self.route_again(&payload, deadline).await,
            outcome => self.report(&payload, outcome),
        }
    }

    fn report(&self, payload: &Payload, outcome: &Outcome) {
        let mut errors = self.errors.lock();
        let most = self.settings.max_errors;
        failed_rows(&self.table.schema, &payload.rows, &payload.indirect, outcome, |row, error| {
            errors.push(most, row, error);
        });
    }

    /// Sends rows whose tablet is gone to those that hold their keys now, in order.
    async fn route_again(&self, payload: &Payload, deadline: Instant) {
        let mut by_tablet: Vec<(Arc<Tablet>, EncodedRows)> = Vec::new();
        let mut reader = RowReader::new(&self.table.schema, &payload.rows, &payload.indirect);
        let mut scratch = Scratch::default();
        while let Ok(Some((_, row))) = reader.next_row() {
            let keys = (&mut scratch.columns, &mut scratch.key);
            let routed = match self.table.partitions.partition_key(&self.table.schema, &row, keys.0, keys.1) {
                Ok(()) => self.tablet_of(&scratch.key).await,
                Err(error) => Err(error),
            };
            match routed {
                Ok(tablet) => match by_tablet.iter_mut().find(|(known, _)| known.id == tablet.id) {
                    Some((_, rows)) => row.encode_into(rows),
                    None => {
                        let mut rows = EncodedRows::default();
                        row.encode_into(&mut rows);
                        by_tablet.push((tablet, rows));
                    }
                },
                Err(error) => self.errors.lock().push(self.settings.max_errors, row, error),
            }
        }
        for (tablet, rows) in by_tablet {
            let payload = self.payload(rows);
            let outcome = send_batch(&self.table, tablet, &payload, deadline).await;
            if !matches!(&outcome, Outcome::Applied { row_errors } if row_errors.is_empty()) {
                self.report(&payload, &outcome);
            }
        }
    }

    async fn write_now(&self, row: &Row, tablet: Arc<Tablet>) -> Result<()> {
        let mut rows = EncodedRows::default();
        row.encode_into(&mut rows);
        let bytes = rows.bytes();
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        let deadline = Instant::now() + self.settings.timeout;
        let payload = self.payload(rows);
        let mut outcome = send_batch(&self.table, tablet, &payload, deadline).await;
        if matches!(outcome, Outcome::Moved) {
            let mut scratch = Scratch::default();
            let schema = &self.table.schema;
            self.table.partitions.partition_key(schema, row, &mut scratch.columns, &mut scratch.key)?;
            let tablet = self.tablet_of(&scratch.key).await;
            outcome = match tablet {
                Ok(tablet) => send_batch(&self.table, tablet, &payload, deadline).await,
                Err(error) => Outcome::Failed(error),
            };
        }
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        match outcome {
            Outcome::Applied { row_errors } => {
                row_errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
            }
            Outcome::Failed(error) => Err(error),
            Outcome::Moved => Err(Error::new(ErrorKind::NotFound, "the partition of the row is gone")),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let bytes = *self.used_bytes.get_mut();
        if bytes > 0 {
            tracing::warn!(bytes, "a write session was dropped with rows that were not flushed");
        }
    }
}
