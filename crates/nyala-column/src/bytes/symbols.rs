//! FSST: frequent substrings of up to 8 bytes become one-byte codes, so that each string can be decoded alone.
//!
//! The library trains and codes. Decoding is our own, because it must survive any bytes. Code 255 escapes
//! the byte that follows it.
//!
//! Table bytes: symbol count, a length byte (1..=8) per symbol, the symbols' bytes.

use crate::error::{CorruptBlock, Result, ensure};
use crate::little_endian::{Reader, load};

const ESCAPE: u8 = 255;
const SYMBOL_BYTES: usize = 8;

/// A parsed symbol table; codes without a symbol have length 0.
#[derive(Debug, Clone)]
pub(super) struct SymbolTable {
    symbols: [[u8; SYMBOL_BYTES]; 256],
    lengths: [u8; 256],
}

impl SymbolTable {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.u8()? as usize;
        let mut symbols = Self { symbols: [[0; SYMBOL_BYTES]; 256], lengths: [0; 256] };
        ensure(count < 256, "too many symbols")?;
        symbols.lengths[..count].copy_from_slice(reader.take(count)?);
        for code in 0..count {
            let length = symbols.lengths[code] as usize;
            ensure((1..=SYMBOL_BYTES).contains(&length), "symbol length")?;
            symbols.symbols[code] = load(reader.take(length)?).to_le_bytes();
        }
        Ok(symbols)
    }

    /// Appends what `coded` stands for.
    pub(super) fn decode(&self, coded: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        // Eight bytes are written per code and only its length is kept.
        out.resize(start + SYMBOL_BYTES * (coded.len() + 1), 0);
        let mut end = start;
        let mut codes = coded.iter();
        while let Some(code) = codes.next() {
            if *code == ESCAPE {
                let Some(byte) = codes.next() else {
                    out.truncate(start);
                    return Err(CorruptBlock::new("escape at the end of a string"));
                };
                out[end] = *byte;
                end += 1;
                continue;
            }
            let length = self.lengths[*code as usize];
            if length == 0 {
                out.truncate(start);
                return Err(CorruptBlock::new("code without a symbol"));
            }
            out[end..end + SYMBOL_BYTES].copy_from_slice(&self.symbols[*code as usize]);
            end += length as usize;
        }
        out.truncate(end);
        Ok(())
    }
}

/// Appends the table of `compressor`.
pub(super) fn push_symbols(compressor: &fsst::Compressor, out: &mut Vec<u8>) {
    let (symbols, lengths) = (compressor.symbol_table(), compressor.symbol_lengths());
    out.push(symbols.len() as u8);
    out.extend_from_slice(lengths);
    for (symbol, length) in symbols.iter().zip(lengths) {
        out.extend_from_slice(&symbol.to_u64().to_le_bytes()[..*length as usize]);
    }
}

/// A symbol table for writing, and how well it compressed the strings that it was trained on.
pub(crate) struct TrainedSymbols {
    pub(super) compressor: fsst::Compressor,
    /// Coded bytes per byte, times 256, when it was trained.
    pub(super) bytes: usize,
}

impl std::fmt::Debug for TrainedSymbols {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} symbols", self.compressor.n_symbols())
    }
}
