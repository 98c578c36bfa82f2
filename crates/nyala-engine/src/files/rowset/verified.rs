//! A block as the cache keeps it: verified bytes, and what parsing them found out.
//!
//! Checksum and structure are checked once, when a block is read from its file. What that finds out is kept
//! beside the bytes, so that the block of a cache hit is at hand without parsing.

use super::block::{BlockError, ColumnBlock, Layout, ValuesBlock};
use super::format::{ColumnEntry, GroupRuns};
use nyala_column::kernels::prefetch_at;
use nyala_column::{FloatLayout, IntegerBlock, IntegerLayout};
use nyala_core::ColumnType;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

type Result<T> = std::result::Result<T, BlockError>;

/// Verified bytes.
pub(crate) struct VerifiedBlock {
    bytes: Vec<u8>,
    found: Found,
    /// Since the cache asked last. It stands here because who finds it touches this block, and no other memory.
    used: AtomicBool,
}

enum Found {
    /// An index page; or a column's block that is parsed at each use, because cells are missing or because
    /// its values are of another kind.
    Nothing,
    Integers(IntegerLayout),
    Unsigned(IntegerLayout),
    Floats(FloatLayout),
    Runs(GroupRuns),
    /// The blocks of a column, or the runs of groups, by their place in an index page, while the cache has them.
    Page(Vec<Mutex<Weak<VerifiedBlock>>>),
}

/// What a block that an index page knows costs, the remains included that it leaves when it goes.
const KNOWN_BYTES: usize = size_of::<Mutex<Weak<VerifiedBlock>>>() + size_of::<VerifiedBlock>() + 16;

/// Where the values of a block without cell states begin.
const VALUES_AT: usize = 4;

impl VerifiedBlock {
    /// Bytes that their user looks into.
    pub(crate) fn plain(bytes: Vec<u8>) -> Self {
        Self::new(bytes, Found::Nothing)
    }

    fn new(bytes: Vec<u8>, found: Found) -> Self {
        Self { bytes, found, used: AtomicBool::new(false) }
    }

    /// An index page of some groups, or of a column of them.
    pub(crate) fn index_page(bytes: Vec<u8>, groups: usize) -> Self {
        Self::new(bytes, Found::Page((0..groups).map(|_| Mutex::default()).collect()))
    }

    /// The block of a group, if this is an index page and knows it: a look-up that finds it beside its neighbours.
    pub(crate) fn find(&self, group: usize) -> Option<Arc<VerifiedBlock>> {
        let Found::Page(blocks) = &self.found else { return None };
        let block = blocks.get(group)?.lock().upgrade()?;
        block.set_used();
        Some(block)
    }

    /// Where that block is, or was, if this is an index page: what is there is not touched.
    pub(crate) fn address(&self, group: usize) -> Option<*const VerifiedBlock> {
        let Found::Page(blocks) = &self.found else { return None };
        blocks.get(group).map(|block| block.lock().as_ptr())
    }

    /// Begins to fetch what an index page of a column says of a group.
    pub(crate) fn prefetch_entry(&self, group: usize) {
        if let Found::Page(blocks) = &self.found
            && let Some(known) = blocks.get(group)
        {
            prefetch_at(known);
            prefetch_at(&self.bytes[group * ColumnEntry::BYTES]);
        }
    }

    /// Remembers the block of a group.
    pub(crate) fn remember(&self, group: usize, block: &Arc<VerifiedBlock>) {
        if let Found::Page(blocks) = &self.found
            && let Some(known) = blocks.get(group)
        {
            *known.lock() = Arc::downgrade(block);
        }
    }

    /// Notes that the block was used.
    pub(crate) fn set_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was used since this was asked last.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// The block of a column.
    pub(crate) fn column(bytes: Vec<u8>, column_type: ColumnType, rows: u32) -> Result<Self> {
        let found = match ColumnBlock::parse(&bytes, column_type, rows)? {
            ColumnBlock { states: Some(_), .. } => Found::Nothing,
            ColumnBlock { values: ValuesBlock::Integers(block), .. } => Found::Integers(block.layout()),
            ColumnBlock { values: ValuesBlock::Unsigned(block), .. } => Found::Unsigned(block.layout()),
            ColumnBlock { values: ValuesBlock::Floats(block), .. } => Found::Floats(block.layout()),
            _ => Found::Nothing,
        };
        Ok(Self::new(bytes, found))
    }

    /// The block that says which rows of a group belong to which series.
    pub(crate) fn runs(bytes: Vec<u8>) -> Result<Self> {
        let short = || BlockError("a directory is too short");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let (series, ends) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        let integers = |bytes| -> Result<Vec<u32>> {
            let block = IntegerBlock::parse(bytes)?;
            let mut values = Vec::new();
            block.decode_range(0..block.len(), &mut values)?;
            Ok(values.into_iter().map(|value| value as u32).collect())
        };
        let runs = GroupRuns { series: integers(series)?, ends: integers(ends)? };
        Ok(Self::new(Vec::new(), Found::Runs(runs)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes held, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let found = match &self.found {
            Found::Runs(runs) => (runs.series.len() + runs.ends.len()) * size_of::<u32>(),
            Found::Page(blocks) => blocks.len() * KNOWN_BYTES,
            _ => 0,
        };
        (self.bytes.len() + found) as u64
    }

    /// Which rows belong to which series; `None` of bytes that were read as another kind of block.
    pub(crate) fn group_runs(&self) -> Option<&GroupRuns> {
        match &self.found {
            Found::Runs(runs) => Some(runs),
            _ => None,
        }
    }

    /// The column of a block made by [`VerifiedBlock::column`].
    pub(crate) fn parse(&self, column_type: ColumnType, rows: u32) -> Result<ColumnBlock<'_>> {
        let values = match (&self.found, Layout::of(column_type)) {
            (Found::Integers(layout), Layout::Integers) => {
                ValuesBlock::Integers(layout.attach(self.values()))
            }
            (Found::Unsigned(layout), Layout::Unsigned) => {
                ValuesBlock::Unsigned(layout.attach(self.values()))
            }
            (Found::Floats(layout), Layout::Floats) => ValuesBlock::Floats(layout.attach(self.values())),
            _ => return ColumnBlock::parse(&self.bytes, column_type, rows),
        };
        // Index entries that contradict each other could name one block for groups of different rows.
        if values.has_rows(rows) {
            Ok(ColumnBlock { states: None, values })
        } else {
            Err(BlockError("a block has other rows"))
        }
    }

    fn values(&self) -> &[u8] {
        &self.bytes[VALUES_AT..]
    }
}
