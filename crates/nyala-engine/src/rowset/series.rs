//! Reading a rowset of a series-keyed table: where the rows of a series are, and the rows themselves.
//!
//! A cursor moves forward over series; it keeps the index page and the group at hand, so that reading
//! neighbours costs no look-up.

use super::format::{BlockRef, ColumnEntry, GroupEntry, GroupRuns, MARKER_COLUMN};
use super::reader::{LoadedFooter, Rowset};
use crate::cells::{ABSENT, Column, Kind, Values};
use crate::memtable::Wanted;
use crate::merge::Piece;
use bytes::Bytes;
use nyala_core::{ColumnType, Result, SeriesId, TimeRange};
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
struct Source {
    /// Its position in the footer; `None`: absent in the whole rowset.
    position: Option<usize>,
    column_type: ColumnType,
}

/// Reads series of a rowset.
pub(crate) struct RowsetCursor {
    pub(crate) rowset: Arc<Rowset>,
    footer: Arc<LoadedFooter>,
    wanted: Wanted,
    /// Time, the wanted columns, the markers.
    sources: Vec<Source>,
    page: Option<LoadedPage>,
    group: Option<LoadedGroup>,
}

struct LoadedPage {
    index: usize,
    groups: Bytes,
    /// By source: loaded when first asked for.
    columns: Vec<Option<Option<Bytes>>>,
}

struct LoadedGroup {
    page: usize,
    group: usize,
    entry: GroupEntry,
    runs: GroupRuns,
    blocks: Vec<Option<Option<LoadedBlock>>>,
}

/// A column's block of a group.
#[derive(Clone)]
pub(crate) struct LoadedBlock {
    pub(crate) entry: ColumnEntry,
    pub(crate) bytes: Bytes,
}

const TIME_SOURCE: usize = 0;

impl RowsetCursor {
    pub(crate) fn new(rowset: Arc<Rowset>, wanted: Wanted) -> Result<Self> {
        let footer = rowset.footer()?;
        let time = footer.columns[0];
        let mut sources = vec![Source { position: Some(0), column_type: time.1.0 }];
        sources.extend(
            wanted
                .columns
                .iter()
                .map(|(id, column_type)| Source { position: footer.column(*id), column_type: *column_type }),
        );
        sources.push(Source { position: footer.column(MARKER_COLUMN), column_type: ColumnType::Int8 });
        Ok(Self { rowset, footer, wanted, sources, page: None, group: None })
    }

    fn page(&mut self, index: usize) -> Result<&mut LoadedPage> {
        if self.page.as_ref().is_none_or(|page| page.index != index) {
            let groups = self.rowset.group_page(&self.footer.pages[index])?;
            self.page = Some(LoadedPage { index, groups, columns: vec![None; self.sources.len()] });
        }
        Ok(self.page.as_mut().expect("was loaded"))
    }

    fn group(&mut self, page: usize, group: usize) -> Result<&mut LoadedGroup> {
        if self.group.as_ref().is_none_or(|loaded| loaded.page != page || loaded.group != group) {
            let entry = GroupEntry::at(&self.page(page)?.groups, group);
            let runs = self.rowset.runs(&entry)?;
            let blocks = vec![None; self.sources.len()];
            self.group = Some(LoadedGroup { page, group, entry, runs, blocks });
        }
        Ok(self.group.as_mut().expect("was loaded"))
    }

    /// The first group that may hold a series or a later one.
    fn seek(&mut self, series: u32) -> Result<Option<(usize, usize)>> {
        let page = self.footer.pages.partition_point(|page| page.last_series < series);
        let Some(groups) = self.footer.pages.get(page).map(|page| page.groups as usize) else {
            return Ok(None);
        };
        let entries = &self.page(page)?.groups;
        let (mut low, mut high) = (0, groups);
        while low < high {
            let middle = low + (high - low) / 2;
            if GroupEntry::last_series_at(entries, middle) < series {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low < groups).then_some((page, low)))
    }

    /// The first series with rows that is not below `least`.
    pub(crate) fn next_series(&mut self, least: u32) -> Result<Option<u32>> {
        if let Some(group) = &self.group
            && group.entry.first_series <= least
            && least <= group.entry.last_series
        {
            let position = group.runs.series.partition_point(|series| *series < least);
            return Ok(group.runs.series.get(position).copied());
        }
        let Some((page, group)) = self.seek(least)? else { return Ok(None) };
        let group = self.group(page, group)?;
        let position = group.runs.series.partition_point(|series| *series < least);
        Ok(group.runs.series.get(position).copied())
    }

    /// Appends where the rows of a series are that may lie in a range of times, in order of time.
    pub(crate) fn parts(&mut self, series: SeriesId, time: TimeRange, parts: &mut Vec<Part>) -> Result<()> {
        let series = series.0;
        // The group at hand holds all rows of the series unless it is the first or last in it.
        if let Some(group) = &self.group
            && group.entry.first_series < series
            && series < group.entry.last_series
        {
            if let Some(rows) = group.runs.rows_of(series) {
                parts.push(Part {
                    page: group.page,
                    group: group.group,
                    rows,
                    min_time_ns: group.entry.min_time_ns,
                    max_time_ns: group.entry.max_time_ns,
                });
            }
            return Ok(());
        }
        let Some((mut page, mut group)) = self.seek(series)? else { return Ok(()) };
        loop {
            let groups = self.footer.pages[page].groups as usize;
            if group == groups {
                (page, group) = (page + 1, 0);
                if page == self.footer.pages.len() || self.footer.pages[page].first_series > series {
                    return Ok(());
                }
                continue;
            }
            let entry = GroupEntry::at(&self.page(page)?.groups, group);
            if entry.first_series > series {
                return Ok(());
            }
            let overlaps = entry.min_time_ns < time.end_ns && time.start_ns <= entry.max_time_ns;
            if overlaps {
                let rows = if entry.first_series == entry.last_series {
                    Some(0..entry.rows)
                } else {
                    self.group(page, group)?.runs.rows_of(series)
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

    fn load(&mut self, part: &Part, source: usize) -> Result<Option<LoadedBlock>> {
        self.group(part.page, part.group)?;
        let loaded = self.group.as_ref().expect("was loaded");
        if let Some(block) = &loaded.blocks[source] {
            return Ok(block.clone());
        }
        let block = match self.entry(part, source)? {
            Some(entry) if entry.block.length > 0 => {
                Some(LoadedBlock { entry, bytes: self.rowset.block(entry.block)? })
            }
            _ => None,
        };
        self.group.as_mut().expect("was loaded").blocks[source] = Some(block.clone());
        Ok(block)
    }

    fn entry(&mut self, part: &Part, source: usize) -> Result<Option<ColumnEntry>> {
        let Some(position) = self.sources[source].position else { return Ok(None) };
        self.page(part.page)?;
        let page = self.page.as_mut().expect("was loaded");
        if page.columns[source].is_none() {
            let entries = self.rowset.column_page(&self.footer.pages[part.page], position)?;
            page.columns[source] = Some(entries);
        }
        let entries = page.columns[source].as_ref().expect("was loaded");
        Ok(entries.as_ref().map(|entries| ColumnEntry::at(entries, part.group)))
    }

    /// The index entry of a wanted column for a part's group; `None`: absent in all of it.
    pub(crate) fn column_entry(&mut self, part: &Part, column: usize) -> Result<Option<ColumnEntry>> {
        Ok(self.entry(part, column + 1)?.filter(|entry| entry.block.length > 0))
    }

    /// The block of a wanted column for a part's group; `None`: absent in all of it.
    pub(crate) fn column_block(&mut self, part: &Part, column: usize) -> Result<Option<LoadedBlock>> {
        self.load(part, column + 1)
    }

    /// The block of times of a part's group.
    pub(crate) fn time_block(&mut self, part: &Part) -> Result<LoadedBlock> {
        let missing = |cursor: &Self| cursor.rowset.corrupt(BlockRef::default(), &missing_times());
        match self.load(part, TIME_SOURCE)? {
            Some(block) => Ok(block),
            None => Err(missing(self)),
        }
    }

    /// Rows of the whole group of a part.
    pub(crate) fn group_rows(&mut self, part: &Part) -> Result<u32> {
        Ok(self.group(part.page, part.group)?.entry.rows)
    }

    /// Whether some row of a part's group hides older ones.
    pub(crate) fn has_markers(&mut self, part: &Part) -> Result<bool> {
        let source = self.sources.len() - 1;
        Ok(self.entry(part, source)?.is_some_and(|entry| entry.block.length > 0))
    }

    /// The rows of a part at these times.
    pub(crate) fn rows_at(&mut self, part: &Part, time: TimeRange) -> Result<Range<u32>> {
        if time.covers(part.time()) {
            return Ok(part.rows.clone());
        }
        let rows = self.group_rows(part)?;
        let block = self.time_block(part)?;
        let parsed = self.rowset.parse(&block.bytes, block.entry.block, ColumnType::Timestamp, rows)?;
        let super::block::ValuesBlock::Integers(times) = &parsed.values else {
            unreachable!("times are integers")
        };
        let bound = |value| {
            times
                .lower_bound(part.rows.clone(), value)
                .map_err(|error| self.rowset.corrupt_block(block.entry.block, error.into()))
        };
        Ok(bound(time.start_ns)?..bound(time.end_ns)?)
    }

    /// The first and last time of a part.
    pub(crate) fn time_ends(&mut self, part: &Part) -> Result<(i64, i64)> {
        let first = self.times(part, part.rows.start..part.rows.start + 1)?[0];
        let last = self.times(part, part.rows.end - 1..part.rows.end)?[0];
        Ok((first, last))
    }

    /// The times of rows of a part's group.
    pub(crate) fn times(&mut self, part: &Part, rows: Range<u32>) -> Result<Vec<i64>> {
        let column = self.decode(part, TIME_SOURCE, rows)?;
        match column.values {
            Values::Word(words) => Ok(words.into_iter().map(|word| word as i64).collect()),
            _ => unreachable!("times are words"),
        }
    }

    /// Cells of a wanted column of rows of a part's group.
    pub(crate) fn column(&mut self, part: &Part, column: usize, rows: Range<u32>) -> Result<Column> {
        self.decode(part, column + 1, rows)
    }

    /// Markers of rows of a part's group.
    pub(crate) fn markers(&mut self, part: &Part, rows: Range<u32>) -> Result<Option<Vec<u8>>> {
        if !self.has_markers(part)? {
            return Ok(None);
        }
        let source = self.sources.len() - 1;
        match self.decode(part, source, rows)?.values {
            Values::Word(words) => Ok(Some(words.into_iter().map(|word| word as u8).collect())),
            _ => unreachable!("markers are words"),
        }
    }

    fn decode(&mut self, part: &Part, source: usize, rows: Range<u32>) -> Result<Column> {
        let column_type = self.sources[source].column_type;
        let mut column = Column::new(Kind::of(column_type));
        let group_rows = self.group_rows(part)?;
        let Some(block) = self.load(part, source)? else {
            column.push_state(ABSENT, rows.len());
            return Ok(column);
        };
        let parsed = self.rowset.parse(&block.bytes, block.entry.block, column_type, group_rows)?;
        parsed
            .decode(rows, &mut column)
            .map_err(|error| self.rowset.corrupt_block(block.entry.block, error))?;
        Ok(column)
    }

    /// All wanted cells of rows of a part's group.
    pub(crate) fn piece(&mut self, part: &Part, rows: Range<u32>) -> Result<Piece<Vec<i64>>> {
        if rows.is_empty() {
            return Ok(Piece::empty(&self.wanted.kinds));
        }
        let keys = self.times(part, rows.clone())?;
        let markers = self.markers(part, rows.clone())?;
        let columns = (0..self.wanted.columns.len())
            .map(|column| self.column(part, column, rows.clone()))
            .collect::<Result<_>>()?;
        Ok(Piece { keys, markers, columns })
    }
}

fn missing_times() -> nyala_core::Error {
    nyala_core::Error::invalid("a group without times")
}
