//! Reading a rowset of a table with any other key: group by group, in either direction.

use super::format::{BlockRef, ColumnEntry};
use super::group_blocks::Reason;
use super::keyed_group::KeyedGroup;
use super::keyed_page::KeyedPage;
use super::reader::{LoadedFooter, Rowset, RowsetKind, Use};
use crate::files::rowset::verified::VerifiedBlock;
use crate::files::schema_format::MARKER_COLUMN;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{ABSENT, Column, Kind, Values};
use crate::rows::key::{self, KeyRange};
use crate::rows::merge::RowBatch;
use crate::rows::projection::Projection;
use nyala_core::{ColumnId, ColumnType, Result, TableSchema};
use std::sync::Arc;

/// Reads the rows of a range of keys.
pub(crate) struct KeyedCursor {
    pub(crate) rowset: Arc<Rowset>,
    footer: Arc<LoadedFooter>,
    projection: Projection,
    key_columns: Vec<(ColumnId, ColumnType)>,
    key_types: Vec<ColumnType>,
    range: KeyRange,
    backward: bool,
    use_of: Use,
    /// The next group to read, and the page it is in.
    next: Option<(usize, usize)>,
    /// The first key of the group read last.
    last_first_key: Vec<u8>,
    /// The page read last, with its number.
    page: Option<(usize, Arc<VerifiedBlock>)>,
}

impl KeyedCursor {
    pub(crate) fn new(
        rowset: Arc<Rowset>,
        schema: &TableSchema,
        projection: Projection,
        range: KeyRange,
        backward: bool,
        use_of: Use,
    ) -> Result<Self> {
        let footer = rowset.footer()?;
        let type_of = |id: &ColumnId| schema.column(*id).expect("schemas are validated").column_type;
        let key_columns = schema.key.iter().map(|id| (*id, type_of(id))).collect();
        let mut key_types: Vec<ColumnType> = schema.key.iter().map(type_of).collect();
        if rowset.meta.kind == RowsetKind::Versions {
            key_types.push(ColumnType::UInt64);
        }
        let mut cursor = Self {
            rowset,
            footer,
            projection,
            key_columns,
            key_types,
            range,
            backward,
            use_of,
            next: None,
            last_first_key: Vec::new(),
            page: None,
        };
        cursor.next = cursor.seek()?;
        Ok(cursor)
    }

    fn seek(&mut self) -> Result<Option<(usize, usize)>> {
        let outside = self.range.is_empty()
            || self.footer.pages.is_empty()
            || self.footer.last_key.as_slice() < self.range.start.as_slice()
            || self.range.end.as_ref().is_some_and(|end| *end <= self.footer.pages[0].first_key);
        if outside {
            return Ok(None);
        }
        if self.backward {
            match self.range.end.clone() {
                None => {
                    let page = self.footer.pages.len() - 1;
                    Ok(Some((page, self.footer.pages[page].groups as usize - 1)))
                }
                // The last group whose first key is below the end.
                Some(end) => self.last_group(|first| first < end.as_slice()),
            }
        } else {
            // The last group whose first key is not past the start; the first one if there is none.
            let start = self.range.start.clone();
            Ok(Some(self.last_group(|first| first <= start.as_slice())?.unwrap_or((0, 0))))
        }
    }

    /// The last group whose first key satisfies a condition that holds for keys up to some key.
    fn last_group(&mut self, holds: impl Fn(&[u8]) -> bool) -> Result<Option<(usize, usize)>> {
        let pages = self.footer.pages.partition_point(|page| holds(&page.first_key));
        let Some(number) = pages.checked_sub(1) else { return Ok(None) };
        let page = self.page(number)?;
        let page = page.as_keyed_page().expect("was checked");
        Ok(page.last_group(holds).map(|group| (number, group)))
    }

    /// A page.
    fn page(&mut self, number: usize) -> Result<Arc<VerifiedBlock>> {
        match &self.page {
            Some((known, page)) if *known == number => Ok(page.clone()),
            _ => {
                let page = self.rowset.keyed_page(&self.footer, &self.footer.pages[number])?;
                self.page = Some((number, page.clone()));
                Ok(page)
            }
        }
    }

    /// The next rows of the range that are in this rowset, in ascending order whatever the direction;
    /// `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RowBatch<ByteVec>>> {
        while let Some((page, group)) = self.next {
            let batch = self.read_group(page, group)?;
            if self.backward {
                self.last_first_key = batch.keys.get(0).to_vec();
            }
            let first = batch.keys.lower_bound(&self.range.start);
            let end = self.range.end.as_ref().map_or(batch.rows(), |end| batch.keys.lower_bound(end));
            self.next = if self.backward {
                if first > 0 { None } else { self.before(page, group) }
            } else if end < batch.rows() {
                None
            } else {
                self.after(page, group)
            };
            if first < end {
                if first == 0 && end == batch.rows() {
                    return Ok(Some(batch));
                }
                let mut inside = RowBatch::empty(&self.projection.kinds);
                inside.append(&batch, first..end);
                return Ok(Some(inside));
            }
        }
        Ok(None)
    }

    /// Whether all rows were read.
    pub(crate) fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// Rows that are not read yet have this key or later ones; backwards, earlier ones. Nothing if there are none.
    pub(crate) fn bound(&mut self) -> Result<Option<Vec<u8>>> {
        let Some((number, group)) = self.next else { return Ok(None) };
        if self.backward {
            return Ok(Some(self.last_first_key.clone()));
        }
        let page = self.page(number)?;
        let first = page.as_keyed_page().expect("was checked").first_key(group);
        Ok(Some(first.max(&self.range.start).to_vec()))
    }

    fn after(&self, page: usize, group: usize) -> Option<(usize, usize)> {
        if group + 1 < self.footer.pages[page].groups as usize {
            Some((page, group + 1))
        } else {
            (page + 1 < self.footer.pages.len()).then_some((page + 1, 0))
        }
    }

    fn before(&self, page: usize, group: usize) -> Option<(usize, usize)> {
        match group.checked_sub(1) {
            Some(group) => Some((page, group)),
            None => page.checked_sub(1).map(|page| (page, self.footer.pages[page].groups as usize - 1)),
        }
    }

    /// Moves past the next group, if all its rows are inside the range and before a key, so that nothing has rows between
    /// them. Returns its page and its place there.
    pub(crate) fn next_alone(&mut self, before: Option<&[u8]>) -> Result<Option<(usize, usize)>> {
        let Some((number, group)) = self.next else { return Ok(None) };
        if self.backward || self.footer.version < 4 || self.rowset.meta.kind == RowsetKind::Versions {
            return Ok(None);
        }
        let (block, following) = (self.page(number)?, self.after(number, group));
        let page = block.as_keyed_page().expect("was checked");
        let ends_before = |key: &[u8]| match following {
            Some((next, 0)) => self.footer.pages[next].first_key.as_slice() <= key,
            Some((_, next)) => page.first_key(next) <= key,
            None => self.footer.last_key.as_slice() < key,
        };
        let is_alone = page.first_key(group) >= self.range.start.as_slice()
            && self.range.end.as_deref().is_none_or(ends_before)
            && before.is_none_or(ends_before);
        if !is_alone {
            return Ok(None);
        }
        self.next = following;
        Ok(Some((number, group)))
    }

    /// A group, of which columns are read one by one. Since version 4.
    pub(crate) fn group(&mut self, number: usize, group: usize) -> Result<KeyedGroup<'_>> {
        let block = self.page(number)?;
        let page = block.as_keyed_page().expect("was checked");
        let places = self.rowset.column_places(&self.footer, &page, group, &self.projection);
        let reason = if self.use_of == Use::Once { Reason::Rewrite } else { Reason::Scan };
        KeyedGroup::new(&self.rowset, (&page, group), places, &self.key_types, reason)
    }

    /// All rows of a group.
    pub(crate) fn read_group(&mut self, number: usize, group: usize) -> Result<RowBatch<ByteVec>> {
        let mut batch: RowBatch<ByteVec> = RowBatch::empty(&self.projection.kinds);
        let mut markers = Column::new(Kind::Word);
        if self.footer.version < 4 {
            let block = self.page(number)?;
            let rows = block.as_keyed_page().expect("was checked").entry(group).rows;
            batch.keys = self.keys_of_columns(number, group, rows)?;
            for (place, column) in self.projection.columns.iter().enumerate() {
                batch.columns[place] = self.stored_column(number, group, rows, *column)?;
            }
            markers = self.stored_column(number, group, rows, (MARKER_COLUMN, ColumnType::Int8))?;
        } else {
            let group = self.group(number, group)?;
            group.keys(&mut batch.keys)?;
            for (place, column) in batch.columns.iter_mut().enumerate() {
                group.decode(place, 0..group.rows(), column)?;
            }
            group.markers(&mut markers)?;
        }
        if markers.all_values()
            && let Values::Word(words) = markers.values
        {
            batch.markers = Some(words.into_iter().map(|word| word as u8).collect());
        }
        Ok(batch)
    }

    /// The keys of a group in files before version 4, which have them as columns.
    fn keys_of_columns(&self, page: usize, group: usize, rows: u32) -> Result<ByteVec> {
        let read = |column: &(ColumnId, ColumnType)| self.stored_column(page, group, rows, *column);
        let columns = self.key_columns.iter().map(read).collect::<Result<Vec<_>>>()?;
        let (mut keys, mut key) = (ByteVec::new(), Vec::new());
        for row in 0..rows as usize {
            key.clear();
            for (column, column_type) in columns.iter().zip(&self.key_types) {
                key::encode_decoded(&mut key, column, *column_type, row);
            }
            keys.push(&key);
        }
        Ok(keys)
    }

    /// A column of a group, found by the page of the column.
    fn stored_column(
        &self,
        page: usize,
        group: usize,
        rows: u32,
        (id, column_type): (ColumnId, ColumnType),
    ) -> Result<Column> {
        let entries = match self.footer.column(id) {
            Some(position) => self.rowset.column_page(&self.footer.pages[page], position)?,
            None => None,
        };
        let place = entries.map_or(BlockRef::default(), |page| ColumnEntry::block_at(page.bytes(), group));
        let mut column = Column::new(Kind::of(column_type));
        if place.length == 0 {
            column.push_state(ABSENT, rows as usize);
            return Ok(column);
        }
        let block = self.rowset.column_block(place, column_type, rows, self.use_of)?;
        let decoded = block.parse(column_type, rows).and_then(|parsed| parsed.decode(0..rows, &mut column));
        decoded.map_err(|error| self.rowset.corrupt_block(place, error))?;
        Ok(column)
    }
}

impl Rowset {
    /// Where the projected columns of a group are, with their types, and at the end the markers. Since version 4.
    pub(super) fn column_places(
        &self,
        footer: &LoadedFooter,
        page: &KeyedPage<'_>,
        group: usize,
        projection: &Projection,
    ) -> Vec<(BlockRef, ColumnType)> {
        let place_of = |id: ColumnId| match footer.column(id) {
            Some(position) => page.block(group, position),
            None => BlockRef::default(),
        };
        let wanted = projection.columns.iter().map(|(id, column_type)| (place_of(*id), *column_type));
        wanted.chain([(place_of(MARKER_COLUMN), ColumnType::Int8)]).collect()
    }
}
