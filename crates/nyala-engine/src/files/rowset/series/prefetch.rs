//! Finds blocks through the index page at hand, and prefetches blocks that are likely to be read next into the
//! processor's cache: reading many series in order would otherwise wait for memory at every block.

use super::{LoadedPage, Part, RowsetCursor, TIME_SOURCE};
use crate::files::rowset::format::{BlockRef, GroupEntry};
use crate::files::rowset::reader::Use;
use crate::files::rowset::verified::VerifiedBlock;
use nyala_column::kernels::{self, LINE_BYTES, prefetch_at};
use nyala_core::Result;
use std::ops::Range;
use std::sync::Arc;

/// Bytes at a block's start that say where the rest is.
const DIRECTORY_BYTES: usize = 128;
/// Bytes that an `Arc` has before its content.
const COUNTERS_BYTES: usize = 16;

/// Blocks that a cursor expects to read.
pub(in crate::files::rowset) struct Prefetch {
    /// How many groups are from one read to the next.
    stride: usize,
    /// The page and the group they are of.
    place: (usize, usize),
    /// By source.
    blocks: Vec<Option<Arc<VerifiedBlock>>>,
}

impl Prefetch {
    pub(in crate::files::rowset) fn new(sources: usize) -> Self {
        Self { stride: 1, place: (0, 0), blocks: vec![None; sources] }
    }

    /// Notes that a cursor goes from group to group.
    pub(in crate::files::rowset) fn note_group(&mut self, from: Option<(usize, usize)>, to: (usize, usize)) {
        if let Some((page, group)) = from
            && page == to.0
            && group < to.1
        {
            self.stride = to.1 - group;
        }
        if self.place != to {
            self.blocks.fill(None);
        }
    }

    /// The block of a source of a group, if it was fetched.
    pub(in crate::files::rowset) fn take(
        &mut self,
        place: (usize, usize),
        source: usize,
    ) -> Option<Arc<VerifiedBlock>> {
        if self.place == place { self.blocks[source].take() } else { None }
    }
}

impl RowsetCursor {
    /// Announces that many series are going to be read in order, all in the same columns.
    pub(crate) fn read_ahead(&mut self) {
        self.prefetch = Some(Prefetch::new(self.sources.len()));
    }

    /// Whether many series are read in order.
    pub(crate) fn reads_ahead(&self) -> bool {
        self.prefetch.is_some()
    }

    /// Prefetches the block of a projected column in the group that is likely to be next, if the block is cached: of
    /// its rows those that are read in this group.
    pub(crate) fn fetch_ahead(&mut self, part: &Part, column: usize, rows: Range<u32>, group_rows: u32) {
        let source = column + 1;
        let (Some(prefetch), Some(page)) = (&mut self.prefetch, &self.page) else { return };
        let Some(entries) = page.column(part.page, source) else { return };
        let next = part.group + prefetch.stride;
        if let Some(after) = entries.address(next + prefetch.stride) {
            prefetch_at(after);
        }
        let Some(block) = entries.find(next) else { return };
        prefetch_rows(block.bytes(), &rows, group_rows);
        if prefetch.place != (part.page, next) {
            prefetch.place = (part.page, next);
            prefetch.blocks.fill(None);
        }
        prefetch.blocks[source] = Some(block);
    }

    /// Prefetches the blocks of some columns of a part's group, and of its times. Each step is done for all of them
    /// before the next step, because one block alone would wait for memory at every step.
    pub(crate) fn prefetch_blocks(
        &mut self,
        part: &Part,
        columns: impl Iterator<Item = usize> + Clone,
    ) -> Result<()> {
        let sources = || std::iter::once(TIME_SOURCE).chain(columns.clone().map(|column| column + 1));
        for source in sources() {
            if let Some(page) = self.column_page(part, source)? {
                page.prefetch_entry(part.group);
            }
        }
        for source in sources() {
            let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
            if let Some(block) = page.and_then(|page| page.address(part.group)) {
                prefetch_block(block);
            }
        }
        Ok(())
    }

    /// Prefetches the bytes of some rows of columns that are cached.
    pub(crate) fn prefetch_columns(
        &mut self,
        part: &Part,
        columns: impl Iterator<Item = usize>,
        rows: Range<u32>,
    ) -> Result<()> {
        let group_rows = self.group_rows(part)?;
        for source in columns.map(|column| column + 1) {
            let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
            if page.is_some_and(|page| page.find(part.group).is_some())
                && let Some(loaded) = self.load(part, source)?
            {
                prefetch_rows(loaded.bytes(), &rows, group_rows);
            }
        }
        Ok(())
    }

    /// The runs of a group through the index page at hand, which has its entry and knows those that were read before.
    pub(in crate::files::rowset) fn known_runs(
        &mut self,
        group: usize,
        entry: &GroupEntry,
    ) -> Result<Option<Arc<VerifiedBlock>>> {
        if entry.directory.length == 0 {
            return Ok(None);
        }
        let page = self.page.as_ref().map(LoadedPage::groups);
        let known = page.and_then(|page| page.find(group)).filter(|runs| runs.group_runs().is_some());
        if known.is_some() {
            self.near_hits += 1;
            return Ok(known);
        }
        let runs = self.rowset.runs(entry, self.use_of)?;
        if let (Some(page), Some(runs), Use::Again) = (page, &runs, self.use_of) {
            page.remember(group, runs);
        }
        Ok(runs)
    }

    /// A block through the index page of its column, which is at hand and knows those that were read before.
    pub(in crate::files::rowset) fn known_block(
        &mut self,
        part: &Part,
        source: usize,
        place: BlockRef,
        rows: u32,
    ) -> Result<Arc<VerifiedBlock>> {
        let fetched =
            self.prefetch.as_mut().and_then(|prefetch| prefetch.take((part.page, part.group), source));
        let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
        if let Some(block) = fetched.or_else(|| page.and_then(|page| page.find(part.group))) {
            self.near_hits += 1;
            return Ok(block);
        }
        let block = match self.rowset.find_cached(place) {
            Some(block) => block,
            None => self.read_block(part, source, place, rows)?,
        };
        self.remember(part, source, &block);
        Ok(block)
    }

    /// Notes a block of a group in the index page of its column.
    pub(super) fn remember(&self, part: &Part, source: usize, block: &Arc<VerifiedBlock>) {
        let page = self.page.as_ref().and_then(|page| page.column(part.page, source));
        if let Some(page) = page.filter(|_| self.use_of == Use::Again) {
            page.remember(part.group, block);
        }
    }
}

/// Prefetches the bytes that a reader of some rows of a block needs.
fn prefetch_rows(bytes: &[u8], rows: &Range<u32>, group_rows: u32) {
    let at =
        |row: u32| (bytes.len() as u64 * u64::from(row.min(group_rows)) / u64::from(group_rows)) as usize;
    kernels::prefetch(&bytes[..bytes.len().min(DIRECTORY_BYTES)]);
    kernels::prefetch(&bytes[at(rows.start)..at(rows.end)]);
}

/// Prefetches a block's header in memory, and the counters before it.
fn prefetch_block(block: *const VerifiedBlock) {
    let start = block.cast::<u8>().wrapping_sub(COUNTERS_BYTES);
    for offset in (0..COUNTERS_BYTES + size_of::<VerifiedBlock>()).step_by(LINE_BYTES) {
        prefetch_at(start.wrapping_add(offset));
    }
}

impl Drop for RowsetCursor {
    fn drop(&mut self) {
        self.rowset.add_near_hits(self.near_hits);
    }
}
