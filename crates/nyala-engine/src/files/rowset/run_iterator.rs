//! Iterates over a rowset run by run: the rows of each series in each group, in order.

use super::Rowset;
use super::format::GroupEntry;
use super::reader::Use;
use super::series::{Part, RowsetCursor, WholeGroups};
use super::verified::VerifiedBlock;
use crate::rows::merge::{RowBatch, UPSERTED};
use crate::rows::projection::Projection;
use nyala_core::Result;
use std::sync::Arc;

/// Is positioned at a run, and moves forward.
pub(crate) struct RunIterator {
    cursor: RowsetCursor,
    part: Part,
    /// Which run of its group it stands at.
    run: usize,
    /// `None`: the group is one run.
    runs: Option<Arc<VerifiedBlock>>,
    has_markers: bool,
    /// The series of the run; `None`: behind the last.
    pub(crate) series: Option<u32>,
}

impl RunIterator {
    pub(crate) fn new(rowset: Arc<Rowset>, projection: Projection) -> Result<Self> {
        let mut cursor = RowsetCursor::new(rowset, projection)?;
        cursor.read_once();
        let part = Part { page: 0, group: 0, rows: 0..0, min_time_ns: 0, max_time_ns: 0 };
        let mut walk = Self { cursor, part, run: 0, runs: None, has_markers: false, series: None };
        walk.enter_group()?;
        Ok(walk)
    }

    /// Rows of the run.
    pub(crate) fn rows(&self) -> usize {
        self.part.rows.len()
    }

    /// Goes to the next run.
    pub(crate) fn advance(&mut self) -> Result<()> {
        self.run += 1;
        if let Some(runs) = self.runs.as_ref().and_then(|runs| runs.group_runs())
            && let (Some(series), Some(end)) = (runs.series.get(self.run), runs.ends.get(self.run))
        {
            self.series = Some(*series);
            self.part.rows = self.part.rows.end..*end;
            return Ok(());
        }
        self.part.group += 1;
        self.enter_group()
    }

    fn enter_group(&mut self) -> Result<()> {
        self.run = 0;
        while let Some(groups) = self.cursor.group_count(self.part.page) {
            if self.part.group < groups {
                let (entry, runs) = self.cursor.group_runs(self.part.page, self.part.group)?;
                let first_end = runs.as_ref().and_then(|runs| runs.group_runs()).map(|runs| runs.ends[0]);
                self.part.rows = 0..first_end.unwrap_or(entry.rows);
                (self.part.min_time_ns, self.part.max_time_ns) = (entry.min_time_ns, entry.max_time_ns);
                (self.series, self.runs) = (Some(entry.first_series), runs);
                self.has_markers = self.cursor.has_markers(&self.part)?;
                return Ok(());
            }
            (self.part.page, self.part.group) = (self.part.page + 1, 0);
        }
        self.series = None;
        Ok(())
    }

    /// Appends the run's rows to a batch.
    pub(crate) fn append(&mut self, batch: &mut RowBatch<Vec<i64>>) -> Result<()> {
        let before = batch.rows();
        self.cursor.append_batch(&self.part, self.part.rows.clone(), batch)?;
        if self.has_markers
            && let Some(added) = self.cursor.markers(&self.part, self.part.rows.clone())?
        {
            batch.markers.get_or_insert_with(|| vec![UPSERTED; before]).extend(added);
        } else if let Some(markers) = &mut batch.markers {
            markers.resize(batch.keys.len(), UPSERTED);
        }
        Ok(())
    }
}

impl RowsetCursor {
    /// From now on decodes each group once, without the cache: the rowset is read for the last time.
    pub(crate) fn read_once(&mut self) {
        (self.whole_groups, self.use_of) = (WholeGroups::All, Use::Once);
    }

    /// How many groups a page has; `None`: there is no such page.
    fn group_count(&self, page: usize) -> Option<usize> {
        self.pages().get(page).map(|page| page.groups as usize)
    }

    /// A group's index entry, and its runs if it has several.
    fn group_runs(&mut self, page: usize, group: usize) -> Result<(GroupEntry, Option<Arc<VerifiedBlock>>)> {
        let group = self.group(page, group)?;
        Ok((group.entry, group.runs.clone()))
    }
}
