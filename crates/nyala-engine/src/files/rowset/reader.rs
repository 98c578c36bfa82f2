//! An open rowset: footer, pages and blocks through the cache.

use super::block::BlockError;
use super::block_cache::BlockCache;
use super::clock_cache::{Cached, ClockCache};
use super::format::{
    BlockRef, ColumnEntry, Footer, GroupEntry, HEADER_BYTES, MAGIC, PageEntry, TAIL_BYTES, VERSION,
    check_group_page, version_of,
};
use super::keyed_page::KeyedPageLayout;
use super::origin::Origin;
use super::verified::VerifiedBlock;
use crate::files::fs::{Access, FileRef, FsRef};
use crate::rows::tombstone::Tombstone;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::{ColumnType, Error, ErrorKind, Result, TableId, TimeRange};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Rowsets keep at most this fraction of the process's open files; the others are for connections, for the log and for
/// files being written.
const FILES_SHARE: u64 = 4;
/// More are not worth it: opening a file again takes some microseconds.
const FILES_MAX: u64 = 4096;
/// Files of a flush that are synced together, and open until then. Twice as many are no faster.
const UNSYNCED_MAX: u64 = 128;

/// No offset in a file has this bit.
const ROW_HASH: u64 = 1 << 63;

/// How names of files of stages end.
const STAGED: &str = "staged";

/// What a file of rows is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsetKind {
    /// The rows of a partition.
    Rows,
    /// All versions of rows that a flush found several of, for reading the past. Keys are those of the table, followed by
    /// the sequence.
    Versions,
    /// Rows of an open stage, which no manifest names: the next start removes them.
    Staged,
}

/// What the manifest knows of a rowset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowsetMeta {
    /// Its number, unique in the store and never reused.
    pub(crate) id: u64,
    pub(crate) table: TableId,
    pub(crate) partition: u64,
    pub(crate) kind: RowsetKind,
    /// The sequences its rows come from.
    pub(crate) min_sequence: u64,
    pub(crate) max_sequence: u64,
    /// From this sequence on it is what a compaction made of others; 0: a flush wrote it, or the past is not kept.
    pub(crate) since_sequence: u64,
    pub(crate) rows: u64,
    pub(crate) length_bytes: u64,
    /// Times between which all rows of a series-keyed table lie.
    pub(crate) min_time_ns: i64,
    pub(crate) max_time_ns: i64,
}

impl RowsetMeta {
    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        match self.kind {
            RowsetKind::Rows => format!("{:016x}.rowset", self.id),
            RowsetKind::Versions => format!("{:016x}.versions", self.id),
            RowsetKind::Staged => format!("{:016x}.{STAGED}", self.id),
        }
    }

    /// The number in the name of a file; nothing if it is not one of a rowset.
    pub(crate) fn id_of(name: &str) -> Option<u64> {
        let id = Self::id_of_any(name)?;
        (Self::unknown(id, 0).file_name() == name).then_some(id)
    }

    /// The number in the name of a file of rows of any kind.
    pub(crate) fn id_of_any(name: &str) -> Option<u64> {
        let (number, kind) = match name.split_once('.')? {
            (number, "rowset") => (number, RowsetKind::Rows),
            (number, "versions") => (number, RowsetKind::Versions),
            (number, STAGED) => (number, RowsetKind::Staged),
            _ => return None,
        };
        let id = u64::from_str_radix(number, 16).ok()?;
        (Self { kind, ..Self::unknown(id, 0) }.file_name() == name).then_some(id)
    }

    /// Whether a file has rows of a stage. It belongs to nobody once the store was closed.
    pub(crate) fn is_staged(name: &str) -> bool {
        Self::id_of_any(name).is_some() && name.ends_with(STAGED)
    }

    /// The metadata of a file that is known without a manifest.
    pub(crate) fn unknown(id: u64, length_bytes: u64) -> Self {
        Self {
            id,
            table: TableId(0),
            partition: 0,
            kind: RowsetKind::Rows,
            min_sequence: 0,
            max_sequence: 0,
            since_sequence: 0,
            rows: 0,
            length_bytes,
            min_time_ns: 0,
            max_time_ns: 0,
        }
    }

    /// From this sequence on it stands for its rows as a whole.
    pub(crate) fn whole_from(&self) -> u64 {
        self.since_sequence.max(self.max_sequence)
    }

    pub(crate) fn time(&self) -> TimeRange {
        TimeRange::new(self.min_time_ns, self.max_time_ns.saturating_add(1))
    }
}

/// What all rowsets of a store share.
pub(crate) struct RowsetSource {
    pub(crate) fs: FsRef,
    pub(crate) dir: PathBuf,
    pub(crate) cache: BlockCache,
    pub(crate) budget: Arc<MemoryBudget>,
    files: ClockCache<FileRef>,
    files_max: u64,
    /// Files being written that may be open at once.
    pub(crate) unsynced_max: usize,
    footers: ClockCache<Arc<LoadedFooter>>,
}

impl RowsetSource {
    pub(crate) fn new(fs: FsRef, dir: PathBuf, budget: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            files_max: (fs.open_files_max() / FILES_SHARE).clamp(1, FILES_MAX),
            unsynced_max: (fs.open_files_max() / FILES_SHARE / 2).clamp(1, UNSYNCED_MAX) as usize,
            fs,
            dir,
            cache: BlockCache::new(&budget),
            budget,
            files: ClockCache::new(),
            footers: ClockCache::new(),
        })
    }

    /// Opens or creates a file. If too many are open, idle files of rowsets are closed first.
    pub(crate) fn open_file(&self, path: &Path, access: Access) -> Result<FileRef> {
        match self.fs.open(path, access) {
            Err(error) if error.kind() == ErrorKind::Retry => {
                self.files.give_back(0);
                self.fs.open(path, access)
            }
            outcome => outcome,
        }
    }
}

/// A rowset. Its file is removed with the last reference once it is obsolete.
pub(crate) struct Rowset {
    pub(crate) meta: RowsetMeta,
    source: Arc<RowsetSource>,
    file: Arc<Cached<FileRef>>,
    footer: Arc<Cached<Arc<LoadedFooter>>>,
    /// Its first and last key, once they were asked for.
    bounds: OnceLock<(Vec<u8>, Vec<u8>)>,
    /// Deleted ranges up to this sequence hide no row of it.
    clean_to: AtomicU64,
    /// How many of its rows deleted ranges hide, as far as it was counted.
    pub(crate) hidden_rows: Mutex<Option<HiddenRows>>,
    obsolete: AtomicBool,
    unreadable: AtomicBool,
}

/// How many rows of a rowset deleted ranges hide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HiddenRows {
    /// All ranges up to this sequence were looked at.
    pub(crate) sequence: u64,
    pub(crate) rows: u64,
    /// How many may hide them.
    pub(crate) ranges: usize,
    pub(crate) at: Instant,
}

/// A footer, accounted.
pub(crate) struct LoadedFooter {
    /// The version of its file.
    pub(crate) version: u32,
    pub(crate) footer: Footer,
    _charge: Charge,
}

impl std::ops::Deref for LoadedFooter {
    type Target = Footer;

    fn deref(&self) -> &Footer {
        &self.footer
    }
}

impl Drop for Rowset {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.source.cache.forget(self.meta.id);
            if let Err(error) = self.source.fs.remove(&self.path()) {
                tracing::warn!(%error, "a file that is not needed stays until the next start");
            }
        }
    }
}

impl Rowset {
    /// A rowset whose file is opened when it is first read.
    pub(crate) fn new(meta: RowsetMeta, source: Arc<RowsetSource>) -> Arc<Self> {
        Arc::new(Self {
            meta,
            source,
            file: Cached::empty(),
            footer: Cached::empty(),
            bounds: OnceLock::new(),
            clean_to: AtomicU64::new(0),
            hidden_rows: Mutex::default(),
            obsolete: AtomicBool::new(false),
            unreadable: AtomicBool::new(false),
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.source.dir.join(self.meta.file_name())
    }

    /// Marks it as obsolete: the manifest does not name it any more.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Notes that deleted ranges up to a sequence hide no row of it.
    pub(crate) fn set_clean_to(&self, sequence: u64) {
        self.clean_to.fetch_max(sequence, Ordering::Release);
    }

    /// Ranges that were deleted at this sequence or later may hide rows of it.
    pub(crate) fn hidden_from(&self) -> u64 {
        self.meta.max_sequence.max(self.clean_to.load(Ordering::Acquire).saturating_add(1))
    }

    /// Whether a deleted range may hide rows of it.
    pub(crate) fn may_be_hidden_by(&self, tombstone: &Tombstone) -> bool {
        self.hidden_from() <= tombstone.sequence
            && tombstone.times().is_none_or(|time| time.overlaps(self.meta.time()))
    }

    /// The first and the last of its keys, as bytes that compare as they do: of a series-keyed table the series alone,
    /// because the rows of one are never cut.
    pub(crate) fn key_bounds(&self) -> Result<&(Vec<u8>, Vec<u8>)> {
        if self.bounds.get().is_none() {
            let footer = self.footer()?;
            let bounds = match (footer.pages.first(), footer.pages.last()) {
                (Some(first), Some(last)) if footer.series_keyed => {
                    (first.first_series.to_be_bytes().to_vec(), last.last_series.to_be_bytes().to_vec())
                }
                (Some(first), _) => (first.first_key.clone(), footer.last_key.clone()),
                _ => Default::default(),
            };
            // Another thread found the same.
            let _ = self.bounds.set(bounds);
        }
        Ok(self.bounds.get().expect("was set"))
    }

    /// Whether the key ranges of both overlap.
    pub(crate) fn has_keys_among(&self, other: &Self) -> Result<bool> {
        let (own, others) = (self.key_bounds()?, other.key_bounds()?);
        Ok(own.0 <= others.1 && others.0 <= own.1)
    }

    /// Marks it as damaged: a compaction could not read it.
    pub(crate) fn set_unreadable(&self) {
        self.unreadable.store(true, Ordering::Relaxed);
    }

    /// Whether a compaction met damage in it.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// The open file.
    fn file(&self) -> Result<FileRef> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = self.source.open_file(&self.path(), Access::Read).map_err(|error| match error.kind() {
            // Written data is missing: that is damage, not a wrong name.
            ErrorKind::Missing => Error::corrupt(self.path(), 0, "the file is missing"),
            _ => error,
        })?;
        Ok(self.source.files.put(&self.file, file, 1, self.source.files_max))
    }

    pub(crate) fn footer(&self) -> Result<Arc<LoadedFooter>> {
        if let Some(footer) = self.footer.get() {
            return Ok(footer);
        }
        let (version, footer) = read_footer(&self.file()?, self.meta.length_bytes)?;
        let (bytes, budget) = (footer.memory_bytes(), &self.source.budget);
        let charge = budget.charge(Component::RowsetIndex, bytes);
        let loaded = Arc::new(LoadedFooter { version, footer, _charge: charge });
        Ok(self.source.footers.put(&self.footer, loaded, bytes, budget.index_bytes_max()))
    }

    /// A block that is in the cache.
    pub(super) fn find_cached(&self, place: BlockRef) -> Option<Arc<VerifiedBlock>> {
        self.source.cache.get(self.meta.id, place.offset)
    }

    /// The same, which does not stay for longer.
    pub(super) fn peek_cached(&self, place: BlockRef) -> Option<Arc<VerifiedBlock>> {
        self.source.cache.peek(self.meta.id, place.offset)
    }

    /// Whether a block of so many bytes can come into the cache before others go.
    pub(super) fn has_room_at(&self, offset: u64, bytes: u64) -> bool {
        self.source.cache.has_room(self.meta.id, offset, bytes)
    }

    /// A row that is in the cache by itself, by the hash of its key.
    pub(super) fn find_row(&self, hash: u64) -> Option<Arc<VerifiedBlock>> {
        self.source.cache.get_made(self.meta.id, hash | ROW_HASH)
    }

    /// Puts a row by itself into the cache.
    pub(super) fn keep_row(&self, hash: u64, row: VerifiedBlock) {
        self.source.cache.replace(self.meta.id, hash | ROW_HASH, Arc::new(row));
    }

    /// A block through the cache; `check` makes one of bytes whose checksum is right.
    fn cached(
        &self,
        place: BlockRef,
        use_of: Use,
        check: impl FnOnce(Vec<u8>) -> Result<VerifiedBlock>,
    ) -> Result<Arc<VerifiedBlock>> {
        match self.find_cached(place) {
            Some(block) => Ok(block),
            None => Ok(self.keep(place, use_of, check(self.read(place)?)?)),
        }
    }

    /// Reads and verifies a block that is not in the cache.
    pub(super) fn read(&self, place: BlockRef) -> Result<Vec<u8>> {
        // The bytes are reserved before their checksum is known.
        match place.end() {
            Some(end) if end <= self.meta.length_bytes => read_block(&self.file()?, place),
            _ => Err(self.corrupt(place, &Error::invalid("a block ends beyond the file"))),
        }
    }

    /// Reads bytes that lie within the file. They are not verified.
    pub(super) fn read_bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.file()?.read_vec_at(length, offset)
    }

    /// Puts a block that was read into the cache, if it may be used again.
    pub(super) fn keep(&self, place: BlockRef, use_of: Use, block: VerifiedBlock) -> Arc<VerifiedBlock> {
        let block = Arc::new(block);
        if use_of == Use::Again {
            self.source.cache.insert(self.meta.id, place.offset, block.clone());
        }
        block
    }

    /// Bytes that their user looks into.
    pub(crate) fn block(&self, place: BlockRef) -> Result<Arc<VerifiedBlock>> {
        self.cached(place, Use::Again, |bytes| Ok(VerifiedBlock::plain(bytes)))
    }

    /// Whether a block is in the cache. It does not count as used.
    pub(super) fn is_cached(&self, place: BlockRef) -> bool {
        self.source.cache.has(self.meta.id, place.offset)
    }

    /// The block of a column in a group of `rows`, of bytes that were read; `None` if they are not what the index says.
    pub(super) fn column_block_of(
        &self,
        place: BlockRef,
        bytes: &[u8],
        column_type: ColumnType,
        rows: u32,
        use_of: Use,
    ) -> Option<Arc<VerifiedBlock>> {
        if crc32fast::hash(bytes) != place.crc {
            return None;
        }
        let block = VerifiedBlock::column(bytes.to_vec(), column_type, rows).ok()?;
        Some(self.keep(place, use_of, block))
    }

    /// The block of a column in a group of `rows`.
    pub(crate) fn column_block(
        &self,
        place: BlockRef,
        column_type: ColumnType,
        rows: u32,
        use_of: Use,
    ) -> Result<Arc<VerifiedBlock>> {
        match self.find_cached(place) {
            Some(block) => Ok(block),
            None => self.read_column_block(place, column_type, rows, use_of),
        }
    }

    /// The same, which is not in the cache.
    pub(super) fn read_column_block(
        &self,
        place: BlockRef,
        column_type: ColumnType,
        rows: u32,
        use_of: Use,
    ) -> Result<Arc<VerifiedBlock>> {
        let block = VerifiedBlock::column(self.read(place)?, column_type, rows);
        Ok(self.keep(place, use_of, block.map_err(|error| self.corrupt_block(place, error))?))
    }

    /// Counts blocks that index pages knew.
    pub(crate) fn add_near_hits(&self, count: u64) {
        self.source.cache.add_near_hits(count);
    }

    /// Counts questions to filters of this rowset, and those of them that were answered: the key is not here.
    pub(super) fn count_filter_lookups(&self, asked: u64, ruled_out: u64) {
        self.source.cache.count_filter_lookups(asked, ruled_out);
    }

    /// The origin of the rows; none in files of earlier versions.
    pub(crate) fn origin(&self) -> Result<Option<Origin>> {
        let place = self.footer()?.origin;
        if place.length == 0 {
            return Ok(None);
        }
        let block = self.cached(place, Use::Once, |bytes| Ok(VerifiedBlock::plain(bytes)))?;
        Origin::decode(block.bytes()).map(Some).map_err(|error| self.corrupt(place, &error))
    }

    /// A page of group entries of a series-keyed table.
    pub(crate) fn group_page(&self, page: &PageEntry) -> Result<Arc<VerifiedBlock>> {
        self.cached(page.group_page, Use::Again, |bytes| {
            check_group_page(&bytes, page.groups as usize)
                .map_err(|error| self.corrupt(page.group_page, &error))?;
            let groups = bytes.len() / GroupEntry::BYTES;
            Ok(VerifiedBlock::index_page(bytes, groups))
        })
        .and_then(|block| self.long_enough(block, page.group_page, page.groups as usize * GroupEntry::BYTES))
    }

    /// An index page of a table that is not keyed by series.
    pub(crate) fn keyed_page(&self, footer: &LoadedFooter, page: &PageEntry) -> Result<Arc<VerifiedBlock>> {
        let place = page.group_page;
        let block = self.cached(place, Use::Again, |bytes| {
            let (groups, columns) = (page.groups as usize, footer.columns.len());
            let layout = KeyedPageLayout::parse(&bytes, groups, columns, footer.version);
            let layout = layout.map_err(|error| self.corrupt(place, &error))?;
            Ok(VerifiedBlock::keyed_page(bytes, layout))
        })?;
        // Index entries that contradict each other could name one place for two things.
        match block.as_keyed_page().is_some_and(|found| found.groups() == page.groups as usize) {
            true => Ok(block),
            false => Err(self.corrupt(place, &Error::invalid("an index page that is none"))),
        }
    }

    /// An index page: its bytes begin with the group entries.
    pub(crate) fn index_page(&self, footer: &LoadedFooter, page: &PageEntry) -> Result<Arc<VerifiedBlock>> {
        if footer.series_keyed { self.group_page(page) } else { self.keyed_page(footer, page) }
    }

    /// The keys of a group of a table that is not keyed by series. Since version 4.
    pub(super) fn keys(&self, entry: &GroupEntry, use_of: Use) -> Result<Arc<VerifiedBlock>> {
        let place = entry.directory;
        self.cached(place, use_of, |bytes| {
            VerifiedBlock::keys(bytes, entry.rows).map_err(|error| self.corrupt_block(place, error))
        })
    }

    fn long_enough(
        &self,
        block: Arc<VerifiedBlock>,
        place: BlockRef,
        bytes: usize,
    ) -> Result<Arc<VerifiedBlock>> {
        if block.bytes().len() < bytes {
            return Err(self.corrupt(place, &Error::invalid("an index page is too short")));
        }
        Ok(block)
    }

    /// A page of entries of a column, by its position in the footer; `None`: absent in all its groups.
    pub(crate) fn column_page(&self, page: &PageEntry, column: usize) -> Result<Option<Arc<VerifiedBlock>>> {
        let place = page.column_pages[column];
        if place.length == 0 {
            return Ok(None);
        }
        let page_of = |bytes: Vec<u8>| {
            // Not what the footer says: the page may be too short for that.
            let groups = bytes.len() / ColumnEntry::BYTES;
            Ok(VerifiedBlock::index_page(bytes, groups))
        };
        let block = self.cached(place, Use::Again, page_of)?;
        self.long_enough(block, place, page.groups as usize * ColumnEntry::BYTES).map(Some)
    }

    /// Which rows of a group belong to which series; `None`: all to the first.
    pub(crate) fn runs(&self, entry: &GroupEntry, use_of: Use) -> Result<Option<Arc<VerifiedBlock>>> {
        let place = entry.directory;
        if place.length == 0 {
            return Ok(None);
        }
        let block = self.cached(place, use_of, |bytes| {
            let block = VerifiedBlock::runs(bytes).map_err(|error| self.corrupt_block(place, error))?;
            let checked = block.group_runs().map_or(Ok(()), |runs| runs.check(entry));
            checked.map_err(|error| self.corrupt(place, &error))?;
            Ok(block)
        })?;
        // Index entries that contradict each other could name one place for two things.
        if block.group_runs().is_none() {
            return Err(self.corrupt(place, &Error::invalid("a directory of runs that is none")));
        }
        Ok(Some(block))
    }

    /// The error of a block that passed its checksum and contradicts itself.
    pub(crate) fn corrupt_block(&self, place: BlockRef, error: BlockError) -> Error {
        Error::corrupt(self.path(), place.offset, format!("corrupt block: {}", error.0))
    }

    /// The error of a page that passed its checksum and contradicts itself.
    pub(crate) fn corrupt(&self, place: BlockRef, error: &Error) -> Error {
        Error::corrupt(self.path(), place.offset, error.message())
    }
}

/// Whether a block is read once, by a pass over everything, or may be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Once,
    Again,
}

/// Reads and verifies a block.
pub(crate) fn read_block(file: &FileRef, place: BlockRef) -> Result<Vec<u8>> {
    let bytes = file.read_vec_at(place.length as usize, place.offset)?;
    if crc32fast::hash(&bytes) != place.crc {
        return Err(Error::corrupt(file.path(), place.offset, "checksum of a block does not match"));
    }
    Ok(bytes)
}

/// Reads and verifies header, tail and footer of a file that must be `length` bytes long: its version and footer.
pub(crate) fn read_footer(file: &FileRef, length: u64) -> Result<(u32, Footer)> {
    let path: &Path = file.path();
    let found = file.length()?;
    if found != length || length < HEADER_BYTES + TAIL_BYTES {
        return Err(Error::corrupt(path, found, format!("the file is {found} bytes long, not {length}")));
    }
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut header, 0)?;
    let version = version_of(&header).ok_or_else(|| Error::corrupt(path, 0, "not a rowset file"))?;
    if !(1..=VERSION).contains(&version) {
        let words = format!("a rowset of version {version}, of which this program reads 1 to {VERSION}");
        return Err(Error::corrupt(path, 0, words));
    }
    let mut tail = [0; TAIL_BYTES as usize];
    let tail_offset = length - TAIL_BYTES;
    file.read_exact_at(&mut tail, tail_offset)?;
    if tail[16..] != MAGIC {
        return Err(Error::corrupt(path, tail_offset, "the file does not end as a rowset does"));
    }
    let place = BlockRef::take(&mut crate::rows::wire::Reader::new(&tail[..16]))?;
    if place.offset.checked_add(place.length.into()) != Some(tail_offset) {
        return Err(Error::corrupt(path, tail_offset, "the footer is not where it should be"));
    }
    let bytes = read_block(file, place)?;
    let footer = Footer::decode(&bytes, version);
    footer
        .map(|footer| (version, footer))
        .map_err(|error| Error::corrupt(path, place.offset, error.message()))
}
