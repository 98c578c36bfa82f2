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
use arrow_array::ArrayRef;
use async_trait::async_trait;
use nyala_core::store::{Batch, Direction, RowStream, SeriesRun, SeriesSet};
use nyala_core::{Result, SeriesId, TimeRange};
use std::ops::Range;

/// Cells of a slice, about: each is held twice while rows are sorted.
const SLICE_CELLS: u64 = 3 << 20;
/// Rows of a slice, at least and at most.
const SLICE_ROWS: std::ops::RangeInclusive<u64> = 16_384..=262_144;
/// Rows of the first slice, about: as many as a scan that is given up early has read for nothing.
const FIRST_SLICE_ROWS: u64 = 65_536;
/// Rows of the first slice of a limited scan, at least.
const SLICE_ROWS_MIN: u64 = 1024;
/// How much wider a slice is than the one before, at most.
const GROWTH: i64 = 16;

/// A scan under way.
pub(crate) struct TimeScan {
    request: SeriesRequest,
    /// Where series stand at one time, by id; those that are not listed stand last.
    ranks: Vec<(SeriesId, u32)>,
    /// Times not read yet.
    left: TimeRange,
    width_ns: i64,
    rows_left: usize,
    rows_wanted: u64,
    /// Rows of a slice, about, however few match.
    slice_rows: u64,
    slice: Option<Slice>,
    /// Room for the rows of the next slice, before they are sorted.
    spare: Option<Piece<Vec<i64>>>,
}

/// The rows of a slice, sorted.
struct Slice {
    columns: Vec<ArrayRef>,
    /// The series of each row.
    series: Vec<SeriesId>,
    /// How many were handed out.
    given: usize,
}

impl TimeScan {
    pub(crate) fn new(request: SeriesRequest, ties: &[SeriesId]) -> Self {
        let mut ranks: Vec<(SeriesId, u32)> = ties.iter().copied().zip(0..).collect();
        ranks.sort_unstable();
        let bounds = request
            .table
            .partitions_in(request.time)
            .filter_map(|partition| partition.time_bounds())
            .reduce(|a, b| TimeRange::new(a.start_ns.min(b.start_ns), a.end_ns.max(b.end_ns)));
        let left = bounds.map_or(TimeRange::new(0, 0), |bounds| bounds.intersect(request.time));
        let rows_left = request.limit.unwrap_or(usize::MAX);
        let filters = request.projection.filters();
        let columns = 1 + request.projection.wanted.columns.len() as u64;
        let slice_rows = (SLICE_CELLS / columns).clamp(*SLICE_ROWS.start(), *SLICE_ROWS.end());
        // Every slice visits all series: of very many it holds about a row each.
        let slice_rows = slice_rows.max(series_count(&request.series));
        let first = slice_rows.min(FIRST_SLICE_ROWS);
        let wanted = if filters { first } else { (rows_left as u64).clamp(SLICE_ROWS_MIN, first) };
        let rows = estimate_rows(&request.table, left).max(1);
        let span_ns = left.end_ns.saturating_sub(left.start_ns).max(1);
        let width_ns =
            (i128::from(span_ns) * i128::from(wanted) / i128::from(rows)).clamp(1, i64::MAX.into());
        let width_ns = width_ns as i64;
        Self {
            request,
            ranks,
            left,
            width_ns,
            rows_left,
            rows_wanted: wanted,
            slice_rows,
            slice: None,
            spare: None,
        }
    }

    async fn next_slice(&mut self) -> Result<bool> {
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
            let rows_max = (self.slice_rows * 2) as usize;
            let kinds = &self.request.projection.wanted.kinds;
            let piece = self.spare.take().unwrap_or_else(|| Piece::empty(kinds));
            let mut gathered = scan.gather_into(piece, rows_max).await?;
            let rows = gathered.piece.rows();
            if rows >= rows_max && self.width_ns > 1 && time.end_ns.saturating_sub(time.start_ns) > 1 {
                self.width_ns = (time.end_ns.saturating_sub(time.start_ns) / 8).max(1);
                self.keep_room(gathered.piece);
                continue;
            }
            if rows >= rows_max {
                // One instant with very many series: nothing to cut.
                scan.gather_more(&mut gathered, usize::MAX).await?;
            }
            if backward {
                self.left.end_ns = time.start_ns;
            } else {
                self.left.start_ns = time.end_ns;
            }
            let rows = gathered.piece.rows() as u64;
            if rows < self.rows_wanted / 2 {
                self.rows_wanted = (self.rows_wanted * GROWTH as u64).min(self.slice_rows);
                // Each slice visits every series: the wider, the fewer visits.
                let fitting = (self.rows_wanted / rows.max(1)).clamp(2, GROWTH as u64);
                self.width_ns = self.width_ns.saturating_mul(fitting as i64);
            } else if rows > self.rows_wanted * 2 {
                self.width_ns = (self.width_ns / 2).max(1);
            } else if self.rows_wanted < self.slice_rows {
                // The reader goes on, so it wants more.
                self.rows_wanted = (self.rows_wanted * 2).min(self.slice_rows);
                self.width_ns = self.width_ns.saturating_mul(2);
            }
            if rows > 0 {
                self.slice = self.sorted(gathered, backward)?;
                return Ok(true);
            }
            self.keep_room(gathered.piece);
        }
        Ok(false)
    }

    fn keep_room(&mut self, mut piece: Piece<Vec<i64>>) {
        piece.clear();
        self.spare = Some(piece);
    }

    /// Sorts rows by time in a direction, then by series.
    fn sorted(&mut self, gathered: Gathered, backward: bool) -> Result<Option<Slice>> {
        let Gathered { runs, piece } = gathered;
        let of_rows = |run: &SeriesRun| std::iter::repeat_n(run.series, run.rows as usize);
        let series: Vec<SeriesId> = runs.iter().flat_map(of_rows).collect();
        let order = match self.rows_by_rank(&runs) {
            None => order_of(&piece.keys, backward),
            Some(rows) => {
                let times_ns: Vec<i64> = rows.iter().map(|row| piece.keys[*row as usize]).collect();
                let mut order = order_of(&times_ns, backward);
                order.iter_mut().for_each(|row| *row = rows[*row as usize]);
                order
            }
        };
        let keys = order.iter().map(|row| piece.keys[*row as usize]).collect();
        let columns = piece.columns.iter().map(|column: &Column| column.take(&order)).collect();
        if !self.left.is_empty() {
            self.keep_room(piece);
        }
        let piece = Piece { keys, markers: None, columns };
        let batch = batch_of(&self.request.projection, Gathered { runs: Vec::new(), piece })?;
        let series = order.iter().map(|row| series[*row as usize]).collect();
        Ok(batch.map(|batch| Slice { columns: batch.columns, series, given: 0 }))
    }
}

impl TimeScan {
    /// The rows of runs in the order in which series stand at one time; `None` if they are in it.
    fn rows_by_rank(&self, runs: &[SeriesRun]) -> Option<Vec<u32>> {
        if self.ranks.is_empty() {
            return None;
        }
        let mut first = 0;
        let mut ranked: Vec<(u32, Range<u32>)> = Vec::with_capacity(runs.len());
        for run in runs {
            let listed = self.ranks.binary_search_by_key(&run.series, |(series, _)| *series);
            let rank = listed.map_or(u32::MAX, |at| self.ranks[at].1);
            ranked.push((rank, first..first + run.rows));
            first += run.rows;
        }
        // Runs of one rank, which come in order of their series, stay so.
        ranked.sort_by_key(|(rank, _)| *rank);
        Some(ranked.into_iter().flat_map(|(_, rows)| rows).collect())
    }
}

fn series_count(series: &SeriesSet) -> u64 {
    match series {
        SeriesSet::All => 0,
        SeriesSet::Ids(ids) => ids.len() as u64,
    }
}

/// The rows in order of time, rows at one time as they stand.
fn order_of(times_ns: &[i64], backward: bool) -> Vec<u32> {
    let (Some(first_ns), Some(last_ns)) = (times_ns.iter().min(), times_ns.iter().max()) else {
        return Vec::new();
    };
    let after_ns = |time_ns: i64| match backward {
        true => last_ns.wrapping_sub(time_ns) as u64,
        false => time_ns.wrapping_sub(*first_ns) as u64,
    };
    let row_bits = usize::BITS - (times_ns.len() - 1).leading_zeros();
    // Time and row in one word, where they have room in it, sort many times faster than by a look-up of times.
    if last_ns.wrapping_sub(*first_ns) as u64 >> (63 - row_bits) == 0 {
        let word = |(row, time_ns): (u64, &i64)| after_ns(*time_ns) << row_bits | row;
        let mut words: Vec<u64> = (0..).zip(times_ns).map(word).collect();
        words.sort_unstable();
        let mask = (1_u64 << row_bits) - 1;
        return words.into_iter().map(|word| (word & mask) as u32).collect();
    }
    let mut order: Vec<u32> = (0..times_ns.len() as u32).collect();
    order.sort_by_key(|row| after_ns(times_ns[*row as usize]));
    order
}

impl Slice {
    /// The next rows, if any are left.
    fn next(&mut self, rows_max: usize) -> Option<Batch> {
        let rows = rows_max.min(self.series.len() - self.given);
        let columns = self.columns.iter().map(|column| column.slice(self.given, rows)).collect();
        let mut runs: Vec<SeriesRun> = Vec::with_capacity(rows);
        for series in &self.series[self.given..self.given + rows] {
            match runs.last_mut() {
                Some(run) if run.series == *series => run.rows += 1,
                _ => runs.push(SeriesRun { series: *series, rows: 1 }),
            }
        }
        self.given += rows;
        (rows > 0).then_some(Batch { rows, series: runs, columns })
    }
}

#[async_trait]
impl RowStream for TimeScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            let rows_max = BATCH_ROWS.min(self.rows_left);
            if let Some(batch) = self.slice.as_mut().and_then(|slice| slice.next(rows_max)) {
                self.rows_left -= batch.rows;
                return Ok(Some(batch));
            }
            self.slice = None;
            if !self.next_slice().await? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_a_stable_sort() {
        let cases: [Vec<i64>; 5] = [
            vec![5],
            vec![3, 1, 2, 1, 3, 3, 0],
            vec![i64::MAX, i64::MIN, 0, i64::MAX, i64::MIN],
            (0..1000).map(|row| (row * 7919) % 13 * 1_000_000_000).collect(),
            (0..300).map(|row| (row * 31) % 17 * (1 << 58)).collect(),
        ];
        for times_ns in cases {
            for backward in [false, true] {
                let mut expected: Vec<u32> = (0..times_ns.len() as u32).collect();
                match backward {
                    true => expected.sort_by_key(|row| std::cmp::Reverse(times_ns[*row as usize])),
                    false => expected.sort_by_key(|row| times_ns[*row as usize]),
                }
                assert_eq!(order_of(&times_ns, backward), expected);
            }
        }
    }
}
