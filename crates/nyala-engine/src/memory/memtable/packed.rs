//! Packs full pages of a series memtable column by column, to a fifth or a tenth of their size as words.
//!
//! ```text
//! a form per column (8 bits each: time, sequence, values) | the columns' bytes
//! time     0        a straight line from the page's least to its greatest time: no bytes
//!          1–4      offsets from the least time in units of 1 s, 1 ms, 1 µs, 1 ns; width in the upper half
//! others   0        zeros: no bytes
//!          1 2 4 8  signed, in so many bytes
//!          16·n + w float64 of n − 1 decimal places, as integers of w bytes
//!          128 + w  a least value (64 bits), then unsigned offsets from it in w bytes
//! ```
//! Unpacked words are equal to the bit, whatever they stand for.

/// Rows of a page at most.
pub(super) const PAGE_ROWS: usize = 16;

/// A column of a page; what is behind its rows is meaningless.
pub(super) type PageColumn = [u64; PAGE_ROWS];

const UNITS_NS: [u64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];
const DECIMALS: [f64; 5] = [1.0, 10.0, 100.0, 1e3, 1e4];
const OFFSETS: u8 = 128;
/// Columns looked at together.
const TOGETHER: usize = 8;
/// Adding and subtracting it rounds floats below 2⁵¹ to integers.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Packs whole rows into `out`; answers the least and greatest time.
pub(super) fn pack(words: &[u64], row_words: usize, out: &mut Vec<u8>) -> (i64, i64) {
    let rows = words.len() / row_words;
    debug_assert!((1..=PAGE_ROWS).contains(&rows));
    out.clear();
    out.resize(row_words, 0);
    let times = gather(words, row_words, 0);
    let bounds = |(least, most): (i64, i64), time: &u64| (least.min(*time as i64), most.max(*time as i64));
    let (least, most) = times.iter().fold((i64::MAX, i64::MIN), bounds);
    out[0] = pack_times(&times[..rows], least, most, out);
    let mut narrow = [[0; PAGE_ROWS]; TOGETHER];
    for first in (1..row_words).step_by(TOGETHER) {
        let last = row_words.min(first + TOGETHER);
        let widths = look_at(words, row_words, first, &mut narrow);
        for (column, (bits, bytes)) in (first..last).zip(widths.iter().zip(&narrow)) {
            out[column] = match bits {
                0 => 0,
                0x01..0x100 => {
                    out.extend_from_slice(&bytes[..rows]);
                    1
                }
                _ => pack_words(&gather(words, row_words, column), rows, out),
            };
        }
    }
    (least, most)
}

/// Looks at columns from `first` on, as they lie, row by row: which bits of each differ from its sign (not those of
/// zeros), and their lowest bytes, which are all that matters of most.
#[inline]
fn look_at(
    words: &[u64],
    row_words: usize,
    first: usize,
    narrow: &mut [[u8; PAGE_ROWS]; TOGETHER],
) -> [u64; TOGETHER] {
    let mut bits = [0; TOGETHER];
    for (row, words) in words.chunks_exact(row_words).enumerate() {
        let words = &words[first..];
        match words.first_chunk::<TOGETHER>() {
            Some(words) => look_at_row(words, row, &mut bits, narrow),
            None => {
                let mut some = [0; TOGETHER];
                some[..words.len()].copy_from_slice(words);
                look_at_row(&some, row, &mut bits, narrow);
            }
        }
    }
    bits
}

#[inline(always)]
fn look_at_row(
    words: &[u64; TOGETHER],
    row: usize,
    bits: &mut [u64; TOGETHER],
    narrow: &mut [[u8; PAGE_ROWS]; TOGETHER],
) {
    for (column, word) in words.iter().enumerate() {
        // Below 2⁸ where the word is its lowest byte with the sign spread.
        bits[column] |= word ^ (word << 1);
        narrow[column][row] = *word as u8;
    }
}

/// A column of the rows; where there are fewer than a page holds, its first value is repeated.
#[inline]
fn gather(words: &[u64], row_words: usize, column: usize) -> PageColumn {
    let mut gathered = [words[column]; PAGE_ROWS];
    for (slot, row) in gathered.iter_mut().zip(words.chunks_exact(row_words)) {
        *slot = row[column];
    }
    gathered
}

fn pack_times(times: &[u64], least: i64, most: i64, out: &mut Vec<u8>) -> u8 {
    if is_line(times, least, most) {
        return 0;
    }
    let mut offsets = [0; PAGE_ROWS];
    for (offset, time) in offsets.iter_mut().zip(times) {
        *offset = time.wrapping_sub(least as u64);
    }
    let range = most.wrapping_sub(least) as u64;
    let fits = |unit: &u64| offsets.iter().all(|offset| offset.is_multiple_of(*unit));
    let unit = UNITS_NS.iter().position(fits).expect("the last unit divides everything");
    offsets.iter_mut().for_each(|offset| *offset /= UNITS_NS[unit]);
    let width = unsigned_width(range / UNITS_NS[unit]);
    put(&offsets[..times.len()], width, out);
    width << 4 | (unit as u8 + 1)
}

fn is_line(times: &[u64], least: i64, most: i64) -> bool {
    let step = line_step(times.len(), least, most);
    let on_line = |(index, time): (usize, &u64)| *time == line_at(least, step, index);
    times.iter().enumerate().all(on_line)
}

fn line_step(rows: usize, least: i64, most: i64) -> u64 {
    most.wrapping_sub(least) as u64 / (rows.max(2) - 1) as u64
}

fn line_at(least: i64, step: u64, index: usize) -> u64 {
    (least as u64).wrapping_add(step.wrapping_mul(index as u64))
}

fn pack_words(values: &PageColumn, rows: usize, out: &mut Vec<u8>) -> u8 {
    let width = signed_width(values);
    if width == 8
        && let Some((decimals, integers)) = decimals_of(values)
    {
        let width = signed_width(&integers);
        put(&integers[..rows], width, out);
        return (decimals as u8 + 1) << 4 | width;
    }
    let bounds = |(least, most): (i64, i64), v: &u64| (least.min(*v as i64), most.max(*v as i64));
    let (least, most) = values.iter().fold((i64::MAX, i64::MIN), bounds);
    let offset_width = unsigned_width(most.wrapping_sub(least) as u64);
    if 8 + rows * usize::from(offset_width) < rows * usize::from(width) {
        out.extend_from_slice(&least.to_le_bytes());
        put(&values.map(|value| value.wrapping_sub(least as u64))[..rows], offset_width, out);
        return OFFSETS | offset_width;
    }
    put(&values[..rows], width, out);
    width
}

/// Floats of few decimal places as integers, if all of them are.
fn decimals_of(values: &PageColumn) -> Option<(usize, PageColumn)> {
    let mut integers = [0; PAGE_ROWS];
    (0..DECIMALS.len()).find_map(|decimals| {
        let scale = DECIMALS[decimals];
        for (integer, value) in integers.iter_mut().zip(values) {
            let scaled = (f64::from_bits(*value) * scale + ROUNDER) - ROUNDER;
            let rounded = scaled as i32;
            if (f64::from(rounded) / scale).to_bits() != *value {
                return None;
            }
            *integer = i64::from(rounded) as u64;
        }
        Some((decimals, integers))
    })
}

fn signed_width(values: &PageColumn) -> u8 {
    let folded = values.iter().fold(0, |folded, value| folded | (value ^ (*value as i64 >> 63) as u64));
    match folded {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x8000_0000 => 4,
        _ => 8,
    }
}

fn unsigned_width(most: u64) -> u8 {
    match most {
        0..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x1_0000_0000 => 4,
        _ => 8,
    }
}

fn put(values: &[u64], width: u8, out: &mut Vec<u8>) {
    match width {
        1 => out.extend(values.iter().map(|value| *value as u8)),
        2 => values.iter().for_each(|value| out.extend_from_slice(&(*value as u16).to_le_bytes())),
        4 => values.iter().for_each(|value| out.extend_from_slice(&(*value as u32).to_le_bytes())),
        _ => values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes())),
    }
}

/// A packed page.
#[derive(Clone, Copy)]
pub(super) struct PackedPage<'a> {
    pub(super) rows: usize,
    pub(super) least_ns: i64,
    pub(super) most_ns: i64,
    pub(super) row_words: usize,
    pub(super) bytes: &'a [u8],
}

impl PackedPage<'_> {
    /// Where the columns begin, and the end of the last.
    pub(super) fn starts(&self, starts: &mut Vec<u32>) {
        starts.clear();
        let mut at = self.row_words;
        starts.push(at as u32);
        for (column, form) in self.bytes[..self.row_words].iter().enumerate() {
            at += match (column, *form) {
                (0, form) => self.rows * usize::from(form >> 4),
                (_, form) if form & OFFSETS != 0 => 8 + self.rows * usize::from(form & 15),
                (_, form) => self.rows * usize::from(form & 15),
            };
            starts.push(at as u32);
        }
    }

    /// The times.
    pub(super) fn times(&self, starts: &[u32], times: &mut PageColumn) {
        let form = self.bytes[0];
        if form == 0 {
            let step = line_step(self.rows, self.least_ns, self.most_ns);
            for (index, time) in times.iter_mut().enumerate() {
                *time = line_at(self.least_ns, step, index);
            }
            return;
        }
        let unit = UNITS_NS[usize::from(form & 15) - 1];
        unsigned(self.column_bytes(starts, 0), form >> 4, times);
        for time in times {
            *time = (self.least_ns as u64).wrapping_add(time.wrapping_mul(unit));
        }
    }

    /// Another column: 1 is the sequence, 2 the first value.
    pub(super) fn words(&self, starts: &[u32], column: usize, values: &mut PageColumn) {
        let (form, bytes) = (self.bytes[column], self.column_bytes(starts, column));
        let width = form & 15;
        if form & OFFSETS != 0 {
            let (least, offsets) = bytes.split_first_chunk::<8>().expect("a least value was put in");
            let least = u64::from_le_bytes(*least);
            unsigned(offsets, width, values);
            values.iter_mut().for_each(|value| *value = value.wrapping_add(least));
            return;
        }
        signed(bytes, width, values);
        if form >> 4 > 0 {
            let scale = DECIMALS[usize::from(form >> 4) - 1];
            values.iter_mut().for_each(|value| *value = (f64::from(*value as i32) / scale).to_bits());
        }
    }

    fn column_bytes(&self, starts: &[u32], column: usize) -> &[u8] {
        &self.bytes[starts[column] as usize..starts[column + 1] as usize]
    }
}

macro_rules! widen {
    ($bytes:expr, $values:expr, $type:ty) => {{
        let (chunks, _) = $bytes.as_chunks::<{ size_of::<$type>() }>();
        for (value, chunk) in $values.iter_mut().zip(chunks) {
            *value = <$type>::from_le_bytes(*chunk) as i64 as u64;
        }
    }};
}

fn signed(bytes: &[u8], width: u8, values: &mut PageColumn) {
    match width {
        0 => values.fill(0),
        1 => widen!(bytes, values, i8),
        2 => widen!(bytes, values, i16),
        4 => widen!(bytes, values, i32),
        _ => widen!(bytes, values, i64),
    }
}

fn unsigned(bytes: &[u8], width: u8, values: &mut PageColumn) {
    match width {
        1 => widen!(bytes, values, u8),
        2 => widen!(bytes, values, u16),
        4 => widen!(bytes, values, u32),
        _ => widen!(bytes, values, u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs rows of a time and some values and gives the bytes taken.
    fn check(rows: &[(i64, Vec<u64>)]) -> usize {
        let row_words = 1 + rows[0].1.len();
        let words: Vec<u64> =
            rows.iter().flat_map(|(time, values)| [*time as u64].into_iter().chain(values.clone())).collect();
        let mut bytes = Vec::new();
        let (least_ns, most_ns) = pack(&words, row_words, &mut bytes);
        let page = PackedPage { rows: rows.len(), least_ns, most_ns, row_words, bytes: &bytes };
        let (mut starts, mut column) = (Vec::new(), [0; PAGE_ROWS]);
        page.starts(&mut starts);
        assert_eq!(starts.last().copied(), Some(bytes.len() as u32));
        page.times(&starts, &mut column);
        for (row, time) in rows.iter().zip(column) {
            assert_eq!(row.0, time as i64);
        }
        for value in 0..row_words - 1 {
            page.words(&starts, 1 + value, &mut column);
            for (row, word) in rows.iter().zip(column) {
                assert_eq!(row.1[value], word, "{rows:?}");
            }
        }
        bytes.len()
    }

    #[test]
    fn all_words_come_back() {
        let floats = [0.0, -0.0, 1.5, -12.25, 99.99, 0.1, 1e300, f64::NAN, f64::INFINITY, 2_147_483_648.0];
        let integers = [0, 1, -1, 127, -128, 128, 40_000, -3_000_000_000, i64::MAX, i64::MIN, 1 << 40];
        let pool: Vec<u64> = floats
            .iter()
            .map(|float| float.to_bits())
            .chain(integers.iter().map(|integer| *integer as u64))
            .collect();
        let times = [i64::MIN, -1, 0, 1_000_000_000, 2_000_000_000, 2_000_000_001, 5_000_000, i64::MAX];
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..5_000 {
            let rows = 1 + random(PAGE_ROWS);
            let spread = 1 + random(pool.len());
            let base = random(pool.len());
            let rows: Vec<_> = (0..rows)
                .map(|row| {
                    let time = match round % 3 {
                        0 => times[random(times.len())],
                        1 => 1_700_000_000_000_000_000 + row as i64 * 10_000_000_000,
                        _ => 1_700_000_000_000_000_000 + random(90) as i64 * 1_000_000,
                    };
                    let any = pool[(base + random(spread)) % pool.len()];
                    let near = pool[base].wrapping_add(random(300) as u64);
                    let decimal = (random(20_000) as f64 / 100.0 - 50.0).to_bits();
                    (time, vec![any, near, decimal, random(100) as u64])
                })
                .collect();
            check(&rows);
        }
    }

    #[test]
    fn regular_rows_take_few_bytes() {
        let rows: Vec<_> = (0..16_u64)
            .map(|row| {
                let gauge = ((row * 37 % 101) as f64 / 100.0).to_bits();
                (1_700_000_000_000_000_000 + row as i64 * 10_000_000_000, vec![1000 + row, row * 6, gauge])
            })
            .collect();
        assert_eq!(check(&rows), 4 + (8 + 16) + 16 + 16);
    }
}
