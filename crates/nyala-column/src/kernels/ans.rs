//! Tabled asymmetric numeral systems (tANS): codes symbols in little more than their entropy, decodes each by one look-up.
//!
//! A state is one of 256; it stands for a symbol, and names the next state but for some bits, which come from the
//! stream. Symbols go to [`LANES`] states in turn, so that a look-up need not wait for the one before it. The
//! table is small because it is built anew for each vector of 1024 values, and its 256 parts are fine enough for
//! the frequencies of so few. Whatever the bits, a state stays among the 256, so corrupt
//! bits give wrong symbols and nothing worse.

use std::ops::RangeInclusive;

use super::pack::load_word;
#[cfg(target_arch = "x86_64")]
use crate::cpu::Feature;
use crate::cpu::{CpuFeatures, dispatched};

/// States, and the sum of all frequencies.
pub(crate) const STATES: usize = 256;
const STATE_BITS: u32 = STATES.ilog2();
/// States that take turns. With fewer the processor waits; each takes a byte at the start.
pub(crate) const LANES: usize = 8;
/// Step from one state of a symbol to its next. It is odd, so that all states are visited, and spreads them evenly.
const STRIDE: u8 = 163;

/// How many of the states are each symbol's: together all of them.
pub(crate) type Frequencies = [u16; 256];

/// By state: its symbol, and the next state but for the bits that come from the stream.
#[derive(Debug, PartialEq)]
pub(crate) struct DecodeTable {
    symbols: [u8; STATES],
    nexts: [u8; STATES],
    /// How many bits come from the stream: at most 8.
    bits: [u8; STATES],
}

/// Each state's symbol. The frequencies sum to [`STATES`].
fn symbols_of_states(frequencies: &Frequencies, first: u8) -> [u8; STATES] {
    let mut symbols = [0; STATES];
    let (mut state, mut left) = (0_u8, STATES);
    for (symbol, frequency) in (first..=u8::MAX).zip(&frequencies[first as usize..]) {
        if left == 0 {
            break;
        }
        for _ in 0..*frequency {
            symbols[state as usize] = symbol;
            state = state.wrapping_add(STRIDE);
        }
        left = left.saturating_sub((*frequency).into());
    }
    symbols
}

/// Symbols up to which a table is made symbol by symbol.
#[cfg(target_arch = "x86_64")]
const FEW_SYMBOLS: usize = 32;

/// The table to decode by, with `rename(symbol)` instead of each symbol. The others do not occur.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
#[inline]
pub(crate) fn decode_table(
    cpu: CpuFeatures,
    frequencies: &Frequencies,
    symbols: RangeInclusive<u8>,
    rename: impl Fn(u8) -> u8,
) -> DecodeTable {
    let mut table = match cpu.feature() {
        // SAFETY: a CpuFeatures exists only for instructions that the processor has.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 if symbols.len() <= FEW_SYMBOLS => unsafe { x86::table_avx512(frequencies, symbols) },
        _ => table_by_states(frequencies, *symbols.start()),
    };
    table.symbols.iter_mut().for_each(|symbol| *symbol = rename(*symbol));
    table
}

fn table_by_states(frequencies: &Frequencies, first: u8) -> DecodeTable {
    let mut table =
        DecodeTable { symbols: symbols_of_states(frequencies, first), nexts: [0; STATES], bits: [0; STATES] };
    // A symbol's states are numbered from its frequency on, below its double.
    let mut numbers = *frequencies;
    for ((symbol, next), bits) in table.symbols.iter().zip(&mut table.nexts).zip(&mut table.bits) {
        let number = numbers[*symbol as usize];
        numbers[*symbol as usize] = number.wrapping_add(1);
        let width = STATE_BITS - u32::from(number | 1).ilog2().min(STATE_BITS);
        (*next, *bits) = ((u32::from(number) << width) as u8, width as u8);
    }
    table
}

/// Decodes `out.len()` symbols of `count` from bit `at` of the stream, where the lanes' first states are; returns
/// the bit that follows. Past the end of the stream are zeros, for the caller to judge.
#[allow(unsafe_code, reason = "calls of the per-instruction-set copies, see SAFETY")]
pub(crate) fn decode_symbols(
    cpu: CpuFeatures,
    table: &DecodeTable,
    stream: &[u8],
    at: usize,
    count: usize,
    out: &mut [u8],
) -> usize {
    let mut lanes =
        Lanes { states: std::array::from_fn(|lane| read(stream, at + lane * 8, 8) as u8), at: at + 64 };
    // A lane's last symbol has no next state.
    let moving = count.saturating_sub(LANES).min(out.len());
    let (rounds, rest) = out.split_at_mut(moving / LANES * LANES);
    let rounds = rounds.as_chunks_mut().0;
    match cpu.feature() {
        // SAFETY: a CpuFeatures exists only for instructions that the processor has.
        #[cfg(target_arch = "x86_64")]
        Feature::Avx512 => unsafe { x86::decode_rounds_avx512(table, stream, &mut lanes, rounds) },
        _ => decode_rounds(cpu, table, stream, &mut lanes, rounds),
    }
    let done = rounds.len() * LANES;
    for (index, symbol) in (done..).zip(rest) {
        let state = &mut lanes.states[index % LANES];
        let found = usize::from(*state);
        *symbol = table.symbols[found];
        if index < moving {
            let bits = table.bits[found];
            *state = table.nexts[found].wrapping_add(read(stream, lanes.at, bits.into()) as u8);
            lanes.at += usize::from(bits);
        }
    }
    lanes.at
}

/// Where decoding is: the states, and the next bit of the stream.
struct Lanes {
    states: [u8; LANES],
    at: usize,
}

dispatched! {
    fn decode_rounds(table: &DecodeTable, stream: &[u8], lanes: &mut Lanes, rounds: &mut [[u8; LANES]])
        = decode_rounds_body;
}

#[inline(always)]
fn decode_rounds_body(table: &DecodeTable, stream: &[u8], lanes: &mut Lanes, rounds: &mut [[u8; LANES]]) {
    let Lanes { mut states, mut at } = *lanes;
    for round in rounds {
        for (states, symbols) in states.as_chunks_mut::<4>().0.iter_mut().zip(round.as_chunks_mut::<4>().0) {
            // Four times at most eight bits.
            let mut word = load_word(stream, at / 8) >> (at % 8);
            for (state, symbol) in states.iter_mut().zip(symbols) {
                let found = usize::from(*state);
                let bits = table.bits[found];
                *symbol = table.symbols[found];
                *state = table.nexts[found].wrapping_add((word & !(u64::MAX << (bits & 63))) as u8);
                word >>= bits & 63;
                at += usize::from(bits);
            }
        }
    }
    *lanes = Lanes { states, at };
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "loads of whole arrays, see SAFETY")]
mod x86 {
    use std::arch::x86_64::*;

    use std::ops::RangeInclusive;

    use super::{DecodeTable, Frequencies, LANES, Lanes, STATE_BITS, STATES, STRIDE, load_word};

    /// Position of each state when states are visited by strides.
    const POSITIONS: [u8; STATES] = {
        let mut indexes = [0; STATES];
        let mut index = 0;
        while index < STATES {
            indexes[(index * STRIDE as usize) % STATES] = index as u8;
            index += 1;
        }
        indexes
    };

    const IOTA: [u8; 64] = {
        let mut iota = [0; 64];
        let mut index = 0;
        while index < 64 {
            iota[index] = index as u8;
            index += 1;
        }
        iota
    };

    /// The table, for all states of a symbol at once. Counting them one by one would wait for each count to be stored.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
    pub(super) fn table_avx512(frequencies: &Frequencies, symbols: RangeInclusive<u8>) -> DecodeTable {
        const PIECE: usize = 64;
        let mut runs = [0; STATES + PIECE];
        let mut start = 0;
        for symbol in symbols.clone() {
            let frequency = usize::from(frequencies[symbol as usize]);
            for at in (start..start + frequency).step_by(PIECE) {
                // The next symbol overwrites what is too much.
                runs[at..at + PIECE].fill(symbol);
            }
            start += frequency;
        }
        let runs = load(runs.first_chunk().expect("longer than the states"));
        let owners = load(&POSITIONS).map(|indexes| permute(&runs, indexes));
        let zero = _mm512_setzero_si512();
        let (mut numbers, mut bits) = ([zero; 4], [zero; 4]);
        // SAFETY: 64 bytes.
        let iota = unsafe { _mm512_loadu_si512(IOTA.as_ptr().cast()) };
        for symbol in symbols {
            let frequency = frequencies[symbol as usize];
            if frequency == 0 {
                continue;
            }
            let digits = frequency.ilog2();
            // Numbers go from the frequency on; those from the next power of two on take a bit less.
            let most = _mm512_set1_epi8(((2_u32 << digits) - u32::from(frequency) - 1) as i8);
            let widths = [STATE_BITS - digits, (STATE_BITS - digits).saturating_sub(1)]
                .map(|width| _mm512_set1_epi8(width as i8));
            let mut before = 0_u32;
            for ((owners, numbers), bits) in owners.iter().zip(&mut numbers).zip(&mut bits) {
                let own = _mm512_cmpeq_epi8_mask(*owners, _mm512_set1_epi8(symbol as i8));
                let counts = _mm512_add_epi8(iota, _mm512_set1_epi8(before as i8));
                let named = _mm512_add_epi8(counts, _mm512_set1_epi8(frequency as i8));
                let less = _mm512_cmpgt_epu8_mask(counts, most);
                let width = _mm512_mask_blend_epi8(less, widths[0], widths[1]);
                *numbers = _mm512_mask_expand_epi8(*numbers, own, named);
                *bits = _mm512_mask_expand_epi8(*bits, own, width);
                before += own.count_ones();
            }
        }
        // Bytes have no shift: a product's lower byte is that of the lower bytes.
        let powers =
            _mm512_broadcast_i32x4(_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
        let mut table = DecodeTable { symbols: [0; STATES], nexts: [0; STATES], bits: [0; STATES] };
        store(owners, &mut table.symbols);
        store(bits, &mut table.bits);
        for (number, bits) in numbers.iter_mut().zip(bits) {
            let power = _mm512_shuffle_epi8(powers, bits);
            let even = _mm512_and_si512(_mm512_mullo_epi16(*number, power), _mm512_set1_epi16(0xff));
            let odd = _mm512_mullo_epi16(_mm512_srli_epi16::<8>(*number), _mm512_srli_epi16::<8>(power));
            *number = _mm512_or_si512(even, _mm512_slli_epi16::<8>(odd));
        }
        store(numbers, &mut table.nexts);
        table
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(pieces: [__m512i; 4], bytes: &mut [u8; STATES]) {
        for (piece, bytes) in pieces.into_iter().zip(bytes.as_chunks_mut::<64>().0) {
            // SAFETY: 64 bytes.
            unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), piece) };
        }
    }

    /// The table in registers: all lanes' look-ups are permutations of bytes, and one bit deposit hands out what
    /// they take from the stream.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn decode_rounds_avx512(
        table: &DecodeTable,
        stream: &[u8],
        lanes: &mut Lanes,
        rounds: &mut [[u8; LANES]],
    ) {
        let (symbols, nexts) = (load(&table.symbols), load(&table.nexts));
        // 0 to 8 bits as so many ones.
        let ones =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 3, 7, 15, 31, 63, 127, -1, 0, 0, 0, 0, 0, 0, 0));
        let masks = load(&table.bits).map(|bits| _mm512_shuffle_epi8(ones, bits));
        let mut states = u64::from_le_bytes(lanes.states);
        let mut at = lanes.at;
        for round in rounds {
            let indexes = _mm512_castsi128_si512(_mm_cvtsi64_si128(states as i64));
            *round = look_up(&symbols, indexes).to_le_bytes();
            let mask = look_up(&masks, indexes);
            let taken = mask.count_ones() as usize;
            let mut word = load_word(stream, at / 8) >> (at % 8);
            if taken > 57 {
                word |= load_word(stream, at / 8 + 7) >> (at % 8) << 56;
            }
            // The bits that come are 0 in what they are put into.
            states = look_up(&nexts, indexes) | _pdep_u64(word, mask);
            at += taken;
        }
        *lanes = Lanes { states: states.to_le_bytes(), at };
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(bytes: &[u8; STATES]) -> [__m512i; 4] {
        // SAFETY: 64 bytes each.
        [0, 64, 128, 192].map(|start| unsafe { _mm512_loadu_si512(bytes[start..start + 64].as_ptr().cast()) })
    }

    /// The bytes at all indexes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn permute(bytes: &[__m512i; 4], indexes: __m512i) -> __m512i {
        let low = _mm512_permutex2var_epi8(bytes[0], indexes, bytes[1]);
        let high = _mm512_permutex2var_epi8(bytes[2], indexes, bytes[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(indexes), low, high)
    }

    /// The bytes at the first eight indexes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn look_up(bytes: &[__m512i; 4], indexes: __m512i) -> u64 {
        _mm_cvtsi128_si64(_mm512_castsi512_si128(permute(bytes, indexes))) as u64
    }
}

/// `count` bits (at most 57) of a stream from bit `at` on, zeros past its end.
#[inline(always)]
pub(crate) fn read(stream: &[u8], at: usize, count: u32) -> u64 {
    (load_word(stream, at / 8) >> (at % 8)) & !(u64::MAX << count)
}

/// Coded symbols: the lanes' first states, and for each symbol its bits and their number.
#[derive(Debug)]
pub(crate) struct Coded {
    pub(crate) states: [u8; LANES],
    pub(crate) bits: Vec<(u8, u8)>,
}

/// Encodes symbols from the last to the first, because a state follows from the next one. Each symbol has a frequency.
pub(crate) fn encode_symbols(frequencies: &Frequencies, first: u8, symbols: &[u8]) -> Coded {
    let mut starts = [0_u16; 256];
    let mut sum = 0;
    for (start, frequency) in starts.iter_mut().zip(frequencies) {
        *start = sum;
        sum += *frequency;
    }
    assert_eq!(sum as usize, STATES, "frequencies are of all states");
    let mut states_of = [0_u8; STATES];
    let mut indexes = starts;
    for (state, symbol) in (0..=u8::MAX).zip(symbols_of_states(frequencies, first)) {
        let index = &mut indexes[symbol as usize];
        states_of[*index as usize] = state;
        *index += 1;
    }
    let mut coded = Coded { states: [0; LANES], bits: vec![(0, 0); symbols.len()] };
    for (index, symbol) in symbols.iter().enumerate().rev() {
        let (frequency, start) = (frequencies[*symbol as usize], starts[*symbol as usize]);
        let state = &mut coded.states[index % LANES];
        if index + LANES >= symbols.len() {
            *state = states_of[start as usize];
            continue;
        }
        let target = STATES as u16 + u16::from(*state);
        let mut bits = STATE_BITS - u32::from(frequency).ilog2();
        if target >> bits < frequency {
            bits -= 1;
        }
        coded.bits[index] = ((target & !(u16::MAX << bits)) as u8, bits as u8);
        *state = states_of[(start + (target >> bits) - frequency) as usize];
    }
    coded
}

/// Divides the states among symbols in proportion to `counts`. A symbol that occurs gets at least one state.
///
/// Some count must not be 0.
pub(crate) fn frequencies_of(counts: &[u32; 256]) -> Frequencies {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    assert!(total > 0, "symbols have frequencies");
    let share = |count: u32| match count {
        0 => 0,
        _ => ((u64::from(count) * STATES as u64 + total / 2) / total).max(1) as u16,
    };
    let mut frequencies: Frequencies = counts.map(share);
    let mut sum: usize = frequencies.iter().map(|frequency| usize::from(*frequency)).sum();
    // Rounding is corrected where it costs least: a symbol's bits grow by about its count over its share.
    let cost = |symbol: usize, share: u16| u64::from(counts[symbol]) * 65_536 / u64::from(share);
    while sum > STATES {
        let giving = (0..256).filter(|symbol| frequencies[*symbol] > 1);
        let least = giving.min_by_key(|symbol| cost(*symbol, frequencies[*symbol] - 1));
        frequencies[least.expect("more states than symbols")] -= 1;
        sum -= 1;
    }
    while sum < STATES {
        let taking = (0..256).filter(|symbol| frequencies[*symbol] > 0);
        let most = taking.max_by_key(|symbol| cost(*symbol, frequencies[*symbol]));
        frequencies[most.expect("some symbol occurs")] += 1;
        sum += 1;
    }
    frequencies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_of(coded: &Coded) -> Vec<u8> {
        let states = coded.states.iter().map(|state| (*state, 8));
        let all = states.chain(coded.bits.iter().copied());
        let bits: Vec<u8> =
            all.flat_map(|(bits, count)| (0..count).map(move |bit| bits >> bit & 1)).collect();
        bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
    }

    /// The naive decoder: one state after the other, by the definition.
    fn naive(frequencies: &Frequencies, stream: &[u8], count: usize) -> Vec<u8> {
        let mut at = 0;
        let mut take = |count: u32| {
            let bit = |at: usize| u32::from(stream.get(at / 8).copied().unwrap_or(0) >> (at % 8) & 1);
            at += count as usize;
            (0..count).map(|index| bit(at - count as usize + index as usize) << index).sum::<u32>()
        };
        let mut owners = [0; 256];
        let all = (0..256).flat_map(|symbol| vec![symbol; frequencies[symbol] as usize]);
        all.enumerate().for_each(|(index, symbol)| owners[index * 163 % 256] = symbol);
        let mut states: Vec<u32> = (0..8).map(|_| take(8)).collect();
        (0..count)
            .map(|index| {
                let state = states[index % 8] as usize;
                let symbol = owners[state];
                let before = owners[..state].iter().filter(|owner| **owner == symbol).count();
                let number = u32::from(frequencies[symbol]) + before as u32;
                if index + 8 < count {
                    let bits = 8 - number.ilog2();
                    states[index % 8] = (number << bits) + take(bits) - 256;
                }
                symbol as u8
            })
            .collect()
    }

    fn check(symbols: &[u8]) -> usize {
        let mut counts = [0; 256];
        symbols.iter().for_each(|symbol| counts[*symbol as usize] += 1);
        let first = *symbols.iter().min().unwrap();
        let frequencies = frequencies_of(&counts);
        let stream = stream_of(&encode_symbols(&frequencies, first, symbols));
        assert_eq!(naive(&frequencies, &stream, symbols.len()), symbols);
        let last = *symbols.iter().max().unwrap();
        for cpu in CpuFeatures::available() {
            let table = decode_table(cpu, &frequencies, first..=last, |symbol| symbol);
            assert_eq!(table, table_by_states(&frequencies, first));
            for wanted in [0, 1, 7, 8, 9, symbols.len() / 2, symbols.len()] {
                let mut out = vec![0; wanted.min(symbols.len())];
                let end = decode_symbols(cpu, &table, &stream, 0, symbols.len(), &mut out);
                assert_eq!(out, symbols[..out.len()]);
                assert!(wanted < symbols.len() || end.div_ceil(8) == stream.len());
            }
        }
        stream.len()
    }

    #[test]
    fn symbols_of_all_sorts_come_back() {
        for count in [1, 2, 7, 8, 9, 15, 16, 17, 100, 1023, 1024] {
            check(&vec![9; count]);
            check(&(0..count).map(|index| (index * 7 % 256) as u8).collect::<Vec<_>>());
            check(&(0..count).map(|index| (index * index % 11) as u8 / 3).collect::<Vec<_>>());
            check(&(0..count).map(|index| 250 + u8::from(index == count / 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn symbols_take_little_more_than_their_entropy() {
        let symbols: Vec<u8> = (0..1024_u32)
            .map(|index| (index.wrapping_mul(0x9e37_79b9) >> 16).leading_zeros() as u8 - 16)
            .collect();
        let entropy: f64 = (0..=u8::MAX)
            .map(|symbol| symbols.iter().filter(|found| **found == symbol).count() as f64)
            .filter(|count| *count > 0.0)
            .map(|count| -count * (count / 1024.0).log2() / 8.0)
            .sum();
        let taken = check(&symbols);
        assert!((taken as f64) < entropy * 1.02 + 8.0, "{taken} {entropy}");
    }

    #[test]
    fn any_table_and_any_bits_decode_without_panic() {
        let mut frequencies = [0; 256];
        frequencies[3] = 1;
        let mut out = [0; 1024];
        for cpu in CpuFeatures::available() {
            let table = decode_table(cpu, &frequencies, 0..=3, |symbol| symbol);
            decode_symbols(cpu, &table, &[0xff; 5], 0, 1024, &mut out);
        }
    }
}
