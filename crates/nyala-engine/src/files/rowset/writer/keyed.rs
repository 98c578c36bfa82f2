//! Writes the groups of tables that are not keyed by series: their keys in one block, and columns of so few rows that a
//! look-up reads little.

use super::{Page, Pending, RowsetWriter};
use crate::files::rowset::bloom;
use crate::files::rowset::format::{GroupEntry, GroupList};
use crate::files::rowset::keyed_page::KeyedPageContents;
use crate::files::rowset::keys;
use crate::files::rowset::{
    KEYED_COLUMN_BYTES, KEYED_GROUP_BYTES, KEYED_GROUP_ROWS, KEYED_PAGE_GROUPS, KEYED_PAGE_ROWS,
};
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, Values};
use crate::rows::merge::RowBatch;
use nyala_core::Result;

impl RowsetWriter {
    /// Adds rows of a table with another key, in order.
    pub(crate) fn push_keyed(&mut self, batch: &RowBatch<ByteVec>) -> Result<()> {
        let group_bytes = KEYED_GROUP_BYTES.max(batch.columns.len() * KEYED_COLUMN_BYTES);
        let mut start = 0;
        while start < batch.rows() {
            let Pending::Keyed { batch: pending } = &mut self.pending else {
                unreachable!("a table not keyed by series")
            };
            let held = row_bytes(pending, 0, pending.rows());
            let end = batch.rows().min(start + KEYED_GROUP_ROWS - pending.rows());
            let (mut low, mut high) = (start, end);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if held + row_bytes(batch, start, middle) <= group_bytes {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            let is_full = low < end;
            // A row that is longer than a group has one of its own.
            let end = if low == start && pending.rows() == 0 { start + 1 } else { low };
            pending.append(batch, start..end);
            start = end;
            if is_full || pending.rows() == KEYED_GROUP_ROWS {
                self.end_group()?;
            }
        }
        Ok(())
    }

    pub(super) fn write_keyed_group(&mut self, batch: &RowBatch<ByteVec>) -> Result<()> {
        let rows = batch.rows();
        if rows == 0 {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.block);
        bytes.clear();
        keys::encode(&batch.keys, &mut bytes);
        let directory = self.out.append(&bytes)?;
        self.block = bytes;
        let columns: Vec<&Column> = batch.columns.iter().collect();
        self.write_columns(GroupList::All, &columns, batch.markers.as_deref(), rows as u32, &[])?;
        let page = &mut self.page;
        page.hashes.extend((0..rows).map(|row| bloom::hash(batch.keys.get(row))));
        page.groups.push(GroupEntry { rows: rows as u32, directory, ..GroupEntry::default() });
        page.first_keys.push(batch.keys.get(0).to_vec());
        let is_full = page.groups.len() == KEYED_PAGE_GROUPS || page.hashes.len() >= KEYED_PAGE_ROWS;
        self.footer.last_key = batch.keys.get(rows - 1).to_vec();
        self.footer.rows += rows as u64;
        if is_full { self.end_page(GroupList::All) } else { Ok(()) }
    }
}

impl Page {
    /// The bytes of the index page.
    pub(super) fn encode_keyed(&self) -> Vec<u8> {
        let contents = KeyedPageContents {
            groups: &self.groups,
            blocks: &self.blocks,
            first_keys: &self.first_keys,
            filter: &bloom::build(&self.hashes),
        };
        contents.encode()
    }
}

/// About how many bytes some rows take before they are encoded.
fn row_bytes(batch: &RowBatch<ByteVec>, start: usize, end: usize) -> usize {
    let of_column = |column: &Column| match &column.values {
        Values::Word(_) => (end - start) * size_of::<u64>(),
        Values::Wide(_) => (end - start) * size_of::<i128>(),
        Values::Bytes(strings) => strings.bytes_of(start..end),
    };
    batch.keys.bytes_of(start..end) + batch.columns.iter().map(of_column).sum::<usize>()
}
