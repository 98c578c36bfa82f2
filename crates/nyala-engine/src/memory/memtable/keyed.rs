//! The memtable of tables with any other key: an ordered map on encoded keys, versions by sequence.

use super::{PreparedKeys, PreparedUpsert, Visibility};
use crate::files::schema_format::SEQUENCE_COLUMN;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{ABSENT, CellSource, Column, Kind, NULL};
use crate::rows::key::KeyRange;
use crate::rows::merge::{DELETED, REPLACED, RowBatch, UPSERTED};
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use crate::rows::tombstone::Tombstone;
use nyala_core::{ColumnId, Result};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows by encoded key.
#[derive(Default)]
pub(crate) struct KeyedMemtable {
    map: RwLock<BTreeMap<Box<[u8]>, Vec<RowVersion>>>,
    rows: AtomicU64,
    memory_bytes: AtomicU64,
}

struct RowVersion {
    sequence: u64,
    /// `None`: the key was deleted.
    cells: Option<Box<[(ColumnId, Cell)]>>,
}

enum Cell {
    Null,
    Word(u64),
    Wide(Box<i128>),
    Bytes(Box<[u8]>),
}

/// What a key costs besides its bytes: its place in the map, and the list of versions.
const KEY_OVERHEAD_BYTES: u64 = 64;
/// What a version costs besides its cells, with the allocator's share.
const VERSION_OVERHEAD_BYTES: u64 = 48;
const CELL_OVERHEAD_BYTES: u64 = 24;
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
        self.append(&upsert.keys, rows, sequence, |row| {
            let written = upsert.cells.iter().filter(|cells| cells.state(row) != ABSENT);
            let cells = written.map(|cells| {
                let null = cells.state(row) == NULL;
                (cells.column, if null { Cell::Null } else { Cell::read(&cells.source, row) })
            });
            Some(cells.collect())
        });
    }

    pub(super) fn delete(&self, keys: &PreparedKeys<'_>, rows: Option<&[u32]>, sequence: u64) {
        self.append(keys, rows, sequence, |_| None);
    }

    fn append(
        &self,
        keys: &PreparedKeys<'_>,
        rows: Option<&[u32]>,
        sequence: u64,
        cells: impl Fn(usize) -> Option<Box<[(ColumnId, Cell)]>>,
    ) {
        let count = rows.map_or(keys.rows, <[u32]>::len);
        let mut key = Vec::new();
        let mut grown = 0;
        let mut map = self.map.write();
        for index in 0..count {
            let row = rows.map_or(index, |rows| rows[index] as usize);
            keys.encode(row, &mut key);
            let version = RowVersion { sequence, cells: cells(row) };
            grown += VERSION_OVERHEAD_BYTES + version.memory_bytes();
            match map.get_mut(key.as_slice()) {
                Some(versions) => {
                    let place = versions.partition_point(|other| other.sequence <= sequence);
                    versions.insert(place, version);
                }
                None => {
                    grown += KEY_OVERHEAD_BYTES + key.len() as u64;
                    map.insert(key.as_slice().into(), vec![version]);
                }
            }
        }
        drop(map);
        self.memory_bytes.fetch_add(grown, Ordering::Relaxed);
        self.rows.fetch_add(count as u64, Ordering::AcqRel);
    }

    /// Adds the versions of a key that are here, if there are any, to a row.
    pub(crate) fn add_versions(
        &self,
        key: &[u8],
        projection: &Projection,
        visibility: &Visibility<'_>,
        newest: &mut NewestRow,
    ) -> Result<()> {
        let map = self.map.read();
        let Some(versions) = map.get(key) else { return Ok(()) };
        let hidden_to = visibility.hidden_to(key);
        for version in versions.iter().rev().filter(|version| version.sequence <= visibility.sequence) {
            if version.sequence <= hidden_to {
                newest.settle();
            }
            if newest.is_settled() {
                return Ok(());
            }
            match &version.cells {
                None => newest.add(DELETED, |_, _| Ok(()))?,
                Some(cells) => newest.add(UPSERTED, |position, cell| {
                    let id = projection.columns[position].0;
                    match cells.iter().find(|(column, _)| *column == id) {
                        Some((_, found)) => found.push_to(cell),
                        None => cell.push_state(ABSENT, 1),
                    }
                    Ok(())
                })?,
            }
        }
        Ok(())
    }

    /// Hands over all versions of the keys of which newer ones or deleted ranges hide something, by key and sequence; or
    /// which `is_elsewhere`.
    pub(super) fn for_each_replaced(
        &self,
        projection: &Projection,
        tombstones: &[Arc<Tombstone>],
        is_elsewhere: impl Fn(&[u8]) -> bool,
        mut take: impl FnMut(&[u8], u64, u8, &mut dyn FnMut(usize, &mut Column)),
    ) {
        let visibility = Visibility { sequence: u64::MAX, tombstones };
        for (key, versions) in &*self.map.read() {
            let is_replaced = versions.len() > 1
                || versions.iter().any(|version| version.sequence <= visibility.hidden_to(key))
                || is_elsewhere(key);
            for version in versions.iter().filter(|_| is_replaced) {
                let marker = if version.cells.is_some() { UPSERTED } else { DELETED };
                take(key, version.sequence, marker, &mut |position, column| {
                    let id = projection.columns[position].0;
                    let mut cells = version.cells.iter().flat_map(|cells| cells.iter());
                    match cells.find(|(column, _)| *column == id) {
                        Some((_, cell)) => cell.push_to(column),
                        None => column.push_state(ABSENT, 1),
                    }
                });
            }
        }
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
        visibility: &Visibility<'_>,
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
        let mut rows = NewestRows::new(projection, visibility);
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
    visibility: &'a Visibility<'a>,
    /// Each with its marker and its newest sequence.
    keys: Vec<(&'a [u8], u8, u64)>,
    /// Which column is the sequence, if it is wanted.
    sequence_at: Option<usize>,
    /// The projected cells of each row.
    cells: Vec<Option<&'a Cell>>,
    bytes: usize,
}

impl<'a> NewestRows<'a> {
    fn new(projection: &'a Projection, visibility: &'a Visibility<'a>) -> Self {
        let sequence_at = projection.columns.iter().position(|(id, _)| *id == SEQUENCE_COLUMN);
        Self { projection, visibility, keys: Vec::new(), sequence_at, cells: Vec::new(), bytes: 0 }
    }

    /// Adds rows until there are enough; whether those were all.
    fn add_all(
        &mut self,
        entries: impl Iterator<Item = (&'a Box<[u8]>, &'a Vec<RowVersion>)>,
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
    fn add(&mut self, key: &'a [u8], versions: &'a [RowVersion]) {
        let hidden_to = self.visibility.hidden_to(key);
        let is_visible = |version: &&RowVersion| {
            version.sequence <= self.visibility.sequence && version.sequence > hidden_to
        };
        let mut visible = versions.iter().rev().filter(is_visible).peekable();
        let Some(newest) = visible.peek() else { return };
        let (newest_deletes, newest_sequence) = (newest.cells.is_none(), newest.sequence);
        let first = self.cells.len();
        self.cells.resize(first + self.projection.columns.len(), None);
        let mut any_deletes = false;
        for version in visible {
            let Some(cells) = &version.cells else {
                any_deletes = true;
                break;
            };
            let mut missing = 0;
            for (place, (id, _)) in self.cells[first..].iter_mut().zip(&self.projection.columns) {
                if place.is_none() {
                    *place = cells.iter().find(|(column, _)| column == id).map(|(_, cell)| cell);
                    missing += usize::from(place.is_none());
                }
            }
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
        let bytes = |cell: &Option<&Cell>| match cell {
            Some(Cell::Bytes(bytes)) => bytes.len(),
            _ => 8,
        };
        self.bytes += key.len() + self.cells[first..].iter().map(bytes).sum::<usize>();
        self.keys.push((key, marker, newest_sequence));
    }

    /// Appends the rows in ascending order.
    fn append_to(&self, batch: &mut RowBatch<ByteVec>, backward: bool) {
        let columns = self.projection.columns.len();
        let mut markers = Vec::with_capacity(self.keys.len());
        for at in 0..self.keys.len() {
            let row = if backward { self.keys.len() - 1 - at } else { at };
            let (key, marker, sequence) = self.keys[row];
            batch.keys.push(key);
            markers.push(marker);
            for (position, (column, cell)) in
                batch.columns.iter_mut().zip(&self.cells[row * columns..]).enumerate()
            {
                match cell {
                    None if Some(position) == self.sequence_at => column.push_word(sequence),
                    None => column.push_state(ABSENT, 1),
                    Some(cell) => cell.push_to(column),
                }
            }
        }
        if markers.iter().any(|marker| *marker != UPSERTED) {
            batch.markers = Some(markers);
        }
    }
}

impl RowVersion {
    fn memory_bytes(&self) -> u64 {
        let cell_bytes = |cell: &Cell| match cell {
            Cell::Null | Cell::Word(_) => 0,
            Cell::Wide(_) => 16,
            Cell::Bytes(bytes) => bytes.len() as u64 + 16,
        };
        let cells = self.cells.iter().flat_map(|cells| cells.iter());
        cells.map(|(_, cell)| CELL_OVERHEAD_BYTES + cell_bytes(cell)).sum()
    }
}

impl Cell {
    fn read(source: &CellSource<'_>, row: usize) -> Self {
        match source.kind() {
            Kind::Word => Cell::Word(source.word(row)),
            Kind::Wide => Cell::Wide(Box::new(source.wide(row))),
            Kind::Bytes => Cell::Bytes(source.bytes(row).into()),
        }
    }

    fn push_to(&self, column: &mut Column) {
        match self {
            Cell::Null => column.push_state(NULL, 1),
            Cell::Word(word) => column.push_word(*word),
            Cell::Wide(wide) => column.push_wide(**wide),
            Cell::Bytes(bytes) => column.push_bytes(bytes),
        }
    }
}
