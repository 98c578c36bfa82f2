//! Reads single rows of a group: which satisfy a comparison, and their cells. Other rows are not decoded, except those
//! that share a vector with them.

use super::block::{BlockError, ColumnBlock, ValuesBlock};
use super::series::{Part, RowsetCursor, TIME_SOURCE};
use crate::rows::column_buffer::{ABSENT, Column, VALUE, Values};
use crate::rows::merge::RowBatch;
use nyala_column::kernels::CompareOp;
use nyala_column::{Bitmap, from_unsigned, to_unsigned};
use nyala_core::store::{Comparison, Predicate};
use nyala_core::{ColumnType, Result, Value};
use std::ops::Range;

/// A comparison with a constant that blocks can answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BlockTest {
    /// Of integers, unsigned ones as they are stored.
    Integers(CompareOp, i64),
    /// Of floats.
    Floats(CompareOp, f64),
}

impl BlockTest {
    /// A predicate on a column of a type, if blocks can answer it.
    pub(crate) fn of(column_type: ColumnType, predicate: &Predicate) -> Option<Self> {
        let (op, value) = match &predicate.comparison {
            Comparison::Equal(value) => (CompareOp::Equal, value),
            Comparison::NotEqual(value) => (CompareOp::NotEqual, value),
            Comparison::Less(value) => (CompareOp::Less, value),
            Comparison::LessOrEqual(value) => (CompareOp::LessOrEqual, value),
            Comparison::Greater(value) => (CompareOp::Greater, value),
            Comparison::GreaterOrEqual(value) => (CompareOp::GreaterOrEqual, value),
            _ => return None,
        };
        Some(match (column_type, value) {
            (ColumnType::Int64, Value::Int(bound)) => BlockTest::Integers(op, *bound),
            (ColumnType::UInt64, Value::UInt(bound)) => BlockTest::Integers(op, from_unsigned(*bound)),
            (ColumnType::Float64, Value::Float(bound)) => BlockTest::Floats(op, *bound),
            _ => return None,
        })
    }
}

impl RowsetCursor {
    /// Appends a bit per row: whether its cell satisfies the test. False if the block cannot say, because cells
    /// without values are among its cells.
    pub(crate) fn compare(
        &mut self,
        part: &Part,
        column: usize,
        rows: Range<u32>,
        test: BlockTest,
        bits: &mut Bitmap,
    ) -> Result<bool> {
        let Some(loaded) = self.column_block(part, column)? else {
            bits.extend_filled(rows.len(), false);
            return Ok(true);
        };
        let place = loaded.place;
        let compare = || {
            let ColumnBlock { validity: None, values } = loaded.parse()? else { return Ok(false) };
            match (values, test) {
                (
                    ValuesBlock::Integers(block) | ValuesBlock::Unsigned(block),
                    BlockTest::Integers(op, bound),
                ) => block.compare(rows, op, bound, bits)?,
                (ValuesBlock::Floats(block), BlockTest::Floats(op, bound)) => {
                    block.compare(rows, op, bound, bits)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        };
        compare().map_err(|error| self.rowset.corrupt_block(place, error))
    }

    /// Appends all projected cells of some rising rows of a part's group, which has no markers, to a batch.
    pub(crate) fn append_rows(
        &mut self,
        part: &Part,
        rows: &[u32],
        batch: &mut RowBatch<Vec<i64>>,
    ) -> Result<()> {
        let loaded = self.time_block(part)?;
        let gathered =
            loaded.integers().and_then(|times| times.gather(rows, &mut batch.keys).map_err(BlockError::from));
        gathered.map_err(|error| self.rowset.corrupt_block(loaded.place, error))?;
        for (column, cells) in batch.columns.iter_mut().enumerate() {
            let Some(loaded) = self.load(part, TIME_SOURCE + 1 + column)? else {
                cells.push_state(ABSENT, rows.len());
                continue;
            };
            let place = loaded.place;
            let gathered = loaded.parse().and_then(|block| block.gather(rows, cells));
            gathered.map_err(|error| self.rowset.corrupt_block(place, error))?;
        }
        Ok(())
    }
}

impl ColumnBlock<'_> {
    /// Appends some rising rows to a column.
    pub(crate) fn gather(&self, rows: &[u32], column: &mut Column) -> std::result::Result<(), BlockError> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        if self.validity.is_none() && self.values.gather(rows, column)? {
            return Ok(());
        }
        if let [row] = rows {
            if let (None, ValuesBlock::Bytes(block), Values::Bytes(strings), None) =
                (&self.validity, &self.values, &mut column.values, &column.validity)
            {
                block.append_row(*row, &mut strings.data)?;
                strings.ends.push(strings.data.len() as u32);
                return Ok(());
            }
            return self.decode(*row..*row + 1, column);
        }
        let mut all = column.same_kind();
        self.decode(*first..*last + 1, &mut all)?;
        let positions: Vec<u32> = rows.iter().map(|row| row - first).collect();
        column.extend(&all.take(&positions), 0..rows.len());
        Ok(())
    }
}

impl ValuesBlock<'_> {
    /// Appends some rising rows to a column, if values of the layout can be had one by one.
    fn gather(&self, rows: &[u32], column: &mut Column) -> std::result::Result<bool, BlockError> {
        let Values::Word(words) = &mut column.values else { return Ok(false) };
        match self {
            ValuesBlock::Integers(block) => block.gather_words(rows, words)?,
            ValuesBlock::Unsigned(block) => {
                let start = words.len();
                block.gather_words(rows, words)?;
                words[start..].iter_mut().for_each(|word| *word = to_unsigned(*word as i64));
            }
            ValuesBlock::Floats(block) => block.gather_words(rows, words)?,
            _ => return Ok(false),
        }
        if let Some(validity) = &mut column.validity {
            validity.resize(validity.len() + rows.len(), VALUE);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::rowset::block::encode;
    use crate::rows::column_buffer::Kind;
    use nyala_column::{Preference, Scratch};

    #[test]
    fn gathered_rows_are_those_that_decoding_gives() {
        let types = [
            ColumnType::Int64,
            ColumnType::UInt64,
            ColumnType::Float64,
            ColumnType::Bool,
            ColumnType::String,
            ColumnType::Decimal { precision: 38, scale: 0 },
        ];
        for column_type in types {
            for gaps in [false, true] {
                let mut column = Column::new(Kind::of(column_type));
                for row in 0..3000_u64 {
                    match Kind::of(column_type) {
                        _ if gaps && row % 7 == 3 => column.push_state(ABSENT, 1),
                        Kind::Word if column_type == ColumnType::Bool => column.push_word(row % 2),
                        Kind::Word => column.push_word((row as f64).sqrt().to_bits()),
                        Kind::Wide => column.push_wide(i128::from(row) << 70),
                        Kind::Bytes => column.push_bytes(row.to_string().as_bytes()),
                    }
                }
                let (mut scratch, mut bytes) = (Scratch::new(), Vec::new());
                encode(&column, column_type, &[], Preference::Balanced, &mut scratch, &mut bytes);
                let block = ColumnBlock::parse(&bytes, column_type, 3000).expect("parses");
                for step in [1, 2, 9, 700] {
                    let rows: Vec<u32> = (5..2990).step_by(step).collect();
                    let mut gathered = Column::new(Kind::of(column_type));
                    gathered.extend(&column, 0..2);
                    block.gather(&rows, &mut gathered).expect("gathers");
                    let mut expected = Column::new(Kind::of(column_type));
                    expected.extend(&column, 0..2);
                    expected.extend(&column.take(&rows), 0..rows.len());
                    assert_eq!(gathered.len(), expected.len());
                    for row in 0..expected.len() {
                        let (left, right) =
                            (gathered.value(row, column_type), expected.value(row, column_type));
                        assert_eq!(left, right, "{column_type:?}, every {step}th, row {row}");
                    }
                }
            }
        }
    }
}
