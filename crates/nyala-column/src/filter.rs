//! Comparing the rows of a block with a constant.
//!
//! A vector is decoded only if minimum and maximum in the directory do not decide the comparison.

use std::ops::Range;

use crate::bitmap::Bitmap;
use crate::directory::VECTOR_VALUES;
use crate::error::Result;
use crate::float::FloatBlock;
use crate::integer::IntegerBlock;
use crate::kernels::compare::{CompareOp, Interval, compare_floats, in_interval};
use crate::narrow::{Narrow, Offsets, with_narrow};

impl IntegerBlock<'_> {
    /// Appends a bit per row of `rows`: whether its value satisfies the comparison.
    pub fn compare(&self, rows: Range<u32>, op: CompareOp, constant: i64, out: &mut Bitmap) -> Result<()> {
        self.filter(rows, Interval::of(op, constant), out)
    }

    /// Appends a bit per row of `rows`: whether `low <= value <= high`.
    pub fn between(&self, rows: Range<u32>, low: i64, high: i64, out: &mut Bitmap) -> Result<()> {
        if low > high {
            self.directory.check_rows(&rows);
            out.extend_filled(rows.len(), false);
            return Ok(());
        }
        self.filter(rows, Interval { low, high, negated: false }, out)
    }

    fn filter(&self, rows: Range<u32>, interval: Interval, out: &mut Bitmap) -> Result<()> {
        for part in self.directory.parts(rows) {
            let (min, max) = (self.directory.min(part.vector), self.directory.max(part.vector));
            if let Some(answer) = interval.decide(min, max) {
                out.extend_filled(part.len(), answer);
                continue;
            }
            let parsed = self.parse_part(part)?;
            // The interval is clipped to the vector's values, so its ends become offsets.
            let low = parsed.first_offset_from(interval.low.max(min));
            let high = interval.high.min(max).wrapping_sub(min) as u64 / parsed.reference.divisor;
            if low > high {
                out.extend_filled(parsed.part.len(), interval.negated);
                continue;
            }
            with_narrow!(parsed.largest, T => {
                let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
                let offsets = parsed.decode(self.cpu, &mut offsets)?;
                let span = T::truncate(high - low);
                in_interval(self.cpu, offsets, T::truncate(low), span, interval.negated, out);
            });
        }
        Ok(())
    }
}

impl FloatBlock<'_> {
    /// Appends a bit per row of `rows`: whether its value satisfies the comparison (NaN differs from everything).
    pub fn compare(&self, rows: Range<u32>, op: CompareOp, constant: f64, out: &mut Bitmap) -> Result<()> {
        for part in self.directory.parts(rows) {
            if let Some(answer) = self.decide(part.vector, op, constant) {
                out.extend_filled(part.len(), answer);
                continue;
            }
            let mut floats = [0.0; VECTOR_VALUES];
            compare_floats(self.cpu, self.decode(&part, &mut floats)?, op, constant, out);
        }
        Ok(())
    }

    /// The answer for a whole vector, where the directory knows it.
    fn decide(&self, vector: u32, op: CompareOp, constant: f64) -> Option<bool> {
        let (min, max) = self.extremes(vector)?;
        if self.has_nan(vector) {
            return None;
        }
        let (all, none) = match op {
            CompareOp::Equal => (min == constant && max == constant, max < constant || min > constant),
            CompareOp::NotEqual => (max < constant || min > constant, min == constant && max == constant),
            CompareOp::Less => (max < constant, min >= constant),
            CompareOp::LessOrEqual => (max <= constant, min > constant),
            CompareOp::Greater => (min > constant, max <= constant),
            CompareOp::GreaterOrEqual => (min >= constant, max < constant),
        };
        if all || none { Some(all) } else { None }
    }
}
