//! The task that reads tablets for a scan: it takes ranges from a queue and sends their batches on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::Instrument;

use super::tablet_scan::TabletScan;
use super::{ScanSpec, TabletRange};
use crate::error::Result;

/// Servers expire a scanner after 60 s without a call.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// What is left to read.
#[derive(Debug)]
pub(super) struct RangeQueue {
    ranges: Mutex<VecDeque<TabletRange>>,
    /// Rows of the limit that no reader has received yet, so that none asks a server for more.
    rows_left: AtomicU64,
}

impl RangeQueue {
    pub(super) fn new(spec: &ScanSpec, ranges: Vec<TabletRange>) -> Self {
        Self { ranges: Mutex::new(ranges.into()), rows_left: AtomicU64::new(spec.limit.unwrap_or(u64::MAX)) }
    }
}

/// Reads one range after the other until none is left, and sends the batches.
pub(super) async fn read_ranges(
    spec: Arc<ScanSpec>,
    queue: Arc<RangeQueue>,
    sender: mpsc::Sender<Result<RecordBatch>>,
) {
    loop {
        let Some(range) = queue.ranges.lock().pop_front() else { return };
        let span = tracing::debug_span!("kudu_scan", tablet = %range.tablet.id_text());
        let mut scan = TabletScan::new(spec.clone(), range);
        loop {
            let left = queue.rows_left.load(Ordering::Relaxed);
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
                let _ = queue.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            }
            let failed = batch.is_err();
            let slot = loop {
                tokio::select! {
                    slot = sender.reserve() => break slot,
                    () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => scan.keep_alive().await,
                }
            };
            match slot {
                Ok(slot) => slot.send(batch),
                Err(_) => return,
            }
            if failed {
                return;
            }
        }
    }
}
