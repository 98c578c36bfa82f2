//! Neighbouring columns that are dictionaries, such as the tags of a measurement: few combinations of their values occur, so
//! the cells of each are written once and copied from then on, also in later batches of an answer.

use super::{Cells, Column, Keys};
use crate::error::Failure;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

/// What is kept of the cells of an answer without being charged to its memory.
const UNCHARGED_BYTES: usize = 64 << 10;
/// The most that is kept.
const KEPT_BYTES_MAX: usize = 2 << 20;
/// After so many rows it is known whether combinations come again.
const TRIED_ROWS: usize = 4096;
/// The key of a cell that is NULL.
const NULL_KEY: u32 = u32::MAX;

/// The combinations that an answer has had.
#[derive(Default)]
pub struct Combinations {
    /// What the keys are keys of.
    dictionaries: Vec<ArrayRef>,
    /// By column, which of the keys of a combination is its own.
    places: Vec<usize>,
    hasher: RandomState,
    known: HashTable<Known>,
    /// The keys of each combination, one behind the other.
    keys: Vec<u32>,
    cells: Vec<u8>,
    charge: Option<MemoryCharge>,
    bytes_max: usize,
    /// How many rows were looked at, and how many of them had a combination that was not kept.
    rows: usize,
    new: usize,
    /// Whether cells are not kept, because combinations hardly ever come again.
    is_off: bool,
}

/// A combination: where its keys begin, and its cells.
#[derive(Clone)]
struct Known {
    keys: usize,
    cells: Range<usize>,
}

impl Combinations {
    /// None yet, of an answer that is computed with this memory.
    pub(super) fn of(memory: Option<&QueryMemory>) -> Self {
        Self { charge: memory.map(QueryMemory::hold), bytes_max: UNCHARGED_BYTES, ..Self::default() }
    }

    /// Forgets what belongs to other dictionaries.
    fn begin(&mut self, dictionaries: Vec<ArrayRef>, places: &[usize]) {
        let is_same = self.places == places
            && self.dictionaries.len() == dictionaries.len()
            && self.dictionaries.iter().zip(&dictionaries).all(|(own, other)| Arc::ptr_eq(own, other));
        if !is_same {
            self.forget();
            self.dictionaries = dictionaries;
            self.places = places.to_vec();
        }
    }

    fn forget(&mut self) {
        self.known.clear();
        self.keys.clear();
        self.cells.clear();
    }

    fn kept_bytes(&self) -> usize {
        self.cells.len() + self.keys.len() * size_of::<u32>() + self.known.len() * size_of::<Known>()
    }

    /// Makes room if what is kept has become much.
    fn bound(&mut self) {
        if self.kept_bytes() <= self.bytes_max {
            return;
        }
        let charge = self.charge.as_mut().filter(|_| self.bytes_max < KEPT_BYTES_MAX);
        match charge.map(|charge| charge.charge(KEPT_BYTES_MAX)) {
            Some(Ok(())) => self.bytes_max = KEPT_BYTES_MAX,
            _ => self.forget(),
        }
    }
}

/// The columns of a batch.
pub(super) struct Combined {
    columns: Vec<Column>,
    dictionaries: Vec<ArrayRef>,
    /// By column, which of the keys of a row is its own: columns may share theirs.
    places: Vec<usize>,
    /// How many keys a row has.
    width: usize,
    /// The keys of each row, one behind the other.
    keys: Vec<u32>,
    /// The row that was written last, and its cells among those that are kept.
    last: Option<(usize, Range<usize>)>,
}

impl Combined {
    /// Columns that are dictionaries, and their arrays. The columns again if they have too many values for this.
    pub(super) fn of(columns: Vec<Column>, arrays: &[ArrayRef]) -> Result<Self, Vec<Column>> {
        let rows = arrays.first().map_or(0, |array| array.len());
        let fits = |array: &ArrayRef| array.as_any_dictionary().values().len() < NULL_KEY as usize;
        if !arrays.iter().all(fits) {
            return Err(columns);
        }
        let (mut different, mut places): (Vec<&Column>, Vec<usize>) = (Vec::new(), Vec::new());
        for column in &columns {
            let place = different.iter().position(|other| other.has_keys_of(column));
            places.push(place.unwrap_or(different.len()));
            if place.is_none() {
                different.push(column);
            }
        }
        let width = different.len();
        let mut keys = vec![0; width * rows];
        for (place, column) in different.into_iter().enumerate() {
            let Cells::Dictionary(own, _) = &column.cells else { return Err(columns) };
            own.write_every(width, &mut keys[place..]);
            if let Some(nulls) = &column.nulls {
                let own = keys[place..].iter_mut().step_by(width).zip(nulls.iter());
                own.filter(|(_, is_valid)| !is_valid).for_each(|(key, _)| *key = NULL_KEY);
            }
        }
        let dictionaries = arrays.iter().map(|array| array.as_any_dictionary().values().clone()).collect();
        Ok(Self { columns, dictionaries, places, width, keys, last: None })
    }

    /// Appends the cells of a row.
    pub(super) fn write(
        &mut self,
        row: usize,
        all: &mut Combinations,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if all.is_off {
            return self.columns.iter().try_for_each(|column| column.write(row, out));
        }
        if !self.dictionaries.is_empty() {
            all.begin(std::mem::take(&mut self.dictionaries), &self.places);
        }
        let width = self.width;
        let keys = |row: usize| &self.keys[row * width..][..width];
        let own = keys(row);
        if let Some((last, cells)) = &self.last
            && keys(*last) == own
        {
            out.extend_from_slice(&all.cells[cells.clone()]);
            return Ok(());
        }
        all.rows += 1;
        let hash = all.hasher.hash_one(own);
        let known = all.known.find(hash, |known| &all.keys[known.keys..][..width] == own);
        let cells = match known {
            Some(known) => known.cells.clone(),
            None => {
                all.new += 1;
                all.bound();
                let begin = all.cells.len();
                self.columns.iter().try_for_each(|column| column.write(row, &mut all.cells))?;
                let known = Known { keys: all.keys.len(), cells: begin..all.cells.len() };
                all.keys.extend_from_slice(own);
                let Combinations { known: table, keys, hasher, .. } = all;
                let hash_of = |known: &Known| hasher.hash_one(&keys[known.keys..][..width]);
                table.insert_unique(hash, known.clone(), hash_of);
                known.cells
            }
        };
        out.extend_from_slice(&all.cells[cells.clone()]);
        self.last = Some((row, cells));
        all.is_off = all.rows == TRIED_ROWS && all.new * 2 > TRIED_ROWS;
        Ok(())
    }
}

impl Column {
    /// Whether the keys of both are the same memory, and none is NULL.
    fn has_keys_of(&self, other: &Column) -> bool {
        match (&self.cells, &other.cells) {
            (Cells::Dictionary(Keys::Int32(own), _), Cells::Dictionary(Keys::Int32(other_keys), _)) => {
                own.ptr_eq(other_keys) && self.nulls.is_none() && other.nulls.is_none()
            }
            _ => false,
        }
    }
}

impl Keys {
    /// Writes the keys to each `step`th place.
    fn write_every(&self, step: usize, into: &mut [u32]) {
        macro_rules! write {
            ($($name:ident),*) => {
                match self {
                    // What does not fit belongs to a row that is NULL, or to none.
                    $(Keys::$name(keys) => {
                        into.iter_mut().step_by(step).zip(keys.iter()).for_each(|(key, own)| *key = *own as u32);
                    })*
                }
            };
        }
        write!(Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64);
    }
}
