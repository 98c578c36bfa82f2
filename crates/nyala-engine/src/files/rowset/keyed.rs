//! Reading a rowset of a table with any other key: group by group, in either direction.

use super::bloom;
use super::format::{ColumnEntry, GroupEntry};
use super::reader::{LoadedFooter, Rowset, Use};
use crate::files::schema_format::MARKER_COLUMN;
use crate::rows::column_buffer::{ABSENT, ByteVec, Column, Kind, Values};
use crate::rows::key::{self, KeyRange};
use crate::rows::merge::RowBatch;
use crate::rows::projection::Projection;
use nyala_core::{ColumnId, ColumnType, Error, Result, TableSchema};
use std::sync::Arc;

/// Reads the rows of a range of keys.
pub(crate) struct KeyedCursor {
    pub(crate) rowset: Arc<Rowset>,
    footer: Arc<LoadedFooter>,
    projection: Projection,
    key_columns: Vec<(ColumnId, ColumnType)>,
    range: KeyRange,
    backward: bool,
    /// The next group to read, and how many are left.
    next: Option<(usize, usize)>,
}

impl KeyedCursor {
    pub(crate) fn new(
        rowset: Arc<Rowset>,
        schema: &TableSchema,
        projection: Projection,
        range: KeyRange,
        backward: bool,
    ) -> Result<Self> {
        let footer = rowset.footer()?;
        let type_of = |id: &ColumnId| schema.column(*id).expect("schemas are validated").column_type;
        let key_columns = schema.key.iter().map(|id| (*id, type_of(id))).collect();
        let mut cursor = Self { rowset, footer, projection, key_columns, range, backward, next: None };
        cursor.next = cursor.seek()?;
        Ok(cursor)
    }

    fn seek(&self) -> Result<Option<(usize, usize)>> {
        let outside = self.range.is_empty()
            || self.footer.pages.is_empty()
            || self.footer.last_key.as_slice() < self.range.start.as_slice()
            || self.range.end.as_ref().is_some_and(|end| *end <= self.footer.pages[0].first_key);
        if outside || self.excluded_by_filter()? {
            return Ok(None);
        }
        if self.backward {
            match &self.range.end {
                None => {
                    let page = self.footer.pages.len() - 1;
                    Ok(Some((page, self.footer.pages[page].groups as usize - 1)))
                }
                // The last group whose first key is below the end.
                Some(end) => self.last_group(|first| first < end.as_slice()),
            }
        } else {
            // The last group whose first key is not past the start; the first one if there is none.
            let start = self.range.start.as_slice();
            Ok(Some(self.last_group(|first| first <= start)?.unwrap_or((0, 0))))
        }
    }

    /// The last group whose first key satisfies a condition that holds for keys up to some key.
    fn last_group(&self, holds: impl Fn(&[u8]) -> bool) -> Result<Option<(usize, usize)>> {
        let pages = self.footer.pages.partition_point(|page| holds(&page.first_key));
        let Some(page) = pages.checked_sub(1) else { return Ok(None) };
        let keys = self.first_keys(page)?;
        let (mut low, mut high) = (0, keys.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(keys.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1).map(|group| (page, group)))
    }

    /// Whether the range is one key, and the filter knows it is not here.
    fn excluded_by_filter(&self) -> Result<bool> {
        if !self.range.is_one() || !self.is_whole_key(&self.range.start) || self.footer.bloom.length == 0 {
            return Ok(false);
        }
        let filter = self.rowset.block(self.footer.bloom)?;
        bloom::check(filter.bytes()).map_err(|error| self.rowset.corrupt(self.footer.bloom, &error))?;
        Ok(!bloom::may_contain(filter.bytes(), bloom::hash(&self.range.start)))
    }

    /// Whether bytes are a key with all its columns, not a prefix or made otherwise.
    fn is_whole_key(&self, mut key: &[u8]) -> bool {
        for (_, column_type) in &self.key_columns {
            let length = match column_type {
                ColumnType::String | ColumnType::Binary => {
                    let mut at = 0;
                    loop {
                        match key[at..].iter().position(|byte| *byte == 0) {
                            Some(zero) if at + zero + 1 < key.len() => {
                                let ended = key[at + zero + 1] == 1;
                                at += zero + 2;
                                if ended {
                                    break at;
                                }
                            }
                            _ => return false,
                        }
                    }
                }
                ColumnType::Decimal { .. } => 16,
                _ => 8,
            };
            match key.get(length..) {
                Some(rest) => key = rest,
                None => return false,
            }
        }
        key.is_empty()
    }

    pub(crate) fn first_keys(&self, page: usize) -> Result<ByteVec> {
        let page = &self.footer.pages[page];
        let block = self.rowset.group_page(page)?;
        let bytes = block.bytes();
        let groups = page.groups as usize;
        let cut = || self.rowset.corrupt(page.group_page, &Error::invalid("an index page is too short"));
        let rest = bytes.get(groups * GroupEntry::BYTES..).ok_or_else(cut)?;
        let (ends, data) = rest.split_at_checked(groups * 4).ok_or_else(cut)?;
        let ends: Vec<u32> = ends.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end)).collect();
        if !ends.is_sorted() || ends.last().copied() != Some(data.len() as u32) {
            return Err(cut());
        }
        Ok(ByteVec { ends, data: data.to_vec() })
    }

    /// The next rows of the range that are in this rowset, in ascending order whatever the direction;
    /// `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RowBatch<ByteVec>>> {
        while let Some((page, group)) = self.next {
            let batch = self.read_group(page, group)?;
            let first = (0..batch.rows()).position(|row| self.range.start.as_slice() <= batch.keys.get(row));
            let below_end =
                |row: &usize| self.range.end.as_ref().is_none_or(|end| batch.keys.get(*row) < end.as_slice());
            let end = (0..batch.rows()).take_while(below_end).count();
            let start = first.unwrap_or(batch.rows());
            self.next = if self.backward {
                if start > 0 { None } else { self.before(page, group) }
            } else if end < batch.rows() {
                None
            } else {
                self.after(page, group)
            };
            if start < end {
                if start == 0 && end == batch.rows() {
                    return Ok(Some(batch));
                }
                let mut inside = RowBatch::empty(&self.projection.kinds);
                inside.append(&batch, start..end);
                return Ok(Some(inside));
            }
        }
        Ok(None)
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

    pub(crate) fn read_group(&self, page: usize, group: usize) -> Result<RowBatch<ByteVec>> {
        let entries = self.rowset.group_page(&self.footer.pages[page])?;
        let rows = GroupEntry::at(entries.bytes(), group).rows;
        let keys = self
            .key_columns
            .iter()
            .map(|(id, column_type)| self.read_column(page, group, rows, *id, *column_type))
            .collect::<Result<Vec<_>>>()?;
        let mut batch: RowBatch<ByteVec> = RowBatch::empty(&self.projection.kinds);
        let mut key = Vec::new();
        for row in 0..rows as usize {
            key.clear();
            for (column, (_, column_type)) in keys.iter().zip(&self.key_columns) {
                key::encode_decoded(&mut key, column, *column_type, row);
            }
            batch.keys.push(&key);
        }
        for (place, (id, column_type)) in self.projection.columns.iter().enumerate() {
            batch.columns[place] = self.read_column(page, group, rows, *id, *column_type)?;
        }
        let markers = self.read_column(page, group, rows, MARKER_COLUMN, ColumnType::Int8)?;
        if markers.all_values()
            && let Values::Word(words) = markers.values
        {
            batch.markers = Some(words.into_iter().map(|word| word as u8).collect());
        }
        Ok(batch)
    }

    fn read_column(
        &self,
        page: usize,
        group: usize,
        rows: u32,
        id: ColumnId,
        column_type: ColumnType,
    ) -> Result<Column> {
        let mut column = Column::new(Kind::of(column_type));
        let entries = match self.footer.column(id) {
            Some(position) => self.rowset.column_page(&self.footer.pages[page], position)?,
            None => None,
        };
        let entry = entries.map(|entries| ColumnEntry::at(entries.bytes(), group));
        match entry.filter(|entry| entry.block.length > 0) {
            None => column.push_state(ABSENT, rows as usize),
            Some(entry) => {
                let block = self.rowset.column_block(entry.block, column_type, rows, Use::Again)?;
                block
                    .parse(column_type, rows)
                    .and_then(|parsed| parsed.decode(0..rows, &mut column))
                    .map_err(|error| self.rowset.corrupt_block(entry.block, error))?;
            }
        }
        Ok(column)
    }
}
