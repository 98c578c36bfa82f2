//! Collects the rows of a series from its pages.

use super::arena::ByteArena;
use super::packed::{PAGE_ROWS, PackedPage};
use super::shape::{CellLocation, ROW_WORDS, Shape};
use crate::rows::column_buffer::{Column, Kind};
use crate::rows::merge::{DELETED, RowBatch, UPSERTED, collapse};
use crate::rows::projection::Projection;
use nyala_core::Result;

/// Bytes of strings that are gathered of a series at once, about.
const STRING_BYTES_MAX: usize = 16 << 20;

/// Gathers rows, page by page.
pub(crate) struct RowCollector<'a> {
    projection: &'a Projection,
    batch: RowBatch<Vec<i64>>,
    sequences: Vec<u64>,
    /// What sequences that are read are counted from.
    base_sequence: u64,
    locations: Vec<CellLocation>,
    locations_of: Option<u32>,
    starts: Vec<u32>,
    order: Vec<u32>,
    settled: RowBatch<Vec<i64>>,
}

impl<'a> RowCollector<'a> {
    pub(crate) fn new(projection: &'a Projection) -> Self {
        Self {
            projection,
            batch: RowBatch::empty(&projection.kinds),
            sequences: Vec::new(),
            base_sequence: 0,
            locations: Vec::new(),
            locations_of: None,
            starts: Vec::new(),
            order: Vec::new(),
            settled: RowBatch::empty(&projection.kinds),
        }
    }

    /// Drops all rows, and keeps the room they took.
    pub(crate) fn clear(&mut self) {
        self.batch.clear();
        self.sequences.clear();
    }

    /// Whether so much was collected that the rest should be read step by step.
    pub(crate) fn is_full(&self) -> bool {
        self.projection.addresses.is_some() && self.batch.string_bytes() > STRING_BYTES_MAX
    }

    /// How long the strings of a column may be together.
    pub(super) fn string_bytes_max(&self) -> usize {
        match self.projection.addresses {
            Some(_) => STRING_BYTES_MAX / self.projection.columns.len(),
            None => usize::MAX,
        }
    }

    /// Says what sequences that are read are counted from, for rows of several memtables.
    pub(super) fn count_from(&mut self, base_sequence: u64) {
        if self.base_sequence != base_sequence {
            // Shapes are numbered anew, too.
            (self.base_sequence, self.locations_of) = (base_sequence, None);
        }
    }

    /// Adds rows; of equal keys, those with a higher `newness` win.
    pub(crate) fn append_with(
        &mut self,
        newness: u64,
        append: impl FnOnce(&mut RowBatch<Vec<i64>>) -> Result<()>,
    ) -> Result<()> {
        append(&mut self.batch)?;
        self.sequences.resize(self.batch.keys.len(), newness);
        Ok(())
    }

    /// Says that so many rows are to come, about.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.batch.keys.reserve(rows);
        self.sequences.reserve(rows);
        self.batch.reserve(rows);
    }

    /// Finds where the wanted columns are in rows of a shape, which those of the next page have.
    pub(super) fn look_up(&mut self, shape: &Shape, number: u32) {
        if self.locations_of != Some(number) {
            shape.look_up(&self.projection.columns, &mut self.locations);
            self.locations_of = Some(number);
        }
    }

    fn mark(&mut self, deletes: bool, before: usize) {
        let rows = self.batch.keys.len();
        if deletes {
            let markers = self.batch.markers.get_or_insert_with(Vec::new);
            markers.resize(before, UPSERTED);
            markers.resize(rows, DELETED);
        } else if let Some(markers) = &mut self.batch.markers {
            markers.resize(rows, UPSERTED);
        }
    }

    /// Adds a single row.
    pub(super) fn read_row(&mut self, words: &[u64], sequence: u64, deletes: bool, bytes: &ByteArena) {
        let before = self.batch.keys.len();
        self.batch.keys.push(words[0] as i64);
        self.sequences.push(self.base_sequence + sequence);
        self.mark(deletes, before);
        for ((column, kind), place) in
            self.batch.columns.iter_mut().zip(&self.projection.kinds).zip(&self.locations)
        {
            match place {
                CellLocation::State(state) => column.push_state(*state, 1),
                CellLocation::Word(word) => push_cell(column, *kind, words[ROW_WORDS + word], bytes),
                CellLocation::Sequence => column.push_word(self.base_sequence + sequence),
            }
        }
    }

    /// Adds the visible rows of a page of whole rows.
    pub(super) fn read_page(
        &mut self,
        words: &[u64],
        row_words: usize,
        deletes: bool,
        bytes: &ByteArena,
        visible: impl Fn(&[u64]) -> bool,
    ) {
        let before = self.batch.keys.len();
        // The page's visible rows: found once, not for each column.
        let mut visible_rows = [0_u32; PAGE_ROWS];
        let mut count = 0;
        for (index, row) in words.chunks_exact(row_words).enumerate() {
            if visible(row) {
                visible_rows[count] = (index * row_words) as u32;
                count += 1;
                self.batch.keys.push(row[0] as i64);
                self.sequences.push(self.base_sequence + row[1]);
            }
        }
        if count == 0 {
            return;
        }
        self.mark(deletes, before);
        for ((column, kind), place) in
            self.batch.columns.iter_mut().zip(&self.projection.kinds).zip(&self.locations)
        {
            match place {
                CellLocation::State(state) => column.push_state(*state, count),
                CellLocation::Sequence => column.extend_words(self.sequences[before..].iter().copied()),
                CellLocation::Word(word) => {
                    let cells =
                        visible_rows[..count].iter().map(|row| words[*row as usize + ROW_WORDS + word]);
                    match kind {
                        Kind::Word => column.extend_words(cells),
                        _ => cells.for_each(|cell| push_cell(column, *kind, cell, bytes)),
                    }
                }
            }
        }
    }

    /// Adds the visible rows of a packed page.
    pub(super) fn read_packed(
        &mut self,
        page: PackedPage<'_>,
        deletes: bool,
        bytes: &ByteArena,
        visible: impl Fn(i64, u64) -> bool,
    ) {
        let (mut times, mut sequences) = ([0; PAGE_ROWS], [0; PAGE_ROWS]);
        page.starts(&mut self.starts);
        page.times(&self.starts, &mut times);
        page.words(&self.starts, 1, &mut sequences);
        let mut kept = [0_u8; PAGE_ROWS];
        let mut count = 0;
        let before = self.batch.keys.len();
        for (row, (time, sequence)) in times.iter().zip(&sequences).take(page.rows).enumerate() {
            if visible(*time as i64, *sequence) {
                self.batch.keys.push(*time as i64);
                self.sequences.push(self.base_sequence + *sequence);
                kept[count] = row as u8;
                count += 1;
            }
        }
        if count == 0 {
            return;
        }
        self.mark(deletes, before);
        let mut words = [0; PAGE_ROWS];
        for ((column, kind), place) in
            self.batch.columns.iter_mut().zip(&self.projection.kinds).zip(&self.locations)
        {
            match place {
                CellLocation::State(state) => column.push_state(*state, count),
                CellLocation::Sequence => column.extend_words(self.sequences[before..].iter().copied()),
                CellLocation::Word(word) => {
                    page.words(&self.starts, ROW_WORDS + word, &mut words);
                    if count == page.rows && *kind == Kind::Word {
                        column.extend_words(words[..count].iter().copied());
                        continue;
                    }
                    let kept = kept[..count].iter().map(|row| words[usize::from(*row)]);
                    kept.for_each(|word| push_cell(column, *kind, word, bytes));
                }
            }
        }
    }

    /// The times of all rows collected, and their sequences, in the order they came.
    pub(super) fn versions(&self) -> impl Iterator<Item = (i64, u64)> {
        self.batch.keys.iter().copied().zip(self.sequences.iter().copied())
    }

    /// All rows collected, by time and sequence.
    pub(super) fn into_versions(mut self) -> RowBatch<Vec<i64>> {
        put_in_order(&self.batch.keys, &self.sequences, &mut self.order);
        let RowBatch { keys, markers, columns } = self.batch;
        let order = &self.order;
        RowBatch {
            keys: order.iter().map(|row| keys[*row as usize]).collect(),
            markers: markers.map(|markers| order.iter().map(|row| markers[*row as usize]).collect()),
            columns: columns.iter().map(|column| column.take(order)).collect(),
        }
    }

    /// The rows collected, sorted, one per time. They stay here until the next `clear`.
    pub(crate) fn settle(&mut self) -> &RowBatch<Vec<i64>> {
        let times = &self.batch.keys;
        if times.is_sorted_by(|a, b| a < b) {
            return &self.batch;
        }
        put_in_order(times, &self.sequences, &mut self.order);
        self.settled.clear();
        for row in &self.order {
            self.settled.append(&self.batch, *row as usize..*row as usize + 1);
        }
        if !self.settled.keys.is_sorted_by(|a, b| a < b) {
            let doubled = std::mem::replace(&mut self.settled, RowBatch::empty(&self.projection.kinds));
            self.settled = collapse(doubled, &self.projection.kinds);
        }
        &self.settled
    }

    /// The rows gathered, sorted, one per time; `in_order`: they came so.
    pub(super) fn finish(mut self, in_order: bool) -> RowBatch<Vec<i64>> {
        let batch = &mut self.batch;
        if in_order || batch.keys.is_sorted_by(|a, b| a < b) {
            return self.batch;
        }
        put_in_order(&batch.keys, &self.sequences, &mut self.order);
        let order = &self.order;
        let locations = order.iter().enumerate().map(|(to, from)| (to as u32, *from));
        let moved: Vec<(u32, u32)> = locations.filter(|(to, from)| to != from).collect();
        let times: Vec<i64> = moved.iter().map(|(_, from)| batch.keys[*from as usize]).collect();
        moved.iter().zip(times).for_each(|((to, _), time)| batch.keys[*to as usize] = time);
        if let Some(markers) = &mut batch.markers {
            *markers = order.iter().map(|row| markers[*row as usize]).collect();
        }
        batch.columns.iter_mut().for_each(|column| column.move_rows(&moved, order));
        collapse(self.batch, &self.projection.kinds)
    }
}

/// The rows by time, then by sequence. Mostly a few neighbours are exchanged, because batches overtook each other.
fn put_in_order(times: &[i64], sequences: &[u64], order: &mut Vec<u32>) {
    let key = |row: u32| (times[row as usize], sequences[row as usize]);
    order.clear();
    order.extend(0..times.len() as u32);
    let mut moves = 4 * times.len();
    for end in 1..order.len() {
        let row = order[end];
        let mut place = end;
        while place > 0 && key(order[place - 1]) > key(row) {
            order[place] = order[place - 1];
            place -= 1;
        }
        order[place] = row;
        moves = moves.saturating_sub(end - place);
        if moves == 0 {
            // Rows out of order usually are a few batches, each in order, which a stable sort merges.
            order.sort_by_key(|row| key(*row));
            break;
        }
    }
}

pub(super) fn push_cell(column: &mut Column, kind: Kind, word: u64, bytes: &ByteArena) {
    match kind {
        Kind::Word => column.push_word(word),
        Kind::Wide => {
            let wide = bytes.get(word).try_into().expect("16 bytes were put in");
            column.push_wide(i128::from_le_bytes(wide));
        }
        Kind::Bytes => column.push_bytes(bytes.get(word)),
    }
}
