//! Entropy coding, where size is preferred over speed: frequent numbers take few bits.
//!
//! It codes the offsets, or the differences of neighbours minus their median, folded so that small differences of
//! both signs are small numbers. A number below 16 is a symbol of its own; a larger one is of a class, whose symbol
//! says where its highest bit is and the two below it; the rest are plain bits. So all numbers can be coded. The plain
//! bits of large numbers are mostly as good as random. Symbols are coded by [`ans`](crate::kernels::ans).
//!
//! Reading begins at the vector's first row whatever the range, at about a fifth of the other encodings' speed.
//!
//! Bytes: `base bytes | centre bytes << 4` (centre bytes 15: offsets, no base, no centre), first symbol, base,
//! centre, and one stream of bits: frequencies, eight states, the symbols' bits, the plain bits.

use std::ops::Range;

use super::plan::take_sample;
use super::scratch::IntegerScratch;
use crate::cpu::{CpuFeatures, dispatched};
use crate::directory::VECTOR_VALUES;
use crate::error::{Result, ensure};
use crate::kernels::ans::{
    Frequencies, STATES, decode_symbols, decode_table, encode_symbols, frequencies_of, read,
};
use crate::kernels::prefix::running_sum;
use crate::little_endian::{Reader, bit_width, fold_sign, push, signed_width, unfold_sign, unsigned_width};
use crate::narrow::{Narrow, Offsets};

/// In the place of the centre's width.
const OFFSETS: u8 = 15;
/// Symbols from here on are classes.
const CLASSES: u8 = 16;
/// Bits of the header's run lengths of absent symbols.
const RUN_BITS: u32 = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entropy<'a> {
    rows: usize,
    /// First offset and the median difference, unless offsets themselves are coded.
    differences: Option<(u64, u64)>,
    first_symbol: u8,
    stream: &'a [u8],
}

impl<'a> Entropy<'a> {
    pub(super) fn parse(rows: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let widths = reader.u8()?;
        let first_symbol = reader.u8()?;
        let differences = match widths >> 4 {
            OFFSETS => {
                ensure(widths & 0xf == 0, "entropy-coded offsets with a base")?;
                None
            }
            centre_width => {
                let base = reader.unsigned((widths & 0xf) as usize)?;
                Some((base, reader.signed(centre_width.into())? as u64))
            }
        };
        Ok(Self { rows, differences, first_symbol, stream: reader.rest() })
    }

    pub(super) fn decode<T: Narrow>(
        &self,
        cpu: CpuFeatures,
        rows: Range<usize>,
        out: &mut Offsets<T>,
    ) -> Result<()> {
        let (frequencies, last_symbol, at) = read_frequencies(self.stream, self.first_symbol)?;
        let uncoded = usize::from(self.differences.is_some());
        let coded = self.rows.saturating_sub(uncoded);
        let wanted = rows.end.saturating_sub(uncoded);
        let mut symbols = [0; VECTOR_VALUES];
        let end;
        if last_symbol < CLASSES {
            let signed = self.differences.is_some();
            let value = |symbol| if signed { unfold_sign(u64::from(symbol)) as u8 } else { symbol };
            let table = decode_table(cpu, &frequencies, self.first_symbol..=last_symbol, value);
            let symbols = &mut symbols[..wanted];
            end = decode_symbols(cpu, &table, self.stream, at, coded, symbols);
            extend_signs(cpu, symbols, &mut out[uncoded..uncoded + wanted]);
        } else {
            // The plain bits begin after the last symbol, so all symbols must be decoded.
            let table = decode_table(cpu, &frequencies, self.first_symbol..=last_symbol, |symbol| symbol);
            let symbols = &mut symbols[..coded];
            let at = decode_symbols(cpu, &table, self.stream, at, coded, symbols);
            let out = &mut out[uncoded..uncoded + wanted];
            end = complete(cpu, symbols, self.stream, at, self.differences.is_some(), out);
        }
        let bits = self.stream.len() * 8;
        ensure(
            end <= bits && (rows.end < self.rows || bits - end < 8),
            "entropy-coded vector of another length",
        )?;
        if let Some((base, centre)) = self.differences {
            running_sum(cpu, &mut out[..rows.end], T::truncate(base), T::truncate(centre));
        }
        Ok(())
    }

    pub(super) fn get(&self, cpu: CpuFeatures, row: usize) -> Result<u64> {
        let mut offsets: Offsets<u64> = [0; VECTOR_VALUES];
        self.decode(cpu, row..row + 1, &mut offsets)?;
        Ok(offsets[row])
    }
}

dispatched! {
    fn extend_signs<T: Narrow>(symbols: &[u8], out: &mut [T]) = extend_signs_body;

    /// Numbers of symbols, with the plain bits from `at` on, which all symbols pass and `out` keeps the first of;
    /// returns where they end.
    fn complete<T: Narrow>(symbols: &[u8], stream: &[u8], at: usize, signed: bool, out: &mut [T]) -> usize
        = complete_body;
}

#[inline(always)]
fn extend_signs_body<T: Narrow>(symbols: &[u8], out: &mut [T]) {
    for (out, symbol) in out.iter_mut().zip(symbols) {
        *out = T::truncate(*symbol as i8 as u64);
    }
}

#[inline(always)]
fn complete_body<T: Narrow>(symbols: &[u8], stream: &[u8], at: usize, signed: bool, out: &mut [T]) -> usize {
    let mut at = at;
    let (kept, passed) = symbols.split_at(out.len());
    for (out, symbol) in out.iter_mut().zip(kept) {
        let (leading, plain) = class(*symbol);
        // At most 61 bits, in two reads that are each within a word.
        let half = plain.min(32);
        let low = read(stream, at, half);
        let high = if plain > 32 { read(stream, at + 32, plain - 32) << 32 } else { 0 };
        at += plain as usize;
        let number = leading << plain | high | low;
        *out = T::truncate(if signed { unfold_sign(number) } else { number });
    }
    at + passed.iter().map(|symbol| class(*symbol).1 as usize).sum::<usize>()
}

/// A symbol's leading bits, and how many plain ones follow.
#[inline(always)]
fn class(symbol: u8) -> (u64, u32) {
    match symbol < CLASSES {
        true => (symbol.into(), 0),
        false => (u64::from(4 | symbol & 3), u32::from(symbol >> 2) - 2),
    }
}

/// The inverse: the symbol of a number, and how many of its low bits are plain.
#[inline(always)]
fn symbol_of(number: u64) -> (u8, u32) {
    if number < CLASSES.into() {
        return (number as u8, 0);
    }
    let plain = bit_width(number) - 3;
    (((plain + 2) << 2) as u8 | (number >> plain & 3) as u8, plain)
}

/// Frequencies, each in as many bits as what is left needs, until nothing is left. After one that is 0, two bits
/// say how many more are; 3: three, and two bits again. Returns the last symbol, too, and the bit that follows.
fn read_frequencies(stream: &[u8], first: u8) -> Result<(Frequencies, u8, usize)> {
    let mut frequencies = [0; 256];
    let (mut symbol, mut left, mut at) = (usize::from(first), STATES as u64, 0);
    loop {
        ensure(symbol < frequencies.len(), "entropy-coded vector of too many symbols")?;
        let width = bit_width(left);
        let frequency = read(stream, at, width);
        at += width as usize;
        ensure(frequency <= left, "frequencies are more than all")?;
        frequencies[symbol] = frequency as u16;
        left -= frequency;
        if left == 0 {
            return Ok((frequencies, symbol as u8, at));
        }
        symbol += 1;
        let mut run = if frequency == 0 { 3 } else { 0 };
        while run == 3 {
            run = read(stream, at, RUN_BITS);
            at += RUN_BITS as usize;
            symbol += run as usize;
            ensure(symbol < frequencies.len(), "entropy-coded vector of too many symbols")?;
        }
    }
}

fn push_frequencies(frequencies: &Frequencies, first: u8, bits: &mut BitWriter<'_>) {
    let (mut symbol, mut left) = (usize::from(first), STATES as u64);
    loop {
        let frequency = u64::from(frequencies[symbol]);
        bits.push(frequency, bit_width(left));
        left -= frequency;
        if left == 0 {
            return;
        }
        symbol += 1;
        if frequency == 0 {
            let zeros = frequencies[symbol..].iter().take_while(|frequency| **frequency == 0).count();
            (0..zeros / 3).for_each(|_| bits.push(3, RUN_BITS));
            bits.push(zeros as u64 % 3, RUN_BITS);
            symbol += zeros;
        }
    }
}

/// Appends numbers of any width as one stream of bits.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    word: u64,
    filled: u32,
}

impl BitWriter<'_> {
    fn push(&mut self, bits: u64, count: u32) {
        self.push_half(bits & 0xffff_ffff, count.min(32));
        if count > 32 {
            self.push_half(bits >> 32, count - 32);
        }
    }

    /// At most 32 bits, where fewer than 32 wait.
    fn push_half(&mut self, bits: u64, count: u32) {
        self.word |= bits << self.filled;
        self.filled += count;
        if self.filled >= 32 {
            self.out.extend_from_slice(&(self.word as u32).to_le_bytes());
            self.word >>= 32;
            self.filled -= 32;
        }
    }

    fn finish(self) {
        self.out.extend_from_slice(&self.word.to_le_bytes()[..self.filled.div_ceil(8) as usize]);
    }
}

/// Frequencies of the numbers to be coded, and about how many bits they take.
struct Estimate {
    frequencies: Frequencies,
    symbols: Range<u8>,
    bits: f64,
}

fn estimate(numbers: &[u64]) -> Estimate {
    // Four tables take turns, because a count would wait until the previous one is stored if neighbours are equal.
    let mut counted = [[0_u32; 256]; 4];
    let mut plain_bits = 0;
    for numbers in numbers.chunks(counted.len()) {
        for (number, counts) in numbers.iter().zip(&mut counted) {
            let (symbol, plain) = symbol_of(*number);
            counts[symbol as usize] += 1;
            plain_bits += u64::from(plain);
        }
    }
    let counts = std::array::from_fn(|symbol| counted.iter().map(|counts| counts[symbol]).sum());
    let frequencies = frequencies_of(&counts);
    let share = |(count, frequency): (&u32, &u16)| match count {
        0 => 0.0,
        // 6 bits are a guess of what a frequency takes.
        _ => f64::from(*count) * (8.0 - f64::from(*frequency).log2()) + 6.0,
    };
    let bits = plain_bits as f64 + counts.iter().zip(&frequencies).map(share).sum::<f64>();
    let occurs = |count: &u32| *count > 0;
    let first = counts.iter().position(occurs).expect("there are numbers") as u8;
    let last = counts.iter().rposition(occurs).expect("there are numbers") as u8;
    Estimate { frequencies, symbols: first..last, bits }
}

/// Appends the offsets in `scratch.packed`, at least two, unless that takes more than `most_bytes`.
pub(super) fn push_entropy(
    cpu: CpuFeatures,
    scratch: &mut IntegerScratch,
    most_bytes: usize,
    out: &mut Vec<u8>,
) -> bool {
    let IntegerScratch { packed, residuals: differences, sample, amounts: folded, .. } = scratch;
    let offsets = &*packed;
    differences.clear();
    differences.extend(offsets.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as i64));
    take_sample(cpu, differences, sample);
    let centre = sample[sample.len() / 2];
    folded.clear();
    folded.extend(differences.iter().map(|difference| fold_sign(difference.wrapping_sub(centre) as u64)));
    let (by_offset, by_difference) = (estimate(offsets), estimate(folded));
    let differs = by_difference.bits < by_offset.bits;
    let (numbers, estimate) = if differs { (&*folded, by_difference) } else { (offsets, by_offset) };
    if estimate.bits > most_bytes as f64 * 8.0 {
        return false;
    }
    let start = out.len();
    let first = estimate.symbols.start;
    if differs {
        let (base_width, centre_width) = (unsigned_width(offsets[0]), signed_width(centre));
        out.extend_from_slice(&[(base_width | centre_width << 4) as u8, first]);
        push(out, offsets[0], base_width);
        push(out, centre as u64, centre_width);
    } else {
        out.extend_from_slice(&[OFFSETS << 4, first]);
    }
    let symbols: Vec<u8> = numbers.iter().map(|number| symbol_of(*number).0).collect();
    let coded = encode_symbols(&estimate.frequencies, first, &symbols);
    let mut bits = BitWriter { out, word: 0, filled: 0 };
    push_frequencies(&estimate.frequencies, first, &mut bits);
    coded.states.iter().for_each(|state| bits.push((*state).into(), 8));
    coded.bits.iter().for_each(|(value, count)| bits.push((*value).into(), (*count).into()));
    for number in numbers.iter().filter(|_| estimate.symbols.end >= CLASSES) {
        let plain = symbol_of(*number).1;
        bits.push(number & !(u64::MAX << plain), plain);
    }
    bits.finish();
    let fits = out.len() - start <= most_bytes;
    if !fits {
        out.truncate(start);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offsets: &[u64]) {
        let mut scratch = IntegerScratch { packed: offsets.to_vec(), ..Default::default() };
        let mut bytes = Vec::new();
        assert!(push_entropy(CpuFeatures::best(), &mut scratch, usize::MAX, &mut bytes));
        let vector = Entropy::parse(offsets.len(), &bytes).unwrap();
        for cpu in CpuFeatures::available() {
            for end in [1, 2, offsets.len() / 2, offsets.len() - 1, offsets.len()] {
                let mut decoded = [0; VECTOR_VALUES];
                vector.decode(cpu, 0..end, &mut decoded).unwrap();
                assert_eq!(decoded[..end], offsets[..end], "{cpu:?}");
                let mut narrow: Offsets<u8> = [0; VECTOR_VALUES];
                vector.decode(cpu, 0..end, &mut narrow).unwrap();
                assert!(narrow[..end].iter().zip(offsets).all(|(narrow, offset)| *narrow == *offset as u8));
                assert_eq!(vector.get(cpu, end - 1), Ok(offsets[end - 1]));
            }
            for cut in 0..bytes.len() {
                let mut decoded: Offsets<u64> = [0; VECTOR_VALUES];
                let cut = Entropy::parse(offsets.len(), &bytes[..cut]);
                assert!(cut.and_then(|cut| cut.decode(cpu, 0..offsets.len(), &mut decoded)).is_err());
            }
        }
    }

    #[test]
    fn numbers_of_every_size_come_back() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        for count in [2, 3, 9, 17, 100, 1023, 1024] {
            check(&vec![5; count]);
            check(&(0..count).map(|_| random() % 5 * (random() % 3)).collect::<Vec<_>>());
            check(&(0..count).map(|_| random()).collect::<Vec<_>>());
            check(&(0..count).map(|_| random() >> (random() % 64)).collect::<Vec<_>>());
            check(&(0..count).map(|row| [0, u64::MAX][row % 2]).collect::<Vec<_>>());
            let mut walk = random();
            let mut step = |bound| {
                walk = walk.wrapping_add(random() % bound).wrapping_sub(bound / 3);
                walk
            };
            check(&(0..count).map(|_| step(7)).collect::<Vec<_>>());
            check(&(0..count).map(|_| step(900)).collect::<Vec<_>>());
            check(&(0..count).map(|_| step(1 << 40)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_symbol_and_its_plain_bits_are_the_number() {
        for number in (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX >> bit, 5 << bit, 7 << bit])
        {
            let (symbol, plain) = symbol_of(number);
            let (leading, count) = class(symbol);
            assert_eq!((leading << count | number & !(u64::MAX << plain), count), (number, plain));
        }
    }
}
