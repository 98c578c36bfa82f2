//! A running scan: several readers put batches into one bounded queue, from which the caller takes them.
//!
//! The first batch of a scan of one tablet is read by the caller itself. Most such scans end with it, without a task or a
//! second call.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::reader::{RangeQueue, read_range, read_ranges};
use super::tablet_scan::TabletScan;
use super::{ScanSpec, TabletRange, sorted};
use crate::error::Result;
use crate::location_cache::Tablet;

/// A running scan. Dropping it ends the work on the servers.
#[derive(Debug)]
pub struct Scanner {
    schema: SchemaRef,
    /// The only tablet, before its first batch.
    only: Option<(Arc<ScanSpec>, TabletScan)>,
    batches: mpsc::Receiver<Result<RecordBatch>>,
    readers: Vec<JoinHandle<()>>,
    rows_left: Option<u64>,
    tablets: usize,
}

impl Scanner {
    pub(super) fn start(spec: Arc<ScanSpec>, ranges: Vec<TabletRange>) -> Self {
        if let [range] = &*ranges
            && spec.limit != Some(0)
        {
            return Self::start_one(spec, range.clone());
        }
        let (sender, batches) = mpsc::channel(spec.prefetch);
        let tablets = ranges.len();
        let rows_left = spec.limit;
        let queue = Arc::new(RangeQueue::new(&spec, ranges));
        let count = if rows_left == Some(0) { 0 } else { spec.parallelism.min(tablets) };
        let readers = (0..count)
            .map(|_| tokio::spawn(read_ranges(spec.clone(), queue.clone(), sender.clone())))
            .collect();
        Self { schema: spec.arrow_schema.clone(), only: None, batches, readers, rows_left, tablets }
    }

    fn start_one(spec: Arc<ScanSpec>, range: TabletRange) -> Self {
        // Nobody sends before there is a reader: the receiver is replaced then.
        let (_, batches) = mpsc::channel(1);
        let (schema, rows_left) = (spec.arrow_schema.clone(), spec.limit);
        let only = Some((spec.clone(), TabletScan::new(spec, range)));
        Self { schema, only, batches, readers: Vec::new(), rows_left, tablets: 1 }
    }

    /// Lets a task read what follows the first batch of the only tablet, which has so many rows.
    fn read_rest(&mut self, rows: u64) {
        let Some((spec, scan)) = self.only.take().filter(|(_, scan)| !scan.is_done()) else { return };
        let (sender, batches) = mpsc::channel(spec.prefetch);
        let rows_left = AtomicU64::new(self.rows_left.map_or(u64::MAX, |left| left.saturating_sub(rows)));
        let read = async move {
            read_range(&spec, scan, &rows_left, &sender).await;
        };
        self.batches = batches;
        self.readers = vec![tokio::spawn(read)];
    }

    /// Reads the tablets so that all rows come in the order of the primary key.
    pub(super) fn start_sorted(spec: Arc<ScanSpec>, groups: Vec<Vec<Arc<Tablet>>>) -> Self {
        if let [group] = &*groups
            && let [tablet] = &**group
            && spec.hidden.is_empty()
            && spec.limit != Some(0)
        {
            return Self::start_one(spec, TabletRange::whole(tablet.clone()));
        }
        let (sender, batches) = mpsc::channel(1);
        let (schema, rows_left) = (sorted::visible_schema(&spec), spec.limit);
        let tablets = groups.iter().map(Vec::len).sum();
        let readers = match rows_left {
            Some(0) => Vec::new(),
            _ => vec![tokio::spawn(sorted::read(spec, groups, sender))],
        };
        Self { schema, only: None, batches, readers, rows_left, tablets }
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
        let next = match &mut self.only {
            Some((_, scan)) => {
                let next = scan.next_rows(self.rows_left).await;
                if let Ok(Some(batch)) = &next {
                    self.read_rest(batch.num_rows() as u64);
                }
                next.transpose()
            }
            None => self.batches.recv().await,
        };
        match next {
            None => {
                // Readers only end early by panicking; a short result must not look complete.
                for reader in self.readers.drain(..) {
                    if let Err(error) = reader.await
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
        self.only = None;
        self.batches.close();
        for reader in self.readers.drain(..) {
            reader.abort();
        }
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.stop();
    }
}
