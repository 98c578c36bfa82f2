//! Merges all rows of some sources in one pass, series by series: what flushes and compactions write.
//!
//! A million series of a few rows each are a million small merges, so each must touch no more than its rows. Every
//! source stands at a series; the rows of the next series are copied one after the other, and sorted if they are not in
//! order. Series of many rows are left to [`PartitionReader`](crate::reading::scan::partition::PartitionReader), which
//! cuts them into segments, most of which need no merging.

use super::inputs::MergeInputs;
use crate::files::rowset::run_iterator::RunIterator;
use crate::files::rowset::{LONG_RUN_ROWS, Rowset};
use crate::memory::memtable::iterator::MemtableIterator;
use crate::memory::memtable::row_collector::RowCollector;
use crate::rows::merge::RowBatch;
use crate::rows::projection::Projection;
use nyala_core::{Result, SeriesId};
use std::sync::Arc;

pub(crate) struct SeriesMerge<'a> {
    /// Oldest first.
    rowsets: Vec<RunIterator>,
    /// Each with the last sequence that is seen of it.
    memtables: Vec<(MemtableIterator<'a>, u64)>,
    reader: RowCollector<'a>,
}

/// The rows of a series.
pub(crate) enum MergedSeries<'a> {
    /// In order, one per key, deletes included.
    Rows(&'a RowBatch<Vec<i64>>),
    /// There are many, or some are hidden: the caller has to read them another way.
    Deferred,
}

impl<'a> SeriesMerge<'a> {
    /// Stands before the first series of rowsets or of memtables.
    pub(crate) fn new(inputs: &MergeInputs<'a>, projection: &'a Projection) -> Result<Self> {
        let walk = |rowset: &Arc<Rowset>| RunIterator::new(rowset.clone(), projection.clone());
        Ok(Self {
            rowsets: inputs.rowsets.iter().map(walk).collect::<Result<_>>()?,
            memtables: inputs
                .memtables
                .iter()
                .filter_map(|m| Some((MemtableIterator::new(m.series()?), inputs.sequence.min(m.visible_to))))
                .collect(),
            reader: RowCollector::new(projection),
        })
    }

    /// The next series. Rows of one of which some may be hidden are not read.
    pub(crate) fn next(
        &mut self,
        may_be_hidden: impl FnOnce(SeriesId) -> bool,
    ) -> Result<Option<(SeriesId, MergedSeries<'_>)>> {
        let rowsets = self.rowsets.iter().filter_map(|walk| walk.series);
        let Some(series) =
            rowsets.chain(self.memtables.iter().filter_map(|(memtable, _)| memtable.series)).min()
        else {
            return Ok(None);
        };
        let mut is_read = !may_be_hidden(SeriesId(series));
        self.reader.clear();
        for (newness, walk) in self.rowsets.iter_mut().enumerate() {
            while walk.series == Some(series) {
                is_read = is_read && walk.rows() < LONG_RUN_ROWS && !self.reader.is_full();
                if is_read {
                    self.reader.append_with(newness as u64, |batch| walk.append(batch))?;
                }
                walk.advance()?;
            }
        }
        // Sequences of rows in memory are above numbers of rowsets, or there are none beside them.
        debug_assert!(self.rowsets.is_empty() || self.memtables.is_empty());
        for (memtable, sequence) in self.memtables.iter_mut().filter(|(each, _)| each.series == Some(series))
        {
            is_read = is_read && !self.reader.is_full();
            is_read = is_read && memtable.read(*sequence, LONG_RUN_ROWS, &mut self.reader);
            memtable.advance();
        }
        let rows = if is_read { MergedSeries::Rows(self.reader.settle()) } else { MergedSeries::Deferred };
        Ok(Some((SeriesId(series), rows)))
    }
}
