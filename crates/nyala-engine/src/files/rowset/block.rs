//! A column of a group as bytes: cell validity where needed, then the values by type.
//!
//! ```text
//! length of the validity block (32 bits; 0: every cell has a value) | validity block | values
//! values   integers, times, float32 bits: integer block (unsigned 64-bit numbers mapped to keep their order)
//!          float64: float block      booleans: boolean block
//!          decimals: length of the high block (32 bits) | high halves | low halves, both integer blocks
//!          strings, binary: bytes block
//! ```
//! Values are dense: only cells that have one.

use super::format::ColumnEntry;
use crate::rows::column_buffer::{ABSENT, Column, Kind, NULL, VALUE, Values};
use nyala_column::{
    Bitmap, BooleanBlock, ByteValues, BytesBlock, CellState, CorruptBlock, FloatBlock, IntegerBlock,
    Preference, Scratch, ValidityBlock, encode_booleans, encode_bytes, encode_floats, encode_integers,
    encode_validity, from_unsigned, to_unsigned, words_as_floats, words_as_integers,
};
use nyala_core::ColumnType;
use std::ops::Range;

/// What is wrong with a block's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockError(pub(crate) &'static str);

impl From<CorruptBlock> for BlockError {
    fn from(error: CorruptBlock) -> Self {
        Self(error.reason())
    }
}

type Result<T> = std::result::Result<T, BlockError>;

/// How the values of a type are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Integers,
    Unsigned,
    Floats,
    Booleans,
    Wide,
    Bytes,
}

impl Layout {
    pub(crate) fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Bool => Layout::Booleans,
            ColumnType::UInt64 => Layout::Unsigned,
            ColumnType::Float64 => Layout::Floats,
            ColumnType::Decimal { .. } => Layout::Wide,
            ColumnType::String | ColumnType::Binary => Layout::Bytes,
            _ => Layout::Integers,
        }
    }
}

/// Appends the block of a column; the entry's address is the caller's to fill in. Nothing is appended when
/// every cell is absent.
pub(crate) fn encode(
    column: &Column,
    column_type: ColumnType,
    breaks: &[u32],
    preference: Preference,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> ColumnEntry {
    let mut entry = ColumnEntry { min: i64::MAX, max: i64::MIN, ..ColumnEntry::default() };
    let rows = column.len();
    let (dense_breaks, taken);
    let (dense, breaks) = match &column.validity {
        Some(validity) if validity.iter().any(|state| *state != VALUE) => {
            entry.values = validity.iter().filter(|state| **state == VALUE).count() as u32;
            entry.nulls = validity.iter().filter(|state| **state == NULL).count() as u32;
            if entry.values == 0 && entry.nulls == 0 {
                return entry;
            }
            let cell_states: Vec<CellState> = validity
                .iter()
                .map(|state| match *state {
                    VALUE => CellState::Value,
                    NULL => CellState::Null,
                    _ => CellState::Absent,
                })
                .collect();
            let begin = out.len();
            out.extend_from_slice(&[0; 4]);
            encode_validity(&cell_states, out);
            let length = (out.len() - begin - 4) as u32;
            out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
            let valued: Vec<u32> = (0..rows as u32).filter(|row| validity[*row as usize] == VALUE).collect();
            dense_breaks = dense_breaks_of(breaks, &valued);
            taken = column.take(&valued).values;
            (&taken, dense_breaks.as_slice())
        }
        _ => {
            entry.values = rows as u32;
            out.extend_from_slice(&[0; 4]);
            (&column.values, breaks)
        }
    };
    match (dense, Layout::of(column_type)) {
        (Values::Word(words), Layout::Floats) => {
            encode_floats(words_as_floats(words), breaks, preference, scratch, out);
        }
        (Values::Word(words), Layout::Booleans) => {
            let bits: Bitmap = words.iter().map(|word| *word != 0).collect();
            encode_booleans(&bits, out);
        }
        (Values::Word(words), Layout::Unsigned) => {
            let values: Vec<i64> = words.iter().map(|word| from_unsigned(*word)).collect();
            let summary = encode_integers(&values, breaks, preference, scratch, out);
            (entry.min, entry.max) = (summary.min, summary.max);
            entry.sum = summary.sum + ((values.len() as i128) << 63);
        }
        (Values::Word(words), _) => {
            let summary = encode_integers(words_as_integers(words), breaks, preference, scratch, out);
            (entry.min, entry.max, entry.sum) = (summary.min, summary.max, summary.sum);
        }
        (Values::Wide(wides), _) => {
            let high: Vec<i64> = wides.iter().map(|wide| (wide >> 64) as i64).collect();
            let low: Vec<i64> = wides.iter().map(|wide| from_unsigned(*wide as u64)).collect();
            let begin = out.len();
            out.extend_from_slice(&[0; 4]);
            encode_integers(&high, breaks, preference, scratch, out);
            let length = (out.len() - begin - 4) as u32;
            out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
            encode_integers(&low, breaks, preference, scratch, out);
        }
        (Values::Bytes(bytes), _) => {
            let values: Vec<&[u8]> = (0..bytes.len()).map(|row| bytes.get(row)).collect();
            encode_bytes(&values, preference, scratch, out);
        }
    }
    entry
}

/// Breaks between rows as breaks between values.
fn dense_breaks_of(breaks: &[u32], valued: &[u32]) -> Vec<u32> {
    let mut dense: Vec<u32> =
        breaks.iter().map(|row| valued.partition_point(|valued| valued < row) as u32).collect();
    dense.dedup();
    dense.retain(|position| *position > 0 && (*position as usize) < valued.len());
    dense
}

/// A parsed block of a column.
#[derive(Clone)]
pub(crate) struct ColumnBlock<'a> {
    /// `None`: every cell has a value.
    pub(crate) validity: Option<ValidityBlock<'a>>,
    pub(crate) values: ValuesBlock<'a>,
}

/// The values by layout.
#[derive(Clone)]
pub(crate) enum ValuesBlock<'a> {
    Integers(IntegerBlock<'a>),
    Unsigned(IntegerBlock<'a>),
    Floats(FloatBlock<'a>),
    Booleans(BooleanBlock<'a>),
    Wide { high: IntegerBlock<'a>, low: IntegerBlock<'a> },
    Bytes(Box<BytesBlock<'a>>),
}

fn split(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let short = || BlockError("a block is too short");
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)
}

impl<'a> ColumnBlock<'a> {
    /// Parses a block of `rows` rows.
    pub(crate) fn parse(bytes: &'a [u8], column_type: ColumnType, rows: u32) -> Result<Self> {
        let (validity, rest) = split(bytes)?;
        let validity = if validity.is_empty() { None } else { Some(ValidityBlock::parse(validity)?) };
        let dense_rows = validity.as_ref().map_or(rows, |validity| validity.rank(validity.len()));
        let values = match Layout::of(column_type) {
            Layout::Integers => ValuesBlock::Integers(IntegerBlock::parse(rest)?),
            Layout::Unsigned => ValuesBlock::Unsigned(IntegerBlock::parse(rest)?),
            Layout::Floats => ValuesBlock::Floats(FloatBlock::parse(rest)?),
            Layout::Booleans => ValuesBlock::Booleans(BooleanBlock::parse(rest)?),
            Layout::Wide => {
                let (high, low) = split(rest)?;
                ValuesBlock::Wide { high: IntegerBlock::parse(high)?, low: IntegerBlock::parse(low)? }
            }
            Layout::Bytes => ValuesBlock::Bytes(Box::new(BytesBlock::parse(rest)?)),
        };
        let fits =
            validity.as_ref().is_none_or(|validity| validity.len() == rows) && values.has_rows(dense_rows);
        if fits { Ok(Self { validity, values }) } else { Err(BlockError("a block has other rows")) }
    }

    /// Appends rows to a column.
    pub(crate) fn decode(&self, rows: Range<u32>, column: &mut Column) -> Result<()> {
        let Some(validity) = &self.validity else { return self.values.decode(rows, column) };
        let mut cells = Vec::with_capacity(rows.len());
        validity.decode_range(rows.clone(), &mut cells);
        let dense = validity.rank(rows.start)..validity.rank(rows.end);
        if dense.len() == rows.len() {
            return self.values.decode(dense, column);
        }
        let mut values = Column::new(match &self.values {
            ValuesBlock::Wide { .. } => Kind::Wide,
            ValuesBlock::Bytes(_) => Kind::Bytes,
            _ => Kind::Word,
        });
        self.values.decode(dense, &mut values)?;
        let mut value = 0;
        for run in cells.chunk_by(|left, right| left == right) {
            match run[0] {
                CellState::Value => {
                    column.extend(&values, value..value + run.len());
                    value += run.len();
                }
                CellState::Null => column.push_state(NULL, run.len()),
                CellState::Absent => column.push_state(ABSENT, run.len()),
            }
        }
        Ok(())
    }
}

impl ValuesBlock<'_> {
    /// Whether there are so many values.
    pub(crate) fn has_rows(&self, rows: u32) -> bool {
        match self {
            ValuesBlock::Integers(block) | ValuesBlock::Unsigned(block) => block.len() == rows,
            ValuesBlock::Floats(block) => block.len() == rows,
            ValuesBlock::Booleans(block) => block.len() == rows,
            ValuesBlock::Wide { high, low } => high.len() == rows && low.len() == rows,
            ValuesBlock::Bytes(block) => block.len() == rows,
        }
    }

    fn decode(&self, rows: Range<u32>, column: &mut Column) -> Result<()> {
        let count = rows.len();
        match (self, &mut column.values) {
            (ValuesBlock::Integers(block), Values::Word(words)) => block.decode_words(rows, words)?,
            (ValuesBlock::Unsigned(block), Values::Word(words)) => {
                let start = words.len();
                block.decode_words(rows, words)?;
                words[start..].iter_mut().for_each(|word| *word = to_unsigned(*word as i64));
            }
            (ValuesBlock::Floats(block), Values::Word(words)) => block.decode_words(rows, words)?,
            (ValuesBlock::Booleans(block), Values::Word(words)) => {
                let mut bits = Bitmap::new();
                block.decode_range(rows, &mut bits);
                words.extend((0..bits.len()).map(|row| u64::from(bits.get(row))));
            }
            (ValuesBlock::Wide { high, low }, Values::Wide(wides)) => {
                let (mut highs, mut lows) = (Vec::with_capacity(count), Vec::with_capacity(count));
                high.decode_range(rows.clone(), &mut highs)?;
                low.decode_range(rows, &mut lows)?;
                wides.extend(
                    highs
                        .iter()
                        .zip(&lows)
                        .map(|(high, low)| i128::from(*high) << 64 | i128::from(to_unsigned(*low))),
                );
            }
            (ValuesBlock::Bytes(block), Values::Bytes(bytes)) => {
                let mut values = ByteValues::new();
                block.decode_range(rows, &mut values)?;
                let (offsets, data) = values.into_parts();
                let base = bytes.data.len() as u32;
                bytes.data.extend_from_slice(&data);
                bytes.ends.extend(offsets[1..].iter().map(|end| base + *end as u32));
            }
            _ => unreachable!("a column of another kind"),
        }
        if let Some(validity) = &mut column.validity {
            validity.resize(validity.len() + count, VALUE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(column: Column, column_type: ColumnType) {
        let (mut scratch, mut bytes) = (Scratch::new(), Vec::new());
        let entry = encode(&column, column_type, &[3, 200], Preference::Balanced, &mut scratch, &mut bytes);
        let rows = column.len() as u32;
        let block = ColumnBlock::parse(&bytes, column_type, rows).expect("parses");
        for range in [0..rows, 0..1, 5..290, 250..rows] {
            let mut decoded = Column::new(Kind::of(column_type));
            block.decode(range.clone(), &mut decoded).expect("decodes");
            for row in range.clone() {
                let at = (row - range.start) as usize;
                assert_eq!(decoded.state(at), column.state(row as usize), "{column_type:?} row {row}");
                assert_eq!(decoded.value(at, column_type), column.value(row as usize, column_type));
            }
        }
        assert_eq!(entry.values as usize, (0..rows as usize).filter(|r| column.state(*r) == VALUE).count());
        for length in 0..bytes.len().min(60) {
            assert!(ColumnBlock::parse(&bytes[..length], column_type, rows).is_err());
        }
    }

    #[test]
    fn every_type_is_read_back_with_and_without_gaps() {
        let types = [
            ColumnType::Bool,
            ColumnType::Int64,
            ColumnType::UInt64,
            ColumnType::Float64,
            ColumnType::Float32,
            ColumnType::Decimal { precision: 38, scale: 2 },
            ColumnType::String,
            ColumnType::Timestamp,
        ];
        for column_type in types {
            for gaps in [false, true] {
                let mut column = Column::new(Kind::of(column_type));
                for row in 0..300_u64 {
                    match (gaps, row % 7, Kind::of(column_type)) {
                        (true, 3, _) => column.push_state(NULL, 1),
                        (true, 5, _) => column.push_state(ABSENT, 1),
                        (.., Kind::Wide) => column.push_wide((i128::from(row) - 150) << 70 | 5),
                        (.., Kind::Bytes) => column.push_bytes(format!("text {}", row * row).as_bytes()),
                        _ if column_type == ColumnType::Bool => column.push_word(row % 2),
                        _ if column_type == ColumnType::Float64 => {
                            column.push_word((row as f64 / 8.0).to_bits());
                        }
                        _ => column.push_word(row.wrapping_mul(0x1234_5678_9abc) >> 20),
                    }
                }
                check(column, column_type);
            }
        }
    }

    #[test]
    fn an_absent_column_has_no_block() {
        let mut column = Column::new(Kind::Word);
        column.push_state(ABSENT, 50);
        let (mut scratch, mut bytes) = (Scratch::new(), Vec::new());
        let entry = encode(&column, ColumnType::Int64, &[], Preference::Balanced, &mut scratch, &mut bytes);
        assert!(bytes.is_empty() && entry.values == 0);
    }
}
