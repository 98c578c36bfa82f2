//! Reads a rowset of a series-keyed table: finds the rows of a series and their blocks. `rows.rs` decodes them.
//!
//! A cursor moves forward over series; it keeps the index page and the group at hand, so that reading
//! neighbours costs no look-up.

mod neighbours;
mod prefetch;

use super::LONG_RUN_ROWS;
use super::format::{BlockRef, ColumnEntry, GroupEntry, PageEntry};
use super::loaded::LoadedBlock;
use super::reader::{LoadedFooter, Rowset, Use};
use super::verified::VerifiedBlock;
use crate::files::schema_format::MARKER_COLUMN;
use crate::rows::column_buffer::Column;
use crate::rows::merge::gallop;
use crate::rows::projection::Projection;
use nyala_core::{ColumnType, Error, Result, SeriesId, TimeRange};
use prefetch::Prefetch;
use std::ops::Range;
use std::sync::Arc;

/// Rows of one series in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) page: usize,
    pub(crate) group: usize,
    pub(crate) rows: Range<u32>,
    /// Times between which the rows lie; those of the whole group where it holds other series too.
    pub(crate) min_time_ns: i64,
    pub(crate) max_time_ns: i64,
}

impl Part {
    pub(crate) fn time(&self) -> TimeRange {
        TimeRange::new(self.min_time_ns, self.max_time_ns.saturating_add(1))
    }
}

/// A column of the rowset that is read.
#[derive(Clone, Copy)]
pub(super) struct SourceColumn {
    /// Its position in the footer; `None`: absent in the whole rowset.
    position: Option<usize>,
    pub(super) column_type: ColumnType,
}

/// Which groups are decoded whole when some of their rows are read, because the others are read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeGroups {
    None,
    /// Those that hold many series. Long ones have vectors of their own, which cost no more one by one.
    Shared,
    All,
}

/// The rowset does not say whether a series has a last row.
pub(crate) struct NotKnown;

/// Reads series of a rowset.
pub(crate) struct RowsetCursor {
    pub(crate) rowset: Arc<Rowset>,
    footer: Arc<LoadedFooter>,
    /// Whether it reads the last rows of series only.
    last_rows: bool,
    pub(super) projection: Projection,
    /// Time, the projected columns, the markers.
    pub(super) sources: Vec<SourceColumn>,
    pub(super) page: Option<LoadedPage>,
    /// The group of that page that was found last.
    sought: usize,
    group: Option<LoadedGroup>,
    pub(super) whole_groups: WholeGroups,
    pub(super) use_of: Use,
    /// Columns of the whole group at hand, by source, where whole groups are decoded.
    pub(super) decoded: Vec<Option<Column>>,
    /// Blocks of the group at hand, by source.
    blocks: Vec<Slot<LoadedBlock>>,
    /// The group of which a block was read last that the cache did not have.
    missed: Option<(usize, usize)>,
    /// Blocks that are likely to be read next, for readers in order.
    pub(super) prefetch: Option<Prefetch>,
    /// Blocks that index pages knew, to be counted.
    pub(super) near_hits: u64,
}

/// Something that is looked up when it is first needed.
#[derive(Clone)]
enum Slot<T> {
    Unknown,
    Absent,
    Found(T),
}

pub(super) struct LoadedPage {
    index: usize,
    groups: Arc<VerifiedBlock>,
    /// By source.
    columns: Vec<Slot<Arc<VerifiedBlock>>>,
}

impl LoadedPage {
    /// The index page of the groups.
    pub(super) fn groups(&self) -> &VerifiedBlock {
        &self.groups
    }

    /// The index page of a source, if it was looked for.
    pub(super) fn column(&self, index: usize, source: usize) -> Option<&VerifiedBlock> {
        match &self.columns[source] {
            Slot::Found(entries) if self.index == index => Some(entries),
            _ => None,
        }
    }
}

pub(super) struct LoadedGroup {
    page: usize,
    group: usize,
    pub(super) entry: GroupEntry,
    /// `None`: all rows belong to the first series.
    pub(super) runs: Option<Arc<VerifiedBlock>>,
}

impl LoadedGroup {
    fn rows_of(&self, series: u32) -> Option<Range<u32>> {
        match self.runs.as_ref().and_then(|runs| runs.group_runs()) {
            Some(runs) => runs.rows_of(series),
            None => (series == self.entry.first_series).then_some(0..self.entry.rows),
        }
    }

    fn part_of(&self, series: u32) -> Option<Part> {
        self.rows_of(series).map(|rows| Part {
            page: self.page,
            group: self.group,
            rows,
            min_time_ns: self.entry.min_time_ns,
            max_time_ns: self.entry.max_time_ns,
        })
    }

    /// The first series that is not below `least`.
    fn series_from(&self, least: u32) -> Option<u32> {
        match self.runs.as_ref().and_then(|runs| runs.group_runs()) {
            Some(runs) => runs.series.get(runs.series.partition_point(|series| *series < least)).copied(),
            None => Some(self.entry.first_series).filter(|series| *series >= least),
        }
    }
}

/// The source of times; those of the projected columns follow.
pub(super) const TIME_SOURCE: usize = 0;

impl RowsetCursor {
    pub(crate) fn new(rowset: Arc<Rowset>, projection: Projection) -> Result<Self> {
        let footer = rowset.footer()?;
        let time = footer.columns[0];
        let mut sources = vec![SourceColumn { position: Some(0), column_type: time.1.0 }];
        sources.extend(projection.columns.iter().map(|(id, column_type)| SourceColumn {
            position: footer.column(*id),
            column_type: *column_type,
        }));
        sources.push(SourceColumn { position: footer.column(MARKER_COLUMN), column_type: ColumnType::Int8 });
        let (blocks, decoded) = (vec![Slot::Unknown; sources.len()], vec![None; sources.len()]);
        Ok(Self {
            rowset,
            footer,
            last_rows: false,
            projection,
            sources,
            page: None,
            sought: 0,
            group: None,
            whole_groups: WholeGroups::None,
            use_of: Use::Again,
            decoded,
            blocks,
            missed: None,
            prefetch: None,
            near_hits: 0,
        })
    }

    /// A cursor of the rowset's last rows, with which only [`RowsetCursor::last_row`] and what reads rows of its part
    /// mean something. Rowsets of few rows a series do not keep them once more.
    pub(crate) fn of_last_rows(&self, many: bool) -> Result<Self> {
        let mut cursor = Self::new(self.rowset.clone(), self.projection.clone())?;
        cursor.last_rows = !self.footer.last_pages.is_empty();
        if many {
            cursor.whole_groups = if cursor.last_rows { WholeGroups::All } else { WholeGroups::Shared };
        }
        Ok(cursor)
    }

    /// The last row of a series, nothing if it has no rows; the error that is none: it is not known.
    pub(crate) fn last_row(
        &mut self,
        series: SeriesId,
    ) -> Result<std::result::Result<Option<Part>, NotKnown>> {
        let series = series.0;
        let is_outside = match (self.footer.pages.first(), self.footer.pages.last()) {
            (Some(first), Some(last)) => series < first.first_series || last.last_series < series,
            _ => true,
        };
        if is_outside {
            return Ok(Ok(None));
        }
        let at_hand = self
            .group
            .as_ref()
            .is_some_and(|group| (group.entry.first_series..=group.entry.last_series).contains(&series));
        if !at_hand {
            // Series that are in no group have no rows, if all rows are in groups.
            let nothing = if self.last_rows { Err(NotKnown) } else { Ok(None) };
            let Some((page, group)) = self.seek(series)? else { return Ok(nothing) };
            if series < self.group(page, group)?.entry.first_series {
                return Ok(nothing);
            }
        }
        let group = self.group.as_ref().expect("is at hand");
        // The last series of a group may have more rows in the next one.
        if !self.last_rows && group.entry.last_series == series {
            return Ok(Err(NotKnown));
        }
        let last = |part: Part| Part { rows: part.rows.end - 1..part.rows.end, ..part };
        Ok(Ok(group.part_of(series).map(last)))
    }

    pub(super) fn pages(&self) -> &[PageEntry] {
        if self.last_rows { &self.footer.last_pages } else { &self.footer.pages }
    }

    /// From now on decodes each of these groups once: for readers of everything in order.
    pub(crate) fn read_whole_groups(&mut self, which: WholeGroups) {
        self.whole_groups = which;
    }

    /// Whether all rows of a part's group are decoded when some are asked for.
    pub(crate) fn reads_whole(&mut self, part: &Part) -> Result<bool> {
        Ok(match self.whole_groups {
            WholeGroups::None => false,
            WholeGroups::All => true,
            WholeGroups::Shared => {
                let group = self.group(part.page, part.group)?;
                let runs = group.runs.as_ref().and_then(|runs| runs.group_runs());
                runs.is_some_and(|runs| runs.series.len() * LONG_RUN_ROWS > group.entry.rows as usize)
            }
        })
    }

    fn page(&mut self, index: usize) -> Result<&mut LoadedPage> {
        if self.page.as_ref().is_none_or(|page| page.index != index) {
            let groups = self.rowset.group_page(&self.pages()[index])?;
            let columns = vec![Slot::Unknown; self.sources.len()];
            self.page = Some(LoadedPage { index, groups, columns });
        }
        Ok(self.page.as_mut().expect("was loaded"))
    }

    fn group_entry(&mut self, page: usize, group: usize) -> Result<GroupEntry> {
        let entry = GroupEntry::at(self.page(page)?.groups.bytes(), group);
        if entry.rows == 0 {
            let place = self.pages()[page].group_page;
            return Err(self.rowset.corrupt(place, &Error::invalid("a group of 0 rows")));
        }
        Ok(entry)
    }

    pub(super) fn group(&mut self, page: usize, group: usize) -> Result<&mut LoadedGroup> {
        if self.group.as_ref().is_none_or(|loaded| loaded.page != page || loaded.group != group) {
            let entry = self.group_entry(page, group)?;
            let runs = self.known_runs(group, &entry)?;
            if let Some(prefetch) = &mut self.prefetch {
                prefetch
                    .note_group(self.group.as_ref().map(|group| (group.page, group.group)), (page, group));
            }
            self.group = Some(LoadedGroup { page, group, entry, runs });
            self.blocks.fill(Slot::Unknown);
            self.decoded.fill(None);
        }
        Ok(self.group.as_mut().expect("was loaded"))
    }

    /// The first group that may hold a series or a later one.
    fn seek(&mut self, series: u32) -> Result<Option<(usize, usize)>> {
        if let Some(near) = self.seek_near(series) {
            return Ok(Some(near));
        }
        let page = self.pages().partition_point(|page| page.last_series < series);
        let Some(groups) = self.pages().get(page).map(|page| page.groups as usize) else {
            return Ok(None);
        };
        let entries = self.page(page)?.groups.bytes();
        let (mut low, mut high) = (0, groups);
        while low < high {
            let middle = low + (high - low) / 2;
            if GroupEntry::last_series_at(entries, middle) < series {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.sought = low;
        Ok((low < groups).then_some((page, low)))
    }

    /// Like [`RowsetCursor::seek`], from the group found before, in the current page: series come in order, each a few
    /// groups after the one before.
    fn seek_near(&mut self, series: u32) -> Option<(usize, usize)> {
        let (page, from) = (self.page.as_ref()?, self.sought);
        let groups = self.pages()[page.index].groups as usize;
        let entries = page.groups.bytes();
        let is_before = |group: usize| GroupEntry::last_series_at(entries, group) < series;
        if from >= groups {
            return None;
        }
        if !is_before(from) {
            // It may still be the first that is not before.
            return (from > 0 && is_before(from - 1)).then_some((page.index, from));
        }
        let found = gallop(from + 1, groups, is_before);
        if found == groups {
            return None;
        }
        let index = page.index;
        self.sought = found;
        Some((index, found))
    }

    /// The first series with rows that is not below `least`.
    pub(crate) fn next_series(&mut self, least: u32) -> Result<Option<u32>> {
        if let Some(group) = &self.group
            && group.entry.first_series <= least
            && least <= group.entry.last_series
        {
            return Ok(group.series_from(least));
        }
        let Some((page, group)) = self.seek(least)? else { return Ok(None) };
        Ok(self.group(page, group)?.series_from(least))
    }

    /// Appends where the rows of a series are that may lie in a range of times, in order of time.
    pub(crate) fn parts(&mut self, series: SeriesId, time: TimeRange, parts: &mut Vec<Part>) -> Result<()> {
        if !self.rowset.meta.time().overlaps(time) {
            return Ok(());
        }
        let series = series.0;
        // The group at hand holds all rows of the series unless it is the first or last in it.
        if let Some(group) = &self.group
            && group.entry.first_series < series
            && series < group.entry.last_series
        {
            parts.extend(group.part_of(series));
            return Ok(());
        }
        let Some((mut page, mut group)) = self.seek(series)? else { return Ok(()) };
        loop {
            let groups = self.pages()[page].groups as usize;
            if group == groups {
                (page, group) = (page + 1, 0);
                if page == self.pages().len() || self.pages()[page].first_series > series {
                    return Ok(());
                }
                continue;
            }
            let entry = self.group_entry(page, group)?;
            if entry.first_series > series {
                return Ok(());
            }
            let overlaps = entry.min_time_ns < time.end_ns && time.start_ns <= entry.max_time_ns;
            if overlaps {
                let rows = if entry.first_series == entry.last_series {
                    Some(0..entry.rows)
                } else {
                    self.group(page, group)?.rows_of(series)
                };
                if let Some(rows) = rows {
                    let (min_time_ns, max_time_ns) = (entry.min_time_ns, entry.max_time_ns);
                    parts.push(Part { page, group, rows, min_time_ns, max_time_ns });
                }
            } else if entry.first_series == series
                && entry.last_series == series
                && entry.min_time_ns >= time.end_ns
            {
                return Ok(());
            }
            group += 1;
        }
    }

    pub(super) fn load(&mut self, part: &Part, source: usize) -> Result<Option<&LoadedBlock>> {
        let rows = self.group_rows(part)?;
        if let Slot::Unknown = self.blocks[source] {
            self.blocks[source] = match self.column_page(part, source)? {
                Some(page) => {
                    let place = ColumnEntry::block_at(page.bytes(), part.group);
                    let column_type = self.sources[source].column_type;
                    match place.length {
                        0 => Slot::Absent,
                        _ => {
                            let block = self.known_block(part, source, place, rows)?;
                            Slot::Found(LoadedBlock { place, column_type, rows, block })
                        }
                    }
                }
                None => Slot::Absent,
            };
        }
        Ok(match &self.blocks[source] {
            Slot::Found(block) => Some(block),
            _ => None,
        })
    }

    fn entries(&mut self, part: &Part, source: usize) -> Result<Option<&[u8]>> {
        Ok(self.column_page(part, source)?.map(|page| page.bytes()))
    }

    /// The index page of a source that has a part's group; `None`: absent in all its groups.
    pub(super) fn column_page(&mut self, part: &Part, source: usize) -> Result<Option<&VerifiedBlock>> {
        let Some(position) = self.sources[source].position else { return Ok(None) };
        self.page(part.page)?;
        let page = self.page.as_mut().expect("was loaded");
        if let Slot::Unknown = page.columns[source] {
            let pages = if self.last_rows { &self.footer.last_pages } else { &self.footer.pages };
            page.columns[source] = match self.rowset.column_page(&pages[part.page], position)? {
                Some(block) => Slot::Found(block),
                None => Slot::Absent,
            };
        }
        Ok(match &page.columns[source] {
            Slot::Found(block) => Some(block),
            _ => None,
        })
    }

    /// The index entry of a projected column for a part's group; `None`: absent in all of it.
    pub(crate) fn column_entry(&mut self, part: &Part, column: usize) -> Result<Option<ColumnEntry>> {
        let entries = self.entries(part, column + 1)?;
        Ok(entries.map(|entries| ColumnEntry::at(entries, part.group)).filter(|e| e.block.length > 0))
    }

    /// The block of a projected column for a part's group; `None`: absent in all of it.
    pub(crate) fn column_block(&mut self, part: &Part, column: usize) -> Result<Option<&LoadedBlock>> {
        self.load(part, column + 1)
    }

    /// The block of times of a part's group.
    pub(crate) fn time_block(&mut self, part: &Part) -> Result<LoadedBlock> {
        if let Some(block) = self.load(part, TIME_SOURCE)? {
            return Ok(block.clone());
        }
        Err(self.rowset.corrupt(BlockRef::default(), &missing_times()))
    }

    /// Rows of the whole group of a part.
    pub(crate) fn group_rows(&mut self, part: &Part) -> Result<u32> {
        Ok(self.group(part.page, part.group)?.entry.rows)
    }

    /// Whether some row of a part's group hides older ones.
    pub(crate) fn has_markers(&mut self, part: &Part) -> Result<bool> {
        let source = self.sources.len() - 1;
        let entries = self.entries(part, source)?;
        Ok(entries.is_some_and(|entries| ColumnEntry::block_at(entries, part.group).length > 0))
    }
}

fn missing_times() -> nyala_core::Error {
    nyala_core::Error::invalid("a group without times")
}
