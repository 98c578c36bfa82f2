//! Looks up one key in a rowset of a table with any other key: at most an index page, the keys of a group, and a block
//! for each column wanted. No group is decoded.

use super::bloom;
use super::group_blocks::{GroupBlocks, Reason};
use super::keyed::KeyedCursor;
use super::reader::{LoadedFooter, Rowset, Use};
use crate::rows::column_buffer::{ABSENT, Column, Values};
use crate::rows::key::KeyRange;
use crate::rows::merge::UPSERTED;
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use nyala_core::{Result, TableSchema};
use std::sync::Arc;

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
        match self.candidates(&[sought])?[0] {
            Some(page) => self.add_version_of(schema, (sought.key, page), projection, newest),
            None => Ok(()),
        }
    }

    /// Which of some ascending keys may be here, and in which index page: all that are here, and few others.
    pub(crate) fn candidates(self: &Arc<Self>, sought: &[SoughtKey<'_>]) -> Result<Vec<Option<usize>>> {
        let footer = self.footer()?;
        let mut numbers = Vec::with_capacity(sought.len());
        let mut before = 0;
        for key in sought.iter().map(|sought| sought.key) {
            before += footer.pages[before..].partition_point(|page| page.first_key.as_slice() <= key);
            let is_inside = key <= footer.last_key.as_slice();
            numbers.push(before.checked_sub(1).filter(|_| is_inside));
            // The next one may be in the same page.
            before = before.saturating_sub(1);
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
        (key, page): (&[u8], usize),
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let footer = self.footer()?;
        if footer.version < 4 {
            return self.add_old_version(schema, key, projection, newest);
        }
        let block = self.keyed_page(&footer, &footer.pages[page])?;
        let page = block.as_keyed_page().expect("was checked");
        let Some(group) = page.last_group(|first| first <= key) else { return Ok(()) };
        let entry = page.entry(group);
        let places = self.column_places(&footer, &page, group, projection);
        let wanted = places.iter().map(|(place, _)| *place);
        let blocks = GroupBlocks::new(self, entry, page.blocks(group), wanted, Reason::Lookup)?;
        let Some(row) = blocks.keys().find(key) else { return Ok(()) };
        let read = |position: usize, cell: &mut Column| {
            let (place, column_type) = places[position];
            if place.length == 0 {
                cell.push_state(ABSENT, 1);
                return Ok(());
            }
            blocks.read(place, column_type, |block| block.gather(&[row as u32], cell))
        };
        let mut marker = Column::words(Vec::new());
        read(projection.columns.len(), &mut marker)?;
        let marker = match marker.values {
            Values::Word(words) if marker.validity.is_none() => words[0] as u8,
            _ => UPSERTED,
        };
        newest.add(marker, read)
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
