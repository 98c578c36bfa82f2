//! Looks up one key in a rowset of a table with any other key: at most an index page, the keys of a group, and a block
//! for each column wanted. No group is decoded.
//!
//! As long as there is room, the cache keeps groups, in which the next row may be. When it is full, it keeps long rows by
//! themselves, unless one group is asked for twice in a row.

use super::bloom;
use super::cached_row::{CachedRow, CachedRowLayout};
use super::format::{BlockRef, GroupEntry};
use super::group_blocks::{GroupBlocks, Reason};
use super::keyed::KeyedCursor;
use super::keyed_page::KeyedPage;
use super::reader::{LoadedFooter, Rowset, Use};
use super::verified::VerifiedBlock;
use crate::rows::column_buffer::{ABSENT, Column, Values};
use crate::rows::key::KeyRange;
use crate::rows::merge::{DELETED, UPSERTED};
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use nyala_core::{ColumnType, Result, TableSchema};
use std::sync::Arc;

/// Rows of a group that has few of them because they are long: half a KiB and more. Groups of short tables count as well.
const LONG_ROWS_MAX: u32 = 128;

/// A key that is looked for, and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SoughtKey<'a> {
    pub(crate) key: &'a [u8],
    hash: u64,
}

impl<'a> SoughtKey<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Self {
        Self { key, hash: bloom::hash(key) }
    }
}

impl Rowset {
    /// Adds the version of a key that is in this rowset, if there is one, to a row.
    pub(crate) fn add_version(
        self: &Arc<Self>,
        schema: &TableSchema,
        sought: SoughtKey<'_>,
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let footer = self.footer()?;
        if footer.version < 4 {
            return match self.candidates(&[sought])?[0] {
                Some(_) => self.add_old_version(schema, sought.key, projection, newest),
                None => Ok(()),
            };
        }
        let Some(number) = page_of(&footer, sought.key, 0) else { return Ok(()) };
        let block = self.keyed_page(&footer, &footer.pages[number])?;
        let page = block.as_keyed_page().expect("was checked");
        let may_contain = page.may_contain(sought.hash);
        self.count_filter_lookups(1, u64::from(!may_contain));
        match may_contain {
            true => self.add_version_of_page(&footer, &page, sought, projection, newest),
            false => Ok(()),
        }
    }

    /// Which of some ascending keys may be here, and in which index page: all that are here, and few others.
    pub(crate) fn candidates(self: &Arc<Self>, sought: &[SoughtKey<'_>]) -> Result<Vec<Option<usize>>> {
        let footer = self.footer()?;
        let mut numbers = Vec::with_capacity(sought.len());
        let mut from = 0;
        for key in sought.iter().map(|sought| sought.key) {
            let number = page_of(&footer, key, from);
            // The next one may be in the same page.
            from = number.unwrap_or(from);
            numbers.push(number);
        }
        if footer.version < 4 {
            self.filter_by_rowset(&footer, sought, &mut numbers)?;
        } else {
            self.filter_by_page(&footer, sought, &mut numbers)?;
        }
        Ok(numbers)
    }

    /// Takes out those that the filters of their pages rule out.
    fn filter_by_page(
        self: &Arc<Self>,
        footer: &LoadedFooter,
        sought: &[SoughtKey<'_>],
        numbers: &mut [Option<usize>],
    ) -> Result<()> {
        let mut blocks = Vec::new();
        let mut last = None;
        for number in numbers.iter().flatten() {
            if last != Some(*number) {
                last = Some(*number);
                blocks.push((*number, self.keyed_page(footer, &footer.pages[*number])?));
            }
        }
        let mut pages =
            blocks.iter().map(|(number, block)| (*number, block.as_keyed_page().expect("was checked")));
        let mut page = pages.next();
        let (mut asked, mut ruled_out) = (0, 0);
        for (sought, number) in sought.iter().zip(numbers) {
            let Some(wanted) = *number else { continue };
            while page.as_ref().is_some_and(|(own, _)| *own != wanted) {
                page = pages.next();
            }
            let (_, page) = page.as_ref().expect("every page that is wanted was read");
            asked += 1;
            if !page.may_contain(sought.hash) {
                ruled_out += 1;
                *number = None;
            }
        }
        self.count_filter_lookups(asked, ruled_out);
        Ok(())
    }

    /// The same in files before version 4, which have one filter.
    fn filter_by_rowset(
        self: &Arc<Self>,
        footer: &LoadedFooter,
        sought: &[SoughtKey<'_>],
        numbers: &mut [Option<usize>],
    ) -> Result<()> {
        if footer.bloom.length == 0 {
            return Ok(());
        }
        let filter = self.block(footer.bloom)?;
        bloom::check(filter.bytes()).map_err(|error| self.corrupt(footer.bloom, &error))?;
        for (sought, number) in sought.iter().zip(numbers).filter(|(_, number)| number.is_some()) {
            let may_contain = bloom::may_contain(filter.bytes(), sought.hash);
            self.count_filter_lookups(1, u64::from(!may_contain));
            *number = number.filter(|_| may_contain);
        }
        Ok(())
    }

    /// Adds the version of a key, if there is one in a page, to a row.
    pub(crate) fn add_version_of(
        self: &Arc<Self>,
        schema: &TableSchema,
        (sought, page): (SoughtKey<'_>, usize),
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let footer = self.footer()?;
        if footer.version < 4 {
            return self.add_old_version(schema, sought.key, projection, newest);
        }
        let block = self.keyed_page(&footer, &footer.pages[page])?;
        let page = block.as_keyed_page().expect("was checked");
        self.add_version_of_page(&footer, &page, sought, projection, newest)
    }

    fn add_version_of_page(
        &self,
        footer: &LoadedFooter,
        page: &KeyedPage<'_>,
        sought: SoughtKey<'_>,
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let Some(number) = page.last_group(|first| first <= sought.key) else { return Ok(()) };
        let group = GroupAt { page, number, entry: page.entry(number) };
        let has_long_rows = group.entry.rows <= LONG_ROWS_MAX && !projection.columns.is_empty();
        if has_long_rows && let Some(block) = self.find_row(sought.hash) {
            // Another key may have the same hash, and other columns may have been read.
            if let Some(row) = block.as_row(sought.key, projection) {
                return add_cached(row, projection, newest);
            }
        }
        let keeps_row = has_long_rows && !page.note_asked(number) && !self.has_room_for(&group);
        let reason = if keeps_row { Reason::Row } else { Reason::Lookup };
        let Some(found) = FoundRow::find(self, footer, &group, sought.key, projection, reason)? else {
            return Ok(());
        };
        let marker = found.marker(projection)?;
        if !keeps_row || marker == DELETED {
            return newest.add(marker, |position, cell| found.read(position, cell));
        }
        let mut cells = projection.empty_columns(projection.kinds.len());
        for (position, cell) in cells.iter_mut().enumerate() {
            found.read(position, cell)?;
        }
        if let Some((layout, bytes)) = CachedRowLayout::of(sought.key, marker, projection, &cells) {
            self.keep_row(sought.hash, VerifiedBlock::row(bytes, layout));
        }
        newest.add(marker, |position, cell| {
            std::mem::swap(cell, &mut cells[position]);
            Ok(())
        })
    }

    /// Whether a group can come into the cache before others go.
    fn has_room_for(&self, group: &GroupAt<'_>) -> bool {
        let bytes = group.page.blocks(group.number).map(|block| u64::from(block.length)).sum();
        self.has_room_at(group.entry.directory.offset, bytes)
    }

    /// The same in files before version 4, which have no keys that can be searched.
    fn add_old_version(
        self: &Arc<Self>,
        schema: &TableSchema,
        key: &[u8],
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let range = KeyRange::one(key.to_vec());
        let mut cursor =
            KeyedCursor::new(self.clone(), schema, projection.clone(), range, false, Use::Again)?;
        match cursor.next_batch()? {
            None => Ok(()),
            Some(row) => newest.add(row.marker(0), |position, cell| {
                cell.push_from(&row.columns[position], 0);
                Ok(())
            }),
        }
    }
}

/// The number of the index page that may have a key; it is looked for from a page on.
fn page_of(footer: &LoadedFooter, key: &[u8], from: usize) -> Option<usize> {
    let after = from + footer.pages[from..].partition_point(|page| page.first_key.as_slice() <= key);
    after.checked_sub(1).filter(|_| key <= footer.last_key.as_slice())
}

fn add_cached(row: CachedRow<'_>, projection: &Projection, newest: &mut NewestRow) -> Result<()> {
    newest.add(row.marker(), |position, cell| {
        row.push_to(position, projection.columns[position], cell);
        Ok(())
    })
}

/// A group by its place in an index page.
struct GroupAt<'a> {
    page: &'a KeyedPage<'a>,
    number: usize,
    entry: GroupEntry,
}

/// A row in the blocks of its group.
struct FoundRow<'a> {
    blocks: GroupBlocks<'a>,
    /// Of the columns of the projection, and of the markers.
    places: Vec<(BlockRef, ColumnType)>,
    row: u32,
}

impl<'a> FoundRow<'a> {
    fn find(
        rowset: &'a Rowset,
        footer: &LoadedFooter,
        group: &GroupAt<'_>,
        key: &[u8],
        projection: &Projection,
        reason: Reason,
    ) -> Result<Option<Self>> {
        let GroupAt { page, number, entry } = group;
        let places = rowset.column_places(footer, page, *number, projection);
        let wanted = places.iter().map(|(place, _)| *place);
        let blocks = GroupBlocks::new(rowset, *entry, page.blocks(*number), wanted, reason)?;
        let row = blocks.keys().find(key);
        Ok(row.map(|row| Self { blocks, places, row: row as u32 }))
    }

    /// Appends the cell of a column, by its position in the projection.
    fn read(&self, position: usize, cell: &mut Column) -> Result<()> {
        let (place, column_type) = self.places[position];
        if place.length == 0 {
            cell.push_state(ABSENT, 1);
            return Ok(());
        }
        self.blocks.read(place, column_type, |block| block.gather(&[self.row], cell))
    }

    fn marker(&self, projection: &Projection) -> Result<u8> {
        let mut marker = Column::words(Vec::new());
        self.read(projection.columns.len(), &mut marker)?;
        Ok(match marker.values {
            Values::Word(words) if marker.validity.is_none() => words[0] as u8,
            _ => UPSERTED,
        })
    }
}
