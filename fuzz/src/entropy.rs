//! The entropy decoder: a block of one vector that is coded so, drawn in `docs/format/column.md`.

use nyala_column::{CpuFeatures, IntegerBlock, decode_arbitrary};

/// The encoding's number in the directory.
const ENTROPY: u8 = 6;

/// Reads `bytes` as rows (2 bytes), bytes of the range (1), and the vector's payload. All levels agree.
pub fn run(bytes: &[u8]) -> bool {
    let Some((&[low, high, width], payload)) = bytes.split_first_chunk::<3>() else { return false };
    let Ok(length) = u16::try_from(payload.len()) else { return false };
    let rows = 1 + u16::from_le_bytes([low, high]) % 1024;
    let width = 1 + width % 8;
    let mut block = vec![1, 1];
    block.extend_from_slice(&rows.to_le_bytes());
    block.extend_from_slice(&1_u16.to_le_bytes());
    // Two bytes for payload ends; no bytes for minima, as many as asked for ranges, none for sums and the base.
    block.extend_from_slice(&[0b010, width << 4, 0, ENTROPY]);
    block.extend_from_slice(&length.to_le_bytes());
    block.extend(std::iter::repeat_n(0xff, usize::from(width - 1)));
    // Added to a minimum of 0 it stays a number of 64 bits with a sign.
    block.push(0x7f);
    block.extend_from_slice(payload);
    let mut read: Option<Option<Vec<i64>>> = None;
    for level in CpuFeatures::available() {
        let _ = decode_arbitrary(level, &block);
        let mut values = Vec::new();
        let parsed = IntegerBlock::parse(&block).expect("the directory is sound").with_cpu_features(level);
        let values = parsed.decode_range(0..parsed.len(), &mut values).is_ok().then_some(values);
        match &read {
            Some(before) => assert_eq!(*before, values, "levels differ"),
            None => read = Some(values),
        }
    }
    read.flatten().is_some()
}

/// What the encoder made of the fixtures.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/nyala-column/tests/fixtures");
        let block = std::fs::read(format!("{folder}/1-integer-{name}")).expect("the fixture is there");
        let rows = u16::from_le_bytes([block[2], block[3]]);
        let [shape, minima, sums] = block[6..9] else { unreachable!("three bytes") };
        let widths = [1 + (shape >> 1 & 3), minima & 0xf, minima >> 4, sums & 0xf, sums >> 4];
        let payload_at = 10 + widths.iter().map(|width| usize::from(*width)).sum::<usize>();
        let mut seed = (rows - 1).to_le_bytes().to_vec();
        seed.push((minima >> 4) - 1);
        seed.extend_from_slice(&block[payload_at..]);
        seed
    };
    ["entropy", "entropy-differences"].map(seed).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        seeds().iter().for_each(|seed| assert!(run(seed)));
    }
}
