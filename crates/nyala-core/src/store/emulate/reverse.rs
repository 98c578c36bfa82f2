//! Scans backwards, of scans forwards: the keys alone are read first, to find where pieces of a bounded size end; then
//! the pieces, the last one first.
//!
//! Rows of a table of series come by ascending series, each backwards, so a piece is a part of one series, or some whole
//! series. Those of other tables are one sequence.

use super::super::convert::value_at;
use super::super::{Batch, RowSelection, RowStream, ScanRequest, SeriesSet, SnapshotRef};
use super::filter::rows_of;
use super::pieces::read_all;
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
    /// The next one last.
    pieces: Vec<Piece>,
}

impl ReverseScan {
    /// Begins to scan backwards what `request` scans forwards.
    pub(super) async fn begin(
        snapshot: SnapshotRef,
        schema: Arc<TableSchema>,
        request: ScanRequest,
        piece_rows: usize,
    ) -> Result<Self> {
        let by_series = schema.is_series_keyed();
        let keys = if by_series { vec![schema.key[1]] } else { schema.key.clone() };
        let mut stream = snapshot.scan(ScanRequest { columns: keys, ..request.clone() }).await?;
        let mut pieces = Pieces { piece_rows, ..Pieces::default() };
        while let Some(batch) = stream.next().await? {
            let mut series =
                batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize));
            for row in 0..batch.rows {
                let series = series.next();
                let cells = batch.columns.iter().filter_map(|column| value_at(column, row));
                let key: Key = series.map(|id| Value::UInt(id.0.into())).into_iter().chain(cells).collect();
                pieces.add(series, key);
            }
        }
        let pieces = pieces.finish();
        Ok(Self { snapshot, schema, request, pieces })
    }

    fn selection(&self, piece: Piece) -> RowSelection {
        let RowSelection::Series { time, .. } = self.request.rows else {
            return RowSelection::Keys {
                start: Bound::Included(piece.first),
                end: Bound::Included(piece.last),
            };
        };
        let time = match (&piece.series[..], &piece.first[..], &piece.last[..]) {
            ([_], [_, Value::Int(first_ns)], [_, Value::Int(last_ns)]) => {
                time.intersect(TimeRange::new(*first_ns, last_ns.saturating_add(1)))
            }
            // Several are there wholly.
            _ => time,
        };
        RowSelection::Series { series: SeriesSet::Ids(piece.series.into()), time }
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
        while let Some(piece) = self.pieces.pop() {
            let rows = self.selection(piece);
            let request = ScanRequest { rows, ..self.request.clone() };
            if let Some(batch) = read_all(&*self.snapshot, request).await? {
                return Ok(Some(self.reversed(&batch)));
            }
        }
        Ok(None)
    }
}

/// Rows that are held at once: between two keys, both included.
struct Piece {
    first: Key,
    last: Key,
    rows: usize,
    /// Of a table of series.
    series: Vec<SeriesId>,
}

/// Where pieces begin and end, as keys come by.
#[derive(Default)]
struct Pieces {
    piece_rows: usize,
    /// In the order in which they are read.
    all: Vec<Piece>,
    /// Whole series that are one piece so far.
    whole: Option<Piece>,
    /// The series at hand, and its pieces so far, forwards.
    series: Option<SeriesId>,
    parts: Vec<Piece>,
}

impl Pieces {
    fn add(&mut self, series: Option<SeriesId>, key: Key) {
        if series != self.series {
            self.end_series();
            self.series = series;
        }
        match self.parts.last_mut() {
            Some(piece) if piece.rows < self.piece_rows => (piece.last, piece.rows) = (key, piece.rows + 1),
            _ => {
                let series = series.into_iter().collect();
                self.parts.push(Piece { first: key.clone(), last: key, rows: 1, series });
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
        let Some(piece) = parts.pop() else { return };
        match &mut self.whole {
            Some(whole) if whole.rows + piece.rows <= self.piece_rows => {
                (whole.last, whole.rows) = (piece.last, whole.rows + piece.rows);
                whole.series.extend(piece.series);
            }
            whole => self.all.extend(whole.replace(piece)),
        }
    }

    fn finish(mut self) -> Vec<Piece> {
        self.end_series();
        self.all.extend(self.whole.take());
        self.all.reverse();
        self.all
    }
}
