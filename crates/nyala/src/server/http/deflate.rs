//! Deflate (RFC 1951) for answers: one pass with the fixed codes and a hash table of 16 KiB, which is cleared for each
//! segment.
//!
//! The rows of an answer resemble the rows before them. So one lookup of the last place of the same six bytes finds
//! most of what a search would find. Shorter matches are often chance matches in numbers, which cost time and save
//! nothing. For the same reason there are no lookups inside numbers: rows of five numbers then take half the time,
//! because the branches are predictable, and a sixth more bytes.

/// The size of the hash table of positions: so small that clearing it costs little beside the shortest segment.
const SLOTS_LOG: u32 = 12;
const MATCH_MIN: usize = 6;
const MATCH_MAX: usize = 258;
const DISTANCE_MAX: usize = 32 << 10;
/// After `1 << SKIP_LOG` bytes without a match only every second position is looked up, then every third, and so on.
const SKIP_LOG: usize = 4;
/// Longer inputs are split, because positions have 32 bits.
const CHUNK_BYTES: usize = 1 << 30;

/// The code of each literal: its bits and their number.
const LITERALS: [(u32, u32); 256] = literals();
/// The code and extra bits of each match length.
const LENGTHS: [(u32, u32); MATCH_MAX + 1] = lengths();

const END_OF_BLOCK: (u32, u32) = (0, 7);
const FIXED_CODES: u32 = 1;

/// Appends a segment to a stream. The stream ends after the last segment; after any other segment, all of it can be
/// decompressed.
pub(super) fn deflate(segment: &[u8], last: bool, out: &mut Vec<u8>) {
    out.reserve(segment.len() / 3 + 64);
    let mut bits = Bits { out, buffered: 0, count: 0 };
    for chunk in segment.chunks(CHUNK_BYTES) {
        bits.put(FIXED_CODES << 1, 3);
        matches(chunk, &mut bits);
        bits.put(END_OF_BLOCK.0, END_OF_BLOCK.1);
    }
    if last {
        bits.put(FIXED_CODES << 1 | 1, 3);
        bits.put(END_OF_BLOCK.0, END_OF_BLOCK.1);
        bits.align();
    } else {
        // An empty stored block ends at a byte boundary.
        bits.put(0, 3);
        bits.align();
        bits.out.extend_from_slice(&[0, 0, 0xff, 0xff]);
    }
}

/// Writes literals and matches.
fn matches(input: &[u8], bits: &mut Bits<'_>) {
    let mut positions = [0_u32; 1 << SLOTS_LOG];
    // Everything before `written` is in the stream.
    let (mut at, mut written) = (0, 0);
    while let Some(eight) = input.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let eight = u64::from_le_bytes(*eight);
        let numbers = bytes_of_numbers(eight);
        if numbers > 0 {
            at += numbers;
            continue;
        }
        let bytes = eight << (64 - 8 * MATCH_MIN);
        let slot = &mut positions[(bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS_LOG)) as usize];
        // Positions are stored plus one, so that zero means none.
        let before = std::mem::replace(slot, at as u32 + 1) as usize;
        let same = match before > 0 && at + 1 - before <= DISTANCE_MAX {
            true => common_bytes(&input[before - 1..], &input[at..]),
            false => 0,
        };
        if same < MATCH_MIN {
            at += 1 + ((at - written) >> SKIP_LOG);
            continue;
        }
        let distance = at + 1 - before;
        let earlier = input[written..at].iter().rev().zip(input[..before - 1].iter().rev());
        let earlier = earlier.take(MATCH_MAX - same).take_while(|(now, before)| now == before).count();
        bits.literals(&input[written..at - earlier]);
        bits.copy(earlier + same, distance);
        at += same;
        written = at;
    }
    bits.literals(&input[written..]);
}

/// How many of eight bytes are digits and commas before the first other byte.
fn bytes_of_numbers(eight: u64) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The highest bit of each byte is the result for that byte.
    let low_bits = eight & (EACH * 0x7f);
    let is_from = |byte: u8| low_bits + EACH * u64::from(0x80 - byte);
    let digits = is_from(b'0') & !is_from(b'9' + 1);
    let commas = is_from(b',') & !is_from(b',' + 1);
    let others = (!(digits | commas) | eight) & (EACH * 0x80);
    others.trailing_zeros() as usize / 8
}

/// The length of the common prefix of two texts, up to the longest match.
fn common_bytes(before: &[u8], now: &[u8]) -> usize {
    let most = now.len().min(MATCH_MAX);
    let (before, now) = (&before[..most], &now[..most]);
    let mut same = 0;
    while let (Some(a), Some(b)) = (before[same..].first_chunk::<8>(), now[same..].first_chunk::<8>()) {
        let different = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if different != 0 {
            return same + different.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    same + before[same..].iter().zip(&now[same..]).take_while(|(a, b)| a == b).count()
}

/// Writes bits, lowest first.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    buffered: u64,
    /// Below 32 between two calls.
    count: u32,
}

impl Bits<'_> {
    fn put(&mut self, bits: u32, count: u32) {
        self.buffered |= u64::from(bits) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.out.extend_from_slice(&(self.buffered as u32).to_le_bytes());
            self.buffered >>= 32;
            self.count -= 32;
        }
    }

    fn literals(&mut self, bytes: &[u8]) {
        let (fours, rest) = bytes.as_chunks::<4>();
        for four in fours {
            let ascii = u32::from_le_bytes(*four);
            if ascii & 0x8080_8080 == 0 {
                // Four codes at once: each is the byte plus 0x30, beginning with the highest bit.
                self.put((ascii + 0x3030_3030).reverse_bits().swap_bytes(), 32);
            } else {
                self.few_literals(four);
            }
        }
        self.few_literals(rest);
    }

    fn few_literals(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let (code, count) = LITERALS[usize::from(*byte)];
            self.put(code, count);
        }
    }

    fn copy(&mut self, length: usize, distance: usize) {
        let (code, count) = LENGTHS[length];
        let (far, far_count) = distance_code(distance as u32);
        // At most 13 and 18 bits.
        self.put(code | far << count, count + far_count);
    }

    fn align(&mut self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.buffered.to_le_bytes()[..bytes]);
        (self.buffered, self.count) = (0, 0);
    }
}

/// The code and extra bits of a distance.
fn distance_code(distance: u32) -> (u32, u32) {
    let beyond = distance - 1;
    if beyond < 4 {
        return (reversed(beyond, 5), 5);
    }
    let log = beyond.ilog2();
    let code = 2 * log + (beyond >> (log - 1) & 1);
    let further = beyond & ((1 << (log - 1)) - 1);
    (reversed(code, 5) | further << 5, 5 + log - 1)
}

/// Codes begin with their highest bit, all other values with the lowest.
const fn reversed(code: u32, count: u32) -> u32 {
    code.reverse_bits() >> (32 - count)
}

const fn literals() -> [(u32, u32); 256] {
    let mut codes = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        codes[byte] = match byte as u32 {
            low @ 0..144 => (reversed(0x30 + low, 8), 8),
            high => (reversed(0x190 + high - 144, 9), 9),
        };
        byte += 1;
    }
    codes
}

const fn lengths() -> [(u32, u32); MATCH_MAX + 1] {
    let mut codes = [(0, 0); MATCH_MAX + 1];
    let mut length = 3;
    while length <= MATCH_MAX {
        // Symbols from 257 on: eight of one length each, then four each of two, four, eight, ... lengths.
        let beyond = length as u32 - 3;
        let (symbol, further, further_count) = match beyond {
            0..8 => (257 + beyond, 0, 0),
            255 => (285, 0, 0),
            _ => {
                let log = beyond.ilog2();
                (257 + 4 * (log - 1) + (beyond >> (log - 2) & 3), beyond & ((1 << (log - 2)) - 1), log - 2)
            }
        };
        let (code, count) = match symbol {
            256..280 => (reversed(symbol - 256, 7), 7),
            _ => (reversed(0xc0 + symbol - 280, 8), 8),
        };
        codes[length] = (code | further << count, count + further_count);
        length += 1;
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn inflated(compressed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        flate2::read::DeflateDecoder::new(compressed).read_to_end(&mut plain).expect("it is deflate");
        plain
    }

    #[test]
    fn bytes_of_numbers_are_recognised() {
        for byte in 0..=u8::MAX {
            let is_of_number = byte.is_ascii_digit() || byte == b',';
            for place in 0..8 {
                let mut eight = *b"1,234,56";
                eight[place] = byte;
                let expected = if is_of_number { 8 } else { place };
                assert_eq!(bytes_of_numbers(u64::from_le_bytes(eight)), expected, "{byte} at {place}");
            }
        }
    }

    #[test]
    fn compressed_data_decompresses() {
        let row = |row: u32| {
            format!("[\"2016-01-01T00:{:02}:{:02}Z\",{}],", row / 60, row % 60, row * 7_919 % 1_000)
        };
        let rows: String = (0..3_000).map(row).collect();
        let mut noise = 1_u64;
        let mut random = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        let noise: Vec<u8> = (0..200_000).map(|_| random()).collect();
        // Every length of a match, and far ones.
        let mut lengths = Vec::new();
        for length in 0..300 {
            lengths.extend_from_slice(&noise[..length]);
            lengths.push(length as u8);
        }
        let far = [&noise[..40_000], &noise[10_000..40_000], &noise[..40_000]].concat();
        let texts: [&[u8]; 8] =
            [b"", b"a", b"abcabcabcabc", &[7; 100_000], rows.as_bytes(), &noise, &lengths, &far];
        for text in texts {
            let mut whole = Vec::new();
            deflate(text, true, &mut whole);
            assert!(inflated(&whole) == text, "{} bytes", text.len());
            let mut segments = Vec::new();
            let (first, rest) = text.split_at(text.len() / 3);
            deflate(first, false, &mut segments);
            deflate(rest, true, &mut segments);
            assert!(inflated(&segments) == text, "{} bytes in two segments", text.len());
        }
        let mut compressed = Vec::new();
        deflate(rows.as_bytes(), true, &mut compressed);
        assert!(compressed.len() * 3 < rows.len(), "{} of {}", compressed.len(), rows.len());
    }
}
