//! The memtable of series-keyed tables: per series a chain of pages of rows.
//!
//! ```text
//! page  next page (32 bits) | rows (16) | capacity (16)
//!       shape
//!       row: time | sequence − base | a word per value of the shape (strings, decimals: a place in the byte arena)
//!       row: …
//! ```
//! Rows are kept whole, so that appending one touches two or three cache lines however many columns it
//! has. Pages of a series have room for 1, 2, 4, … rows, so that an idle series costs little. Rows stand
//! in the order they were applied; what is late or doubled is put in order by readers. Series are spread
//! over stripes, each with its lock and arenas; nothing is held while two stripes are locked.

use super::arena::{ByteArena, WordArena};
use super::shape::{CellPlace, Shape, Shapes, shape_of};
use super::{PreparedKeys, PreparedUpsert, Visibility, Wanted};
use crate::cells::{CellSource, Column, Kind, VALUE};
use crate::merge::{DELETED, Piece, UPSERTED, collapse};
use hashbrown::{HashMap, HashTable};
use nyala_core::{SeriesId, TimeRange};
use parking_lot::{Mutex, RwLock};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const STRIPES: usize = 16;
/// Series next to each other share a stripe in runs, so that batches in order touch it in runs.
const SERIES_PER_RUN: u32 = 64;
/// Rows of the largest pages: 3 KiB for ten values a row; on average half a page is unused.
const PAGE_ROWS_MAX: u32 = 32;
/// Rows that readers make room for at once.
const RESERVED_ROWS_MAX: usize = 256;
const NO_PAGE: u32 = u32::MAX;
const HEADER_WORDS: usize = 2;
/// Time and sequence.
const ROW_WORDS: usize = 2;
/// A page's header and the first words of its first row.
const FIRST_ROW_WORDS: usize = HEADER_WORDS + ROW_WORDS;

/// Rows by series.
pub(crate) struct SeriesMemtable {
    base_sequence: u64,
    shapes: RwLock<Shapes>,
    stripes: [Mutex<Stripe>; STRIPES],
    rows: AtomicU64,
    memory_bytes: AtomicU64,
    first_time_ns: AtomicI64,
    last_time_ns: AtomicI64,
}

#[derive(Default)]
struct Stripe {
    slots: Vec<Slot>,
    by_series: HashTable<u32>,
    words: WordArena,
    bytes: ByteArena,
    memory_bytes: u64,
}

/// What is kept of a series besides its pages.
#[derive(Clone, Copy)]
struct Slot {
    series: u32,
    head: u32,
    tail: u32,
    rows: u32,
    tail_rows: u16,
    tail_capacity: u16,
    tail_shape: u32,
    last_time_ns: i64,
    /// Times rise strictly from row to row.
    in_order: bool,
}

fn stripe_of(series: u32) -> usize {
    (series / SERIES_PER_RUN) as usize % STRIPES
}

fn hash(series: u32) -> u64 {
    foldhash::fast::FixedState::default().hash_one(series)
}

impl SeriesMemtable {
    pub(super) fn new(base_sequence: u64) -> Self {
        Self {
            base_sequence,
            shapes: RwLock::default(),
            stripes: Default::default(),
            rows: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            first_time_ns: AtomicI64::new(i64::MAX),
            last_time_ns: AtomicI64::new(i64::MIN),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn time_bounds(&self) -> Option<TimeRange> {
        let first_ns = self.first_time_ns.load(Ordering::Acquire);
        let last_ns = self.last_time_ns.load(Ordering::Acquire);
        (first_ns <= last_ns).then(|| TimeRange::new(first_ns, last_ns.saturating_add(1)))
    }

    pub(super) fn upsert(&self, upsert: &PreparedUpsert<'_>, rows: Option<&[u32]>, sequence: u64) {
        let shapes = self.row_shapes(upsert, rows);
        let sources: Vec<_> = upsert.cells.iter().map(|cells| &cells.source).collect();
        self.append(
            &upsert.keys,
            rows,
            sequence,
            |index| match &shapes {
                RowShapes::One(number) => (*number, None),
                RowShapes::Each(numbers, masks) => (numbers[index], Some(masks[index].as_ref())),
            },
            &sources,
        );
    }

    pub(super) fn delete(&self, keys: &PreparedKeys<'_>, rows: Option<&[u32]>, sequence: u64) {
        let shape = Shape { deletes: true, values: Vec::new(), nulls: Vec::new() };
        let number = self.shapes.write().number(shape);
        self.append(keys, rows, sequence, |_| (number, None), &[]);
    }

    fn row_shapes(&self, upsert: &PreparedUpsert<'_>, rows: Option<&[u32]>) -> RowShapes {
        let columns: Vec<_> = upsert.cells.iter().map(|cells| cells.column).collect();
        if upsert.cells.iter().all(|cells| cells.all_values) {
            let shape = Shape { deletes: false, values: columns, nulls: Vec::new() };
            return RowShapes::One(self.shapes.write().number(shape));
        }
        let count = rows.map_or(upsert.keys.rows, <[u32]>::len);
        let mut known: HashMap<Vec<u8>, (u32, Arc<[u16]>)> = HashMap::new();
        let (mut numbers, mut masks) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut states = Vec::with_capacity(columns.len());
        for index in 0..count {
            let row = rows.map_or(index, |rows| rows[index] as usize);
            states.clear();
            states.extend(upsert.cells.iter().map(|cells| cells.state(row)));
            let (number, valued) = match known.get(&states) {
                Some(entry) => entry,
                None => {
                    let number = self.shapes.write().number(shape_of(&columns, &states));
                    let valued = (0..states.len() as u16).filter(|i| states[*i as usize] == VALUE).collect();
                    known.entry(states.clone()).or_insert((number, valued))
                }
            };
            numbers.push(*number);
            masks.push(valued.clone());
        }
        RowShapes::Each(numbers, masks)
    }

    /// Appends rows; `shape(index)` says the shape of the row at `index` of those appended, and which of
    /// `sources` it has values of if not all.
    fn append<'s>(
        &self,
        keys: &PreparedKeys<'_>,
        rows: Option<&[u32]>,
        sequence: u64,
        shape: impl Fn(usize) -> (u32, Option<&'s [u16]>),
        sources: &[&CellSource<'_>],
    ) {
        let (series, times) = (series_of(keys), times_of(keys));
        let count = rows.map_or(keys.rows, <[u32]>::len);
        let row_at = |index: usize| rows.map_or(index, |rows| rows[index] as usize);
        let delta = u32::try_from(sequence - self.base_sequence).expect("memtables are flushed long before");
        let (mut first_ns, mut last_ns) = (i64::MAX, i64::MIN);
        // Indexes by stripe, in order within each.
        let mut begins = [0_u32; STRIPES + 1];
        for index in 0..count {
            let row = row_at(index);
            begins[stripe_of(series[row]) + 1] += 1;
            first_ns = first_ns.min(times[row]);
            last_ns = last_ns.max(times[row]);
        }
        (0..STRIPES).for_each(|stripe| begins[stripe + 1] += begins[stripe]);
        let mut order = vec![0_u32; count];
        let mut next = begins;
        for index in 0..count {
            let place = &mut next[stripe_of(series[row_at(index)])];
            order[*place as usize] = index as u32;
            *place += 1;
        }
        self.first_time_ns.fetch_min(first_ns, Ordering::AcqRel);
        self.last_time_ns.fetch_max(last_ns, Ordering::AcqRel);
        for stripe in 0..STRIPES {
            let indexes = &order[begins[stripe] as usize..begins[stripe + 1] as usize];
            if indexes.is_empty() {
                continue;
            }
            let mut guard = self.stripes[stripe].lock();
            let stripe = &mut *guard;
            for index in indexes {
                let index = *index as usize;
                let row = row_at(index);
                let (shape, valued) = shape(index);
                let values = valued.map_or(sources.len(), <[u16]>::len);
                let address = stripe.append(series[row], times[row], shape, values);
                let words = stripe.words.get_mut(address, ROW_WORDS + values);
                words[0] = times[row] as u64;
                words[1] = delta.into();
                match valued {
                    None => {
                        for (word, source) in words[ROW_WORDS..].iter_mut().zip(sources) {
                            *word = cell_word(source, row, &mut stripe.bytes);
                        }
                    }
                    Some(valued) => {
                        for (word, source) in words[ROW_WORDS..].iter_mut().zip(valued) {
                            *word = cell_word(sources[*source as usize], row, &mut stripe.bytes);
                        }
                    }
                }
            }
            let grown = stripe.grown_bytes();
            drop(guard);
            self.memory_bytes.fetch_add(grown, Ordering::Relaxed);
        }
        self.rows.fetch_add(count as u64, Ordering::AcqRel);
    }

    /// All series with rows, ascending.
    pub(crate) fn series(&self) -> Vec<SeriesId> {
        let mut series = Vec::new();
        for stripe in &self.stripes {
            series.extend(stripe.lock().slots.iter().map(|slot| SeriesId(slot.series)));
        }
        series.sort_unstable();
        series
    }

    /// The rows of a series in a range of times, one per time.
    pub(crate) fn read(
        &self,
        series: SeriesId,
        time: TimeRange,
        wanted: &Wanted,
        visibility: &Visibility<'_>,
    ) -> Piece<Vec<i64>> {
        let tombstones: Vec<(u64, TimeRange)> = visibility
            .tombstones
            .iter()
            .filter_map(|tombstone| Some((tombstone.sequence, tombstone.times_of(series)?)))
            .collect();
        let visible = |time_ns: i64, sequence: u64| {
            time.contains(time_ns)
                && sequence <= visibility.sequence
                && !tombstones.iter().any(|(until, range)| sequence <= *until && range.contains(time_ns))
        };
        let mut reader = PieceReader::new(wanted);
        let shapes = self.shapes.read();
        let guard = self.stripes[stripe_of(series.0)].lock();
        let Some(slot) = guard.find(series.0).copied() else { return reader.piece };
        let mut page = slot.head;
        if slot.in_order && guard.words.get(slot.tail, FIRST_ROW_WORDS)[HEADER_WORDS] as i64 <= time.start_ns
        {
            page = slot.tail;
        }
        reader.reserve(slot.rows as usize);
        while page != NO_PAGE {
            let header = guard.words.get(page, HEADER_WORDS);
            let next = header[0] as u32;
            let rows = if page == slot.tail { slot.tail_rows } else { (header[0] >> 32) as u16 };
            let shape = shapes.get(header[1] as u32);
            let row_words = ROW_WORDS + shape.values.len();
            let words = guard.words.get(page + HEADER_WORDS as u32, usize::from(rows) * row_words);
            let last_ns = words[words.len() - row_words] as i64;
            if !slot.in_order || (last_ns >= time.start_ns && (words[0] as i64) < time.end_ns) {
                reader.read_page(words, row_words, shape, header[1] as u32, &guard.bytes, |words| {
                    visible(words[0] as i64, self.base_sequence + words[1])
                });
            } else if slot.in_order && words[0] as i64 >= time.end_ns {
                break;
            }
            page = next;
        }
        drop(guard);
        reader.finish(slot.in_order)
    }

    /// A time from which on there are at least `rows` rows of a series, if it has so many and keeps them in
    /// order; the newest page of more if that is easier.
    pub(crate) fn newest_rows_from(&self, series: SeriesId, rows: usize) -> Option<i64> {
        // Locked in this order everywhere.
        let shapes = self.shapes.read();
        let guard = self.stripes[stripe_of(series.0)].lock();
        let slot = guard.find(series.0).copied()?;
        let first = usize::from(slot.tail_rows).checked_sub(rows).filter(|_| slot.in_order)?;
        let header = guard.words.get(slot.tail, HEADER_WORDS);
        let shape = header[1] as u32;
        let row_words = ROW_WORDS + shapes.get(shape).values.len();
        let row = slot.tail + (HEADER_WORDS + first * row_words) as u32;
        Some(guard.words.get(row, ROW_WORDS)[0] as i64)
    }
}

enum RowShapes {
    One(u32),
    Each(Vec<u32>, Vec<Arc<[u16]>>),
}

fn series_of<'a>(keys: &PreparedKeys<'a>) -> &'a [u32] {
    match keys.columns[0].0 {
        CellSource::UInt32(series) => series,
        _ => unreachable!("the first key column is the series"),
    }
}

fn times_of<'a>(keys: &PreparedKeys<'a>) -> &'a [i64] {
    match keys.columns[1].0 {
        CellSource::Int64(times) => times,
        _ => unreachable!("the second key column is the time"),
    }
}

#[inline]
fn cell_word(source: &CellSource<'_>, row: usize, bytes: &mut ByteArena) -> u64 {
    match source.kind() {
        Kind::Word => source.word(row),
        Kind::Wide => bytes.insert(&source.wide(row).to_le_bytes()),
        Kind::Bytes => bytes.insert(source.bytes(row)),
    }
}

impl Stripe {
    fn find(&self, series: u32) -> Option<&Slot> {
        let number =
            self.by_series.find(hash(series), |number| self.slots[*number as usize].series == series)?;
        Some(&self.slots[*number as usize])
    }

    /// Makes room for a row of a series; returns its address.
    fn append(&mut self, series: u32, time_ns: i64, shape: u32, values: usize) -> u32 {
        let Self { slots, by_series, words, .. } = self;
        let entry = by_series.entry(
            hash(series),
            |number| slots[*number as usize].series == series,
            |number| hash(slots[*number as usize].series),
        );
        let number = match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let number = slots.len() as u32;
                entry.insert(number);
                slots.push(Slot {
                    series,
                    head: NO_PAGE,
                    tail: NO_PAGE,
                    rows: 0,
                    tail_rows: 0,
                    tail_capacity: 0,
                    tail_shape: shape,
                    last_time_ns: i64::MIN,
                    in_order: true,
                });
                number
            }
        };
        let slot = &mut slots[number as usize];
        let row_words = ROW_WORDS + values;
        if slot.tail_rows == slot.tail_capacity || slot.tail_shape != shape {
            let capacity = slot.rows.clamp(1, PAGE_ROWS_MAX);
            let page = words.allocate(HEADER_WORDS + capacity as usize * row_words);
            let header = words.get_mut(page, HEADER_WORDS);
            header[0] = u64::from(NO_PAGE);
            header[1] = shape.into();
            if slot.tail == NO_PAGE {
                slot.head = page;
            } else {
                words.get_mut(slot.tail, 1)[0] = u64::from(page) | u64::from(slot.tail_rows) << 32;
            }
            (slot.tail, slot.tail_shape) = (page, shape);
            (slot.tail_rows, slot.tail_capacity) = (0, capacity as u16);
        }
        let address = slot.tail + (HEADER_WORDS + usize::from(slot.tail_rows) * row_words) as u32;
        slot.in_order &= slot.rows == 0 || time_ns > slot.last_time_ns;
        slot.last_time_ns = slot.last_time_ns.max(time_ns);
        slot.tail_rows += 1;
        slot.rows += 1;
        address
    }

    /// How much it grew since it was asked before.
    fn grown_bytes(&mut self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Slot>() + self.by_series.capacity() * 5;
        let now = (slots + self.words.memory_bytes() + self.bytes.memory_bytes()) as u64;
        let grown = now - self.memory_bytes;
        self.memory_bytes = now;
        grown
    }
}

/// Copies rows out of pages.
struct PieceReader<'a> {
    wanted: &'a Wanted,
    piece: Piece<Vec<i64>>,
    sequences: Vec<u64>,
    places: Vec<CellPlace>,
    places_of: Option<u32>,
}

impl<'a> PieceReader<'a> {
    fn new(wanted: &'a Wanted) -> Self {
        let piece = Piece::empty(&wanted.kinds);
        Self { wanted, piece, sequences: Vec::new(), places: Vec::new(), places_of: None }
    }

    fn read_page(
        &mut self,
        words: &[u64],
        row_words: usize,
        shape: &Shape,
        shape_number: u32,
        bytes: &ByteArena,
        visible: impl Fn(&[u64]) -> bool,
    ) {
        if self.places_of != Some(shape_number) {
            self.places = self.wanted.columns.iter().map(|(column, _)| shape.place(*column)).collect();
            self.places_of = Some(shape_number);
        }
        let before = self.piece.keys.len();
        // The page's visible rows: found once, not for each column.
        let mut visible_rows = [0_u32; PAGE_ROWS_MAX as usize];
        let mut count = 0;
        for (index, row) in words.chunks_exact(row_words).enumerate() {
            if visible(row) {
                visible_rows[count] = (index * row_words) as u32;
                count += 1;
                self.piece.keys.push(row[0] as i64);
                self.sequences.push(row[1]);
            }
        }
        if count == 0 {
            return;
        }
        let rows = &visible_rows[..count];
        if shape.deletes {
            let markers = self.piece.markers.get_or_insert_with(Vec::new);
            markers.resize(before, UPSERTED);
            markers.resize(before + count, DELETED);
        } else if let Some(markers) = &mut self.piece.markers {
            markers.resize(before + count, UPSERTED);
        }
        for ((column, kind), place) in self.piece.columns.iter_mut().zip(&self.wanted.kinds).zip(&self.places)
        {
            let word = match place {
                CellPlace::State(state) => {
                    column.push_state(*state, count);
                    continue;
                }
                CellPlace::Word(word) => ROW_WORDS + word,
            };
            let cells = rows.iter().map(|row| words[*row as usize + word]);
            match kind {
                Kind::Word => column.extend_words(cells),
                Kind::Wide => cells.for_each(|cell| {
                    let wide = bytes.get(cell).try_into().expect("16 bytes were put in");
                    column.push_wide(i128::from_le_bytes(wide));
                }),
                Kind::Bytes => cells.for_each(|cell| column.push_bytes(bytes.get(cell))),
            }
        }
    }

    /// Makes room for rows.
    fn reserve(&mut self, rows: usize) {
        let rows = rows.min(RESERVED_ROWS_MAX);
        self.piece.keys.reserve(rows);
        self.sequences.reserve(rows);
        self.piece.columns.iter_mut().for_each(|column| column.reserve_words(rows));
    }

    fn finish(mut self, in_order: bool) -> Piece<Vec<i64>> {
        let piece = &mut self.piece;
        if in_order || piece.keys.is_sorted_by(|a, b| a < b) {
            return self.piece;
        }
        let mut order: Vec<u32> = (0..piece.keys.len() as u32).collect();
        order.sort_by_key(|row| (piece.keys[*row as usize], self.sequences[*row as usize]));
        let sorted = Piece {
            keys: order.iter().map(|row| piece.keys[*row as usize]).collect(),
            markers: piece
                .markers
                .as_ref()
                .map(|markers| order.iter().map(|row| markers[*row as usize]).collect()),
            columns: piece.columns.iter().map(|column: &Column| column.take(&order)).collect(),
        };
        collapse(sorted, &self.wanted.kinds)
    }
}
