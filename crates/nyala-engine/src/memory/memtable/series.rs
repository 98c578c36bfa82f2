//! The memtable of series-keyed tables: lock shards of series (see `shard.rs`).
//!
//! No thread holds the locks of two shards. The rows of a series are stored in the order they were applied; readers
//! sort late rows and merge duplicates.

use super::arena::ByteArena;
use super::row_collector::RowCollector;
use super::shape::{ROW_WORDS, Shape, Shapes, shape_of};
use super::shard::newest::CellLocations;
use super::shard::{DELTA_BITS, Shard};
use super::{PreparedKeys, PreparedUpsert, Visibility};
use crate::rows::column_buffer::{CellSource, Kind, VALUE};
use crate::rows::merge::RowBatch;
use crate::rows::projection::Projection;
use hashbrown::HashMap;
use nyala_core::{SeriesId, TimeRange};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const SHARDS: usize = 16;
/// Series next to each other share a shard in runs, so that batches in order touch it in runs.
const SERIES_PER_RUN: u32 = 64;
/// How many rows before it is written a row's place is prefetched.
const ROWS_AHEAD: usize = 6;
/// A memtable of so many sequences is full: after some more, no row could be a first row any more, which costs it
/// several times the room. The rest is for batches under way.
const SEQUENCES_MAX: u64 = (1 << DELTA_BITS) - (1 << 16);
/// A memtable of so many bytes is full: addresses in it have a bound, far beyond.
const BYTES_MAX: u64 = 4 << 30;
/// Rows that readers of a range of times reserve memory for at once.
const RESERVED_ROWS_MAX: usize = 256;

/// Rows by series.
pub(crate) struct SeriesMemtable {
    pub(super) base_sequence: u64,
    pub(super) shapes: RwLock<Shapes>,
    /// Made with their first row: with ten thousand measurements of a row each, shards take most of the memory.
    shards: [Mutex<Option<Box<Shard>>>; SHARDS],
    rows: AtomicU64,
    memory_bytes: AtomicU64,
    first_time_ns: AtomicI64,
    last_time_ns: AtomicI64,
}

fn shard_of(series: u32) -> usize {
    (series / SERIES_PER_RUN) as usize % SHARDS
}

impl SeriesMemtable {
    pub(super) fn new(base_sequence: u64) -> Self {
        Self {
            base_sequence,
            shapes: RwLock::default(),
            shards: Default::default(),
            rows: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(size_of::<Self>() as u64),
            first_time_ns: AtomicI64::new(i64::MAX),
            last_time_ns: AtomicI64::new(i64::MIN),
        }
    }

    /// The shards that have rows, each locked while it is looked at.
    pub(super) fn shards(&self) -> impl Iterator<Item = MappedMutexGuard<'_, Shard>> {
        (0..SHARDS).filter_map(|index| self.locked(index))
    }

    /// The shard of a series, if it has rows.
    pub(super) fn shard(&self, series: u32) -> Option<MappedMutexGuard<'_, Shard>> {
        self.locked(shard_of(series))
    }

    fn locked(&self, index: usize) -> Option<MappedMutexGuard<'_, Shard>> {
        MutexGuard::try_map(self.shards[index].lock(), Option::as_deref_mut).ok()
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self, sequence: u64) -> bool {
        sequence.saturating_sub(self.base_sequence) >= SEQUENCES_MAX || self.memory_bytes() >= BYTES_MAX
    }

    pub(super) fn time_bounds(&self) -> Option<TimeRange> {
        let first_ns = self.first_time_ns.load(Ordering::Acquire);
        let last_ns = self.last_time_ns.load(Ordering::Acquire);
        (first_ns <= last_ns).then(|| TimeRange::new(first_ns, last_ns.saturating_add(1)))
    }

    pub(super) fn upsert(&self, upsert: &PreparedUpsert<'_>, rows: Option<&[u32]>, sequence: u64) {
        let shapes = self.row_shapes(upsert, rows);
        let sources: Vec<_> = upsert.cells.iter().map(|cells| &cells.source).collect();
        let words: Option<Vec<_>> = upsert.cells.iter().map(|cells| cells.words).collect();
        let keys = &upsert.keys;
        match (shapes, words) {
            (RowShapes::One(number), Some(words)) => self.append(
                keys,
                rows,
                sequence,
                |_| (number, words.len()),
                |_, row, cells, _| {
                    for (cell, words) in cells.iter_mut().zip(&words) {
                        *cell = words[row];
                    }
                },
            ),
            (RowShapes::One(number), None) => self.append(
                keys,
                rows,
                sequence,
                |_| (number, sources.len()),
                |_, row, cells, bytes| {
                    for (cell, source) in cells.iter_mut().zip(&sources) {
                        *cell = cell_word(source, row, bytes);
                    }
                },
            ),
            (RowShapes::Each(numbers, masks), _) => self.append(
                keys,
                rows,
                sequence,
                |index| (numbers[index], masks[index].len()),
                |index, row, cells, bytes| {
                    for (cell, source) in cells.iter_mut().zip(&*masks[index]) {
                        *cell = cell_word(sources[*source as usize], row, bytes);
                    }
                },
            ),
        }
    }

    pub(super) fn delete(&self, keys: &PreparedKeys<'_>, rows: Option<&[u32]>, sequence: u64) {
        let shape = Shape { deletes: true, values: Vec::new(), nulls: Vec::new() };
        let number = self.shapes.write().number(shape);
        self.append(keys, rows, sequence, |_| (number, 0), |_, _, _, _| {});
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

    /// Appends rows; `shape(index)` says the shape of the row at `index` of those appended, and how many values it
    /// has, which `fill(index, row, …)` writes.
    fn append(
        &self,
        keys: &PreparedKeys<'_>,
        rows: Option<&[u32]>,
        sequence: u64,
        shape: impl Fn(usize) -> (u32, usize),
        fill: impl Fn(usize, usize, &mut [u64], &mut ByteArena),
    ) {
        let (series, times) = (series_of(keys), times_of(keys));
        let count = rows.map_or(keys.rows, <[u32]>::len);
        let row_at = |index: usize| rows.map_or(index, |rows| rows[index] as usize);
        let delta =
            u32::try_from(sequence - self.base_sequence).expect("full memtables are frozen long before");
        let (mut first_ns, mut last_ns) = (i64::MAX, i64::MIN);
        // Indexes by shard, in order within each.
        let mut begins = [0_u32; SHARDS + 1];
        for index in 0..count {
            let row = row_at(index);
            begins[shard_of(series[row]) + 1] += 1;
            first_ns = first_ns.min(times[row]);
            last_ns = last_ns.max(times[row]);
        }
        (0..SHARDS).for_each(|shard| begins[shard + 1] += begins[shard]);
        let mut order = vec![0_u32; count];
        let mut next = begins;
        for index in 0..count {
            let place = &mut next[shard_of(series[row_at(index)])];
            order[*place as usize] = index as u32;
            *place += 1;
        }
        self.first_time_ns.fetch_min(first_ns, Ordering::AcqRel);
        self.last_time_ns.fetch_max(last_ns, Ordering::AcqRel);
        for shard in 0..SHARDS {
            let indexes = &order[begins[shard] as usize..begins[shard + 1] as usize];
            if indexes.is_empty() {
                continue;
            }
            let mut guard = self.shards[shard].lock();
            let made_bytes = if guard.is_none() { size_of::<Shard>() as u64 } else { 0 };
            let shard = &mut **guard.get_or_insert_default();
            for (position, index) in indexes.iter().enumerate() {
                if let Some(ahead) = indexes.get(position + ROWS_AHEAD) {
                    shard.fetch(series[row_at(*ahead as usize)]);
                }
                let index = *index as usize;
                let row = row_at(index);
                let (shape, values) = shape(index);
                let room = shard.append(series[row], times[row], shape, delta, values);
                let words =
                    &mut shard.words.get_mut(room.item, room.offset + ROW_WORDS + values)[room.offset..];
                words[0] = times[row] as u64;
                words[1] = room.mark;
                fill(index, row, &mut words[ROW_WORDS..], &mut shard.bytes);
            }
            let grown = made_bytes + shard.grown_bytes();
            drop(guard);
            self.memory_bytes.fetch_add(grown, Ordering::Relaxed);
        }
        self.rows.fetch_add(count as u64, Ordering::AcqRel);
    }

    /// How many rows a series has.
    pub(crate) fn row_count(&self, series: SeriesId) -> u64 {
        self.shard(series.0).map_or(0, |shard| shard.row_count(shard.index.get(series.0)) as u64)
    }

    /// All series with rows, ascending.
    pub(crate) fn series(&self) -> Vec<SeriesId> {
        let mut series = Vec::new();
        for shard in self.shards() {
            for (first, index) in shard.index.blocks() {
                let lanes = shard.index.block(index).iter().enumerate();
                let known = lanes.filter(|(_, entry)| **entry != 0);
                series.extend(known.map(|(lane, _)| SeriesId(first + lane as u32)));
            }
        }
        series.sort_unstable();
        series
    }

    /// Whether the rows of a series surely came in order of time, no two at one time.
    pub(super) fn is_in_order(&self, series: SeriesId) -> bool {
        self.shard(series.0).is_none_or(|shard| shard.is_in_order(series.0))
    }

    /// Adds all versions of rows of a series at some times to a collector.
    pub(super) fn collect_versions(
        &self,
        series: SeriesId,
        is_wanted: impl Fn(i64) -> bool,
        collector: &mut RowCollector<'_>,
    ) {
        let shapes = self.shapes.read();
        let Some(shard) = self.shard(series.0) else { return };
        collector.count_from(self.base_sequence);
        let entry = shard.index.get(series.0);
        let wanted = |time_ns, _| is_wanted(time_ns);
        shard.gather(entry, TimeRange::ALL, &shapes, self.base_sequence, wanted, collector);
    }

    /// The rows of a series in a range of times, one per time, of columns of which none has strings.
    pub(super) fn read_words(
        &self,
        series: SeriesId,
        time: TimeRange,
        projection: &Projection,
        visibility: &Visibility<'_>,
    ) -> RowBatch<Vec<i64>> {
        let visible = visible(series, time, visibility);
        let mut reader = RowCollector::new(projection);
        reader.count_from(self.base_sequence);
        let shapes = self.shapes.read();
        let Some(guard) = self.shard(series.0) else { return reader.finish(true) };
        let rows_most = if time == TimeRange::ALL { usize::MAX } else { RESERVED_ROWS_MAX };
        let entry = guard.index.get(series.0);
        reader.reserve(rows_most.min(guard.row_count(entry)));
        let in_order = guard.gather(entry, time, &shapes, self.base_sequence, visible, &mut reader);
        drop(guard);
        reader.finish(in_order)
    }

    /// The greatest time in a range at which a series has a row, perhaps one that deletes older ones.
    pub(crate) fn newest_time(
        &self,
        series: SeriesId,
        time: TimeRange,
        visibility: &Visibility<'_>,
    ) -> Option<i64> {
        let visible = visible(series, time, visibility);
        let shapes = self.shapes.read();
        let shard = self.shard(series.0)?;
        let visible = |time_ns, delta| visible(time_ns, self.base_sequence + delta);
        shard.newest_time(series.0, time.start_ns, &shapes, visible)
    }

    /// Appends the row of a series at a time to a batch. False, and nothing is appended, if it is made of several
    /// versions, or hides older ones.
    pub(crate) fn append_at(
        &self,
        series: SeriesId,
        time_ns: i64,
        (projection, places): (&Projection, &mut CellLocations),
        visibility: &Visibility<'_>,
        batch: &mut RowBatch<Vec<i64>>,
    ) -> bool {
        let visible = visible(series, TimeRange::ALL, visibility);
        let shapes = self.shapes.read();
        let Some(shard) = self.shard(series.0) else { return false };
        let base = self.base_sequence;
        let visible = |time_ns, delta| visible(time_ns, base + delta);
        shard.append_at((series.0, time_ns), base, &shapes, visible, (projection, places), batch)
    }

    /// A time from which on there are at least `rows` rows of a series, if it has so many and keeps them in
    /// order; the newest page of more if that is easier.
    pub(crate) fn newest_rows_from(&self, series: SeriesId, rows: usize) -> Option<i64> {
        // Locked in this order everywhere.
        let shapes = self.shapes.read();
        self.shard(series.0)?.newest_rows_from(series.0, rows, &shapes)
    }
}

/// Whether a row of a series at a time, of a sequence, is read.
fn visible(series: SeriesId, time: TimeRange, visibility: &Visibility<'_>) -> impl Fn(i64, u64) -> bool {
    let tombstones: Vec<(u64, TimeRange)> = visibility
        .tombstones
        .iter()
        .filter_map(|tombstone| Some((tombstone.sequence, tombstone.times_of(series)?)))
        .collect();
    let until = visibility.sequence;
    move |time_ns: i64, sequence: u64| {
        time.contains(time_ns)
            && sequence <= until
            && !tombstones.iter().any(|(until, range)| sequence <= *until && range.contains(time_ns))
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
