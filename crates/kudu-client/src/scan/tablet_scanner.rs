//! A scan of one tablet that its caller reads without a task in between.

use super::tablet_scan::TabletScan;
use super::{ScanSpec, TabletRange};
use crate::error::Result;
use crate::location_cache::Tablet;
use arrow_array::RecordBatch;
use std::sync::Arc;

/// A scan of one tablet, from [`ScanBuilder::into_tablets`](super::ScanBuilder::into_tablets). Dropping it ends the work
/// on the server.
///
/// Servers forget a scanner that is not called for 60 s. Then an ordered scan begins again behind the last row; others
/// fail.
#[derive(Debug)]
pub struct TabletScanner {
    scan: TabletScan,
    rows_left: Option<u64>,
}

impl TabletScanner {
    pub(super) fn new(spec: Arc<ScanSpec>, tablet: Arc<Tablet>) -> Self {
        let rows_left = spec.limit;
        Self { scan: TabletScan::new(spec, TabletRange::whole(tablet)), rows_left }
    }

    /// The tablet's bucket in each hash dimension.
    pub fn hash_buckets(&self) -> &[u32] {
        self.scan.hash_buckets()
    }

    /// The next batch of rows; never an empty one. `None` at the end.
    ///
    /// # Errors
    /// After retries.
    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows_left == Some(0) {
            return Ok(None);
        }
        let Some(batch) = self.scan.next_rows(self.rows_left).await? else { return Ok(None) };
        let Some(left) = &mut self.rows_left else { return Ok(Some(batch)) };
        let taken = (*left).min(batch.num_rows() as u64);
        *left -= taken;
        Ok(Some(batch.slice(0, taken as usize)))
    }
}
