//! Entropy coding by pco, for settled data where size is preferred over speed.
//!
//! The whole vector is decoded whatever the range: a tenth of the other encodings' speed. Bytes: pco's
//! standalone format of u64 offsets.

use std::ops::Range;

use super::vector::Offsets;
use crate::directory::VECTOR_VALUES;
use crate::error::{CorruptBlock, Result, ensure};
use crate::narrow::Narrow;

const LEVEL: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entropy<'a> {
    rows: usize,
    bytes: &'a [u8],
}

impl<'a> Entropy<'a> {
    pub(super) fn parse(rows: usize, bytes: &'a [u8]) -> Self {
        Self { rows, bytes }
    }

    fn decode_all(&self, values: &mut [u64; VECTOR_VALUES]) -> Result<()> {
        let progress = pco::standalone::simple_decompress_into(self.bytes, &mut values[..self.rows])
            .map_err(|_| CorruptBlock::new("entropy-coded vector does not decode"))?;
        ensure(
            progress.finished && progress.n_processed == self.rows,
            "entropy-coded vector of another length",
        )
    }

    pub(super) fn decode<T: Narrow>(&self, rows: Range<usize>, out: &mut Offsets<T>) -> Result<()> {
        let mut values = [0; VECTOR_VALUES];
        self.decode_all(&mut values)?;
        for (out, value) in out[rows.clone()].iter_mut().zip(&values[rows]) {
            *out = T::truncate(*value);
        }
        Ok(())
    }

    pub(super) fn get(&self, row: usize) -> Result<u64> {
        let mut values = [0; VECTOR_VALUES];
        self.decode_all(&mut values)?;
        Ok(values[row])
    }
}

/// Appends `offsets`; answers nothing where pco refuses (it does not for numbers of one type).
pub(super) fn push_entropy(offsets: &[u64], out: &mut Vec<u8>) -> Option<()> {
    let config = pco::ChunkConfig::default().with_compression_level(LEVEL);
    let bytes = pco::standalone::simple_compress(offsets, &config).ok()?;
    out.extend_from_slice(&bytes);
    Some(())
}
