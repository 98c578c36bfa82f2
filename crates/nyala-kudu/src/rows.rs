//! The rows of a scan: what the servers return, with the conditions judged that they were not asked.

use crate::cells::Stored;
use crate::error::of_read;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use kudu_client::{Scanner, TabletScanner};
use nyala_core::arrays::{take_rows, value_at};
use nyala_core::schema::{ColumnType, TableSchema};
use nyala_core::store::{
    Batch, Comparison, KeyBound, RowSelection, RowStream, SeriesRun, SeriesSet, ServerReads,
};
use nyala_core::{Result, SeriesId, Value};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many series are named to the servers; of more they return a range, and it is chosen here.
pub(crate) const SERIES_LISTED: usize = 4096;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << 15;

/// No rows at all.
pub(crate) struct NoRows;

#[async_trait]
impl RowStream for NoRows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Ok(None)
    }
}

/// A column of a scan.
pub(crate) enum Read {
    Stored(Stored),
    /// No row has it.
    Absent(ColumnType),
}

impl Read {
    pub(crate) fn column_type(&self) -> ColumnType {
        match self {
            Self::Stored(stored) => stored.column_type,
            Self::Absent(column_type) => *column_type,
        }
    }
}

/// What rows become, and which of them stay.
pub(crate) struct RowFilter {
    pub(crate) schema: Arc<TableSchema>,
    /// The columns read: the key's, then others.
    pub(crate) read: Vec<Read>,
    /// Which of them are asked for.
    pub(crate) wanted: Vec<usize>,
    pub(crate) predicates: Vec<(usize, Comparison)>,
    /// Rows stay if one of these is not NULL.
    pub(crate) not_all_null: Option<Vec<usize>>,
    pub(crate) rows: RowSelection,
}

/// Where rows come from, in the order of their keys.
pub(crate) enum Source {
    Table(Scanner),
    Tablet(TabletScanner),
}

/// The rows of a table or a tablet.
pub(crate) struct Rows {
    source: Source,
    filter: Arc<RowFilter>,
    rows_left: usize,
    ready: VecDeque<Batch>,
    reads: Arc<CountedReads>,
}

/// What servers were asked.
#[derive(Debug, Default)]
pub(crate) struct CountedReads {
    tablets: AtomicU64,
    scans: AtomicU64,
    bytes: AtomicU64,
}

impl CountedReads {
    /// Counts scans of so many tablets.
    pub(crate) fn add(&self, tablets: usize, scans: usize) {
        self.tablets.fetch_add(tablets as u64, Ordering::Relaxed);
        self.scans.fetch_add(scans as u64, Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> ServerReads {
        let number = |counted: &AtomicU64| counted.load(Ordering::Relaxed);
        ServerReads { tablets: number(&self.tablets), scans: number(&self.scans), bytes: number(&self.bytes) }
    }
}

#[async_trait]
impl RowStream for Rows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.rows_left == 0 {
                return Ok(None);
            }
            let next = match &mut self.source {
                Source::Table(scanner) => scanner.next_batch().await,
                Source::Tablet(scanner) => scanner.next_batch().await,
            };
            let Some(batch) = next.map_err(of_read)? else { return Ok(None) };
            let bytes = batch.get_array_memory_size() as u64;
            self.reads.bytes.fetch_add(bytes, Ordering::Relaxed);
            let columns = self.filter.columns_of(&batch)?;
            let mut begin = 0;
            while begin < batch.num_rows() {
                let count = (batch.num_rows() - begin).min(BATCH_ROWS);
                let slices: Vec<ArrayRef> = columns.iter().map(|column| column.slice(begin, count)).collect();
                if let Some(batch) = self.filter.kept(&slices, count, self.rows_left) {
                    self.rows_left -= batch.rows;
                    self.ready.push_back(batch);
                }
                begin += count;
            }
        }
    }
}

impl Rows {
    pub(crate) fn new(
        source: Source,
        filter: Arc<RowFilter>,
        limit: Option<usize>,
        reads: Arc<CountedReads>,
    ) -> Self {
        Self { source, filter, rows_left: limit.unwrap_or(usize::MAX), ready: VecDeque::new(), reads }
    }
}

impl RowFilter {
    fn columns_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut scanned = batch.columns().iter();
        self.read
            .iter()
            .map(|read| match read {
                Read::Stored(stored) => stored.array(scanned.next().expect("as many as were projected")),
                Read::Absent(column_type) => Ok(new_null_array(&column_type.data_type(), batch.num_rows())),
            })
            .collect()
    }

    /// The first rows that stay, at most `limit`.
    pub(crate) fn kept(&self, columns: &[ArrayRef], rows: usize, limit: usize) -> Option<Batch> {
        let kept = self.kept_rows(columns, rows, limit);
        let count = kept.as_ref().map_or(rows, Vec::len);
        if count == 0 {
            return None;
        }
        let taken = |place: usize| match &kept {
            None => columns[place].clone(),
            Some(kept) => take_rows(&columns[place], kept),
        };
        let series = match self.schema.is_series_keyed() {
            true => runs(taken(0).as_primitive::<UInt32Type>().values()),
            false => Vec::new(),
        };
        let columns = self.wanted.iter().map(|place| taken(*place)).collect();
        Some(Batch { rows: count, series, columns })
    }

    /// Which rows stay; `None`: all.
    fn kept_rows(&self, columns: &[ArrayRef], rows: usize, limit: usize) -> Option<Vec<u32>> {
        let mut kept: Option<BooleanBuffer> = None;
        let mut keep = |those: BooleanBuffer| {
            kept = Some(match kept.take() {
                None => those,
                Some(kept) => &kept & &those,
            });
        };
        if let RowSelection::Keys { start, end } = &self.rows {
            keep(keys_within(&columns[..self.schema.key.len()], rows, start, end));
        }
        if let RowSelection::Series { series: SeriesSet::Ids(ids), .. } = &self.rows
            && ids.len() > SERIES_LISTED
        {
            let series = columns[0].as_primitive::<UInt32Type>().values();
            let inside = |row: usize| ids.binary_search(&SeriesId(series[row])).is_ok();
            keep(BooleanBuffer::collect_bool(rows, inside));
        }
        for (place, comparison) in &self.predicates {
            keep(judged(&columns[*place], comparison));
        }
        if let Some(places) = &self.not_all_null
            && places.iter().all(|place| columns[*place].null_count() > 0)
        {
            let any = |row| places.iter().any(|place| columns[*place].is_valid(row));
            keep(BooleanBuffer::collect_bool(rows, any));
        }
        let count = kept.as_ref().map_or(rows, BooleanBuffer::count_set_bits);
        match kept {
            _ if count == rows && rows <= limit => None,
            None => Some((0..limit as u32).collect()),
            Some(kept) => Some(kept.set_indices().take(limit).map(|row| row as u32).collect()),
        }
    }
}

/// Which rows a condition holds for.
fn judged(column: &ArrayRef, comparison: &Comparison) -> BooleanBuffer {
    BooleanBuffer::collect_bool(column.len(), |row| comparison.holds(value_at(column, row).as_ref()))
}

fn keys_within(key: &[ArrayRef], rows: usize, start: &KeyBound, end: &KeyBound) -> BooleanBuffer {
    let compared = |row: usize, bound: &[Value]| {
        let mut pairs = key.iter().zip(bound);
        let unequal = pairs.find_map(|(column, value)| {
            let ordering = value_at(column, row).expect("keys are whole").cmp(value);
            ordering.is_ne().then_some(ordering)
        });
        unequal.unwrap_or(std::cmp::Ordering::Equal)
    };
    BooleanBuffer::collect_bool(rows, |row| {
        let after_start = match start {
            Bound::Unbounded => true,
            Bound::Included(bound) => compared(row, bound).is_ge(),
            Bound::Excluded(bound) => compared(row, bound).is_gt(),
        };
        let before_end = match end {
            Bound::Unbounded => true,
            Bound::Included(bound) => compared(row, bound).is_le(),
            Bound::Excluded(bound) => compared(row, bound).is_lt(),
        };
        after_start && before_end
    })
}

fn runs(series: &[u32]) -> Vec<SeriesRun> {
    let run = |run: &[u32]| SeriesRun { series: SeriesId(run[0]), rows: run.len() as u32 };
    series.chunk_by(|a, b| a == b).map(run).collect()
}
