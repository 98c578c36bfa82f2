//! The newest rows of each series, made of forward scans of slices of time ([`NewestRows`]).

use super::super::newest::NewestRows;
use super::super::{Batch, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet, SnapshotRef};
use super::filter::{Filter, rows_of};
use crate::arrays::interleave;
use crate::error::Result;
use crate::ids::SeriesId;
use crate::schema::TableSchema;
use crate::time::TimeRange;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::Arc;

/// So many chunks are held at once: each group of series costs a look at all times.
const CHUNKS_HELD: usize = 8;

/// The stream: by ascending series, each backwards.
pub(super) struct NewestRowsScan {
    snapshot: SnapshotRef,
    /// Forwards, with the columns that `filter` reads.
    request: ScanRequest,
    /// Judges what the store does not; without limits.
    filter: Filter,
    time: TimeRange,
    /// Series that are left, in groups that are held at once; the next is the last element.
    groups: Vec<Arc<[SeriesId]>>,
    rows_per_series: usize,
    held_rows: usize,
    /// Where the time stands among the columns.
    time_place: usize,
}

impl NewestRowsScan {
    /// `None` if too many rows would be held.
    pub(super) fn begin(
        snapshot: SnapshotRef,
        schema: &TableSchema,
        mut request: ScanRequest,
        filter: Filter,
        rows_per_series: usize,
        chunk_rows: usize,
    ) -> Option<Self> {
        if !schema.is_series_keyed() {
            return None;
        }
        let RowSelection::Series { series: SeriesSet::Ids(ids), time } = &request.rows else { return None };
        let held_rows = chunk_rows * CHUNKS_HELD;
        let series_held = held_rows.checked_div(rows_per_series).filter(|series| *series > 0)?;
        let groups: Vec<Arc<[SeriesId]>> = ids.chunks(series_held).rev().map(Arc::from).collect();
        let (time, known) = (*time, request.columns.iter().position(|id| *id == schema.key[1]));
        let time_place = known.unwrap_or_else(|| {
            request.columns.push(schema.key[1]);
            request.columns.len() - 1
        });
        Some(Self { snapshot, request, filter, time, groups, rows_per_series, held_rows, time_place })
    }

    /// The newest rows of some series: of each slice of time, the newest first, batches in the order of their keys.
    async fn newest_of(&mut self, ids: &[SeriesId]) -> Result<Vec<Vec<Batch>>> {
        let newest = NewestRows::find(&*self.snapshot, self.request.table, ids, self.time).await?;
        let slices = match newest {
            Some(newest) => newest.slices(self.time),
            None => vec![self.time],
        };
        let mut lacking: HashMap<SeriesId, usize> =
            ids.iter().map(|id| (*id, self.rows_per_series)).collect();
        let mut found = Vec::new();
        for time in slices {
            let mut left: Vec<SeriesId> = lacking.keys().copied().collect();
            if left.is_empty() {
                break;
            }
            left.sort_unstable();
            let batches = self.last_of_slice(left, time, &lacking).await?;
            for run in batches.iter().flat_map(|batch| &batch.series) {
                let rows = lacking.get_mut(&run.series).expect("it was asked for");
                *rows -= run.rows as usize;
            }
            lacking.retain(|_, rows| *rows > 0);
            found.push(batches);
        }
        Ok(found)
    }

    async fn last_of_slice(
        &mut self,
        ids: Vec<SeriesId>,
        time: TimeRange,
        lacking: &HashMap<SeriesId, usize>,
    ) -> Result<Vec<Batch>> {
        let rows = RowSelection::Series { series: SeriesSet::Ids(ids.into()), time };
        let mut stream = self.snapshot.scan(ScanRequest { rows, ..self.request.clone() }).await?;
        let (mut batches, mut held) = (Vec::new(), 0);
        while let Some(batch) = stream.next().await? {
            let kept = self.filter.kept(&batch);
            if !kept.is_empty() {
                held += kept.len();
                batches.push(rows_of(&batch, &kept));
            }
            if held > 2 * self.held_rows {
                batches = last_rows(batches, lacking);
                held = batches.iter().map(|batch| batch.rows).sum();
            }
        }
        Ok(last_rows(batches, lacking))
    }
}

#[async_trait]
impl RowStream for NewestRowsScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        while let Some(ids) = self.groups.pop() {
            let slices = self.newest_of(&ids).await?;
            if let Some(batch) = backwards(&slices.concat(), &ids, self.time_place) {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// The last rows of each series, as many as it lacks, out of batches in the order of their keys.
fn last_rows(batches: Vec<Batch>, lacking: &HashMap<SeriesId, usize>) -> Vec<Batch> {
    let mut counts: HashMap<SeriesId, usize> = HashMap::new();
    let mut kept = Vec::new();
    for batch in batches.iter().rev() {
        let mut rows: Vec<u32> = Vec::new();
        let mut end = batch.rows as u32;
        for run in batch.series.iter().rev() {
            let count = counts.entry(run.series).or_default();
            let more = (lacking[&run.series] - *count).min(run.rows as usize) as u32;
            *count += more as usize;
            rows.extend((end - more..end).rev());
            end -= run.rows;
        }
        rows.reverse();
        if !rows.is_empty() {
            kept.push(rows_of(batch, &rows));
        }
    }
    kept.reverse();
    kept
}

/// The rows of these series, each backwards.
fn backwards(batches: &[Batch], ids: &[SeriesId], time_place: usize) -> Option<Batch> {
    let mut rows_by_series: HashMap<SeriesId, Vec<(i64, usize, usize)>> = HashMap::new();
    for (number, batch) in batches.iter().enumerate() {
        let times = batch.columns[time_place].as_primitive::<TimestampNanosecondType>();
        let mut row = 0;
        for run in &batch.series {
            let rows = rows_by_series.entry(run.series).or_default();
            rows.extend((row..row + run.rows as usize).map(|row| (times.value(row), number, row)));
            row += run.rows as usize;
        }
    }
    let (mut order, mut series) = (Vec::new(), Vec::new());
    for id in ids {
        let Some(mut rows) = rows_by_series.remove(id) else { continue };
        rows.sort_unstable_by_key(|(time_ns, ..)| std::cmp::Reverse(*time_ns));
        series.push(SeriesRun { series: *id, rows: rows.len() as u32 });
        order.extend(rows.into_iter().map(|(_, batch, row)| (batch, row)));
    }
    let first = batches.first().filter(|_| !order.is_empty())?;
    let columns = (0..first.columns.len()).map(|at| {
        interleave(&batches.iter().map(|batch| batch.columns[at].clone()).collect::<Vec<_>>(), &order)
    });
    Some(Batch { rows: order.len(), series, columns: columns.collect() })
}
