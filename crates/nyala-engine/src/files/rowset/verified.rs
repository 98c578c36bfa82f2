//! A block as the cache keeps it: verified bytes, and the result of parsing them.
//!
//! Checksum and structure are checked once, when a block is read from its file. The layout that parsing found is kept
//! beside the bytes, so that a cache hit needs no parsing.

use super::block::{BlockError, ColumnBlock, Layout, ValuesBlock};
use super::cached_row::{CachedRow, CachedRowLayout};
use super::format::{ColumnEntry, GroupRuns};
use super::keyed_page::{KeyedPage, KeyedPageLayout};
use super::keys::{KeyBlock, KeysLayout};
use crate::rows::projection::Projection;
use nyala_column::kernels::prefetch_at;
use nyala_column::{FloatLayout, IntegerBlock, IntegerLayout};
use nyala_core::ColumnType;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

type Result<T> = std::result::Result<T, BlockError>;

/// Verified bytes.
pub(crate) struct VerifiedBlock {
    bytes: Vec<u8>,
    parsed: Parsed,
    /// How often the cache passes by before it drops the block, unless it is used again. It is stored here so that a hit
    /// touches no other memory.
    lives: AtomicU8,
}

enum Parsed {
    /// An index page; or a column's block that is parsed at each use, because cells are missing or because
    /// its values are of another kind.
    Nothing,
    Integers(IntegerLayout),
    Unsigned(IntegerLayout),
    Floats(FloatLayout),
    Runs(GroupRuns),
    /// The blocks of a column, or the runs of groups, by their place in an index page, while the cache has them.
    Page(Vec<Mutex<Weak<VerifiedBlock>>>),
    /// An index page of a table that is not keyed by series.
    KeyedPage(KeyedPageLayout),
    Keys(KeysLayout),
    /// A row by itself.
    Row(CachedRowLayout),
}

/// What an index page pays for remembering a block, including the allocation that stays when the block is gone.
const KNOWN_BYTES: usize = size_of::<Mutex<Weak<VerifiedBlock>>>() + size_of::<VerifiedBlock>() + 16;

/// Index pages lead to many blocks, so each is used more seldom than what it leads to is replaced.
const PAGE_LIVES: u8 = 4;

/// Where the values of a block begin when all its cells have values.
const VALUES_AT: usize = 4;

impl VerifiedBlock {
    /// Bytes that their user looks into.
    pub(crate) fn plain(bytes: Vec<u8>) -> Self {
        Self::new(bytes, Parsed::Nothing)
    }

    fn new(bytes: Vec<u8>, parsed: Parsed) -> Self {
        Self { bytes, parsed, lives: AtomicU8::new(0) }
    }

    /// An index page of some groups, or of a column of them.
    pub(crate) fn index_page(bytes: Vec<u8>, groups: usize) -> Self {
        Self::new(bytes, Parsed::Page((0..groups).map(|_| Mutex::default()).collect()))
    }

    /// An index page of a table that is not keyed by series.
    pub(crate) fn keyed_page(bytes: Vec<u8>, layout: KeyedPageLayout) -> Self {
        Self::new(bytes, Parsed::KeyedPage(layout))
    }

    /// The keys of a group of so many rows.
    pub(crate) fn keys(bytes: Vec<u8>, rows: u32) -> Result<Self> {
        let layout = KeysLayout::parse(&bytes, rows as usize)?;
        Ok(Self::new(bytes, Parsed::Keys(layout)))
    }

    /// All blocks of a group of so many rows; the first bytes are those of its keys.
    pub(crate) fn group(bytes: Vec<u8>, keys_bytes: usize, rows: u32) -> Result<Self> {
        let keys = bytes.get(..keys_bytes).ok_or(BlockError("a group is too short"))?;
        let layout = KeysLayout::parse(keys, rows as usize)?;
        Ok(Self::new(bytes, Parsed::Keys(layout)))
    }

    /// A row by itself.
    pub(super) fn row(bytes: Vec<u8>, layout: CachedRowLayout) -> Self {
        Self::new(bytes, Parsed::Row(layout))
    }

    /// The block of a group, if this is an index page and knows it: a look-up that finds it beside its neighbours.
    pub(crate) fn find(&self, group: usize) -> Option<Arc<VerifiedBlock>> {
        let Parsed::Page(blocks) = &self.parsed else { return None };
        let block = blocks.get(group)?.lock().upgrade()?;
        block.set_used();
        Some(block)
    }

    /// The address where that block is or was, if this is an index page. The block is not accessed.
    pub(crate) fn address(&self, group: usize) -> Option<*const VerifiedBlock> {
        let Parsed::Page(blocks) = &self.parsed else { return None };
        blocks.get(group).map(|block| block.lock().as_ptr())
    }

    /// Prefetches the entry of a group in an index page of a column.
    pub(crate) fn prefetch_entry(&self, group: usize) {
        if let Parsed::Page(blocks) = &self.parsed
            && let Some(known) = blocks.get(group)
        {
            prefetch_at(known);
            prefetch_at(&self.bytes[group * ColumnEntry::BYTES]);
        }
    }

    /// Remembers the block of a group.
    pub(crate) fn remember(&self, group: usize, block: &Arc<VerifiedBlock>) {
        if let Parsed::Page(blocks) = &self.parsed
            && let Some(known) = blocks.get(group)
        {
            *known.lock() = Arc::downgrade(block);
        }
    }

    /// Notes that the block was used.
    pub(crate) fn set_used(&self) {
        let lives = match self.parsed {
            Parsed::Page(_) | Parsed::KeyedPage(_) => PAGE_LIVES,
            _ => 1,
        };
        if self.lives.load(Ordering::Relaxed) < lives {
            self.lives.store(lives, Ordering::Relaxed);
        }
    }

    /// Whether the cache should pass by once more.
    pub(crate) fn take_life(&self) -> bool {
        // Nobody else takes lives: the cache's shard is locked.
        let lives = self.lives.load(Ordering::Relaxed);
        self.lives.store(lives.saturating_sub(1), Ordering::Relaxed);
        lives > 0
    }

    /// The block of a column.
    pub(crate) fn column(bytes: Vec<u8>, column_type: ColumnType, rows: u32) -> Result<Self> {
        let parsed = match ColumnBlock::parse(&bytes, column_type, rows)? {
            ColumnBlock { validity: Some(_), .. } => Parsed::Nothing,
            ColumnBlock { values: ValuesBlock::Integers(block), .. } => Parsed::Integers(block.layout()),
            ColumnBlock { values: ValuesBlock::Unsigned(block), .. } => Parsed::Unsigned(block.layout()),
            ColumnBlock { values: ValuesBlock::Floats(block), .. } => Parsed::Floats(block.layout()),
            _ => Parsed::Nothing,
        };
        Ok(Self::new(bytes, parsed))
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
        Ok(Self::new(Vec::new(), Parsed::Runs(runs)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes held, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let parsed = match &self.parsed {
            Parsed::Runs(runs) => (runs.series.len() + runs.ends.len()) * size_of::<u32>(),
            Parsed::Page(blocks) => blocks.len() * KNOWN_BYTES,
            Parsed::Row(layout) => layout.memory_bytes(),
            _ => 0,
        };
        (self.bytes.len() + parsed) as u64
    }

    /// Which rows belong to which series; `None` of bytes that were read as another kind of block.
    pub(crate) fn group_runs(&self) -> Option<&GroupRuns> {
        match &self.parsed {
            Parsed::Runs(runs) => Some(runs),
            _ => None,
        }
    }

    /// The index page of a table that is not keyed by series; `None` of bytes that were read as another kind of block.
    pub(crate) fn as_keyed_page(&self) -> Option<KeyedPage<'_>> {
        match &self.parsed {
            Parsed::KeyedPage(layout) => Some(layout.attach(&self.bytes)),
            _ => None,
        }
    }

    /// The keys of a group of so many rows; `None` of bytes that were read as another kind of block.
    pub(crate) fn as_keys(&self, rows: u32) -> Option<KeyBlock<'_>> {
        match &self.parsed {
            Parsed::Keys(layout) if layout.rows() == rows as usize => Some(layout.attach(&self.bytes)),
            _ => None,
        }
    }

    /// The row of a key, if this is it, and has all columns of a projection.
    pub(super) fn as_row(&self, key: &[u8], projection: &Projection) -> Option<CachedRow<'_>> {
        match &self.parsed {
            Parsed::Row(layout) => layout.attach(&self.bytes, key, projection),
            _ => None,
        }
    }

    /// The column of a block made by [`VerifiedBlock::column`].
    pub(crate) fn parse(&self, column_type: ColumnType, rows: u32) -> Result<ColumnBlock<'_>> {
        let values = match (&self.parsed, Layout::of(column_type)) {
            (Parsed::Integers(layout), Layout::Integers) => {
                ValuesBlock::Integers(layout.attach(self.values()))
            }
            (Parsed::Unsigned(layout), Layout::Unsigned) => {
                ValuesBlock::Unsigned(layout.attach(self.values()))
            }
            (Parsed::Floats(layout), Layout::Floats) => ValuesBlock::Floats(layout.attach(self.values())),
            _ => return ColumnBlock::parse(&self.bytes, column_type, rows),
        };
        // Index entries that contradict each other could name one block for groups of different rows.
        if values.has_rows(rows) {
            Ok(ColumnBlock { validity: None, values })
        } else {
            Err(BlockError("a block has other rows"))
        }
    }

    fn values(&self) -> &[u8] {
        &self.bytes[VALUES_AT..]
    }
}
