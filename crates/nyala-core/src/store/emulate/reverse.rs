//! Backward scans made of forward scans. The keys alone are read first, to cut the rows into chunks of bounded size.
//! Then the chunks are read, the last one first.
//!
//! A table of series returns ascending series, each backwards. So a chunk is a part of one series, or several whole
//! series. In any other table all rows are one sequence.

use super::super::{Batch, RowSelection, RowStream, ScanRequest, SeriesSet, SnapshotRef};
use super::filter::rows_of;
use super::read_all::read_all;
use crate::arrays::value_at;
use crate::error::Result;
use crate::ids::SeriesId;
use crate::schema::TableSchema;
use crate::time::TimeRange;
use crate::value::Value;
use async_trait::async_trait;
use std::ops::Bound;
use std::sync::Arc;

type Key = Vec<Value>;

/// The stream.
pub(super) struct ReverseScan {
    snapshot: SnapshotRef,
    schema: Arc<TableSchema>,
    request: ScanRequest,
    /// The next chunk is the last element.
    chunks: Vec<Chunk>,
}

impl ReverseScan {
    /// Starts to return backwards what `request` returns forwards.
    pub(super) async fn begin(
        snapshot: SnapshotRef,
        schema: Arc<TableSchema>,
        request: ScanRequest,
        chunk_rows: usize,
    ) -> Result<Self> {
        let by_series = schema.is_series_keyed();
        let keys = if by_series { vec![schema.key[1]] } else { schema.key.clone() };
        let mut stream = snapshot.scan(ScanRequest { columns: keys, ..request.clone() }).await?;
        let mut chunks = Chunks { chunk_rows, ..Chunks::default() };
        while let Some(batch) = stream.next().await? {
            let mut series =
                batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize));
            for row in 0..batch.rows {
                let series = series.next();
                let cells = batch.columns.iter().filter_map(|column| value_at(column, row));
                let key: Key = series.map(|id| Value::UInt(id.0.into())).into_iter().chain(cells).collect();
                chunks.add(series, key);
            }
        }
        let chunks = chunks.finish();
        Ok(Self { snapshot, schema, request, chunks })
    }

    fn selection(&self, chunk: Chunk) -> RowSelection {
        let RowSelection::Series { time, .. } = self.request.rows else {
            return RowSelection::Keys {
                start: Bound::Included(chunk.first),
                end: Bound::Included(chunk.last),
            };
        };
        let time = match (&chunk.series[..], &chunk.first[..], &chunk.last[..]) {
            ([_], [_, Value::Int(first_ns)], [_, Value::Int(last_ns)]) => {
                time.intersect(TimeRange::new(*first_ns, last_ns.saturating_add(1)))
            }
            // Several series are in a chunk only as a whole.
            _ => time,
        };
        RowSelection::Series { series: SeriesSet::Ids(chunk.series.into()), time }
    }

    fn reversed(&self, batch: &Batch) -> Batch {
        let rows = batch.rows as u32;
        if !self.schema.is_series_keyed() {
            return rows_of(batch, &(0..rows).rev().collect::<Vec<_>>());
        }
        let (mut order, mut begin) = (Vec::with_capacity(batch.rows), 0);
        for run in &batch.series {
            order.extend((begin..begin + run.rows).rev());
            begin += run.rows;
        }
        rows_of(batch, &order)
    }
}

#[async_trait]
impl RowStream for ReverseScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        while let Some(chunk) = self.chunks.pop() {
            let rows = self.selection(chunk);
            let request = ScanRequest { rows, ..self.request.clone() };
            if let Some(batch) = read_all(&*self.snapshot, request).await? {
                return Ok(Some(self.reversed(&batch)));
            }
        }
        Ok(None)
    }
}

/// Rows that are held at once: those between two keys, both included.
struct Chunk {
    first: Key,
    last: Key,
    rows: usize,
    /// Only in a table of series.
    series: Vec<SeriesId>,
}

/// Cuts the rows into chunks while their keys are read.
#[derive(Default)]
struct Chunks {
    chunk_rows: usize,
    /// All finished chunks, in the order in which they will be read.
    all: Vec<Chunk>,
    /// The unfinished chunk of whole series.
    whole: Option<Chunk>,
    /// The current series, and its chunks so far, in forward order.
    series: Option<SeriesId>,
    parts: Vec<Chunk>,
}

impl Chunks {
    fn add(&mut self, series: Option<SeriesId>, key: Key) {
        if series != self.series {
            self.end_series();
            self.series = series;
        }
        match self.parts.last_mut() {
            Some(chunk) if chunk.rows < self.chunk_rows => (chunk.last, chunk.rows) = (key, chunk.rows + 1),
            _ => {
                let series = series.into_iter().collect();
                self.parts.push(Chunk { first: key.clone(), last: key, rows: 1, series });
            }
        }
    }

    fn end_series(&mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        if parts.len() > 1 {
            self.all.extend(self.whole.take());
            self.all.extend(parts.into_iter().rev());
            return;
        }
        let Some(chunk) = parts.pop() else { return };
        match &mut self.whole {
            Some(whole) if whole.rows + chunk.rows <= self.chunk_rows => {
                (whole.last, whole.rows) = (chunk.last, whole.rows + chunk.rows);
                whole.series.extend(chunk.series);
            }
            whole => self.all.extend(whole.replace(chunk)),
        }
    }

    fn finish(mut self) -> Vec<Chunk> {
        self.end_series();
        self.all.extend(self.whole.take());
        self.all.reverse();
        self.all
    }
}
