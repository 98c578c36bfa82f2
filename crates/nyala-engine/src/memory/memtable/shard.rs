//! A lock shard of a memtable: series that share a lock. Each series has its first rows one by one, then a chain of
//! pages.
//!
//! ```text
//! entry    0: no rows | rows (3 bits, above 28): the address of the last of so many | the highest bit: a slot
//! first   time | the entry before (32 bits), shape (10), sequence − base (22) | a word per value of the shape
//! page    next page (32 bits) | rows (16) | 0 (16)
//!         shape (32 bits) | the page before (32)
//!         row: time | sequence − base | a word per value of the shape (strings, decimals: a place in the byte arena)
//!         row: …
//! packed  next page (32 bits) | rows (16) | 1 (16)
//!         shape, the page before | place in the byte arena | least time | greatest time
//! ```
//! New rows are kept whole, so that appending one touches two or three cache lines however many columns it has. Of a
//! million series most have a row or two when memory is full, so the first rows of a series cost nothing but themselves
//! and its entry (see `series_index`), written one after the other as they come. A series of more rows gets a slot and
//! pages: one that is full is packed (see `packed`), so that a memtable holds hours instead of minutes and a flush
//! writes long runs.

pub(crate) mod newest;

use super::arena::{ByteArena, WordArena};
use super::packed::{PAGE_ROWS, PackedPage, pack};
use super::row_collector::RowCollector;
use super::series_index::SeriesIndex;
use super::shape::{ROW_WORDS, Shapes};
use hashbrown::HashMap;
use nyala_core::TimeRange;

/// First rows of a series, at most.
const FIRST_ROWS: usize = 7;
/// Bits of a first row's address.
const ADDRESS_BITS: u32 = 28;
/// Set in an entry: the rest is the number of a slot.
const IN_SLOT: u32 = 1 << 31;
/// Bits of the sequence of a first row, less the base.
pub(super) const DELTA_BITS: u32 = 22;
const SHAPE_BITS: u32 = 10;
const NO_PAGE: u32 = u32::MAX;
const HEADER_WORDS: usize = 2;
const PACKED_WORDS: usize = 5;
const PACKED: u64 = 1 << 48;
/// A page's header and the first words of its first row.
const FIRST_ROW_WORDS: usize = HEADER_WORDS + ROW_WORDS;

#[derive(Default)]
pub(super) struct Shard {
    pub(super) index: SeriesIndex,
    slots: Vec<Slot>,
    pub(super) words: WordArena,
    pub(super) bytes: ByteArena,
    /// Pages given up, by their words.
    free: HashMap<usize, Vec<u32>>,
    memory_bytes: u64,
    packing: Packing,
}

/// Buffers that live as long as the shard.
#[derive(Default)]
struct Packing {
    bytes: Vec<u8>,
}

/// What is kept of a series that has pages.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The entry that its first rows had.
    first_rows: u32,
    first_page: u32,
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
    /// How many seconds any row was at most behind one that came before it.
    seconds_late: u32,
}

/// Where the rows of a series are.
enum RowLocation {
    Nowhere,
    /// First rows: their number and the address of the last.
    First(usize, u32),
    /// Its number.
    Slot(usize),
}

impl RowLocation {
    fn of(entry: u32) -> Self {
        match (entry & IN_SLOT, entry >> ADDRESS_BITS) {
            (0, 0) => RowLocation::Nowhere,
            (0, rows) => RowLocation::First(rows as usize, entry & ((1 << ADDRESS_BITS) - 1)),
            _ => RowLocation::Slot((entry & !IN_SLOT) as usize),
        }
    }
}

/// Addresses of a series' first rows, in the order they came.
struct FirstRows {
    addresses: [u32; FIRST_ROWS],
    begin: usize,
}

impl FirstRows {
    fn rows(&self) -> &[u32] {
        &self.addresses[self.begin..]
    }
}

/// Where the words of a new row go, and its second word.
pub(super) struct Room {
    pub(super) item: u32,
    pub(super) offset: usize,
    pub(super) mark: u64,
}

impl Shard {
    /// A time from which on there are at least `rows` rows of a series, if it keeps them in order.
    pub(super) fn newest_rows_from(&self, series: u32, rows: usize, shapes: &Shapes) -> Option<i64> {
        let entry = self.index.get(series);
        let RowLocation::Slot(number) = RowLocation::of(entry) else {
            let places = self.first_rows(entry);
            let times = || places.rows().iter().map(|row| self.words.get(*row, 1)[0] as i64);
            let first =
                places.rows().len().checked_sub(rows).filter(|_| times().is_sorted_by(|a, b| a < b))?;
            return times().nth(first);
        };
        let slot = self.slots[number];
        let first = usize::from(slot.tail_rows).checked_sub(rows).filter(|_| slot.in_order)?;
        let header = self.words.get(slot.tail, HEADER_WORDS);
        let shape = header[1] as u32;
        let row_words = ROW_WORDS + shapes.get(shape).values.len();
        // From the page on: a long one is one place, whose words have no places of their own.
        let row = HEADER_WORDS + first * row_words;
        Some(self.words.get(slot.tail, row + 1)[row] as i64)
    }

    /// How many rows an entry leads to.
    pub(super) fn row_count(&self, entry: u32) -> usize {
        match RowLocation::of(entry) {
            RowLocation::Nowhere => 0,
            RowLocation::First(rows, _) => rows,
            RowLocation::Slot(number) => self.slots[number].rows as usize,
        }
    }

    /// The addresses of first rows; none for the entry of a slot.
    fn first_rows(&self, mut entry: u32) -> FirstRows {
        let mut found = FirstRows { addresses: [0; FIRST_ROWS], begin: FIRST_ROWS };
        while let RowLocation::First(_, address) = RowLocation::of(entry) {
            found.begin -= 1;
            found.addresses[found.begin] = address;
            entry = (self.words.get(address, ROW_WORDS)[1] >> 32) as u32;
        }
        found
    }

    /// Makes room for a row of a series, `delta` sequences after the base.
    #[inline]
    pub(super) fn append(
        &mut self,
        series: u32,
        time_ns: i64,
        shape: u32,
        delta: u32,
        values: usize,
    ) -> Room {
        let row_words = ROW_WORDS + values;
        let entry = self.index.get_mut(series);
        let number = match RowLocation::of(*entry) {
            RowLocation::Slot(number) => number,
            place => {
                let rows = if let RowLocation::First(rows, _) = place { rows } else { 0 };
                let fits = rows < FIRST_ROWS && delta < 1 << DELTA_BITS && shape < 1 << SHAPE_BITS;
                if fits && self.words.end_after_next_chunk() <= 1 << ADDRESS_BITS {
                    let address = self.words.allocate(row_words);
                    let mark = u64::from(*entry) << 32 | u64::from(shape << DELTA_BITS | delta);
                    *entry = (rows as u32 + 1) << ADDRESS_BITS | address;
                    return Room { item: address, offset: 0, mark };
                }
                let first_rows = std::mem::replace(entry, IN_SLOT | self.slots.len() as u32);
                self.add_slot(first_rows, shape)
            }
        };
        let slot = &self.slots[number];
        if slot.tail_rows == slot.tail_capacity || slot.tail_shape != shape {
            self.open_page(number, shape, row_words);
        }
        let slot = &mut self.slots[number];
        let offset = HEADER_WORDS + usize::from(slot.tail_rows) * row_words;
        if slot.rows > 0 && time_ns <= slot.last_time_ns {
            slot.in_order = false;
            slot.seconds_late = slot.seconds_late.max(newest::seconds_late(time_ns, slot.last_time_ns));
        }
        slot.last_time_ns = slot.last_time_ns.max(time_ns);
        slot.tail_rows += 1;
        slot.rows += 1;
        Room { item: slot.tail, offset, mark: delta.into() }
    }

    /// Prefetches the place of a series' next row, if it is easy to tell: rows of many series lie far apart, and
    /// writing one after the other would wait for memory each time.
    #[inline]
    pub(super) fn fetch(&self, series: u32) {
        let RowLocation::Slot(number) = RowLocation::of(self.index.near(series)) else { return };
        let slot = &self.slots[number];
        let row_words = slot.tail_row_words as usize;
        let written = HEADER_WORDS + usize::from(slot.tail_rows) * row_words;
        if slot.tail_rows < slot.tail_capacity {
            self.words.fetch(slot.tail, written..written + row_words);
        } else if slot.tail != NO_PAGE {
            // It is about to be packed.
            self.words.fetch(slot.tail, 0..written);
        }
    }

    fn add_slot(&mut self, first_rows: u32, shape: u32) -> usize {
        let (mut rows, mut last_time_ns, mut in_order, mut seconds_late) = (0, i64::MIN, true, 0);
        for row in self.first_rows(first_rows).rows() {
            let time_ns = self.words.get(*row, 1)[0] as i64;
            if rows > 0 && time_ns <= last_time_ns {
                in_order = false;
                seconds_late = newest::seconds_late(time_ns, last_time_ns).max(seconds_late);
            }
            last_time_ns = last_time_ns.max(time_ns);
            rows += 1;
        }
        self.slots.push(Slot {
            first_rows,
            first_page: NO_PAGE,
            before: NO_PAGE,
            tail: NO_PAGE,
            rows,
            tail_rows: 0,
            tail_capacity: 0,
            tail_shape: shape,
            tail_row_words: 0,
            last_time_ns,
            in_order,
            seconds_late,
        });
        self.slots.len() - 1
    }

    /// Whether the rows of a series surely came in order of time.
    pub(super) fn is_in_order(&self, series: u32) -> bool {
        match RowLocation::of(self.index.get(series)) {
            RowLocation::Nowhere => true,
            RowLocation::First(..) => self.row_count(self.index.get(series)) < 2,
            RowLocation::Slot(number) => self.slots[number].in_order,
        }
    }

    /// Passes the visible rows of an entry to a collector, in the order they came; returns whether their times rise.
    pub(super) fn gather(
        &self,
        entry: u32,
        time: TimeRange,
        shapes: &Shapes,
        base_sequence: u64,
        visible: impl Fn(i64, u64) -> bool,
        reader: &mut RowCollector<'_>,
    ) -> bool {
        let slot = match RowLocation::of(entry) {
            RowLocation::Nowhere => return true,
            RowLocation::First(..) => {
                self.gather_first(entry, shapes, base_sequence, visible, reader);
                return false;
            }
            RowLocation::Slot(number) => self.slots[number],
        };
        let mut page = slot.first_page;
        if slot.in_order && self.words.get(slot.tail, FIRST_ROW_WORDS)[HEADER_WORDS] as i64 <= time.start_ns {
            page = slot.tail;
        } else {
            self.gather_first(slot.first_rows, shapes, base_sequence, &visible, reader);
        }
        while page != NO_PAGE {
            let header = self.words.get(page, HEADER_WORDS);
            let (next, number) = (header[0] as u32, header[1] as u32);
            let rows = if page == slot.tail { slot.tail_rows } else { (header[0] >> 32) as u16 };
            let shape = shapes.get(number);
            let row_words = ROW_WORDS + shape.values.len();
            let is_packed = header[0] & PACKED != 0;
            let (words, first_ns, last_ns) = if is_packed {
                let words = self.words.get(page, PACKED_WORDS);
                (words, words[3] as i64, words[4] as i64)
            } else {
                let words = self.words.get(page + HEADER_WORDS as u32, usize::from(rows) * row_words);
                (words, words[0] as i64, words[words.len() - row_words] as i64)
            };
            if slot.in_order && first_ns >= time.end_ns {
                break;
            }
            page = next;
            // The ends of a page of whole rows are its bounds only if these are in order.
            let bounded = slot.in_order || is_packed;
            if bounded && (last_ns < time.start_ns || first_ns >= time.end_ns) {
                continue;
            }
            reader.look_up(shape, number);
            if is_packed {
                let bytes = self.bytes.get(words[2]);
                let packed =
                    PackedPage { rows: rows.into(), least_ns: first_ns, most_ns: last_ns, row_words, bytes };
                reader.read_packed(packed, shape.deletes, &self.bytes, |time_ns, delta| {
                    visible(time_ns, base_sequence + delta)
                });
            } else {
                reader.read_page(words, row_words, shape.deletes, &self.bytes, |words| {
                    visible(words[0] as i64, base_sequence + words[1])
                });
            }
        }
        slot.in_order
    }

    fn gather_first(
        &self,
        entry: u32,
        shapes: &Shapes,
        base_sequence: u64,
        visible: impl Fn(i64, u64) -> bool,
        reader: &mut RowCollector<'_>,
    ) {
        for address in self.first_rows(entry).rows() {
            let mark = self.words.get(*address, ROW_WORDS)[1] as u32;
            let (number, delta) = (mark >> DELTA_BITS, u64::from(mark & ((1 << DELTA_BITS) - 1)));
            let shape = shapes.get(number);
            let words = self.words.get(*address, ROW_WORDS + shape.values.len());
            if visible(words[0] as i64, base_sequence + delta) {
                reader.look_up(shape, number);
                reader.read_row(words, delta, shape.deletes, &self.bytes);
            }
        }
    }

    /// Opens a page at the end of a series, with room for a row of a shape.
    fn open_page(&mut self, number: usize, shape: u32, row_words: usize) {
        let mut slot = self.slots[number];
        let page_words = HEADER_WORDS + PAGE_ROWS * row_words;
        let old_words = HEADER_WORDS + usize::from(slot.tail_capacity) * slot.tail_row_words as usize;
        if slot.tail == NO_PAGE {
            slot.tail = self.take_page(page_words);
            self.link(&mut slot, NO_PAGE);
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
        (header[0], header[1]) = (u64::from(NO_PAGE), u64::from(shape) | u64::from(slot.before) << 32);
        (slot.tail_rows, slot.tail_capacity) = (0, PAGE_ROWS as u16);
        (slot.tail_shape, slot.tail_row_words) = (shape, row_words as u32);
        self.slots[number] = slot;
    }

    /// Links the tail behind a page.
    fn link(&mut self, slot: &mut Slot, before: u32) {
        slot.before = before;
        if before == NO_PAGE {
            slot.first_page = slot.tail;
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
            u64::from(slot.tail_shape) | u64::from(slot.before) << 32,
            place,
            least_ns as u64,
            most_ns as u64,
        ];
        self.words.get_mut(page, PACKED_WORDS).copy_from_slice(&header);
        if slot.before == NO_PAGE {
            slot.first_page = page;
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

    /// By how many bytes it grew since the last call.
    pub(super) fn grown_bytes(&mut self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Slot>() + self.index.memory_bytes();
        let now = (slots + self.words.memory_bytes + self.bytes.memory_bytes) as u64;
        let grown = now - self.memory_bytes;
        self.memory_bytes = now;
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_larger_than_a_chunk_of_the_arena_are_held() {
        const VALUES: usize = 1000;
        let row_words = ROW_WORDS + VALUES;
        let rows = FIRST_ROWS + 14;
        let mut shard = Shard::default();
        let word = |series: u32, row: usize| u64::from(series) << 32 | row as u64;
        for row in 0..rows {
            for series in [3, 9, 4] {
                let room = shard.append(series, row as i64, 0, 5, VALUES);
                let words = &mut shard.words.get_mut(room.item, room.offset + row_words)[room.offset..];
                words.fill(word(series, row));
                (words[0], words[1]) = (row as u64, room.mark);
            }
        }
        for series in [3, 9, 4] {
            let entry = shard.index.get(series);
            assert_eq!(shard.row_count(entry), rows);
            let RowLocation::Slot(number) = RowLocation::of(entry) else { panic!("{entry}") };
            let slot = shard.slots[number];
            assert_eq!((slot.first_page, slot.tail_rows, slot.in_order), (slot.tail, 14, true));
            let first = shard.first_rows(slot.first_rows);
            let first = first.rows().iter().map(|row| shard.words.get(*row, row_words));
            let words = shard.words.get(slot.tail + HEADER_WORDS as u32, 14 * row_words);
            let all: Vec<&[u64]> = first.chain(words.chunks_exact(row_words)).collect();
            assert_eq!(all.len(), rows);
            for (row, words) in all.into_iter().enumerate() {
                assert_eq!(words[0], row as u64);
                let rest = &words[ROW_WORDS..];
                assert!(rest.iter().all(|found| *found == word(series, row)), "{series} {row}");
            }
        }
    }
}
