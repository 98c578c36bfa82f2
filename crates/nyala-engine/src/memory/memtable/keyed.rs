//! The memtable of tables with any other key: an ordered map on encoded keys, versions by sequence.

mod row_versions;

use super::{PreparedKeys, PreparedUpsert};
use crate::files::schema_format::SEQUENCE_COLUMN;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::Column;
use crate::rows::key::KeyRange;
use crate::rows::key_tombstones::KeyTombstones;
use crate::rows::merge::{DELETED, REPLACED, RowBatch, UPSERTED};
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use nyala_core::Result;
use parking_lot::RwLock;
use row_versions::{Cell, PackedCells, RowVersion, RowVersions};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows by encoded key.
#[derive(Default)]
pub(crate) struct KeyedMemtable {
    map: RwLock<BTreeMap<Box<[u8]>, RowVersions>>,
    rows: AtomicU64,
    memory_bytes: AtomicU64,
}

/// What a key costs besides its bytes and its newest version: its place in a map whose nodes are two thirds full, with
/// the allocator's share.
const KEY_OVERHEAD_BYTES: u64 = 72;
/// What a version costs besides its cells, with the allocator's share.
const VERSION_OVERHEAD_BYTES: u64 = 40;
/// Bytes that are read at once, about.
const BYTES_MAX: usize = 4 << 20;

impl KeyedMemtable {
    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn upsert(&self, upsert: &PreparedUpsert<'_>, rows: Option<&[u32]>, sequence: u64) {
        self.append(&upsert.keys, rows, sequence, |row| Some(PackedCells::of(&upsert.cells, row)));
    }

    pub(super) fn delete(&self, keys: &PreparedKeys<'_>, rows: Option<&[u32]>, sequence: u64) {
        self.append(keys, rows, sequence, |_| None);
    }

    fn append(
        &self,
        keys: &PreparedKeys<'_>,
        rows: Option<&[u32]>,
        sequence: u64,
        cells: impl Fn(usize) -> Option<PackedCells>,
    ) {
        let count = rows.map_or(keys.rows, <[u32]>::len);
        let mut key = Vec::new();
        let mut grown = 0;
        let mut map = self.map.write();
        for index in 0..count {
            let row = rows.map_or(index, |rows| rows[index] as usize);
            keys.encode(row, &mut key);
            let version = RowVersion { sequence, cells: cells(row) };
            grown += VERSION_OVERHEAD_BYTES + version.cells.as_ref().map_or(0, PackedCells::memory_bytes);
            match map.entry(key.as_slice().into()) {
                Entry::Occupied(versions) => versions.into_mut().insert(version),
                Entry::Vacant(place) => {
                    grown += KEY_OVERHEAD_BYTES + key.len() as u64;
                    place.insert(RowVersions::of(version));
                }
            }
        }
        drop(map);
        self.memory_bytes.fetch_add(grown, Ordering::Relaxed);
        self.rows.fetch_add(count as u64, Ordering::AcqRel);
    }

    /// Adds the versions of a key that are here, if there are any, to a row. Up to `hidden_to` they are deleted.
    pub(crate) fn add_versions(
        &self,
        key: &[u8],
        projection: &Projection,
        (sequence, hidden_to): (u64, u64),
        newest: &mut NewestRow,
    ) -> Result<()> {
        let map = self.map.read();
        let Some(versions) = map.get(key) else { return Ok(()) };
        for version in versions.iter().rev().filter(|version| version.sequence <= sequence) {
            if version.sequence <= hidden_to {
                newest.settle();
            }
            if newest.is_settled() {
                return Ok(());
            }
            match &version.cells {
                None => newest.add(DELETED, |_, _| Ok(()))?,
                Some(cells) => newest.add(UPSERTED, |position, cell| {
                    cells.find(projection.columns[position].0).push_to(cell);
                    Ok(())
                })?,
            }
        }
        Ok(())
    }

    /// For each key, with the sequence up to which it is hidden, whether its newest version is one of a row; nothing where no
    /// version is here.
    pub(crate) fn newest_exist<'k>(
        &self,
        keys: impl Iterator<Item = (&'k [u8], u64)>,
        sequence: u64,
    ) -> Vec<Option<bool>> {
        let map = self.map.read();
        let newest_exists = |(key, hidden_to): (&[u8], u64)| {
            let mut versions = map.get(key)?.iter().rev();
            let newest = versions.find(|version| version.sequence <= sequence)?;
            Some(newest.sequence > hidden_to && newest.cells.is_some())
        };
        keys.map(newest_exists).collect()
    }

    /// Hands over all versions of the keys of some memtables, from oldest to newest, of which newer ones or deleted ranges
    /// hide something, by key and sequence.
    pub(super) fn for_each_replaced(
        memtables: &[&Self],
        projection: &Projection,
        hidden: &KeyTombstones,
        mut take: impl FnMut(&[u8], u64, u8, &mut dyn FnMut(usize, &mut Column)) -> Result<()>,
    ) -> Result<()> {
        let maps: Vec<_> = memtables.iter().map(|memtable| memtable.map.read()).collect();
        let mut entries: Vec<_> = maps.iter().map(|map| map.iter().peekable()).collect();
        let mut of_key: Vec<&RowVersions> = Vec::new();
        while let Some(key) = entries.iter_mut().filter_map(|each| Some(each.peek()?.0)).min() {
            of_key.clear();
            for each in &mut entries {
                of_key.extend(each.next_if(|(other, _)| *other == key).map(|(_, versions)| versions));
            }
            let hidden_to = hidden.hidden_to(key);
            let is_hidden =
                |versions: &RowVersions| versions.iter().any(|version| version.sequence <= hidden_to);
            let is_replaced =
                of_key.len() > 1 || of_key.iter().any(|versions| versions.are_many() || is_hidden(versions));
            for version in of_key.iter().filter(|_| is_replaced).flat_map(|versions| versions.iter()) {
                let marker = if version.cells.is_some() { UPSERTED } else { DELETED };
                take(key, version.sequence, marker, &mut |position, column| {
                    let id = projection.columns[position].0;
                    version.cells.as_ref().map_or(Cell::Absent, |cells| cells.find(id)).push_to(column);
                })?;
            }
        }
        Ok(())
    }

    /// Whether there are versions of a key.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.map.read().contains_key(key)
    }

    /// Whether there are versions of keys from one to another.
    pub(crate) fn has_between(&self, first: &[u8], last: &[u8]) -> bool {
        let bounds = (Bound::Included(first), Bound::Included(last));
        self.map.read().range::<[u8], _>(bounds).next().is_some()
    }

    /// At most `rows_max` rows, and about [`BYTES_MAX`] bytes, from the start of a range (or from its end), in
    /// ascending order, and whether that was all.
    pub(crate) fn read(
        &self,
        range: &KeyRange,
        backward: bool,
        rows_max: usize,
        projection: &Projection,
        visible: (u64, &KeyTombstones),
    ) -> (RowBatch<ByteVec>, bool) {
        let mut batch = RowBatch::empty(&projection.kinds);
        if range.is_empty() {
            return (batch, true);
        }
        let map = self.map.read();
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (
            Bound::Included(range.start.as_slice()),
            range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_slice())),
        );
        let entries = map.range::<[u8], _>(bounds);
        let mut rows = NewestRows::new(projection, visible);
        let all = match backward {
            true => rows.add_all(entries.rev(), rows_max),
            false => rows.add_all(entries, rows_max),
        };
        rows.append_to(&mut batch, backward);
        (batch, all)
    }
}

/// Rows made of the newest cells of their versions.
struct NewestRows<'a> {
    projection: &'a Projection,
    /// The last sequence that is seen.
    sequence: u64,
    hidden: &'a KeyTombstones,
    /// Each with its marker and its newest sequence.
    keys: Vec<(&'a [u8], u8, u64)>,
    /// Which column is the sequence, if it is wanted.
    sequence_at: Option<usize>,
    /// The projected cells of each row.
    cells: Vec<Cell<'a>>,
    bytes: usize,
}

impl<'a> NewestRows<'a> {
    fn new(projection: &'a Projection, (sequence, hidden): (u64, &'a KeyTombstones)) -> Self {
        let sequence_at = projection.columns.iter().position(|(id, _)| *id == SEQUENCE_COLUMN);
        Self { projection, sequence, hidden, keys: Vec::new(), sequence_at, cells: Vec::new(), bytes: 0 }
    }

    /// Adds rows until there are enough; whether those were all.
    fn add_all(
        &mut self,
        entries: impl Iterator<Item = (&'a Box<[u8]>, &'a RowVersions)>,
        rows_max: usize,
    ) -> bool {
        for (key, versions) in entries {
            if self.keys.len() == rows_max || self.bytes >= BYTES_MAX {
                return false;
            }
            self.add(key, versions);
        }
        true
    }

    /// Adds the row of a key, if any version of it is visible.
    fn add(&mut self, key: &'a [u8], versions: &'a RowVersions) {
        let hidden_to = self.hidden.hidden_to(key);
        let is_visible =
            |version: &&RowVersion| version.sequence <= self.sequence && version.sequence > hidden_to;
        let mut visible = versions.iter().rev().filter(is_visible).peekable();
        let Some(newest) = visible.peek() else { return };
        let (newest_deletes, newest_sequence) = (newest.cells.is_none(), newest.sequence);
        let first = self.cells.len();
        self.cells.resize(first + self.projection.columns.len(), Cell::Absent);
        let mut any_deletes = false;
        for version in visible {
            let Some(cells) = &version.cells else {
                any_deletes = true;
                break;
            };
            let missing = fill(&mut self.cells[first..], self.projection, cells);
            // Older versions add nothing, unless a deletion hides rows of older sources from what is missing.
            if missing == 0 {
                break;
            }
        }
        let marker = match (newest_deletes, any_deletes) {
            (true, _) => DELETED,
            (false, true) => REPLACED,
            (false, false) => UPSERTED,
        };
        let bytes = |cell: &Cell<'_>| cell.length().max(size_of::<u64>());
        self.bytes += key.len() + self.cells[first..].iter().map(bytes).sum::<usize>();
        self.keys.push((key, marker, newest_sequence));
    }

    /// Appends the rows in ascending order.
    fn append_to(&self, batch: &mut RowBatch<ByteVec>, backward: bool) {
        let columns = self.projection.columns.len();
        let mut markers = Vec::with_capacity(self.keys.len());
        for (position, column) in batch.columns.iter_mut().enumerate() {
            let lengths = self.cells.iter().skip(position).step_by(columns).map(|cell| cell.length());
            column.reserve_string_bytes(lengths.sum());
        }
        for at in 0..self.keys.len() {
            let row = if backward { self.keys.len() - 1 - at } else { at };
            let (key, marker, sequence) = self.keys[row];
            batch.keys.push(key);
            markers.push(marker);
            for (position, (column, cell)) in
                batch.columns.iter_mut().zip(&self.cells[row * columns..]).enumerate()
            {
                match cell {
                    Cell::Absent if Some(position) == self.sequence_at => column.push_word(sequence),
                    cell => cell.push_to(column),
                }
            }
        }
        if markers.iter().any(|marker| *marker != UPSERTED) {
            batch.markers = Some(markers);
        }
    }
}

/// Takes cells of a version for the places that are absent yet; returns how many stay so.
fn fill<'a>(places: &mut [Cell<'a>], projection: &Projection, cells: &'a PackedCells) -> usize {
    let mut missing = 0;
    // Both are mostly in the order of the columns: then one pass finds all.
    let mut next = cells.iter().peekable();
    for (place, (id, _)) in places.iter_mut().zip(&projection.columns) {
        while next.peek().is_some_and(|(column, _)| column < id) {
            next.next();
        }
        if *place != Cell::Absent {
            continue;
        }
        *place = match next.peek() {
            Some((column, cell)) if column == id => *cell,
            _ => cells.find(*id),
        };
        missing += usize::from(*place == Cell::Absent);
    }
    missing
}
