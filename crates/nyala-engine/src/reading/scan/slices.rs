//! Reads the rows of a scan in order of time, slice by slice.
//!
//! Slices grow and shrink so that each holds about as many rows as the caller still needs, up to a bound. So a limit
//! stops the scan after few rows, and memory does not depend on the length of the history.

use super::scan_buffer::ScanBuffer;
use super::series::{Amount, SeriesRequest, SeriesScan};
use crate::reading::query_cost::estimate_rows;
use crate::rows::merge::RowBatch;
use nyala_core::store::{Direction, SeriesSet};
use nyala_core::{Result, TimeRange};

/// Cells of a slice, about: two slices are held while one is read ahead.
const SLICE_CELLS: u64 = 3 << 20;
/// The part of the memory limit that the cells of a slice may take.
const SLICE_SHARE: u64 = 16;
/// Bytes of a slice in which strings are long.
const SLICE_BYTES: u64 = 32 << 20;
/// Rows of a slice, at least and at most.
const SLICE_ROWS: std::ops::RangeInclusive<u64> = 16_384..=262_144;
/// About how many rows the first slice has: this is what a scan that is cancelled early has read in vain.
const FIRST_SLICE_ROWS: u64 = 65_536;
/// Rows of the first slice of a limited scan, at least.
const SLICE_ROWS_MIN: u64 = 1024;
/// From so many rows on it pays to reserve memory for them beforehand.
const MANY_ROWS: u64 = 65_536;
/// How much wider a slice is than the one before, at most.
const GROWTH: i64 = 16;

/// Reads slice after slice.
pub(super) struct Slices {
    request: SeriesRequest,
    /// Times not read yet.
    left: TimeRange,
    width_ns: i64,
    rows_wanted: u64,
    /// Rows of a slice, about, however few match.
    slice_rows: u64,
    /// The bytes that it takes at most, about.
    slice_bytes: u64,
    /// Rows of the next slice, going by the last.
    rows_expected: u64,
}

impl Slices {
    pub(super) fn new(request: SeriesRequest) -> Self {
        let bounds = request
            .table
            .partitions_in(request.time)
            .filter_map(|partition| partition.time_bounds())
            .reduce(TimeRange::around);
        let left = bounds.map_or(TimeRange::new(0, 0), |bounds| bounds.intersect(request.time));
        let rows_left = request.limit.unwrap_or(usize::MAX);
        let filters = request.spec.filters();
        let columns = 1 + request.spec.projection.columns.len() as u64;
        let share_bytes = request.budget.limit_bytes() / SLICE_SHARE;
        let slice_rows =
            (SLICE_CELLS.min(share_bytes / 8) / columns).clamp(*SLICE_ROWS.start(), *SLICE_ROWS.end());
        // Every slice visits all series; with very many, a slice holds about one row of each.
        let slice_rows = slice_rows.max(series_count(&request.series));
        let first = slice_rows.min(FIRST_SLICE_ROWS);
        let rows_wanted = if filters { first } else { (rows_left as u64).clamp(SLICE_ROWS_MIN, first) };
        let rows = estimate_rows(&request.table, left).max(1);
        let span_ns = left.end_ns.saturating_sub(left.start_ns).max(1);
        let width_ns =
            (i128::from(span_ns) * i128::from(rows_wanted) / i128::from(rows)).clamp(1, i64::MAX.into());
        // Without strings, the bound on rows is reached first.
        let slice_bytes = (slice_rows * 2 * columns * 16).max(SLICE_BYTES.min(share_bytes));
        let width_ns = width_ns as i64;
        Self { request, left, width_ns, rows_wanted, slice_rows, slice_bytes, rows_expected: 0 }
    }

    /// Whether all times were read.
    pub(super) fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }

    /// The rows of the next slice that has any, series by series, in a reused buffer; `None` at the end.
    pub(super) async fn next(&mut self, mut spare: Option<ScanBuffer>) -> Result<Option<ScanBuffer>> {
        while !self.left.is_empty() {
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
            // A slice with too many rows is dropped, and a narrower one is read.
            let rows_max = (self.slice_rows * 2) as usize;
            let kinds = &self.request.spec.projection.kinds;
            let mut buffer = spare.take().unwrap_or_else(|| ScanBuffer::new(kinds, &self.request.budget));
            buffer.clear();
            // Memory is reserved because a buffer that grows by doubling is copied.
            let roomy = (self.rows_expected + self.rows_expected / 8) as usize;
            if self.rows_expected >= MANY_ROWS && buffer.batch.keys.capacity() < roomy {
                buffer.batch = RowBatch::empty(kinds);
                buffer.batch.reserve(roomy);
            }
            let amount = scan.gather(&mut buffer, rows_max, self.slice_bytes).await?;
            if amount == Amount::Full && self.width_ns > 1 && time.end_ns.saturating_sub(time.start_ns) > 1 {
                self.width_ns = (time.end_ns.saturating_sub(time.start_ns) / 8).max(1);
                spare = Some(buffer);
                continue;
            }
            if amount == Amount::Full {
                // A single instant with very many series cannot be cut. The memory budget bounds it.
                scan.gather(&mut buffer, usize::MAX, u64::MAX).await?;
            }
            if backward {
                self.left.end_ns = time.start_ns;
            } else {
                self.left.start_ns = time.end_ns;
            }
            let bytes = buffer.hold()?;
            self.fit(buffer.batch.rows() as u64, bytes);
            if buffer.batch.rows() > 0 {
                return Ok(Some(buffer));
            }
            spare = Some(buffer);
        }
        Ok(None)
    }

    /// Widens or narrows the next slice after one of so many rows and bytes.
    fn fit(&mut self, rows: u64, bytes: u64) {
        // Rows of long strings count as more.
        let rows = rows.max(bytes.saturating_mul(self.slice_rows) / (self.slice_bytes / 2).max(1));
        let width_ns = self.width_ns.max(1);
        if rows < self.rows_wanted / 2 {
            self.rows_wanted = (self.rows_wanted * GROWTH as u64).min(self.slice_rows);
            // Each slice visits every series: the wider, the fewer visits.
            let fitting = (self.rows_wanted / rows.max(1)).clamp(2, GROWTH as u64);
            self.width_ns = self.width_ns.saturating_mul(fitting as i64);
        } else if rows > self.rows_wanted * 2 {
            self.width_ns = (self.width_ns / 2).max(1);
        } else if self.rows_wanted < self.slice_rows {
            // The reader goes on, so it is likely to read more.
            self.rows_wanted = (self.rows_wanted * 2).min(self.slice_rows);
            self.width_ns = self.width_ns.saturating_mul(2);
        }
        let expected = i128::from(rows) * i128::from(self.width_ns) / i128::from(width_ns);
        self.rows_expected = expected.min(i128::from(self.slice_rows * 2)) as u64;
    }
}

fn series_count(series: &SeriesSet) -> u64 {
    match series {
        SeriesSet::All => 0,
        SeriesSet::Ids(ids) => ids.len() as u64,
    }
}
