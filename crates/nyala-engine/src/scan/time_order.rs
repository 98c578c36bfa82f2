//! Scans of series-keyed tables in order of time.
//!
//! Times are cut into slices; a slice is read series by series, sorted, and handed out. Slices grow and
//! shrink so that each holds about as many rows as the caller still wants, up to a bound: a limit stops
//! the scan after few rows, and memory does not depend on how long the history is.

use super::BATCH_ROWS;
use super::series::{Gathered, SeriesRequest, SeriesScan, batch_of};
use crate::cells::Column;
use crate::merge::Piece;
use crate::snapshot::estimate_rows;
use async_trait::async_trait;
use nyala_core::store::{Batch, Direction, RowStream, SeriesRun};
use nyala_core::{Result, SeriesId, TimeRange};

/// Rows of a slice, about.
const SLICE_ROWS: u64 = 65_536;
/// Rows of the first slice of a limited scan, at least.
const SLICE_ROWS_MIN: u64 = 1024;

/// A scan under way.
pub(crate) struct TimeScan {
    request: SeriesRequest,
    /// Times not read yet.
    left: TimeRange,
    width_ns: i64,
    rows_left: usize,
    rows_wanted: u64,
    /// Rows of the slice at hand, sorted, and how many were handed out.
    slice: Option<(Gathered, usize)>,
}

impl TimeScan {
    pub(crate) fn new(request: SeriesRequest) -> Self {
        let bounds = request
            .table
            .partitions_in(request.time)
            .filter_map(|partition| partition.time_bounds())
            .reduce(|a, b| TimeRange::new(a.start_ns.min(b.start_ns), a.end_ns.max(b.end_ns)));
        let left = bounds.map_or(TimeRange::new(0, 0), |bounds| bounds.intersect(request.time));
        let rows_left = request.limit.unwrap_or(usize::MAX);
        let filters = request.projection.filters();
        let wanted = if filters { SLICE_ROWS } else { (rows_left as u64).clamp(SLICE_ROWS_MIN, SLICE_ROWS) };
        let rows = estimate_rows(&request.table, left).max(1);
        let span_ns = left.end_ns.saturating_sub(left.start_ns).max(1);
        let width_ns =
            (i128::from(span_ns) * i128::from(wanted) / i128::from(rows)).clamp(1, i64::MAX.into());
        Self { request, left, width_ns: width_ns as i64, rows_left, rows_wanted: wanted, slice: None }
    }

    fn next_slice(&mut self) -> Result<bool> {
        while !self.left.is_empty() && self.rows_left > 0 {
            let backward = self.request.direction == Direction::Backward;
            let time = if backward {
                let start_ns = self.left.end_ns.saturating_sub(self.width_ns).max(self.left.start_ns);
                TimeRange::new(start_ns, self.left.end_ns)
            } else {
                let end_ns = self.left.start_ns.saturating_add(self.width_ns).min(self.left.end_ns);
                TimeRange::new(self.left.start_ns, end_ns)
            };
            let mut request = self.request.clone();
            (request.time, request.limit, request.direction) = (time, None, Direction::Forward);
            let mut scan = SeriesScan::new(request);
            // A slice that turns out too full is given up for a narrower one.
            let rows_max = (SLICE_ROWS * 4) as usize;
            let gathered = scan.gather(rows_max)?;
            let rows = gathered.piece.rows();
            if rows >= rows_max && self.width_ns > 1 && time.end_ns.saturating_sub(time.start_ns) > 1 {
                self.width_ns = (time.end_ns.saturating_sub(time.start_ns) / 8).max(1);
                continue;
            }
            let mut gathered = gathered;
            if rows >= rows_max {
                // One instant with very many series: nothing to cut.
                while scan.step(&mut gathered)? {}
            }
            if backward {
                self.left.end_ns = time.start_ns;
            } else {
                self.left.start_ns = time.end_ns;
            }
            let rows = gathered.piece.rows() as u64;
            if rows < self.rows_wanted / 2 {
                self.width_ns = self.width_ns.saturating_mul(2);
                self.rows_wanted = (self.rows_wanted * 2).min(SLICE_ROWS);
            } else if rows > self.rows_wanted * 2 {
                self.width_ns = (self.width_ns / 2).max(1);
            }
            if rows > 0 {
                self.slice = Some((sorted(gathered, backward), 0));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Sorts rows by time in a direction, then by series.
fn sorted(gathered: Gathered, backward: bool) -> Gathered {
    let Gathered { runs, piece } = gathered;
    let series: Vec<SeriesId> =
        runs.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize)).collect();
    let mut order: Vec<u32> = (0..series.len() as u32).collect();
    // Rows come by ascending series, which a stable sort keeps.
    if backward {
        order.sort_by_key(|row| std::cmp::Reverse(piece.keys[*row as usize]));
    } else {
        order.sort_by_key(|row| piece.keys[*row as usize]);
    }
    let mut runs: Vec<SeriesRun> = Vec::new();
    for row in &order {
        let series = series[*row as usize];
        match runs.last_mut() {
            Some(run) if run.series == series => run.rows += 1,
            _ => runs.push(SeriesRun { series, rows: 1 }),
        }
    }
    let piece = Piece {
        keys: order.iter().map(|row| piece.keys[*row as usize]).collect(),
        markers: None,
        columns: piece.columns.iter().map(|column: &Column| column.take(&order)).collect(),
    };
    Gathered { runs, piece }
}

/// Rows `start..end` of gathered rows.
fn cut(gathered: &Gathered, start: usize, end: usize, kinds: &[crate::cells::Kind]) -> Gathered {
    let mut piece = Piece::empty(kinds);
    piece.append(&gathered.piece, start..end);
    let mut runs = Vec::new();
    let mut at = 0;
    for run in &gathered.runs {
        let run_end = at + run.rows as usize;
        let rows = run_end.min(end).saturating_sub(at.max(start));
        if rows > 0 {
            runs.push(SeriesRun { series: run.series, rows: rows as u32 });
        }
        at = run_end;
        if at >= end {
            break;
        }
    }
    Gathered { runs, piece }
}

#[async_trait]
impl RowStream for TimeScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        if self.slice.is_none() && !self.next_slice()? {
            return Ok(None);
        }
        let Some((gathered, start)) = self.slice.take() else { return Ok(None) };
        let end = gathered.piece.rows().min(start + BATCH_ROWS.min(self.rows_left));
        let batch = cut(&gathered, start, end, &self.request.projection.wanted.kinds);
        self.rows_left -= end - start;
        if end < gathered.piece.rows() && self.rows_left > 0 {
            self.slice = Some((gathered, end));
        }
        batch_of(&self.request.projection, batch)
    }
}
