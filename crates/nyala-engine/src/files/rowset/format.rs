//! The bytes of a rowset file besides its blocks: header, index entries, footer, tail.

use super::{GROUP_ROWS, PAGE_GROUPS};
use crate::files::schema_format::StoredType;
use crate::rows::wire::{Reader, put_bytes, u32_at, u64_at};
use nyala_core::{ColumnId, Error, Result};

/// The first bytes of the file, and its last.
pub(crate) const MAGIC: [u8; 8] = *b"nyalaROW";
/// The version written; every version ever written stays readable. Version 1 has no last rows, version 2 no origin. In
/// version 3 keys are columns, and the Bloom filter is one block.
pub(crate) const VERSION: u32 = 4;
/// Magic and version, then zeros.
pub(crate) const HEADER_BYTES: u64 = 16;

/// The version in the header of a rowset, known or not; nothing if it is no such header.
pub(crate) fn version_of(header: &[u8; HEADER_BYTES as usize]) -> Option<u32> {
    (header[..8] == MAGIC && header[12..] == [0; 4]).then(|| u32_at(header, 8))
}
/// Footer offset, length, checksum, magic.
pub(crate) const TAIL_BYTES: u64 = 24;

/// Where bytes are, and their checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockRef {
    pub(crate) offset: u64,
    /// 0: there is no block.
    pub(crate) length: u32,
    pub(crate) crc: u32,
}

impl BlockRef {
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    /// The first reference in some bytes.
    pub(crate) fn at(bytes: &[u8]) -> Self {
        Self { offset: u64_at(bytes, 0), length: u32_at(bytes, 8), crc: u32_at(bytes, 12) }
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self::at(reader.take(Self::BYTES)?))
    }

    /// Where it ends; nothing if that is beyond every file.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length.into())
    }
}

/// A group in an index page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupEntry {
    /// Series of its first and last row; 0 in tables with other keys.
    pub(crate) first_series: u32,
    pub(crate) last_series: u32,
    /// Smallest and largest time of its rows (any of its series).
    pub(crate) min_time_ns: i64,
    pub(crate) max_time_ns: i64,
    pub(crate) rows: u32,
    /// The block that says which rows belong to which series; none when all belong to one. In tables with other keys
    /// the block of keys.
    pub(crate) directory: BlockRef,
}

impl GroupEntry {
    pub(crate) const BYTES: usize = 48;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first_series.to_le_bytes());
        out.extend_from_slice(&self.last_series.to_le_bytes());
        out.extend_from_slice(&self.min_time_ns.to_le_bytes());
        out.extend_from_slice(&self.max_time_ns.to_le_bytes());
        out.extend_from_slice(&u64::from(self.rows).to_le_bytes());
        self.directory.put(out);
    }

    /// Entry `index` of a page.
    pub(crate) fn at(page: &[u8], index: usize) -> Self {
        let bytes = &page[index * Self::BYTES..(index + 1) * Self::BYTES];
        Self {
            first_series: u32_at(bytes, 0),
            last_series: u32_at(bytes, 4),
            min_time_ns: u64_at(bytes, 8) as i64,
            max_time_ns: u64_at(bytes, 16) as i64,
            rows: u32_at(bytes, 24),
            directory: BlockRef::at(&bytes[32..]),
        }
    }

    /// Last series of entry `index`, without the rest.
    pub(crate) fn last_series_at(page: &[u8], index: usize) -> u32 {
        u32_at(page, index * Self::BYTES + 4)
    }
}

/// A column's block of a group in an index page, with what is known of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ColumnEntry {
    /// No block: the column is absent in the whole group.
    pub(crate) block: BlockRef,
    /// Cells with a value.
    pub(crate) values: u32,
    /// Cells that are NULL.
    pub(crate) nulls: u32,
    /// Smallest and largest value of integers (unsigned ones mapped to keep their order) and times;
    /// `min > max` where nothing is known.
    pub(crate) min: i64,
    pub(crate) max: i64,
    /// Exact sum of integers (not mapped).
    pub(crate) sum: i128,
}

impl ColumnEntry {
    pub(crate) const BYTES: usize = 56;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.block.put(out);
        out.extend_from_slice(&self.values.to_le_bytes());
        out.extend_from_slice(&self.nulls.to_le_bytes());
        out.extend_from_slice(&self.min.to_le_bytes());
        out.extend_from_slice(&self.max.to_le_bytes());
        out.extend_from_slice(&self.sum.to_le_bytes());
    }

    /// Where the block of entry `index` of a page is.
    pub(crate) fn block_at(page: &[u8], index: usize) -> BlockRef {
        BlockRef::at(&page[index * Self::BYTES..(index + 1) * Self::BYTES])
    }

    /// Entry `index` of a page.
    pub(crate) fn at(page: &[u8], index: usize) -> Self {
        let bytes = &page[index * Self::BYTES..(index + 1) * Self::BYTES];
        Self {
            block: BlockRef::at(bytes),
            values: u32_at(bytes, 16),
            nulls: u32_at(bytes, 20),
            min: u64_at(bytes, 24) as i64,
            max: u64_at(bytes, 32) as i64,
            sum: i128::from_le_bytes(bytes[40..56].try_into().expect("sixteen bytes")),
        }
    }
}

/// An index page: entries of up to [`PAGE_GROUPS`] groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PageEntry {
    pub(crate) groups: u32,
    pub(crate) first_series: u32,
    pub(crate) last_series: u32,
    pub(crate) min_time_ns: i64,
    pub(crate) max_time_ns: i64,
    /// The first encoded key, in tables not keyed by series.
    pub(crate) first_key: Vec<u8>,
    /// Group entries; in tables not keyed by series a [`KeyedPage`](super::keyed_page::KeyedPage).
    pub(crate) group_page: BlockRef,
    /// Column entries, one page per column of the footer.
    pub(crate) column_pages: Vec<BlockRef>,
}

impl PageEntry {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.groups.to_le_bytes());
        out.extend_from_slice(&self.first_series.to_le_bytes());
        out.extend_from_slice(&self.last_series.to_le_bytes());
        out.extend_from_slice(&self.min_time_ns.to_le_bytes());
        out.extend_from_slice(&self.max_time_ns.to_le_bytes());
        put_bytes(out, &self.first_key);
        self.group_page.put(out);
        self.column_pages.iter().for_each(|block| block.put(out));
    }

    /// A list of pages.
    fn take_all(reader: &mut Reader<'_>, columns: usize) -> Result<Vec<Self>> {
        let mut pages = Vec::new();
        for _ in 0..reader.u32()? {
            let mut page = PageEntry {
                groups: reader.u32()?,
                first_series: reader.u32()?,
                last_series: reader.u32()?,
                min_time_ns: reader.i64()?,
                max_time_ns: reader.i64()?,
                first_key: reader.bytes()?.to_vec(),
                group_page: BlockRef::take(reader)?,
                column_pages: Vec::new(),
            };
            if page.groups as usize > PAGE_GROUPS || page.groups == 0 {
                return Err(Error::invalid(format!("an index page of {} groups", page.groups)));
            }
            for _ in 0..columns {
                page.column_pages.push(BlockRef::take(reader)?);
            }
            pages.push(page);
        }
        Ok(pages)
    }
}

/// The end of the file: its columns and its index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Footer {
    pub(crate) series_keyed: bool,
    pub(crate) rows: u64,
    /// Columns with blocks, ascending; of a series-keyed table the time column first. Before version 4 the key columns
    /// of other tables come first.
    pub(crate) columns: Vec<(ColumnId, StoredType)>,
    pub(crate) pages: Vec<PageEntry>,
    /// Pages of groups that hold the last row of each series once more. Of a series between the first and the last of
    /// such a group there is no other last row; of series in none of them nothing is said.
    pub(crate) last_pages: Vec<PageEntry>,
    /// The last encoded key, in tables not keyed by series.
    pub(crate) last_key: Vec<u8>,
    /// Bloom filter of encoded keys, in tables not keyed by series, before version 4.
    pub(crate) bloom: BlockRef,
    /// The table and partition of the rows: see [`super::origin`].
    pub(crate) origin: BlockRef,
}

impl Footer {
    /// The bytes in a file of a version.
    pub(crate) fn encode(&self, version: u32) -> Vec<u8> {
        let mut out = Vec::new();
        out.push(self.series_keyed.into());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&(self.columns.len() as u32).to_le_bytes());
        for (id, column_type) in &self.columns {
            out.extend_from_slice(&id.0.to_le_bytes());
            column_type.put(&mut out);
        }
        put_bytes(&mut out, &self.last_key);
        self.bloom.put(&mut out);
        for pages in [Some(&self.pages), (version > 1).then_some(&self.last_pages)].into_iter().flatten() {
            out.extend_from_slice(&(pages.len() as u32).to_le_bytes());
            pages.iter().for_each(|page| page.put(&mut out));
        }
        if version > 2 {
            self.origin.put(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8], version: u32) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut footer = Self { series_keyed: reader.u8()? != 0, rows: reader.u64()?, ..Self::default() };
        for _ in 0..reader.u32()? {
            footer.columns.push((ColumnId(reader.u32()?), StoredType::take(&mut reader)?));
        }
        footer.last_key = reader.bytes()?.to_vec();
        footer.bloom = BlockRef::take(&mut reader)?;
        footer.pages = PageEntry::take_all(&mut reader, footer.columns.len())?;
        if version > 1 {
            footer.last_pages = PageEntry::take_all(&mut reader, footer.columns.len())?;
        }
        if version > 2 {
            footer.origin = BlockRef::take(&mut reader)?;
        }
        if !reader.is_empty() {
            return Err(Error::invalid("bytes after the footer"));
        }
        Ok(footer)
    }

    /// Bytes that it takes in memory, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let pages = self.pages.iter().chain(&self.last_pages);
        let of_page = |page: &PageEntry| {
            size_of::<PageEntry>() + page.first_key.len() + page.column_pages.len() * size_of::<BlockRef>()
        };
        let columns = self.columns.len() * size_of::<(ColumnId, StoredType)>();
        (512 + columns + self.last_key.len() + pages.map(of_page).sum::<usize>()) as u64
    }

    /// The position of a column among those with blocks.
    pub(crate) fn column(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|(column, _)| *column == id)
    }
}

/// The two lists of groups in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupList {
    /// All rows.
    All,
    /// The last row of each series once more.
    LastRows,
}

/// Which rows of a group belong to which series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GroupRuns {
    /// The series, ascending.
    pub(crate) series: Vec<u32>,
    /// Where the rows of each end.
    pub(crate) ends: Vec<u32>,
}

impl GroupRuns {
    /// All rows belong to one series.
    pub(crate) fn single(series: u32, rows: u32) -> Self {
        Self { series: vec![series], ends: vec![rows] }
    }

    /// The rows of a series.
    pub(crate) fn rows_of(&self, series: u32) -> Option<std::ops::Range<u32>> {
        let position = self.series.binary_search(&series).ok()?;
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        Some(start..self.ends[position])
    }

    /// Checks what readers rely on.
    pub(crate) fn check(&self, entry: &GroupEntry) -> Result<()> {
        let rising = |values: &[u32]| values.is_sorted_by(|a, b| a < b);
        let fits = self.series.len() == self.ends.len()
            && rising(&self.series)
            && rising(&self.ends)
            && self.ends.first().is_some_and(|end| *end > 0)
            && self.ends.last() == Some(&entry.rows)
            && self.series.first() == Some(&entry.first_series)
            && self.series.last() == Some(&entry.last_series);
        if fits { Ok(()) } else { Err(Error::invalid("a group's directory contradicts its index")) }
    }
}

/// Checks a page of group entries: what readers rely on after the checksum.
pub(crate) fn check_group_page(page: &[u8], groups: usize) -> Result<()> {
    if page.len() < groups * GroupEntry::BYTES {
        return Err(Error::invalid("an index page is too short"));
    }
    for index in 0..groups {
        let rows = GroupEntry::at(page, index).rows as usize;
        if rows == 0 || rows > GROUP_ROWS {
            return Err(Error::invalid(format!("a group of {rows} rows")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::ColumnType;

    #[test]
    fn entries_and_footer_are_read_back() {
        let block = BlockRef { offset: 1 << 40, length: 7, crc: 9 };
        let group = GroupEntry {
            first_series: 1,
            last_series: 5,
            min_time_ns: -3,
            max_time_ns: 9,
            rows: 77,
            directory: block,
        };
        let column = ColumnEntry { block, values: 70, nulls: 7, min: -1, max: 8, sum: -(1 << 80) };
        let mut page = Vec::new();
        group.put(&mut page);
        group.put(&mut page);
        assert_eq!(GroupEntry::at(&page, 1), group);
        let mut page = Vec::new();
        column.put(&mut page);
        assert_eq!(page.len(), ColumnEntry::BYTES);
        assert_eq!(ColumnEntry::at(&page, 0), column);
        let footer = Footer {
            series_keyed: true,
            rows: 5,
            columns: vec![(ColumnId(1), StoredType(ColumnType::Decimal { precision: 9, scale: -2 }))],
            pages: vec![PageEntry { groups: 2, column_pages: vec![block], ..PageEntry::default() }],
            last_pages: vec![PageEntry { groups: 1, column_pages: vec![block], ..PageEntry::default() }],
            last_key: vec![1, 2],
            bloom: block,
            origin: BlockRef { offset: 3, ..block },
        };
        let bytes = footer.encode(VERSION);
        assert_eq!(Footer::decode(&bytes, VERSION).expect("decodes"), footer);
        assert!((0..bytes.len()).all(|length| Footer::decode(&bytes[..length], VERSION).is_err()));
        let second = Footer { origin: BlockRef::default(), ..footer.clone() };
        assert_eq!(Footer::decode(&footer.encode(2), 2).expect("decodes"), second);
        let first = Footer { last_pages: Vec::new(), ..second };
        assert_eq!(Footer::decode(&footer.encode(1), 1).expect("decodes"), first);
    }
}
