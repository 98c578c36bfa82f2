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
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// The ranges that no reader has begun yet.
#[derive(Debug)]
pub(super) struct RangeQueue {
    ranges: Mutex<VecDeque<TabletRange>>,
    /// How many rows of the limit are left. No reader asks a server for more.
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
        let scan = TabletScan::new(spec.clone(), range);
        if !read_range(&spec, scan, &queue.rows_left, &sender).await {
            return;
        }
    }
}

/// Reads what is left of a range, and sends the batches; `false` if nothing more is wanted, or possible.
pub(super) async fn read_range(
    spec: &ScanSpec,
    mut scan: TabletScan,
    rows_left: &AtomicU64,
    sender: &mpsc::Sender<Result<RecordBatch>>,
) -> bool {
    let span = scan.span();
    loop {
        let left = rows_left.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        let batch = match scan.next_rows(spec.limit.map(|_| left)).instrument(span.clone()).await {
            Ok(Some(batch)) => Ok(batch),
            Ok(None) => return true,
            Err(error) => Err(error),
        };
        if spec.limit.is_some()
            && let Ok(batch) = &batch
        {
            let rows = batch.num_rows() as u64;
            let subtract = |rows_left: u64| Some(rows_left.saturating_sub(rows));
            let _ = rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
        }
        let failed = batch.is_err();
        // While the consumer is slow, the server must not expire the scanner.
        let slot = loop {
            tokio::select! {
                slot = sender.reserve() => break slot,
                () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => scan.keep_alive().await,
            }
        };
        match slot {
            Ok(slot) => slot.send(batch),
            Err(_) => return false,
        }
        if failed {
            return false;
        }
    }
}
