//! Sorts buffered rows by time, one band of times after the other.
//!
//! Rows come series by series, each in order of time, and mostly at times of one regular grid: then a counting sort
//! replaces comparisons. In the sorted order, neighbours come from different series and lie far apart in memory, which
//! would cost a cache line for each cell. So rows are sorted in bands that fit into the processor's cache.

use super::scan_buffer::ScanBuffer;
use crate::rows::column_buffer::{Column, Values};
use crate::rows::merge::RowBatch;
use nyala_core::SeriesId;
use std::ops::Range;

/// About how many rows a band has: one column of it fits into the processor's cache.
const BAND_ROWS: usize = 32_768;
/// Times that are looked at to find a grid's step.
const SAMPLES: usize = 256;
/// Spans of times below this are exact as floats, and so are their quotients near enough.
const GRID_SPAN_MAX: u64 = 1 << 52;

/// Rows being sorted.
pub(super) struct Bands {
    buffer: ScanBuffer,
    /// The remaining rows of each series, in the order of series at one time.
    runs: Vec<(SeriesId, Range<u32>)>,
    backward: bool,
    /// The first and last time that are left.
    left_ns: (i64, i64),
    /// How many bands are left.
    bands: u64,
    /// A column of a band, reused.
    near: Vec<u64>,
}

/// The rows of a band, in order.
pub(super) struct Band {
    pub(super) batch: RowBatch<Vec<i64>>,
    /// The series of each row.
    pub(super) series: Vec<SeriesId>,
}

impl Bands {
    /// Takes buffered rows; `rank` orders series that have rows at the same time.
    pub(super) fn new(buffer: ScanBuffer, rank: impl Fn(SeriesId) -> u32, backward: bool) -> Self {
        let (runs, batch) = (&buffer.runs, &buffer.batch);
        let mut first = 0;
        let mut ranked: Vec<(u32, SeriesId, Range<u32>)> = Vec::with_capacity(runs.len());
        for run in runs {
            ranked.push((rank(run.series), run.series, first..first + run.rows));
            first += run.rows;
        }
        // The sort is stable: runs of one rank stay in order of their series.
        ranked.sort_by_key(|(rank, ..)| *rank);
        let runs = ranked.into_iter().map(|(_, series, rows)| (series, rows)).collect();
        let times = batch.keys.iter();
        let (first_ns, last_ns) = (times.clone().min().copied(), times.max().copied());
        let bands = batch.keys.len().div_ceil(BAND_ROWS) as u64;
        let left_ns = (first_ns.unwrap_or_default(), last_ns.unwrap_or_default());
        Self { buffer, runs, backward, left_ns, bands, near: Vec::new() }
    }

    /// The next band, unless all were given; it may be empty.
    pub(super) fn next(&mut self) -> Option<Band> {
        let (first_ns, last_ns) = self.left_ns;
        let bands = self.bands;
        self.bands = bands.saturating_sub(1);
        let width_ns = last_ns.wrapping_sub(first_ns) as u64 / bands.max(1);
        // What is left after this band; nothing after the last one.
        match (bands, self.backward) {
            (0, _) => return None,
            (1, _) => {}
            (_, true) => self.left_ns.1 = last_ns.wrapping_sub_unsigned(width_ns).saturating_sub(1),
            (_, false) => self.left_ns.0 = first_ns.wrapping_add_unsigned(width_ns).saturating_add(1),
        }
        let (begin_ns, end_ns) = self.left_ns;
        let mut spans: Vec<(SeriesId, Range<u32>)> = Vec::with_capacity(self.runs.len());
        for (series, rows) in &mut self.runs {
            let times_ns = &self.buffer.batch.keys[rows.start as usize..rows.end as usize];
            let here = match (bands, self.backward) {
                (1, _) => std::mem::replace(rows, rows.end..rows.end),
                (_, true) => {
                    let beyond = times_ns.iter().rev().take_while(|time_ns| **time_ns > end_ns).count();
                    let end = rows.end;
                    rows.end -= beyond as u32;
                    rows.end..end
                }
                (_, false) => {
                    let before = times_ns.iter().take_while(|time_ns| **time_ns < begin_ns).count();
                    let start = rows.start;
                    rows.start += before as u32;
                    start..rows.start
                }
            };
            if !here.is_empty() {
                spans.push((*series, here));
            }
        }
        Some(self.band(&spans))
    }

    /// Rows, given as they stand at one time, in order of time.
    fn band(&mut self, spans: &[(SeriesId, Range<u32>)]) -> Band {
        let times_ns = together(&self.buffer.batch.keys, spans, Vec::new());
        let (order, times_ns) = by_time(&times_ns, self.backward);
        let mut rows: Option<Vec<u32>> = None;
        let mut columns = Vec::with_capacity(self.buffer.batch.columns.len());
        for column in &self.buffer.batch.columns {
            columns.push(match (&column.values, &column.validity) {
                (Values::Word(words), None) => {
                    self.near = together(words, spans, std::mem::take(&mut self.near));
                    Column::words(order.iter().map(|row| self.near[*row as usize]).collect())
                }
                _ => column.take(rows.get_or_insert_with(|| {
                    let rows: Vec<u32> = spans.iter().flat_map(|(_, rows)| rows.clone()).collect();
                    order.iter().map(|row| rows[*row as usize]).collect()
                })),
            });
        }
        let of_span = |(series, rows): &(SeriesId, Range<u32>)| std::iter::repeat_n(*series, rows.len());
        let series: Vec<SeriesId> = spans.iter().flat_map(of_span).collect();
        let series = order.iter().map(|row| series[*row as usize]).collect();
        Band { batch: RowBatch { keys: times_ns, markers: None, columns }, series }
    }

    /// The buffer, to be reused.
    pub(super) fn into_buffer(self) -> ScanBuffer {
        self.buffer
    }
}

/// The items of some rows, one after the other, in a reused vector.
fn together<T: Copy>(items: &[T], spans: &[(SeriesId, Range<u32>)], mut reused: Vec<T>) -> Vec<T> {
    reused.clear();
    reused.reserve(spans.iter().map(|(_, rows)| rows.len()).sum());
    for (_, rows) in spans {
        reused.extend_from_slice(&items[rows.start as usize..rows.end as usize]);
    }
    reused
}

/// The order of rows by time, at one time as they stand; and their times.
fn by_time(times_ns: &[i64], backward: bool) -> (Vec<u32>, Vec<i64>) {
    let (Some(first_ns), Some(last_ns)) = (times_ns.iter().min(), times_ns.iter().max()) else {
        return (Vec::new(), Vec::new());
    };
    let ends = (*first_ns, *last_ns);
    if let Some(in_order) = counted(times_ns, ends, backward) {
        return in_order;
    }
    let order = compared(times_ns, ends, backward);
    let sorted_ns = order.iter().map(|row| times_ns[*row as usize]).collect();
    (order, sorted_ns)
}

/// The order of rows whose times are on a grid of no more places than there are rows.
fn counted(
    times_ns: &[i64],
    (first_ns, last_ns): (i64, i64),
    backward: bool,
) -> Option<(Vec<u32>, Vec<i64>)> {
    let after_ns = |time_ns: i64| time_ns.wrapping_sub(first_ns) as u64;
    let span_ns = after_ns(last_ns);
    if span_ns >= GRID_SPAN_MAX {
        return None;
    }
    let samples = times_ns.iter().step_by(times_ns.len().div_ceil(SAMPLES));
    let step_ns =
        samples.fold(span_ns, |step_ns, time_ns| greatest_divisor(step_ns, after_ns(*time_ns))).max(1);
    let places = usize::try_from(span_ns / step_ns).ok()? + 1;
    if places > times_ns.len() {
        return None;
    }
    let steps_per_ns = 1.0 / step_ns as f64;
    let mut on_grid = true;
    let place_of = |time_ns: &i64| {
        let after_ns = after_ns(*time_ns) as i64;
        let place = (after_ns as f64 * steps_per_ns + 0.5) as i64;
        on_grid &= place * step_ns as i64 == after_ns;
        place as u32
    };
    let places_of: Vec<u32> = times_ns.iter().map(place_of).collect();
    if !on_grid {
        return None;
    }
    let mut counts = vec![0_u32; places];
    places_of.iter().for_each(|place| counts[*place as usize] += 1);
    let mut sorted_ns = Vec::with_capacity(times_ns.len());
    let mut begin = |(place, count): (usize, &mut u32)| {
        let start = sorted_ns.len();
        let time_ns = first_ns.wrapping_add((place as u64 * step_ns) as i64);
        sorted_ns.resize(start + *count as usize, time_ns);
        *count = start as u32;
    };
    match backward {
        false => counts.iter_mut().enumerate().for_each(&mut begin),
        true => counts.iter_mut().enumerate().rev().for_each(&mut begin),
    }
    // Now `counts` says where the next row of each time goes.
    let mut next = counts;
    let mut order = vec![0; times_ns.len()];
    for (row, place) in (0..).zip(&places_of) {
        let next = &mut next[*place as usize];
        order[*next as usize] = row;
        *next += 1;
    }
    Some((order, sorted_ns))
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The order of rows with any times.
fn compared(times_ns: &[i64], (first_ns, last_ns): (i64, i64), backward: bool) -> Vec<u32> {
    let after_ns = |time_ns: i64| match backward {
        true => last_ns.wrapping_sub(time_ns) as u64,
        false => time_ns.wrapping_sub(first_ns) as u64,
    };
    let row_bits = usize::BITS - (times_ns.len() - 1).leading_zeros();
    // Time and row in one word, where they have room in it, sort many times faster than by a look-up of times.
    if last_ns.wrapping_sub(first_ns) as u64 >> (63 - row_bits) == 0 {
        let word = |(row, time_ns): (u64, &i64)| after_ns(*time_ns) << row_bits | row;
        let mut words: Vec<u64> = (0..).zip(times_ns).map(word).collect();
        words.sort_unstable();
        let mask = (1_u64 << row_bits) - 1;
        return words.into_iter().map(|word| (word & mask) as u32).collect();
    }
    let mut order: Vec<u32> = (0..times_ns.len() as u32).collect();
    order.sort_by_key(|row| after_ns(times_ns[*row as usize]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::column_buffer::{ABSENT, Kind};
    use nyala_core::store::SeriesRun;

    #[test]
    fn the_order_is_that_of_a_stable_sort() {
        let cases: [Vec<i64>; 8] = [
            vec![5],
            vec![7; 100],
            vec![3, 1, 2, 1, 3, 3, 0],
            vec![i64::MAX, i64::MIN, 0, i64::MAX, i64::MIN],
            (0..1000).map(|row| (row * 7919) % 13 * 1_000_000_000).collect(),
            (0..1000).map(|row| 77 - (row * 7919) % 13 * 1_000_000_000 + row / 999).collect(),
            (0..3000).map(|row| i64::MIN + (row * 7919) % 1000 * 1_234_567).collect(),
            (0..300).map(|row| (row * 31) % 17 * (1 << 58)).collect(),
        ];
        for times_ns in cases {
            for backward in [false, true] {
                let mut expected: Vec<u32> = (0..times_ns.len() as u32).collect();
                match backward {
                    true => expected.sort_by_key(|row| std::cmp::Reverse(times_ns[*row as usize])),
                    false => expected.sort_by_key(|row| times_ns[*row as usize]),
                }
                let expected_ns: Vec<i64> = expected.iter().map(|row| times_ns[*row as usize]).collect();
                assert_eq!(by_time(&times_ns, backward), (expected, expected_ns));
            }
        }
    }

    #[test]
    fn bands_are_the_whole_in_order() {
        // Of each series every so many units; those of even numbers end early.
        let (series, times, unit_ns) = (100, 2_000_i64, 10_000_000_000);
        for (base_ns, backward, with_gaps) in [
            (0, false, false),
            (0, true, true),
            (i64::MIN, false, true),
            (i64::MAX - times * unit_ns, true, false),
        ] {
            let mut batch = RowBatch { keys: Vec::new(), markers: None, columns: Vec::new() };
            let (mut words, mut gaps, mut texts) =
                (Column::new(Kind::Word), Column::new(Kind::Word), Column::new(Kind::Bytes));
            let mut runs = Vec::new();
            for id in 0..series {
                let before = batch.keys.len();
                for unit in (0..times).step_by(1 + id as usize % 3).take(1_000 + id as usize % 2 * 9_000) {
                    batch.keys.push(base_ns + unit * unit_ns);
                    words.push_word(u64::from(id) << 32 | unit as u64);
                    if unit % 7 == 3 && with_gaps {
                        gaps.push_state(ABSENT, 1)
                    } else {
                        gaps.push_word(unit as u64)
                    }
                    texts.push_bytes(format!("{id} {unit}").as_bytes());
                }
                runs.push(SeriesRun { series: SeriesId(id), rows: (batch.keys.len() - before) as u32 });
            }
            batch.columns = vec![words, gaps, texts];
            let ids: Vec<SeriesId> =
                runs.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize)).collect();
            let rank = |series: SeriesId| series.0 * 37 % 64;
            let mut order: Vec<u32> = (0..ids.len() as u32).collect();
            order.sort_by_key(|row| {
                let (time_ns, id) = (batch.keys[*row as usize], ids[*row as usize]);
                (if backward { -i128::from(time_ns) } else { time_ns.into() }, rank(id), *row)
            });
            let keys = batch.keys.clone();
            let expected: Vec<Column> = batch.columns.iter().map(|column| column.take(&order)).collect();
            let budget = nyala_core::memory::MemoryBudget::new(1 << 30);
            let mut bands = Bands::new(ScanBuffer::of(runs, batch, &budget), rank, backward);
            let mut row = 0;
            let mut count = 0;
            while let Some(Band { batch, series }) = bands.next() {
                count += 1;
                for at in 0..series.len() {
                    let expected_row = order[row + at] as usize;
                    assert_eq!((batch.keys[at], series[at]), (keys[expected_row], ids[expected_row]));
                }
                for (column, expected) in batch.columns.iter().zip(&expected) {
                    let mut part = expected.same_kind();
                    part.extend(expected, row..row + series.len());
                    if column.validity.is_some() {
                        assert_eq!(
                            column.validity.as_ref(),
                            part.validity.as_ref().or(column.validity.as_ref())
                        );
                    }
                    assert!(column.values == part.values);
                }
                row += series.len();
            }
            assert_eq!((row, count), (order.len(), order.len().div_ceil(BAND_ROWS)));
        }
    }
}
