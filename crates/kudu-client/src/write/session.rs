//! Write sessions: buffer row operations and send them in batches.
//!
//! Rows go into one open batch per tablet. A full batch is sealed and queued. One batch per tablet is in flight at a
//! time, so that operations on a row keep their order; `queues` says how they do when the row gets another tablet. One bound
//! limits the bytes of all open, queued and in-flight batches; a caller that writes faster than the servers waits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

use super::batch::{Batch, Outcome, PendingErrors, failed_rows};
use super::queues::{TabletQueue, TabletQueues};
use super::send::{Payload, send_batch};
use crate::error::{Error, ErrorKind, Result};
use crate::location_cache::{Lookup, Tablet};
use crate::pb;
use crate::row::{EncodedRows, Row, RowReader};
use crate::table::{Table, TableInner};

/// When buffered rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Each row at once; [`Session::apply`] returns its result.
    Sync,
    /// When a batch is full or has waited for the flush interval; errors are collected.
    Background,
    /// Only by [`Session::flush`]; applying to a full buffer is an error.
    Manual,
}

/// Servers remember outcomes for about ten minutes; a later retry could be applied twice.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(8 * 60);

/// Servers drop connections that send more than 50 MiB at once, and the last row of a batch may be of the largest size.
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

impl Table {
    /// Begins a write session.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder {
            table: self.clone(),
            mode: FlushMode::Background,
            buffer_bytes: 16 << 20,
            batch_bytes: 1 << 20,
            flush_interval: Duration::from_millis(500),
            timeout: Duration::from_secs(60),
            max_errors: 10_000,
            fixed_pause: None,
        }
    }
}

impl SessionBuilder {
    /// Sets when rows are sent; by default in the background.
    #[must_use]
    pub fn mode(mut self, mode: FlushMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the most bytes of rows in open, queued and in-flight batches (16 MiB).
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes.max(1);
        self
    }

    /// Sets the size at which a batch is sent (1 MiB, at most 16 MiB).
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes.clamp(1, LARGEST_BATCH_BYTES);
        self
    }

    /// Sets how long a row may wait in an open batch in background mode (500 ms).
    #[must_use]
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets how long after a batch is full or flushed its rows fail if they are not written (60 s, at most 8 min). The
    /// time in the queue counts.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(LONGEST_TIMEOUT);
        self
    }

    /// Sets how many failed rows are kept for [`Session::take_errors`] (10 000).
    #[must_use]
    pub fn max_errors(mut self, errors: usize) -> Self {
        self.max_errors = errors;
        self
    }

    /// Pauses this long after each refusal instead of limiting concurrency; to measure the difference.
    #[cfg(feature = "test-cluster")]
    #[doc(hidden)]
    #[must_use]
    pub fn fixed_pause_when_busy(mut self, pause: Duration) -> Self {
        self.fixed_pause = Some(pause);
        self
    }

    /// Opens the session. Must be called within a tokio runtime.
    pub fn open(self) -> Session {
        let inner = Arc::new(SessionInner {
            wire_schema: self.table.schema().to_plain_pb(),
            table: self.table.inner.clone(),
            settings: self,
            used_bytes: AtomicUsize::new(0),
            freed: Notify::new(),
            queues: Mutex::default(),
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
    inner: Arc<SessionInner>,
}

#[derive(Debug)]
struct SessionInner {
    table: Arc<TableInner>,
    settings: SessionBuilder,
    wire_schema: pb::Schema,
    /// Bytes of rows in open, queued and in-flight batches.
    used_bytes: AtomicUsize,
    freed: Notify,
    queues: Mutex<TabletQueues>,
    /// Numbers of the batches that are not settled.
    unfinished: Mutex<BTreeSet<u64>>,
    finished: Notify,
    errors: Mutex<PendingErrors>,
}

/// Buffers for keys, reused from row to row.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    key: Vec<u8>,
    columns: Vec<u8>,
}

impl Session {
    /// Adds a row operation. Waits while the buffer is full.
    ///
    /// # Errors
    /// When the row is incomplete or no partition covers it. In sync mode also the server's error; in the other modes
    /// see [`Self::flush`] and [`Self::take_errors`].
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
            FlushMode::Sync => inner.write_sync(row, tablet).await,
            FlushMode::Background => {
                inner.wait_for_space(row.encoded_bytes()).await;
                inner.append(row, tablet, &scratch.key);
                Ok(())
            }
            FlushMode::Manual => {
                let used = inner.used_bytes.load(Ordering::Relaxed);
                if used > 0 && used + row.encoded_bytes() > inner.settings.buffer_bytes {
                    let message = format!("the buffer of {} bytes is full", inner.settings.buffer_bytes);
                    return Err(Error::new(ErrorKind::Limit, message));
                }
                inner.append(row, tablet, &scratch.key);
                Ok(())
            }
        }
    }

    pub(super) fn table(&self) -> &Arc<TableInner> {
        &self.inner.table
    }

    /// Sends what is buffered and waits until all rows applied so far are written or have failed.
    ///
    /// # Errors
    /// The first row's error, if rows failed since errors were last taken. [`Self::take_errors`] returns them all.
    pub async fn flush(&self) -> Result<()> {
        let inner = &self.inner;
        inner.seal(None);
        let upto = inner.queues.lock().last_number;
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

    /// Bytes of rows in open, queued and in-flight batches; never far above the bound.
    pub fn used_bytes(&self) -> usize {
        self.inner.used_bytes.load(Ordering::Relaxed)
    }
}

impl SessionInner {
    async fn tablet_of(&self, key: &[u8]) -> Result<Arc<Tablet>> {
        let found = match self.table.locations.cached(key) {
            Some(found) => found,
            None => {
                let deadline = Instant::now() + self.settings.timeout;
                self.table.locations.find(&self.table.client.cluster, key, deadline).await?
            }
        };
        match found {
            Lookup::Tablet(tablet) => Ok(tablet),
            Lookup::NonCoveredRange { .. } => {
                Err(Error::new(ErrorKind::NotFound, "no range partition covers the row"))
            }
        }
    }

    async fn wait_for_space(self: &Arc<Self>, bytes: usize) {
        let most = self.settings.buffer_bytes;
        let fits = || {
            let used = self.used_bytes.load(Ordering::Relaxed);
            // A single row larger than the buffer must still be sent.
            used == 0 || used + bytes <= most
        };
        if fits() {
            return;
        }
        // Open batches occupy space too, which might never be freed if they were not sent.
        self.seal(None);
        loop {
            let freed = self.freed.notified();
            if fits() {
                return;
            }
            freed.await;
        }
    }

    fn append(self: &Arc<Self>, row: &Row, tablet: Arc<Tablet>, key: &[u8]) {
        let mut queues = self.queues.lock();
        let queues = &mut *queues;
        let other = queues.before(&tablet, key);
        let queue = match queues.by_tablet.get_mut(other.as_ref().unwrap_or(&tablet.id)) {
            Some(queue) => queue,
            None => queues.by_tablet.entry(tablet.id.clone()).or_insert_with(|| TabletQueue::of(&tablet)),
        };
        if let Some(before) = queue.open.take_if(|open| open.tablet.id != tablet.id) {
            self.queue_batch(queue, before);
        }
        let batch = queue.open.get_or_insert_with(|| {
            queues.last_number += 1;
            self.unfinished.lock().insert(queues.last_number);
            Batch::new(tablet, queues.last_number)
        });
        let before = batch.rows.bytes();
        row.encode_into(&mut batch.rows);
        let bytes = batch.rows.bytes();
        self.used_bytes.fetch_add(bytes - before, Ordering::Relaxed);
        if bytes >= self.settings.batch_bytes && self.settings.mode == FlushMode::Background {
            self.seal_open_batch(queue);
        }
    }

    /// Queues open batches; with `before`, only those whose first row is older.
    fn seal(self: &Arc<Self>, before: Option<Instant>) {
        let mut queues = self.queues.lock();
        for queue in queues.by_tablet.values_mut() {
            if queue
                .open
                .as_ref()
                .is_some_and(|batch| before.is_none_or(|before| batch.first_row_at <= before))
            {
                self.seal_open_batch(queue);
            }
        }
    }

    fn seal_open_batch(self: &Arc<Self>, queue: &mut TabletQueue) {
        let Some(mut batch) = queue.open.take() else { return };
        batch.deadline = Some(Instant::now() + self.settings.timeout);
        queue.sealed.push_back(batch);
        if !queue.is_sending {
            queue.is_sending = true;
            let (session, id) = (self.clone(), queue.id.clone());
            tokio::spawn(async move { session.send_queued(id).await });
        }
    }

    /// Queues a batch behind which another one is opened. In manual mode both are sent when the other one is.
    fn queue_batch(self: &Arc<Self>, queue: &mut TabletQueue, batch: Batch) {
        match self.settings.mode {
            FlushMode::Manual => queue.sealed.push_back(batch),
            _ => {
                queue.open = Some(batch);
                self.seal_open_batch(queue);
            }
        }
    }

    /// Sends the batches of a queue, one after the other, until none is left.
    async fn send_queued(self: Arc<Self>, id: Bytes) {
        loop {
            let batch = {
                let mut queues = self.queues.lock();
                let Some(queue) = queues.by_tablet.get_mut(&id) else { return };
                match queue.sealed.pop_front() {
                    Some(batch) => batch,
                    None => {
                        queue.is_sending = false;
                        // Queues of tablets that no longer exist must not accumulate.
                        if queue.open.is_none() {
                            queues.remove(&id);
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
            Outcome::Moved => self.reroute(&payload, deadline).await,
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

    /// Sends rows whose tablet no longer exists to the tablets that hold their keys now, in order.
    async fn reroute(&self, payload: &Payload, deadline: Instant) {
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

    async fn write_sync(&self, row: &Row, tablet: Arc<Tablet>) -> Result<()> {
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
            Outcome::Moved => Err(Error::new(ErrorKind::NotFound, "the partition of the row was dropped")),
        }
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        let bytes = *self.used_bytes.get_mut();
        if bytes > 0 {
            tracing::warn!(bytes, "a write session was dropped with rows that were not flushed");
        }
    }
}
