//! Merges all sources of a table with any key, chunk by chunk.
//!
//! Every source has a bound: no row that it has not read yet comes before it. Rows before all bounds are complete, and are
//! merged and emitted. A source is only read, and a rowset only opened, when its bound is what holds the others back. So a
//! short scan of a table of many rowsets opens those that have its keys. Rowsets that lie one behind the other are one source
//! ([`KeyLayers`]).

use crate::files::rowset::Rowset;
use crate::files::rowset::keyed::KeyedCursor;
use crate::files::rowset::keyed_group::KeyedGroup;
use crate::files::rowset::reader::Use;
use crate::memory::key_layers::KeyLayers;
use crate::memory::memtable::Memtable;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::Kind;
use crate::rows::key::KeyRange;
use crate::rows::key_tombstones::KeyTombstones;
use crate::rows::merge::{self, Deletes, Part, RowBatch, gallop, keep_rows};
use crate::rows::projection::Projection;
use crate::rows::tombstone::Tombstone;
use nyala_core::{Result, TableSchema};
use std::ops::Range;
use std::sync::Arc;

/// Rows read from a memtable at once.
pub(super) const CHUNK_ROWS: usize = 1024;
/// Rows read from a memtable at first if few are wanted, and files have rows, too: mostly they have nearly all of them.
const FIRST_ROWS: usize = 8;

/// Sources of a table merged by key; deletes are still in unless they are finished.
pub(crate) struct KeyMerge {
    schema: Arc<TableSchema>,
    /// The sources of one partition go from oldest to newest.
    sources: Vec<MergeSource>,
    projection: Projection,
    range: KeyRange,
    pub(super) backward: bool,
    use_of: Use,
    hidden: KeyTombstones,
    sequence: u64,
}

struct MergeSource {
    reader: SourceReader,
    /// Rows read, ascending.
    chunk: RowBatch<ByteVec>,
    /// Those that were not emitted yet.
    left: Range<usize>,
    /// Rows that are not read yet have this key or later ones; backwards, earlier ones. Nothing where there is no bound.
    bound: Option<Vec<u8>>,
    exhausted: bool,
}

enum SourceReader {
    Layer(LayerReader),
    Memtable { memtable: Arc<Memtable>, range: KeyRange, rows: usize },
}

/// Reads the rowsets of a layer, one after the other.
struct LayerReader {
    layers: Arc<KeyLayers>,
    number: usize,
    /// The places of those that are not open yet.
    waiting: Range<usize>,
    open: Option<OpenRowset>,
}

struct OpenRowset {
    cursor: Box<KeyedCursor>,
    rowset: Arc<Rowset>,
    /// Deleted ranges may hide rows of it.
    may_be_hidden: bool,
}

impl KeyMerge {
    /// No sources yet.
    pub(crate) fn new(
        schema: Arc<TableSchema>,
        (tombstones, sequence): (&[Arc<Tombstone>], u64),
        projection: Projection,
        range: KeyRange,
        backward: bool,
        use_of: Use,
    ) -> Self {
        let hidden = KeyTombstones::new(tombstones, sequence, &range);
        Self { schema, sources: Vec::new(), projection, range, backward, use_of, hidden, sequence }
    }

    /// Adds sources of a partition, from oldest to newest; `first_rows` bounds what is read ahead at
    /// first.
    pub(crate) fn add<'a>(
        &mut self,
        layers: &Arc<KeyLayers>,
        memtables: impl Iterator<Item = &'a Arc<Memtable>>,
        first_rows: usize,
    ) -> Result<()> {
        let source = |reader, bound| MergeSource {
            reader,
            chunk: RowBatch::empty(&self.projection.kinds),
            left: 0..0,
            bound,
            exhausted: self.range.is_empty(),
        };
        for (number, layer) in layers.iter().enumerate() {
            let (waiting, layers) = (layer.places_in(&self.range), layers.clone());
            if waiting.is_empty() {
                continue;
            }
            let mut reader = LayerReader { layers, number, waiting, open: None };
            let bound = reader.bound(&self.range, self.backward)?;
            self.sources.push(source(SourceReader::Layer(reader), bound));
        }
        let are_few = first_rows < CHUNK_ROWS && !self.sources.is_empty();
        let rows = first_rows.clamp(1, if are_few { FIRST_ROWS } else { CHUNK_ROWS });
        for memtable in memtables {
            memtable.check()?;
            let bound = if self.backward { self.range.end.clone() } else { Some(self.range.start.clone()) };
            let (memtable, range) = (memtable.clone(), self.range.clone());
            self.sources.push(source(SourceReader::Memtable { memtable, range, rows }, bound));
        }
        Ok(())
    }

    /// Bytes that the sources hold.
    pub(super) fn held_bytes(&self) -> u64 {
        let held = self.sources.iter().filter(|source| source.chunk.rows() > 0);
        held.map(|source| bytes_of(&source.chunk)).sum()
    }

    /// The next rows in the scan's direction but each batch ascending, merged; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RowBatch<ByteVec>>> {
        loop {
            let held_back_by = self.nearest_bound();
            let limit = held_back_by.map(|position| self.sources[position].bound.clone());
            let backward = self.backward;
            let taken: Vec<Range<usize>> =
                self.sources.iter_mut().map(|source| source.take(limit.as_ref(), backward)).collect();
            match (taken.iter().any(|rows| !rows.is_empty()), held_back_by) {
                (true, _) => return Ok(Some(self.emit(&taken))),
                (false, None) => return Ok(None),
                (false, Some(position)) => self.read(position)?,
            }
        }
    }

    /// The next rows, if they are a whole group of a rowset and nothing else has rows between them. Nothing at the end,
    /// too.
    pub(crate) fn next_alone(&mut self) -> Result<Option<KeyedGroup<'_>>> {
        let Some(position) = self.nearest_bound() else { return Ok(None) };
        self.open(position)?;
        let (before, rest) = self.sources.split_at_mut(position);
        let (source, after) = rest.split_first_mut().expect("a source has that position");
        let SourceReader::Layer(reader) = &mut source.reader else { return Ok(None) };
        let open = reader.open.as_mut().expect("was opened");
        if !source.left.is_empty() || open.may_be_hidden {
            return Ok(None);
        }
        let others = before.iter().chain(&*after).filter_map(MergeSource::first_key).min();
        let Some((page, group)) = open.cursor.next_alone(others)? else { return Ok(None) };
        source.bound = reader.bound(&self.range, self.backward)?;
        source.exhausted = source.bound.is_none();
        let open = reader.open.as_mut().expect("was opened");
        Ok(Some(open.cursor.group(page, group)?))
    }

    /// The source whose unread rows come first.
    fn nearest_bound(&self) -> Option<usize> {
        let unread = self.sources.iter().enumerate().filter(|(_, source)| !source.exhausted);
        let bounds = unread.map(|(position, source)| (source.bound.as_deref(), position));
        let nearest = match self.backward {
            false => bounds.min_by_key(|(bound, _)| *bound),
            // No bound lies behind all keys.
            true => bounds.max_by_key(|(bound, _)| (bound.is_none(), *bound)),
        };
        nearest.map(|(_, position)| position)
    }

    /// Opens the next rowset of a layer, if all rows of the one before were read.
    fn open(&mut self, position: usize) -> Result<()> {
        let SourceReader::Layer(reader) = &mut self.sources[position].reader else { return Ok(()) };
        while reader.open.as_ref().is_none_or(|open| open.cursor.is_done())
            && let Some(place) = reader.next_place(self.backward)
        {
            let rowset = reader.layers.layer(reader.number).rowset(place).clone();
            let (first, last) = rowset.key_bounds()?;
            let may_be_hidden = rowset.hidden_from() <= self.hidden.hidden_between(first, last);
            let (projection, range, opened) = (self.projection.clone(), self.range.clone(), rowset.clone());
            let cursor =
                KeyedCursor::new(opened, &self.schema, projection, range, self.backward, self.use_of)?;
            reader.open = Some(OpenRowset { cursor: Box::new(cursor), rowset, may_be_hidden });
            reader.take_place(self.backward);
        }
        Ok(())
    }

    /// Reads the next rows of a source.
    fn read(&mut self, position: usize) -> Result<()> {
        self.open(position)?;
        let source = &mut self.sources[position];
        match &mut source.reader {
            SourceReader::Layer(reader) => {
                let OpenRowset { cursor, rowset, .. } = reader.open.as_mut().expect("was opened");
                let (batch, kinds) = (cursor.next_batch()?, &self.projection.kinds);
                source.chunk = batch.map_or_else(
                    || RowBatch::empty(kinds),
                    |batch| without_deleted(batch, rowset, &self.hidden, kinds),
                );
                source.bound = reader.bound(&self.range, self.backward)?;
                source.exhausted = source.bound.is_none();
            }
            SourceReader::Memtable { memtable, range, rows } => {
                let visible = (memtable.visible_at(self.sequence), &self.hidden);
                let keyed = memtable.keyed().expect("a table not keyed by series");
                let (batch, all) = keyed.read(range, self.backward, *rows, &self.projection, visible);
                source.exhausted = all;
                if let (false, Some(last)) = (all, batch.rows().checked_sub(1)) {
                    if self.backward {
                        range.end = Some(batch.keys.get(0).to_vec());
                    } else {
                        range.start = [batch.keys.get(last), &[0]].concat();
                    }
                }
                source.bound = if self.backward { range.end.clone() } else { Some(range.start.clone()) };
                *rows = (4 * *rows).min(CHUNK_ROWS);
                source.chunk = batch;
            }
        }
        source.left = 0..source.chunk.rows();
        Ok(())
    }

    /// Merges rows that were taken.
    fn emit(&mut self, taken: &[Range<usize>]) -> RowBatch<ByteVec> {
        let kinds = &self.projection.kinds;
        let parts: Vec<_> = (self.sources.iter().zip(taken))
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(source, rows)| Part { batch: &source.chunk, rows: rows.clone() })
            .collect();
        let merged = match &parts[..] {
            [part] if part.rows == (0..part.batch.rows()) => None,
            [part] => {
                let mut copy = RowBatch::empty(kinds);
                copy.append(part.batch, part.rows.clone());
                Some(copy)
            }
            parts => Some(merge::merge_parts(parts, kinds, Deletes::Keep)),
        };
        let mut whole = None;
        for (source, rows) in self.sources.iter_mut().zip(taken) {
            if !rows.is_empty() && source.left.is_empty() {
                whole = Some(std::mem::replace(&mut source.chunk, RowBatch::empty(kinds)));
            }
        }
        merged.or(whole).expect("the only chunk was emitted as a whole")
    }
}

impl LayerReader {
    /// Rows that are not read yet have this key or later ones; backwards, earlier ones. Nothing if there are none.
    fn bound(&mut self, range: &KeyRange, backward: bool) -> Result<Option<Vec<u8>>> {
        if let Some(open) = &mut self.open
            && let Some(bound) = open.cursor.bound()?
        {
            return Ok(Some(bound));
        }
        let Some(place) = self.next_place(backward) else { return Ok(None) };
        let (first, last) = self.layers.layer(self.number).rowset(place).key_bounds()?;
        Ok(Some(match backward {
            false => first.max(&range.start).clone(),
            true => {
                let behind = [&last[..], &[0]].concat();
                range.end.as_ref().map_or(behind.clone(), |end| end.min(&behind).clone())
            }
        }))
    }

    /// The place of the next rowset to open.
    fn next_place(&self, backward: bool) -> Option<usize> {
        let Range { start, end } = self.waiting;
        (start < end).then(|| if backward { end - 1 } else { start })
    }

    fn take_place(&mut self, backward: bool) {
        match backward {
            false => self.waiting.start += 1,
            true => self.waiting.end -= 1,
        }
    }
}

impl MergeSource {
    /// Going forwards, no row that is left has a lesser key. Nothing if no row is left.
    fn first_key(&self) -> Option<&[u8]> {
        match (self.left.is_empty(), self.exhausted) {
            (false, _) => Some(self.chunk.keys.get(self.left.start)),
            (true, false) => Some(self.bound.as_deref().unwrap_or_default()),
            (true, true) => None,
        }
    }

    /// Takes the rows before a limit out of those that are left; all where there is no limit.
    fn take(&mut self, limit: Option<&Option<Vec<u8>>>, backward: bool) -> Range<usize> {
        let Range { start, end } = self.left.clone();
        let keys = &self.chunk.keys;
        let (taken, left) = match (limit, backward) {
            (None, _) => (start..end, end..end),
            // Backwards, and unread rows may have any key.
            (Some(None), _) => (start..start, start..end),
            (Some(Some(limit)), false) => {
                let split = gallop(start, end, |row| keys.get(row) < limit.as_slice());
                (start..split, split..end)
            }
            (Some(Some(limit)), true) => {
                let split = gallop(start, end, |row| keys.get(row) < limit.as_slice());
                (split..end, start..split)
            }
        };
        self.left = left;
        taken
    }
}

/// About how many bytes rows take.
fn bytes_of(batch: &RowBatch<ByteVec>) -> u64 {
    let cells = batch.rows() * (8 + 8 * batch.columns.len());
    (cells + batch.keys.data.len() + batch.string_bytes()) as u64
}

/// Rows of a rowset, ascending, without those that deleted ranges hide.
fn without_deleted(
    batch: RowBatch<ByteVec>,
    rowset: &Rowset,
    hidden: &KeyTombstones,
    kinds: &[Kind],
) -> RowBatch<ByteVec> {
    let Some(last) = batch.rows().checked_sub(1) else { return batch };
    if rowset.hidden_from() > hidden.hidden_between(batch.keys.get(0), batch.keys.get(last)) {
        return batch;
    }
    keep_rows(&batch, |row| rowset.hidden_from() > hidden.hidden_to(batch.keys.get(row)), kinds)
}
