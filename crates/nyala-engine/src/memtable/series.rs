//! The memtable of series-keyed tables: per series a chain of pages of rows.
//!
//! ```text
//! page    next page (32 bits) | rows (16) | 0 (16)
//!         shape
//!         row: time | sequence − base | a word per value of the shape (strings, decimals: a place in the byte arena)
//!         row: …
//! packed  next page (32 bits) | rows (16) | 1 (16)
//!         shape | place in the byte arena | least time | greatest time
//! ```
//! New rows are kept whole, so that appending one touches two or three cache lines however many columns it
//! has. The last page of a series has room for 1, 4, then 16 rows, so that an idle series costs little; once
//! full it is packed (see `packed`), so that a memtable holds hours instead of minutes and a flush writes long
//! runs. Rows stand in the order they were applied; what is late or doubled is put in order by readers. Series
//! are spread over stripes, each with its lock and arenas; nothing is held while two stripes are locked.

use super::arena::{ByteArena, WordArena};
use super::packed::{PAGE_ROWS, PackedPage, pack};
use super::piece::PieceReader;
use super::shape::{Shape, Shapes, shape_of};
use super::{PreparedKeys, PreparedUpsert, Visibility, Wanted};
use crate::cells::{CellSource, Kind, VALUE};
use crate::merge::Piece;
use hashbrown::{HashMap, HashTable};
use nyala_core::{SeriesId, TimeRange};
use parking_lot::{Mutex, RwLock};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const STRIPES: usize = 16;
/// Series next to each other share a stripe in runs, so that batches in order touch it in runs.
const SERIES_PER_RUN: u32 = 64;
/// Rows that readers of some times make room for at once.
const RESERVED_ROWS_MAX: usize = 256;
/// Rows that a series' page has room for before it has room for a whole page.
const GROWING_ROWS: usize = 4;
const NO_PAGE: u32 = u32::MAX;
const HEADER_WORDS: usize = 2;
const PACKED_WORDS: usize = 5;
const PACKED: u64 = 1 << 48;
/// Time and sequence.
pub(super) const ROW_WORDS: usize = 2;
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
    /// Pages given up, by their words.
    free: HashMap<usize, Vec<u32>>,
    /// The slot used last: batches name series in the order in which they first came.
    last_slot: usize,
    memory_bytes: u64,
    packing: Packing,
}

/// Buffers that live as long as the stripe.
#[derive(Default)]
struct Packing {
    rows: Vec<u64>,
    bytes: Vec<u8>,
}

/// What is kept of a series besides its pages.
#[derive(Clone, Copy)]
struct Slot {
    series: u32,
    head: u32,
    /// The page before the tail.
    before: u32,
    /// The page that rows are added to.
    tail: u32,
    rows: u32,
    tail_rows: u16,
    tail_capacity: u16,
    tail_shape: u32,
    tail_row_words: u32,
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
                let (page, offset) = stripe.append(series[row], times[row], shape, values);
                let words = &mut stripe.words.get_mut(page, offset + ROW_WORDS + values)[offset..];
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
        let Some(slot) = guard.find(series.0).copied() else { return reader.finish(true) };
        let mut page = slot.head;
        if slot.in_order && guard.words.get(slot.tail, FIRST_ROW_WORDS)[HEADER_WORDS] as i64 <= time.start_ns
        {
            page = slot.tail;
        }
        let rows_most = if time == TimeRange::ALL { usize::MAX } else { RESERVED_ROWS_MAX };
        reader.reserve(rows_most.min(slot.rows as usize));
        while page != NO_PAGE {
            let header = guard.words.get(page, HEADER_WORDS);
            let (next, number) = (header[0] as u32, header[1] as u32);
            let rows = if page == slot.tail { slot.tail_rows } else { (header[0] >> 32) as u16 };
            let shape = shapes.get(number);
            let row_words = ROW_WORDS + shape.values.len();
            let is_packed = header[0] & PACKED != 0;
            let (words, first_ns, last_ns) = if is_packed {
                let words = guard.words.get(page, PACKED_WORDS);
                (words, words[3] as i64, words[4] as i64)
            } else {
                let words = guard.words.get(page + HEADER_WORDS as u32, usize::from(rows) * row_words);
                (words, words[0] as i64, words[words.len() - row_words] as i64)
            };
            if slot.in_order && first_ns >= time.end_ns {
                break;
            }
            page = next;
            if slot.in_order && last_ns < time.start_ns {
                continue;
            }
            reader.look_up(shape, number);
            if is_packed {
                let bytes = guard.bytes.get(words[2]);
                let packed =
                    PackedPage { rows: rows.into(), least_ns: first_ns, most_ns: last_ns, row_words, bytes };
                reader.read_packed(packed, shape.deletes, &guard.bytes, |time_ns, delta| {
                    visible(time_ns, self.base_sequence + delta)
                });
            } else {
                reader.read_page(words, row_words, shape.deletes, &guard.bytes, |words| {
                    visible(words[0] as i64, self.base_sequence + words[1])
                });
            }
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

impl Slot {
    fn new(series: u32, shape: u32) -> Self {
        Self {
            series,
            head: NO_PAGE,
            before: NO_PAGE,
            tail: NO_PAGE,
            rows: 0,
            tail_rows: 0,
            tail_capacity: 0,
            tail_shape: shape,
            tail_row_words: 0,
            last_time_ns: i64::MIN,
            in_order: true,
        }
    }
}

impl Stripe {
    fn find(&self, series: u32) -> Option<&Slot> {
        let number =
            self.by_series.find(hash(series), |number| self.slots[*number as usize].series == series)?;
        Some(&self.slots[*number as usize])
    }

    /// Makes room for a row of a series; returns its page and where in it the row is.
    fn append(&mut self, series: u32, time_ns: i64, shape: u32, values: usize) -> (u32, usize) {
        let guess = self.last_slot + 1;
        let number = match self.slots.get(guess) {
            Some(slot) if slot.series == series => guess,
            _ => self.find_or_add(series, shape),
        };
        self.last_slot = number;
        let row_words = ROW_WORDS + values;
        let slot = &self.slots[number];
        if slot.tail_rows == slot.tail_capacity || slot.tail_shape != shape {
            self.open_page(number, shape, row_words);
        }
        let slot = &mut self.slots[number];
        let offset = HEADER_WORDS + usize::from(slot.tail_rows) * row_words;
        slot.in_order &= slot.rows == 0 || time_ns > slot.last_time_ns;
        slot.last_time_ns = slot.last_time_ns.max(time_ns);
        slot.tail_rows += 1;
        slot.rows += 1;
        (slot.tail, offset)
    }

    fn find_or_add(&mut self, series: u32, shape: u32) -> usize {
        let Self { slots, by_series, .. } = self;
        let entry = by_series.entry(
            hash(series),
            |number| slots[*number as usize].series == series,
            |number| hash(slots[*number as usize].series),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get() as usize,
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let number = slots.len();
                entry.insert(number as u32);
                slots.push(Slot::new(series, shape));
                number
            }
        }
    }

    /// Gives a series a tail with room for a row of a shape.
    fn open_page(&mut self, number: usize, shape: u32, row_words: usize) {
        let mut slot = self.slots[number];
        let capacity = match slot.rows as usize {
            0 => 1,
            rows if rows < GROWING_ROWS => GROWING_ROWS,
            _ => PAGE_ROWS,
        };
        let page_words = HEADER_WORDS + capacity * row_words;
        let old_words = HEADER_WORDS + usize::from(slot.tail_capacity) * slot.tail_row_words as usize;
        if slot.tail == NO_PAGE {
            slot.tail = self.take_page(page_words);
            self.link(&mut slot, NO_PAGE);
        } else if slot.tail_shape == shape && usize::from(slot.tail_capacity) < PAGE_ROWS {
            let (old, used) = (slot.tail, HEADER_WORDS + usize::from(slot.tail_rows) * row_words);
            slot.tail = self.take_page(page_words);
            let mut rows = std::mem::take(&mut self.packing.rows);
            rows.clear();
            rows.extend_from_slice(self.words.get(old, used));
            self.words.get_mut(slot.tail, used).copy_from_slice(&rows);
            self.packing.rows = rows;
            self.free.entry(old_words).or_default().push(old);
            let before = slot.before;
            self.link(&mut slot, before);
            (slot.tail_capacity, slot.tail_row_words) = (capacity as u16, row_words as u32);
            self.slots[number] = slot;
            return;
        } else {
            let closed = self.close(&mut slot);
            if closed == slot.tail {
                slot.tail = self.take_page(page_words);
            } else if old_words != page_words {
                self.free.entry(old_words).or_default().push(slot.tail);
                slot.tail = self.take_page(page_words);
            }
            self.link(&mut slot, closed);
        }
        let header = self.words.get_mut(slot.tail, HEADER_WORDS);
        (header[0], header[1]) = (u64::from(NO_PAGE), shape.into());
        (slot.tail_rows, slot.tail_capacity) = (0, capacity as u16);
        (slot.tail_shape, slot.tail_row_words) = (shape, row_words as u32);
        self.slots[number] = slot;
    }

    /// Puts the tail behind a page.
    fn link(&mut self, slot: &mut Slot, before: u32) {
        slot.before = before;
        if before == NO_PAGE {
            slot.head = slot.tail;
        } else {
            let header = &mut self.words.get_mut(before, 1)[0];
            *header = *header & !u64::from(u32::MAX) | u64::from(slot.tail);
        }
    }

    /// Ends the tail as a page that stays, packed if that is smaller, in the tail's place; returns it.
    fn close(&mut self, slot: &mut Slot) -> u32 {
        let (rows, row_words) = (usize::from(slot.tail_rows), slot.tail_row_words as usize);
        let words = self.words.get(slot.tail + HEADER_WORDS as u32, rows * row_words);
        let (least_ns, most_ns) = pack(words, row_words, &mut self.packing.bytes);
        let rows_word = (rows as u64) << 32;
        if self.packing.bytes.len() + (PACKED_WORDS - HEADER_WORDS) * 8 >= words.len() * 8 {
            let header = &mut self.words.get_mut(slot.tail, 1)[0];
            *header = u64::from(NO_PAGE) | rows_word;
            return slot.tail;
        }
        let place = self.bytes.insert(&self.packing.bytes);
        let page = self.words.allocate(PACKED_WORDS);
        let header = [
            u64::from(NO_PAGE) | rows_word | PACKED,
            slot.tail_shape.into(),
            place,
            least_ns as u64,
            most_ns as u64,
        ];
        self.words.get_mut(page, PACKED_WORDS).copy_from_slice(&header);
        if slot.before == NO_PAGE {
            slot.head = page;
        } else {
            let before = &mut self.words.get_mut(slot.before, 1)[0];
            *before = *before & !u64::from(u32::MAX) | u64::from(page);
        }
        page
    }

    fn take_page(&mut self, words: usize) -> u32 {
        let free = self.free.get_mut(&words).and_then(Vec::pop);
        free.unwrap_or_else(|| self.words.allocate(words))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_larger_than_a_chunk_of_the_arena_hold_their_rows() {
        const VALUES: usize = 1000;
        let row_words = ROW_WORDS + VALUES;
        let mut stripe = Stripe::default();
        let word = |series: u32, row: u64| u64::from(series) << 32 | row;
        for row in 0..14_u64 {
            for series in [3, 9, 4] {
                let (page, offset) = stripe.append(series, row as i64, 0, VALUES);
                stripe.words.get_mut(page, offset + row_words)[offset..].fill(word(series, row));
            }
        }
        for series in [3, 9, 4] {
            let slot = *stripe.find(series).expect("was added");
            assert_eq!((slot.head, slot.tail_rows), (slot.tail, 14));
            let words = stripe.words.get(slot.tail + HEADER_WORDS as u32, 14 * row_words);
            for (row, words) in words.chunks_exact(row_words).enumerate() {
                assert!(words.iter().all(|found| *found == word(series, row as u64)), "{series} {row}");
            }
        }
    }
}
