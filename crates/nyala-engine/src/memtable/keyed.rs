//! The memtable of tables with any other key: an ordered map on encoded keys, versions by sequence.

use super::{PreparedKeys, PreparedUpsert, Visibility, Wanted};
use crate::cells::{ABSENT, ByteVec, CellSource, Column, Kind, NULL};
use crate::key::KeyRange;
use crate::merge::{DELETED, Keys, Piece, UPSERTED, collapse};
use nyala_core::ColumnId;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
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

    /// At most `rows_max` rows from the start of a range (or from its end), in ascending order, and
    /// whether that was all.
    pub(crate) fn read(
        &self,
        range: &KeyRange,
        backward: bool,
        rows_max: usize,
        wanted: &Wanted,
        visibility: &Visibility<'_>,
    ) -> (Piece<ByteVec>, bool) {
        let mut piece = Piece::empty(&wanted.kinds);
        if range.is_empty() {
            return (piece, true);
        }
        let map = self.map.read();
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (
            Bound::Included(range.start.as_slice()),
            range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_slice())),
        );
        let mut keys: Vec<_> = Vec::new();
        let entries = map.range::<[u8], _>(bounds);
        // One more than wanted tells whether there is more; keys without a visible version count too.
        if backward {
            keys.extend(entries.rev().take(rows_max + 1));
        } else {
            keys.extend(entries.take(rows_max + 1));
        }
        let all = keys.len() <= rows_max;
        keys.truncate(rows_max);
        if backward {
            keys.reverse();
        }
        for (key, versions) in &keys {
            for version in versions.iter() {
                let hidden = version.sequence > visibility.sequence
                    || visibility
                        .tombstones
                        .iter()
                        .any(|tombstone| version.sequence <= tombstone.sequence && tombstone.holds_key(key));
                if !hidden {
                    version.push_to(key, wanted, &mut piece);
                }
            }
        }
        let piece = collapse(piece, &wanted.kinds);
        if !all && piece.rows() == 0 {
            // Everything read was invisible: the caller could not go on from an empty piece.
            drop(map);
            return self.read(range, backward, rows_max.saturating_mul(4), wanted, visibility);
        }
        (piece, all)
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

    fn push_to(&self, key: &[u8], wanted: &Wanted, piece: &mut Piece<ByteVec>) {
        let before = piece.keys.count();
        piece.keys.push(key);
        if self.cells.is_none() || piece.markers.is_some() {
            let markers = piece.markers.get_or_insert_with(|| vec![UPSERTED; before]);
            markers.push(if self.cells.is_none() { DELETED } else { UPSERTED });
        }
        for ((id, _), column) in wanted.columns.iter().zip(&mut piece.columns) {
            let mut cells = self.cells.iter().flat_map(|cells| cells.iter());
            match cells.find(|(column, _)| column == id) {
                None => column.push_state(ABSENT, 1),
                Some((_, cell)) => cell.push_to(column),
            }
        }
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
