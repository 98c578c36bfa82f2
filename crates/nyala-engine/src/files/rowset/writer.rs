//! Writes a rowset file: rows come in order of their keys and are written as groups of column blocks.
//!
//! Memory is bounded by one group and one index page per column. Nothing is synced here: the file becomes
//! part of the store with the manifest edit that names it, and is synced right before.

mod keyed;
pub(crate) mod unsealed;

use super::block;
use super::format::{
    BlockRef, ColumnEntry, Footer, GroupEntry, GroupList, GroupRuns, HEADER_BYTES, MAGIC, PageEntry, VERSION,
};
use super::origin::Origin;
use super::{GROUP_ROWS, LONG_RUN_ROWS, PAGE_GROUPS};
use crate::files::fs::FileRef;
use crate::files::schema_format::{MARKER_COLUMN, SEQUENCE_COLUMN, StoredType};
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, Kind, Values};
use crate::rows::merge::{Keys, RowBatch, column_bytes};
use nyala_column::{EncodingHistory, Preference, Scratch, encode_integers};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{ColumnId, ColumnType, Encoding, Result, SeriesId, TableSchema};
use std::ops::Range;
use std::sync::Arc;

/// Bytes gathered before they are handed to the file.
const BUFFER_BYTES: usize = 1 << 20;

/// The most bytes of strings of one column in a group, unless one string alone is longer. Far below what a block
/// may hold, because a reader has to hold it too.
pub(crate) const GROUP_STRING_BYTES_MAX: usize = 4 << 20;
/// A group has no more strings than this fraction of the memory limit (1/64): they are there several times while they are
/// encoded.
const GROUP_STRING_SHARE: u64 = 64;
/// A group that is being encoded is there so often in all: as rows, as the forms that are compared, and read back.
const ENCODING_COPIES: usize = 3;

/// The most bytes of strings of a column in a group that is written now.
pub(crate) fn group_string_bytes(budget: &MemoryBudget) -> usize {
    GROUP_STRING_BYTES_MAX.min((budget.limit_bytes() / GROUP_STRING_SHARE) as usize)
}

/// What was written.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) length_bytes: u64,
    pub(crate) min_time_ns: i64,
    pub(crate) max_time_ns: i64,
}

/// Columns of a rowset: those outside the key that batches bring, in their order.
pub(crate) fn value_columns(schema: &TableSchema) -> Vec<(ColumnId, ColumnType)> {
    let outside = schema.columns.iter().filter(|column| !schema.is_key(column.id));
    outside.map(|column| (column.id, column.column_type)).collect()
}

/// The same and the sequences.
pub(crate) fn sequenced_columns(schema: &TableSchema) -> Vec<(ColumnId, ColumnType)> {
    let mut columns = value_columns(schema);
    columns.push((SEQUENCE_COLUMN, ColumnType::UInt64));
    columns
}

/// The columns of a rowset to write, outside the key, and how its keys are kept.
pub(crate) struct RowsetLayout {
    by_series: bool,
    columns: Vec<(ColumnId, ColumnType)>,
}

impl RowsetLayout {
    /// Of the rows of a table.
    pub(crate) fn of_rows(schema: &TableSchema) -> Self {
        Self { by_series: schema.is_series_keyed(), columns: value_columns(schema) }
    }

    /// Of the rows of a table with their sequences, which are the last column.
    pub(crate) fn with_sequences(schema: &TableSchema) -> Self {
        Self { columns: sequenced_columns(schema), ..Self::of_rows(schema) }
    }

    /// Of versions of rows of a table: see [`RowsetKind::Versions`](super::RowsetKind).
    pub(crate) fn of_versions(schema: &TableSchema) -> Self {
        Self { by_series: false, columns: value_columns(schema) }
    }
}

/// A rowset being written.
pub(crate) struct RowsetWriter {
    out: BufferedFile,
    footer: Footer,
    pub(crate) kinds: Vec<Kind>,
    /// One per column.
    preferences: Vec<Preference>,
    scratch: Scratch,
    /// By position in the footer.
    habits: Vec<EncodingHistory>,
    pending: Pending,
    page: Page,
    last: LastRows,
    /// The times of a group, as a column.
    times: Column,
    /// The bytes of a block.
    block: Vec<u8>,
    min_time_ns: i64,
    max_time_ns: i64,
    origin: Vec<u8>,
    group_string_bytes: usize,
    charge: Charge,
}

enum Pending {
    Series { runs: GroupRuns, batch: RowBatch<Vec<i64>> },
    Keyed { batch: RowBatch<ByteVec> },
}

/// The last row of each series, gathered to be written once more.
struct LastRows {
    /// GroupList that a series has on average for this to be done; 0: it is not done (any more).
    rows_per_series: u64,
    runs: GroupRuns,
    batch: RowBatch<Vec<i64>>,
    /// All rows of these series.
    rows: u64,
    page: Page,
}

/// The index page at hand.
#[derive(Default)]
struct Page {
    groups: Vec<GroupEntry>,
    columns: Vec<Vec<u8>>,
    /// Whether a column has a block in the page.
    present: Vec<bool>,
    /// Of a table not keyed by series: the blocks of all groups, the first key of each, and the hashes of all keys.
    blocks: Vec<BlockRef>,
    first_keys: Vec<Vec<u8>>,
    hashes: Vec<u64>,
}

struct BufferedFile {
    file: FileRef,
    buffer: Vec<u8>,
    written: u64,
}

impl BufferedFile {
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<BlockRef> {
        let block = BlockRef {
            offset: self.position(),
            length: u32::try_from(bytes.len()).expect("a block is far below 4 GiB"),
            crc: crc32fast::hash(bytes),
        };
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(block)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl RowsetWriter {
    /// Begins in an empty file. Batches must have the columns of the layout. The last rows of series
    /// that have `last_rows_from` rows on average are written once more.
    pub(crate) fn new(
        file: FileRef,
        origin: &Origin,
        layout: &RowsetLayout,
        preference: Preference,
        last_rows_from: u64,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let schema = &origin.schema;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.resize(HEADER_BYTES as usize, 0);
        let series_keyed = layout.by_series;
        let type_of = |id: &ColumnId| schema.column(*id).expect("schemas are validated").column_type;
        let times = if series_keyed { &schema.key[1..] } else { &[] };
        let mut columns: Vec<_> = times.iter().map(|id| (*id, StoredType(type_of(id)))).collect();
        let values = &layout.columns;
        columns.extend(values.iter().map(|(id, column_type)| (*id, StoredType(*column_type))));
        columns.push((MARKER_COLUMN, StoredType(ColumnType::Int8)));
        let preference_of = |id: &ColumnId| match schema.column(*id).map(|column| column.encoding) {
            Some(Encoding::Speed) => Preference::Speed,
            Some(Encoding::Size) => Preference::Size,
            // It is read seldom, if ever, and gone with the next compaction.
            _ if *id == SEQUENCE_COLUMN => Preference::Speed,
            Some(Encoding::Automatic) | None => preference,
        };
        let preferences = columns.iter().map(|(id, _)| preference_of(id)).collect();
        let kinds: Vec<_> = values.iter().map(|(_, column_type)| Kind::of(*column_type)).collect();
        let pending = if series_keyed {
            Pending::Series { runs: GroupRuns::default(), batch: RowBatch::empty(&kinds) }
        } else {
            Pending::Keyed { batch: RowBatch::empty(&kinds) }
        };
        let (page, habits) = (Page::new(columns.len()), vec![EncodingHistory::default(); columns.len()]);
        let last = LastRows {
            rows_per_series: if series_keyed { last_rows_from } else { 0 },
            runs: GroupRuns::default(),
            batch: RowBatch::empty(&kinds),
            rows: 0,
            page: Page::new(columns.len()),
        };
        Self {
            out: BufferedFile { file, buffer: header, written: 0 },
            footer: Footer { series_keyed, columns, ..Footer::default() },
            kinds,
            preferences,
            scratch: Scratch::new(),
            habits,
            pending,
            page,
            last,
            times: Column::new(Kind::Word),
            block: Vec::new(),
            min_time_ns: i64::MAX,
            max_time_ns: i64::MIN,
            origin: origin.encode(),
            group_string_bytes: group_string_bytes(budget),
            charge: budget.charge(Component::Maintenance, 0),
        }
    }

    /// Charges what is held until the next group, and what encoding this one takes.
    fn account(&mut self) {
        let of_page = |page: &Page| {
            let keys = page.first_keys.iter().map(|key| key.capacity() + size_of::<Vec<u8>>()).sum::<usize>();
            let columns = page.columns.iter().map(Vec::capacity).sum::<usize>();
            let blocks = page.blocks.capacity() * size_of::<BlockRef>();
            let hashes = page.hashes.capacity() * size_of::<u64>();
            keys + columns + blocks + hashes + page.groups.capacity() * size_of::<GroupEntry>()
        };
        let pending = match &self.pending {
            Pending::Series { batch, .. } => batch.memory_bytes(),
            Pending::Keyed { batch } => batch.memory_bytes(),
        };
        let bytes = self.out.buffer.capacity()
            + self.block.capacity()
            + column_bytes(&self.times)
            + self.last.batch.memory_bytes()
            + of_page(&self.page)
            + of_page(&self.last.page)
            + pending * ENCODING_COPIES;
        self.charge.set(bytes as u64);
    }

    /// Bytes of the groups written so far.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.out.position()
    }

    /// The file.
    pub(crate) fn into_file(self) -> FileRef {
        self.out.file
    }

    /// Adds rows of a series; series come in ascending order, the rows of one in order of time, in any
    /// number of batches.
    pub(crate) fn push_series(&mut self, series: SeriesId, batch: &RowBatch<Vec<i64>>) -> Result<()> {
        self.keep_last(series, batch)?;
        let mut start = 0;
        while start < batch.rows() {
            let Pending::Series { runs, batch: pending } = &mut self.pending else {
                unreachable!("a table keyed by series")
            };
            let (held, left) = (pending.rows(), batch.rows() - start);
            // A run that fits in a group of its own is not split to fill the group before it.
            if held == GROUP_ROWS || (held > 0 && held + left > GROUP_ROWS && left <= GROUP_ROWS) {
                self.end_group()?;
                continue;
            }
            let end = rows_that_fit(
                (pending, self.group_string_bytes),
                batch,
                start..start + left.min(GROUP_ROWS - held),
            );
            if end == start {
                self.end_group()?;
                continue;
            }
            pending.append(batch, start..end);
            match runs.series.last() {
                Some(last) if *last == series.0 => {
                    *runs.ends.last_mut().expect("as many ends") = pending.rows() as u32
                }
                last => {
                    assert!(last.is_none_or(|last| *last < series.0), "series come in order");
                    runs.series.push(series.0);
                    runs.ends.push(pending.rows() as u32);
                }
            }
            start = end;
        }
        Ok(())
    }

    /// Keeps the last row of a batch in the place of one of the same series.
    fn keep_last(&mut self, series: SeriesId, batch: &RowBatch<Vec<i64>>) -> Result<()> {
        if self.last.rows_per_series == 0 || batch.rows() == 0 {
            return Ok(());
        }
        let row = batch.rows() - 1;
        let LastRows { runs, batch: kept, .. } = &mut self.last;
        if runs.series.last() == Some(&series.0) {
            runs.series.pop();
            runs.ends.pop();
            kept.truncate(runs.series.len());
        }
        if kept.rows() == GROUP_ROWS
            || rows_that_fit((kept, self.group_string_bytes), batch, row..row + 1) == row
        {
            self.end_last_group()?;
            // Last rows may have been given up: then also for this series, whose later rows are not looked at.
            if self.last.rows_per_series == 0 {
                return Ok(());
            }
        }
        let last = &mut self.last;
        last.runs.series.push(series.0);
        last.runs.ends.push(last.runs.series.len() as u32);
        last.batch.append(batch, row..row + 1);
        last.rows += batch.rows() as u64;
        Ok(())
    }

    /// Writes the last rows collected. If they are too large a part of all rows, last rows are given up for this file,
    /// because the series that follow are probably as short.
    fn end_last_group(&mut self) -> Result<()> {
        let (runs, rows) = (std::mem::take(&mut self.last.runs), std::mem::take(&mut self.last.rows));
        let batch = std::mem::replace(&mut self.last.batch, RowBatch::empty(&self.kinds));
        if rows < self.last.rows_per_series * batch.rows() as u64 {
            self.last.rows_per_series = 0;
            return Ok(());
        }
        self.write_series_group(GroupList::LastRows, &runs, &batch)?;
        if self.last.page.groups.len() == PAGE_GROUPS { self.end_page(GroupList::LastRows) } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<()> {
        self.account();
        match &mut self.pending {
            Pending::Series { runs, batch } => {
                let runs = std::mem::take(runs);
                let mut written = std::mem::replace(batch, RowBatch::empty(&self.kinds));
                self.write_series_group(GroupList::All, &runs, &written)?;
                // The next group reuses the memory of this one.
                written.clear();
                if let Pending::Series { batch, .. } = &mut self.pending {
                    *batch = written;
                }
            }
            Pending::Keyed { batch } => {
                let batch = std::mem::replace(batch, RowBatch::empty(&self.kinds));
                self.write_keyed_group(&batch)?;
            }
        }
        if self.page.groups.len() == PAGE_GROUPS { self.end_page(GroupList::All) } else { Ok(()) }
    }

    fn page(&mut self, which: GroupList) -> &mut Page {
        match which {
            GroupList::All => &mut self.page,
            GroupList::LastRows => &mut self.last.page,
        }
    }

    fn write_series_group(
        &mut self,
        which: GroupList,
        runs: &GroupRuns,
        batch: &RowBatch<Vec<i64>>,
    ) -> Result<()> {
        let rows = batch.rows() as u32;
        if rows == 0 {
            return Ok(());
        }
        let mut entry = GroupEntry {
            first_series: runs.series[0],
            last_series: *runs.series.last().expect("has rows"),
            min_time_ns: *batch.keys.iter().min().expect("has rows"),
            max_time_ns: *batch.keys.iter().max().expect("has rows"),
            rows,
            directory: BlockRef::default(),
        };
        self.min_time_ns = self.min_time_ns.min(entry.min_time_ns);
        self.max_time_ns = self.max_time_ns.max(entry.max_time_ns);
        if runs.series.len() > 1 {
            let mut bytes = vec![0; 4];
            let integers = |values: &[u32]| values.iter().map(|value| (*value).into()).collect::<Vec<i64>>();
            encode_integers(
                &integers(&runs.series),
                &[],
                Preference::Balanced,
                &mut self.scratch,
                &mut bytes,
            );
            let length = (bytes.len() - 4) as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            encode_integers(&integers(&runs.ends), &[], Preference::Balanced, &mut self.scratch, &mut bytes);
            entry.directory = self.out.append(&bytes)?;
        }
        let breaks = breaks_of(runs);
        let mut times = std::mem::replace(&mut self.times, Column::new(Kind::Word));
        times.truncate(0);
        times.extend_words(batch.keys.iter().map(|time| *time as u64));
        let columns: Vec<&Column> = [&times].into_iter().chain(&batch.columns).collect();
        self.write_columns(which, &columns, batch.markers.as_deref(), rows, &breaks)?;
        self.times = times;
        self.page(which).groups.push(entry);
        if which == GroupList::All {
            self.footer.rows += u64::from(rows);
        }
        Ok(())
    }

    fn write_columns(
        &mut self,
        which: GroupList,
        columns: &[&Column],
        markers: Option<&[u8]>,
        rows: u32,
        breaks: &[u32],
    ) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.block);
        let markers = markers.filter(|markers| markers.iter().any(|marker| *marker != 0));
        let words = |markers: &[u8]| Column::words(markers.iter().map(|marker| u64::from(*marker)).collect());
        let markers = markers.map(words);
        let all = columns.iter().copied().map(Some).chain([markers.as_ref()]);
        for (position, column) in all.enumerate() {
            let mut entry = ColumnEntry { min: i64::MAX, max: i64::MIN, ..ColumnEntry::default() };
            if let Some(column) = column {
                assert_eq!(column.len(), rows as usize, "columns of a group are equally long");
                bytes.clear();
                let column_type = self.footer.columns[position].1.0;
                // Cells of many series need other encodings than those of one.
                let mut apart = EncodingHistory::default();
                let habit = if which == GroupList::All { &mut self.habits[position] } else { &mut apart };
                self.scratch.swap_history(habit);
                entry = block::encode(
                    column,
                    column_type,
                    breaks,
                    self.preferences[position],
                    &mut self.scratch,
                    &mut bytes,
                );
                self.scratch.swap_history(habit);
                if !bytes.is_empty() {
                    entry.block = self.out.append(&bytes)?;
                    self.page(which).present[position] = true;
                }
            }
            let is_keyed = !self.footer.series_keyed;
            let page = self.page(which);
            entry.put(&mut page.columns[position]);
            if is_keyed {
                page.blocks.push(entry.block);
            }
        }
        self.block = bytes;
        Ok(())
    }

    fn end_page(&mut self, which: GroupList) -> Result<()> {
        let empty = Page::new(self.footer.columns.len());
        let page = std::mem::replace(self.page(which), empty);
        let (Some(first), Some(last)) = (page.groups.first(), page.groups.last()) else { return Ok(()) };
        let bytes = match self.footer.series_keyed {
            true => {
                let mut bytes = Vec::new();
                page.groups.iter().for_each(|group| group.put(&mut bytes));
                bytes
            }
            false => page.encode_keyed(),
        };
        let group_page = self.out.append(&bytes)?;
        let mut column_pages = Vec::with_capacity(page.columns.len());
        for (entries, present) in page.columns.iter().zip(&page.present) {
            column_pages.push(if *present { self.out.append(entries)? } else { BlockRef::default() });
        }
        let pages = match which {
            GroupList::All => &mut self.footer.pages,
            GroupList::LastRows => &mut self.footer.last_pages,
        };
        pages.push(PageEntry {
            groups: page.groups.len() as u32,
            first_series: first.first_series,
            last_series: last.last_series,
            min_time_ns: page.groups.iter().map(|group| group.min_time_ns).min().expect("has groups"),
            max_time_ns: page.groups.iter().map(|group| group.max_time_ns).max().expect("has groups"),
            first_key: page.first_keys.first().cloned().unwrap_or_default(),
            group_page,
            column_pages,
        });
        Ok(())
    }

    /// Writes what is pending and the footer. The file is not synced.
    pub(crate) fn finish(&mut self) -> Result<Written> {
        self.write_pending()?;
        unsealed::seal(&mut self.out, &mut self.footer, &self.origin, (self.min_time_ns, self.max_time_ns))
    }
}

impl Page {
    fn new(columns: usize) -> Self {
        Self { columns: vec![Vec::new(); columns], present: vec![false; columns], ..Self::default() }
    }
}

/// How far rows fit into a group that may have so many bytes of strings: the start itself only where the group holds
/// rows already.
fn rows_that_fit<K: Keys>(
    (pending, string_bytes_max): (&RowBatch<K>, usize),
    batch: &RowBatch<K>,
    Range { start, end }: Range<usize>,
) -> usize {
    let mut fitting = end;
    for (held, column) in pending.columns.iter().zip(&batch.columns) {
        if let (Values::Bytes(held), Values::Bytes(bytes)) = (&held.values, &column.values) {
            let begin = if start == 0 { 0 } else { bytes.ends[start - 1] as usize };
            let room = string_bytes_max.saturating_sub(held.data.len());
            let fits = bytes.ends[start..end].partition_point(|end| *end as usize - begin <= room);
            fitting = fitting.min(start + fits);
        }
    }
    if fitting == start && pending.rows() == 0 { start + 1 } else { fitting }
}

/// Where a new vector begins: around runs of long series.
fn breaks_of(runs: &GroupRuns) -> Vec<u32> {
    let rows = *runs.ends.last().expect("a group has rows");
    let mut breaks = Vec::new();
    let mut start = 0;
    for end in &runs.ends {
        if (*end - start) as usize >= LONG_RUN_ROWS {
            if start > 0 && breaks.last() != Some(&start) {
                breaks.push(start);
            }
            if *end < rows {
                breaks.push(*end);
            }
        }
        start = *end;
    }
    breaks
}
