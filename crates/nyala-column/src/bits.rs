//! Encoded bits: uniform, bitmap, or runs, whichever is smallest.
//!
//! Bytes: `form` (0 all false, 1 all true, 2 bitmap, 3 runs); a bitmap is `ceil(count / 8)` bytes, first bit
//! lowest; runs are `run count − 1` (u16), the first run's value, and packed `end − 1`, values alternating.

use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::error::{CorruptBlock, Result, ensure};
use crate::kernels::pack::{get, pack, packed_bytes};
use crate::little_endian::{Reader, bit_width, load, push};

/// Coded bits, read in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits<'a> {
    count: u32,
    form: Form<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Uniform(bool),
    Bitmap(&'a [u8]),
    Runs { runs: u32, first: bool, ends: &'a [u8] },
}

impl<'a> Bits<'a> {
    pub(crate) fn parse(reader: &mut Reader<'a>, count: u32) -> Result<Self> {
        let form = match reader.u8()? {
            0 => Form::Uniform(false),
            1 => Form::Uniform(true),
            2 => Form::Bitmap(reader.take((count as usize).div_ceil(8))?),
            3 => {
                let runs = u32::from(reader.u16()?) + 1;
                let first = reader.u8()?;
                ensure(runs <= count && first <= 1, "bit runs out of range")?;
                let ends = reader.take(packed_bytes(runs as usize, end_width(count)))?;
                Form::Runs { runs, first: first == 1, ends }
            }
            _ => return Err(CorruptBlock::new("unknown form of bits")),
        };
        let bits = Self { count, form };
        bits.check_runs()?;
        Ok(bits)
    }

    /// Checks the order of runs once, because there are few; later reads rely on it.
    fn check_runs(&self) -> Result<()> {
        let Form::Runs { runs, .. } = self.form else { return Ok(()) };
        let mut last = 0;
        for run in 0..runs {
            let end = self.run_end(run);
            ensure(end > last, "bit runs do not rise")?;
            last = end;
        }
        ensure(last == self.count, "bit runs do not reach the last row")
    }

    fn run_end(&self, run: u32) -> u32 {
        let Form::Runs { ends, .. } = self.form else { return self.count };
        get(ends, end_width(self.count), run as usize) as u32 + 1
    }

    /// The value of all bits, if the form says that they are equal.
    pub(crate) fn uniform(&self) -> Option<bool> {
        match self.form {
            Form::Uniform(value) => Some(value),
            _ => None,
        }
    }

    fn run_of(&self, row: u32) -> u32 {
        let Form::Runs { runs, .. } = self.form else { return 0 };
        let (mut low, mut high) = (0, runs - 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.run_end(middle) <= row { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Calls `visit(count, word)` with up to 64 bits at a time, in order.
    #[inline]
    fn for_each_word(&self, rows: Range<u32>, mut visit: impl FnMut(usize, u64)) {
        let mut row = rows.start;
        match self.form {
            Form::Uniform(value) => {
                while row < rows.end {
                    let count = (rows.end - row).min(64);
                    visit(count as usize, if value { u64::MAX } else { 0 });
                    row += count;
                }
            }
            Form::Bitmap(bytes) => {
                while row < rows.end {
                    // First up to the next byte boundary, then eight bytes at a time.
                    let offset = row % 8;
                    let count = (rows.end - row).min(64 - offset);
                    let start = row as usize / 8;
                    let end = (row + count).div_ceil(8) as usize;
                    visit(count as usize, load(&bytes[start..end]) >> offset);
                    row += count;
                }
            }
            Form::Runs { first, .. } => {
                let mut run = if rows.is_empty() { 0 } else { self.run_of(row) };
                while row < rows.end {
                    let end = self.run_end(run).min(rows.end);
                    let word = if first ^ (run % 2 == 1) { u64::MAX } else { 0 };
                    while row < end {
                        let count = (end - row).min(64);
                        visit(count as usize, word);
                        row += count;
                    }
                    run += 1;
                }
            }
        }
    }

    /// Set bits among `rows`.
    pub(crate) fn count_ones(&self, rows: Range<u32>) -> u32 {
        self.check_rows(&rows);
        if let Form::Uniform(value) = self.form {
            return if value { rows.end - rows.start } else { 0 };
        }
        let mut ones = 0;
        self.for_each_word(rows, |count, word| ones += (word & (u64::MAX >> (64 - count))).count_ones());
        ones
    }

    /// Appends the bits of `rows`.
    pub(crate) fn decode(&self, rows: Range<u32>, out: &mut Bitmap) {
        self.check_rows(&rows);
        self.for_each_word(rows, |count, word| out.extend_word(word, count));
    }

    fn check_rows(&self, rows: &Range<u32>) {
        assert!(rows.start <= rows.end && rows.end <= self.count, "rows {rows:?} of {}", self.count);
    }
}

fn end_width(count: u32) -> u32 {
    bit_width(u64::from(count.saturating_sub(1)))
}

/// Appends `bits` in their smallest form.
pub(crate) fn push_bits(bits: &Bitmap, out: &mut Vec<u8>) {
    let ones = bits.count_ones();
    if ones == 0 || ones == bits.len() {
        out.push(u8::from(ones > 0));
        return;
    }
    let width = end_width(bits.len() as u32);
    // A run ends where a bit differs from the next one.
    let is_end = |row: usize| row + 1 == bits.len() || bits.get(row) != bits.get(row + 1);
    let ends: Vec<u16> = (0..bits.len()).filter(|row| is_end(*row)).map(|row| row as u16).collect();
    if 3 + packed_bytes(ends.len(), width) < bits.len().div_ceil(8) {
        out.push(3);
        push(out, ends.len() as u64 - 1, 2);
        out.push(u8::from(bits.get(0)));
        pack(&ends, width, out);
    } else {
        out.push(2);
        out.extend_from_slice(&bits.to_bytes());
    }
}
