//! Finds the newest row of a series from its end. Rows come nearly in order of time, and the largest lateness says how
//! far back a newer row can be.

use super::{DELTA_BITS, HEADER_WORDS, NO_PAGE, PACKED, PACKED_WORDS, RowLocation, Shard, Slot};
use crate::memory::memtable::packed::{PAGE_ROWS, PackedPage};
use crate::memory::memtable::row_collector::push_cell;
use crate::memory::memtable::shape::{CellLocation, ROW_WORDS, Shapes};
use crate::rows::merge::RowBatch;
use crate::rows::projection::Projection;

/// Instead of a number of seconds: rows may be late by any time.
const LATE_MAX: u32 = u32::MAX;

/// Where the projected cells are in rows of the shape that was looked up last.
#[derive(Default)]
pub(crate) struct CellLocations {
    /// The base of the memtable's sequences and the number of the shape.
    of: Option<(u64, u32)>,
    locations: Vec<CellLocation>,
}

impl CellLocations {
    fn look_up(&mut self, base_sequence: u64, number: u32, shapes: &Shapes, projection: &Projection) {
        if self.of != Some((base_sequence, number)) {
            shapes.get(number).look_up(&projection.columns, &mut self.locations);
            self.of = Some((base_sequence, number));
        }
    }
}

/// How many seconds a row is later than one that came before it, rounded up.
pub(super) fn seconds_late(time_ns: i64, before_ns: i64) -> u32 {
    match before_ns.saturating_sub(time_ns) {
        ..=0 => 0,
        late_ns => u32::try_from(late_ns / 1_000_000_000 + 1).unwrap_or(LATE_MAX),
    }
}

/// Rows of a series that are stored together.
#[derive(Clone, Copy)]
enum StoredRows<'a> {
    /// A first row, with the sequence it has in its mark.
    First(&'a [u64], u64),
    /// Whole rows of so many words.
    Whole(&'a [u64], usize),
    Packed(PackedPage<'a>),
}

/// Stored rows, as the walk from the end of the series meets them.
#[derive(Clone, Copy)]
struct StoredRun<'a> {
    rows: StoredRows<'a>,
    shape: u32,
    /// No row that came before is later than this.
    before_ns: i64,
    /// The times of all rows of the series rise.
    in_order: bool,
}

impl StoredRun<'_> {
    /// Visits time, sequence less the base, and position of each row, the last first, until told to stop.
    fn visit(&self, mut visit: impl FnMut(i64, u64, usize) -> bool) {
        match self.rows {
            StoredRows::First(words, delta) => {
                visit(words[0] as i64, delta, 0);
            }
            StoredRows::Whole(words, row_words) => {
                for (position, row) in words.chunks_exact(row_words).enumerate().rev() {
                    if !visit(row[0] as i64, row[1], position) {
                        return;
                    }
                }
            }
            StoredRows::Packed(page) => {
                let (mut times, mut sequences, mut starts) = ([0; PAGE_ROWS], [0; PAGE_ROWS], Vec::new());
                page.starts(&mut starts);
                page.times(&starts, &mut times);
                page.words(&starts, 1, &mut sequences);
                for position in (0..page.rows).rev() {
                    if !visit(times[position] as i64, sequences[position], position) {
                        return;
                    }
                }
            }
        }
    }
}

impl Shard {
    /// The greatest time from `least_ns` on at which a series has a visible row.
    pub(in crate::memory::memtable) fn newest_time(
        &self,
        series: u32,
        least_ns: i64,
        shapes: &Shapes,
        visible: impl Fn(i64, u64) -> bool,
    ) -> Option<i64> {
        let mut newest: Option<i64> = None;
        self.visit_backwards(series, shapes, |run| {
            run.visit(|time_ns, delta, _| {
                let found = visible(time_ns, delta);
                newest = newest.max(found.then_some(time_ns));
                !(found && run.in_order)
            });
            run.before_ns >= least_ns && newest.is_none_or(|newest_ns| newest_ns < run.before_ns)
        });
        newest
    }

    /// Appends the visible row of a series at a time to a batch. False, and nothing is appended, if there are several
    /// or none, or it deletes older ones.
    pub(in crate::memory::memtable) fn append_at(
        &self,
        (series, time_ns): (u32, i64),
        base_sequence: u64,
        shapes: &Shapes,
        visible: impl Fn(i64, u64) -> bool,
        (projection, locations): (&Projection, &mut CellLocations),
        batch: &mut RowBatch<Vec<i64>>,
    ) -> bool {
        let (mut found, mut count) = (None, 0);
        self.visit_backwards(series, shapes, |run| {
            run.visit(|other_ns, delta, position| {
                if other_ns == time_ns && visible(other_ns, delta) {
                    (found, count) = (Some((run.rows, run.shape, position)), count + 1);
                }
                !(run.in_order && other_ns <= time_ns)
            });
            run.before_ns >= time_ns && !(run.in_order && count > 0)
        });
        let Some((rows, shape, position)) = found.filter(|_| count == 1) else { return false };
        if shapes.get(shape).deletes {
            return false;
        }
        locations.look_up(base_sequence, shape, shapes, projection);
        let (mut starts, mut words) = (Vec::new(), [0; PAGE_ROWS]);
        if let StoredRows::Packed(page) = rows {
            page.starts(&mut starts);
        }
        batch.keys.push(time_ns);
        for ((column, kind), location) in
            batch.columns.iter_mut().zip(&projection.kinds).zip(&locations.locations)
        {
            let word = match location {
                CellLocation::State(state) => {
                    column.push_state(*state, 1);
                    continue;
                }
                CellLocation::Word(word) => ROW_WORDS + word,
                CellLocation::Sequence => unreachable!("only flushes ask for sequences"),
            };
            let word = match rows {
                StoredRows::First(row, _) => row[word],
                StoredRows::Whole(rows, row_words) => rows[position * row_words + word],
                StoredRows::Packed(page) => {
                    page.words(&starts, word, &mut words);
                    words[position]
                }
            };
            push_cell(column, *kind, word, &self.bytes);
        }
        true
    }

    /// Goes from the last page of a series to its first row, until told to stop.
    fn visit_backwards<'a>(
        &'a self,
        series: u32,
        shapes: &Shapes,
        mut visit: impl FnMut(StoredRun<'a>) -> bool,
    ) {
        let mut entry = self.index.get(series);
        if let RowLocation::Slot(number) = RowLocation::of(entry) {
            let slot = &self.slots[number];
            let mut page = slot.tail;
            while page != NO_PAGE {
                let (run, before) = self.page(page, slot, shapes);
                if !visit(run) {
                    return;
                }
                page = before;
            }
            entry = slot.first_rows;
        }
        for address in self.first_rows(entry).rows().iter().rev() {
            let mark = self.words.get(*address, ROW_WORDS)[1] as u32;
            let (shape, delta) = (mark >> DELTA_BITS, u64::from(mark & ((1 << DELTA_BITS) - 1)));
            let words = self.words.get(*address, ROW_WORDS + shapes.get(shape).values.len());
            let rows = StoredRows::First(words, delta);
            if !visit(StoredRun { rows, shape, before_ns: i64::MAX, in_order: false }) {
                return;
            }
        }
    }

    /// A page of a slot, and the one before it.
    fn page(&self, page: u32, slot: &Slot, shapes: &Shapes) -> (StoredRun<'_>, u32) {
        let header = self.words.get(page, HEADER_WORDS);
        let (shape, before) = (header[1] as u32, (header[1] >> 32) as u32);
        let rows = if page == slot.tail { slot.tail_rows } else { (header[0] >> 32) as u16 };
        let row_words = ROW_WORDS + shapes.get(shape).values.len();
        let (rows, least_ns) = if header[0] & PACKED != 0 {
            let words = self.words.get(page, PACKED_WORDS);
            let (least_ns, most_ns) = (words[3] as i64, words[4] as i64);
            let bytes = self.bytes.get(words[2]);
            (
                StoredRows::Packed(PackedPage { rows: rows.into(), least_ns, most_ns, row_words, bytes }),
                least_ns,
            )
        } else {
            let words = self.words.get(page + HEADER_WORDS as u32, usize::from(rows) * row_words);
            let times = words.chunks_exact(row_words).map(|row| row[0] as i64);
            let least_ns = if slot.in_order { words[0] as i64 } else { times.min().unwrap_or(i64::MAX) };
            (StoredRows::Whole(words, row_words), least_ns)
        };
        let before_ns = match slot.seconds_late {
            LATE_MAX => i64::MAX,
            late => least_ns.saturating_add(i64::from(late) * 1_000_000_000),
        };
        (StoredRun { rows, shape, before_ns, in_order: slot.in_order }, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memtable::shape::Shape;

    /// The newest visible times and the rows at them are those that a search through all rows gives.
    #[test]
    fn the_newest_row_is_found_however_rows_come() {
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let projection = Projection::new(vec![(nyala_core::ColumnId(2), nyala_core::ColumnType::Int64)]);
        for round in 0..300 {
            let mut shapes = Shapes::default();
            let shape = |count: u32| Shape {
                deletes: false,
                values: (0..count).map(|id| nyala_core::ColumnId(2 + id)).collect(),
                nulls: Vec::new(),
            };
            let numbers = [shapes.number(shape(1)), shapes.number(shape(3))];
            let mut shard = Shard::default();
            let mut rows: Vec<(i64, u64, u64)> = Vec::new();
            for step in 0..random(120) {
                // In order, a little late, or very late.
                let late = match round % 3 {
                    0 => 0,
                    1 => random(4),
                    _ => random(40),
                };
                let time_ns = (step.saturating_sub(late) * 10_000_000_000) as i64;
                let number = numbers[usize::from(random(20) == 0)];
                let values = shapes.get(number).values.len();
                let appended = shard.append(1, time_ns, number, step as u32, values);
                let words = shard.words.get_mut(appended.item, appended.offset + ROW_WORDS + values);
                (words[appended.offset], words[appended.offset + 1]) = (time_ns as u64, appended.mark);
                words[appended.offset + ROW_WORDS..].fill(step);
                rows.push((time_ns, step, step));
            }
            for _ in 0..20 {
                let (until, end_ns) = (random(130), (random(130) * 10_000_000_000) as i64);
                let least_ns = end_ns - (random(130) * 10_000_000_000) as i64;
                let visible =
                    |time_ns: i64, delta: u64| delta <= until && (least_ns..end_ns).contains(&time_ns);
                let shown = rows.iter().filter(|(time_ns, delta, _)| visible(*time_ns, *delta));
                let newest = shown.clone().map(|(time_ns, ..)| *time_ns).max();
                assert_eq!(shard.newest_time(1, least_ns, &shapes, visible), newest, "round {round}");
                let Some(time_ns) = newest else { continue };
                let at: Vec<_> = shown.filter(|(other_ns, ..)| *other_ns == time_ns).collect();
                let mut batch = RowBatch::empty(&projection.kinds);
                let mut locations = CellLocations::default();
                let appended = shard.append_at(
                    (1, time_ns),
                    0,
                    &shapes,
                    visible,
                    (&projection, &mut locations),
                    &mut batch,
                );
                assert_eq!(appended, at.len() == 1);
                if appended {
                    let word = match &batch.columns[0].values {
                        crate::rows::column_buffer::Values::Word(words) => words[0],
                        _ => unreachable!(),
                    };
                    assert_eq!((batch.keys[0], word), (time_ns, at[0].2));
                }
            }
        }
    }
}
