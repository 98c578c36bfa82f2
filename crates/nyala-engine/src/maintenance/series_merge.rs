//! All rows of some inputs in one pass, series by series: what flushes and compactions write.
//!
//! A million series of a few rows each are a million small merges, so here they touch no more than their rows: each
//! source stands at a series, the rows of the next one are copied behind each other and put in order where they are
//! not. Series of many rows are left to readers that cut them into segments, most of which need no merging.

use super::inputs::MergeInputs;
use crate::files::rowset::run_iterator::RunWalk;
use crate::files::rowset::{LONG_RUN_ROWS, Rowset};
use crate::memory::memtable::iterator::MemtableSweep;
use crate::memory::memtable::row_reader::PieceReader;
use crate::rows::merge::Piece;
use crate::rows::projection::Projection;
use nyala_core::{Result, SeriesId};
use std::sync::Arc;

pub(crate) struct SeriesMerge<'a> {
    /// Oldest first.
    rowsets: Vec<RunWalk>,
    memtables: Vec<MemtableSweep<'a>>,
    sequence: u64,
    run_rows_max: usize,
    reader: PieceReader<'a>,
}

/// The rows of a series.
pub(crate) enum MergedSeries<'a> {
    /// In order, nothing doubled, deletes still in.
    Rows(&'a Piece<Vec<i64>>),
    /// There are many, or rows are hidden: they have to be read another way.
    Deferred,
}

impl<'a> SeriesMerge<'a> {
    /// Stands before the first series of rowsets or of memtables. `unread`: it is asked which there are only.
    pub(crate) fn new(inputs: &MergeInputs<'a>, projection: &'a Projection, unread: bool) -> Result<Self> {
        let walk = |rowset: &Arc<Rowset>| RunWalk::new(rowset.clone(), projection.clone());
        Ok(Self {
            rowsets: inputs.rowsets.iter().map(walk).collect::<Result<_>>()?,
            memtables: inputs.memtables.iter().filter_map(|m| m.series()).map(MemtableSweep::new).collect(),
            sequence: inputs.sequence,
            run_rows_max: if unread { 0 } else { LONG_RUN_ROWS },
            reader: PieceReader::new(projection),
        })
    }

    /// The next series.
    pub(crate) fn next(&mut self) -> Result<Option<(SeriesId, MergedSeries<'_>)>> {
        let rowsets = self.rowsets.iter().filter_map(|walk| walk.series);
        let Some(series) = rowsets.chain(self.memtables.iter().filter_map(|sweep| sweep.series)).min() else {
            return Ok(None);
        };
        let mut is_read = true;
        self.reader.clear();
        for (newness, walk) in self.rowsets.iter_mut().enumerate() {
            while walk.series == Some(series) {
                is_read = is_read && walk.rows() < self.run_rows_max && !self.reader.is_full();
                if is_read {
                    self.reader.append_with(newness as u64, |piece| walk.append(piece))?;
                }
                walk.advance()?;
            }
        }
        // Sequences of rows in memory are above numbers of rowsets, or there are none beside them.
        debug_assert!(self.rowsets.is_empty() || self.memtables.is_empty());
        for sweep in self.memtables.iter_mut().filter(|sweep| sweep.series == Some(series)) {
            is_read = is_read && self.run_rows_max > 0;
            is_read = is_read && !self.reader.is_full();
            is_read = is_read && sweep.read(self.sequence, self.run_rows_max, &mut self.reader);
            sweep.advance();
        }
        let rows = if is_read { MergedSeries::Rows(self.reader.settle()) } else { MergedSeries::Deferred };
        Ok(Some((SeriesId(series), rows)))
    }
}
