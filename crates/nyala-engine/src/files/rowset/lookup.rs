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

impl Rowset {
    /// Adds the version of a key that is in this rowset, if there is one, to a row.
    pub(crate) fn add_version(
        self: &Arc<Self>,
        schema: &TableSchema,
        (key, hash): (&[u8], u64),
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let footer = self.footer()?;
        if footer.last_key.as_slice() < key {
            return Ok(());
        }
        let pages = footer.pages.partition_point(|page| page.first_key.as_slice() <= key);
        let Some(number) = pages.checked_sub(1) else { return Ok(()) };
        if footer.version < 4 {
            return self.add_old_version(&footer, schema, (key, hash), projection, newest);
        }
        let block = self.keyed_page(&footer, &footer.pages[number])?;
        let page = block.as_keyed_page().expect("was checked");
        if !self.filtered(page.may_contain(hash)) {
            return Ok(());
        }
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

    /// The same in files before version 4, which have one filter and no keys that can be searched.
    fn add_old_version(
        self: &Arc<Self>,
        footer: &LoadedFooter,
        schema: &TableSchema,
        (key, hash): (&[u8], u64),
        projection: &Projection,
        newest: &mut NewestRow,
    ) -> Result<()> {
        if footer.bloom.length > 0 {
            let filter = self.block(footer.bloom)?;
            bloom::check(filter.bytes()).map_err(|error| self.corrupt(footer.bloom, &error))?;
            if !self.filtered(bloom::may_contain(filter.bytes(), hash)) {
                return Ok(());
            }
        }
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
