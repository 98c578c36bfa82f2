//! Concatenation of the batches of a scan.

use super::super::{Batch, ScanRequest, SeriesRun, Snapshot};
use crate::arrays::concat;
use crate::error::Result;

/// All rows of a scan as one batch. The caller knows that there are few.
pub(super) async fn read_all(snapshot: &dyn Snapshot, request: ScanRequest) -> Result<Option<Batch>> {
    let mut stream = snapshot.scan(request).await?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await? {
        batches.push(batch);
    }
    let Some(first) = batches.first() else { return Ok(None) };
    let columns = 0..first.columns.len();
    let column =
        |at: usize| concat(&batches.iter().map(|batch| batch.columns[at].clone()).collect::<Vec<_>>());
    let columns = columns.map(column).collect();
    let mut series: Vec<SeriesRun> = Vec::new();
    for run in batches.iter().flat_map(|batch| &batch.series) {
        match series.last_mut() {
            Some(last) if last.series == run.series => last.rows += run.rows,
            _ => series.push(*run),
        }
    }
    Ok(Some(Batch { rows: batches.iter().map(|batch| batch.rows).sum(), series, columns }))
}
