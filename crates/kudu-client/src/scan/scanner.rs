//! A running scan: several tablets at a time, batches into one bounded queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::tablet::TabletScan;
use super::{Part, Spec, sorted};
use crate::error::Result;
use crate::tablets::Tablet;

/// Servers forget a scanner after 60 s without a call.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// A running scan. Dropping it ends the work on the servers.
#[derive(Debug)]
pub struct Scanner {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch>>,
    workers: Vec<JoinHandle<()>>,
    rows_left: Option<u64>,
    tablets: usize,
}

impl Scanner {
    pub(super) fn start(spec: Arc<Spec>, parts: Vec<Part>) -> Self {
        let (sender, batches) = mpsc::channel(spec.prefetch);
        let tablets = parts.len();
        let rows_left = spec.limit;
        let shared = Arc::new(Shared::new(&spec, parts));
        let count = if rows_left == Some(0) { 0 } else { spec.parallelism.min(tablets) };
        let workers = (0..count)
            .map(|_| {
                let (spec, shared, sender) = (spec.clone(), shared.clone(), sender.clone());
                tokio::spawn(work(spec, shared, sender))
            })
            .collect();
        Self { schema: spec.arrow_schema.clone(), batches, workers, rows_left, tablets }
    }

    /// Reads the tablets so that all rows come in the order of the primary key.
    pub(super) fn start_sorted(spec: Arc<Spec>, groups: Vec<Vec<Arc<Tablet>>>) -> Self {
        let (sender, batches) = mpsc::channel(1);
        let (schema, rows_left) = (sorted::visible_schema(&spec), spec.limit);
        let tablets = groups.iter().map(Vec::len).sum();
        let workers = match rows_left {
            Some(0) => Vec::new(),
            _ => vec![tokio::spawn(sorted::read(spec, groups, sender))],
        };
        Self { schema, batches, workers, rows_left, tablets }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many tablets (or parts of tablets) remained after partition pruning.
    pub fn tablets(&self) -> usize {
        self.tablets
    }

    /// The next batch of rows; never an empty one. `None` at the end.
    ///
    /// # Errors
    /// After retries; the scan is over then.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows_left == Some(0) {
            self.stop();
            return Ok(None);
        }
        match self.batches.recv().await {
            None => {
                // Workers only end early by panicking; a short result must not look complete.
                for worker in self.workers.drain(..) {
                    if let Err(error) = worker.await
                        && error.is_panic()
                    {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
                Ok(None)
            }
            Some(Err(error)) => {
                self.rows_left = Some(0);
                self.stop();
                Err(error)
            }
            Some(Ok(batch)) => {
                let Some(left) = &mut self.rows_left else { return Ok(Some(batch)) };
                let take = (*left).min(batch.num_rows() as u64);
                *left -= take;
                Ok(Some(batch.slice(0, take as usize)))
            }
        }
    }

    /// Reads the scan to its end.
    ///
    /// # Errors
    /// As [`Self::next_batch`].
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next_batch().await? {
            batches.push(batch);
        }
        Ok(batches)
    }

    /// The batches as a stream, which ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::unfold(self, async |mut scanner| {
            let batch = scanner.next_batch().await.transpose()?;
            Some((batch, scanner))
        })
    }

    fn stop(&mut self) {
        self.batches.close();
        for worker in self.workers.drain(..) {
            worker.abort();
        }
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    parts: Mutex<VecDeque<Part>>,
    /// Rows not yet received by any worker, so that none asks for more than is wanted.
    rows_left: AtomicU64,
}

impl Shared {
    pub(super) fn new(spec: &Spec, parts: Vec<Part>) -> Self {
        Self { parts: Mutex::new(parts.into()), rows_left: AtomicU64::new(spec.limit.unwrap_or(u64::MAX)) }
    }
}

/// Scans one tablet after the other until none is left.
pub(super) async fn work(spec: Arc<Spec>, shared: Arc<Shared>, sender: mpsc::Sender<Result<RecordBatch>>) {
    loop {
        let Some(part) = shared.parts.lock().pop_front() else { return };
        let span = tracing::debug_span!("kudu_scan", tablet = %part.tablet.id_text());
        let mut scan = TabletScan::new(spec.clone(), part);
        loop {
            let left = shared.rows_left.load(Ordering::Relaxed);
            if left == 0 {
                return;
            }
            let next = scan.next(spec.limit.map(|_| left)).instrument(span.clone());
            let batch = match next.await {
                Ok(Some(batch)) if batch.num_rows() == 0 => continue,
                Ok(Some(batch)) => Ok(batch),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if spec.limit.is_some()
                && let Ok(batch) = &batch
            {
                let rows = batch.num_rows() as u64;
                let take = |left: u64| Some(left.saturating_sub(rows));
                let _ = shared.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            }
            let failed = batch.is_err();
            let place = loop {
                tokio::select! {
                    place = sender.reserve() => break place,
                    () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => scan.keep_alive().await,
                }
            };
            match place {
                Ok(place) => place.send(batch),
                Err(_) => return,
            }
            if failed {
                return;
            }
        }
    }
}
