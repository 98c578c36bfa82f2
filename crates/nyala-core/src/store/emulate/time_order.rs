//! Scans in order of time made of scans in key order. The times alone are read first, to find ranges of time with a
//! bounded number of rows. Then the ranges are read in order, and each is sorted.

use super::super::{
    Batch, Comparison, Direction, Predicate, RowSelection, RowStream, ScanRequest, SeriesSet, SnapshotRef,
};
use super::filter::rows_of;
use super::read_all::read_all;
use crate::error::Result;
use crate::ids::SeriesId;
use crate::schema::TIME_COLUMN;
use crate::time::TimeRange;
use crate::value::Value;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use async_trait::async_trait;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// A range of time is divided into this many buckets of equal width.
const BUCKETS: i128 = 1 << 12;

/// The requested order.
pub(super) struct TimeOrder {
    pub(super) direction: Direction,
    /// See [`ScanRequest::ties`].
    pub(super) ties: Arc<[SeriesId]>,
}

/// The stream.
pub(super) struct TimeOrderScan {
    snapshot: SnapshotRef,
    request: ScanRequest,
    direction: Direction,
    /// Position of each series among the ties, for series that have one.
    ties: HashMap<SeriesId, usize>,
    /// The position of the time column, and whether it was requested.
    times_at: usize,
    times_requested: bool,
    /// The next range is the last element.
    slices: Vec<TimeRange>,
}

impl TimeOrderScan {
    /// Starts to return in order of time what `request` returns by key.
    pub(super) async fn begin(
        snapshot: SnapshotRef,
        mut request: ScanRequest,
        TimeOrder { direction, ties }: TimeOrder,
        chunk_rows: usize,
    ) -> Result<Self> {
        let within = match &request.rows {
            RowSelection::Series { time, .. } => *time,
            _ => TimeRange::ALL,
        };
        let requested_at = request.columns.iter().position(|id| *id == TIME_COLUMN);
        let times_at = requested_at.unwrap_or(request.columns.len());
        if requested_at.is_none() {
            request.columns.push(TIME_COLUMN);
        }
        let mut slices = Vec::new();
        if let Some(bounds) = snapshot.time_bounds(request.table, within).await? {
            let mut rest = vec![bounds];
            while let Some(range) = rest.pop() {
                let (few, many) = divide(&snapshot, &request, range, chunk_rows).await?;
                slices.extend(few);
                rest.extend(many);
            }
        }
        // In a forward scan the first range has to be the last element.
        slices.sort_by_key(|slice| slice.start_ns);
        if direction == Direction::Forward {
            slices.reverse();
        }
        let ties = ties.iter().copied().zip(0..).collect();
        Ok(Self {
            snapshot,
            request,
            direction,
            ties,
            times_at,
            times_requested: requested_at.is_some(),
            slices,
        })
    }

    fn sorted(&self, batch: &Batch) -> Batch {
        let times = batch.columns[self.times_at].as_primitive::<TimestampNanosecondType>().values();
        let series: Vec<SeriesId> =
            batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize)).collect();
        let rank = |row: u32| {
            let id = series[row as usize];
            (self.ties.get(&id).copied().unwrap_or(usize::MAX), id)
        };
        let mut order: Vec<u32> = (0..batch.rows as u32).collect();
        match self.direction {
            Direction::Forward => order.sort_by_key(|row| (times[*row as usize], rank(*row))),
            Direction::Backward => order.sort_by_key(|row| (Reverse(times[*row as usize]), rank(*row))),
        }
        let mut sorted = rows_of(batch, &order);
        if !self.times_requested {
            sorted.columns.remove(self.times_at);
        }
        sorted
    }
}

#[async_trait]
impl RowStream for TimeOrderScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        while let Some(slice) = self.slices.pop() {
            if let Some(batch) = read_all(&*self.snapshot, within(&self.request, slice)).await? {
                return Ok(Some(self.sorted(&batch)));
            }
        }
        Ok(None)
    }
}

/// The request, restricted to a range of times.
fn within(request: &ScanRequest, slice: TimeRange) -> ScanRequest {
    let mut request = request.clone();
    match &mut request.rows {
        RowSelection::Series { time, .. } => *time = time.intersect(slice),
        RowSelection::All => request.rows = RowSelection::Series { series: SeriesSet::All, time: slice },
        RowSelection::Keys { .. } => {
            let bounds = [
                Comparison::GreaterOrEqual(Value::Int(slice.start_ns)),
                Comparison::Less(Value::Int(slice.end_ns)),
            ];
            let predicates = bounds.map(|comparison| Predicate { column: TIME_COLUMN, comparison });
            request.predicates.extend(predicates);
        }
    }
    request
}

/// Divides a range into slices with few rows. Returns them and the ranges that have more rows and must be divided
/// again.
async fn divide(
    snapshot: &SnapshotRef,
    request: &ScanRequest,
    range: TimeRange,
    chunk_rows: usize,
) -> Result<(Vec<TimeRange>, Vec<TimeRange>)> {
    let (mut slices, mut rest) = (Vec::new(), Vec::new());
    // The difference of two times needs more bits than an i64 has.
    let (start, end) = (i128::from(range.start_ns), i128::from(range.end_ns));
    let width = ((end - start) / BUCKETS + 1).max(1);
    let mut rows = vec![0_usize; ((end - start) / width + 1) as usize];
    let times = ScanRequest { columns: vec![TIME_COLUMN], ..within(request, range) };
    let mut stream = snapshot.scan(times).await?;
    while let Some(batch) = stream.next().await? {
        for time_ns in batch.columns[0].as_primitive::<TimestampNanosecondType>().values() {
            rows[((i128::from(*time_ns) - start) / width) as usize] += 1;
        }
    }
    let bucket = |first: usize, end_bucket: usize| {
        let from = start + first as i128 * width;
        let to = (start + end_bucket as i128 * width).min(end);
        TimeRange::new(from as i64, to as i64)
    };
    let (mut begin, mut held) = (0, 0);
    for (at, count) in rows.iter().copied().enumerate() {
        if held > 0 && held + count > chunk_rows {
            slices.push(bucket(begin, at));
            (begin, held) = (at, 0);
        }
        if count > chunk_rows && width > 1 {
            rest.push(bucket(at, at + 1));
            (begin, held) = (at + 1, 0);
            continue;
        }
        if held == 0 {
            begin = at;
        }
        held += count;
    }
    if held > 0 {
        slices.push(bucket(begin, rows.len()));
    }
    Ok((slices, rest))
}
