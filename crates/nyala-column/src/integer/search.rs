//! Finding rows by value in sorted blocks: lower bounds, window edges.

use std::iter::Peekable;
use std::ops::Range;

use super::block::{IntegerBlock, ParsedPart};
use crate::directory::VECTOR_VALUES;
use crate::error::Result;
use crate::narrow::{Narrow, Offsets, with_narrow};

impl IntegerBlock<'_> {
    /// The first of `rows` whose value is not below `value`, or `rows.end`. The values of `rows` do not fall.
    pub fn lower_bound(&self, rows: Range<u32>, value: i64) -> Result<u32> {
        self.directory.check_rows(&rows);
        let mut left = rows.clone();
        while let Some(vector) = self.first_reaching(left.clone(), value) {
            let parsed = self.parse_part(self.directory.part(vector, &rows))?;
            let (found, end) = (self.lower_bound_in(&parsed, value)?, parsed.part.block_rows().end);
            if found < end || end == rows.end {
                return Ok(found);
            }
            // Only other rows of the vector reach the value.
            left.start = end;
        }
        Ok(rows.end)
    }

    /// The first row of a vector's part that is not below `value`, or its end.
    fn lower_bound_in(&self, parsed: &ParsedPart<'_>, value: i64) -> Result<u32> {
        let start = parsed.part.block_rows().start;
        if value <= parsed.reference.min {
            return Ok(start);
        }
        if let Some((first, step)) = parsed.line(self.cpu)?
            && (step > 0 || parsed.part.len() == 1)
        {
            return Ok(start + line_lower_bound(first, step, parsed.part.len() as u32, value));
        }
        let below = parsed.first_offset_from(value);
        with_narrow!(parsed.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            let offsets = parsed.decode(self.cpu, &mut offsets)?;
            Ok(start + offsets.partition_point(|offset| offset.widen() < below) as u32)
        })
    }

    /// First and last value of `rows`, which are not empty and whose values do not fall.
    pub fn ends(&self, rows: Range<u32>) -> Result<(i64, i64)> {
        self.directory.check_rows(&rows);
        // If all rows of a vector are wanted, its minimum and maximum are their ends. Other rows could be in any order.
        let (first, last) = (self.directory.vector_of(rows.start), self.directory.vector_of(rows.end - 1));
        let inside = |vector| {
            let vector = self.directory.rows(vector);
            rows.start <= vector.start && vector.end <= rows.end
        };
        let first_value = if inside(first) { self.directory.min(first) } else { self.value_at(rows.start)? };
        let last_value = if inside(last) { self.directory.max(last) } else { self.value_at(rows.end - 1)? };
        Ok((first_value, last_value))
    }

    /// Appends the lower bound of each of the rising `edges`. The values of `rows` do not fall.
    ///
    /// This turns the edges of time windows into row bounds: by arithmetic on a regular clock, else by one merge.
    pub fn lower_bounds(&self, rows: Range<u32>, edges: &[i64], out: &mut Vec<u32>) -> Result<()> {
        self.directory.check_rows(&rows);
        debug_assert!(edges.is_sorted(), "edges must not fall");
        out.reserve(edges.len());
        let mut edges = edges.iter().copied().peekable();
        let mut from = rows.start;
        while let Some(edge) = edges.peek().copied() {
            let Some(vector) = self.first_reaching(from..rows.end, edge) else { break };
            let part = self.directory.part(vector, &(from..rows.end));
            let (min, max) = (self.directory.min(vector), self.directory.max(vector));
            let start = part.block_rows().start;
            from = part.block_rows().end;
            // Edges at or below the minimum lie before the vector, which need not be read for them.
            while edges.next_if(|edge| *edge <= min).is_some() {
                out.push(start);
            }
            if edges.peek().is_some_and(|edge| *edge <= max) {
                self.lower_bounds_in(&self.parse_part(part)?, &mut edges, out)?;
            }
            if from == rows.end {
                break;
            }
        }
        out.extend(edges.map(|_| rows.end));
        Ok(())
    }

    /// The first vector that `rows` touch whose largest value is not below `value`. The lower bound is not before it.
    /// Rows of a vector that are not among `rows` may be in any order, and one of them may be the largest.
    fn first_reaching(&self, rows: Range<u32>, value: i64) -> Option<u32> {
        if rows.is_empty() {
            return None;
        }
        let (first, last) = (self.directory.vector_of(rows.start), self.directory.vector_of(rows.end - 1));
        let (mut low, mut high) = (first, last + 1);
        while low < high {
            let middle = (low + high) / 2;
            if self.directory.max(middle) < value { low = middle + 1 } else { high = middle }
        }
        (low <= last).then_some(low)
    }

    /// Takes from `edges` those that the rows of one vector reach.
    fn lower_bounds_in(
        &self,
        parsed: &ParsedPart<'_>,
        edges: &mut Peekable<impl Iterator<Item = i64>>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let start = parsed.part.block_rows().start;
        let count = parsed.part.len() as u32;
        if let Some((first, step)) = parsed.line(self.cpu)?
            && (step > 0 || count == 1)
        {
            let last = first.wrapping_add(step.wrapping_mul(i64::from(count) - 1));
            while let Some(edge) = edges.next_if(|edge| *edge <= last) {
                out.push(start + line_lower_bound(first, step, count, edge));
            }
            return Ok(());
        }
        with_narrow!(parsed.largest, T => {
            let mut offsets: Offsets<T> = [0; VECTOR_VALUES];
            let offsets = parsed.decode(self.cpu, &mut offsets)?;
            let mut from = 0;
            while let Some(edge) = edges.peek().copied() {
                // An edge below the minimum was taken before; one beyond the largest ends the vector.
                let below = parsed.first_offset_from(edge);
                from += gallop(&offsets[from..], |offset| offset.widen() < below);
                if from == offsets.len() {
                    break;
                }
                edges.next();
                out.push(start + from as u32);
            }
        });
        Ok(())
    }
}

impl ParsedPart<'_> {
    /// The least offset whose value is not below `value`, which is not below the minimum.
    pub(crate) fn first_offset_from(&self, value: i64) -> u64 {
        (value.wrapping_sub(self.reference.min) as u64).div_ceil(self.reference.divisor)
    }
}

/// Rows below `value` on a rising line of `count` rows.
fn line_lower_bound(first: i64, step: i64, count: u32, value: i64) -> u32 {
    if value <= first {
        return 0;
    }
    if step <= 0 {
        return count;
    }
    // Unsigned, because the distance may exceed the positive integers.
    let below = (value.wrapping_sub(first) as u64).div_ceil(step as u64);
    below.min(u64::from(count)) as u32
}

/// `partition_point` for answers expected near the start: doubling steps, then bisection.
fn gallop<T>(values: &[T], below: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while step < values.len() && below(&values[step - 1]) {
        step *= 2;
    }
    let start = if step == 1 { 0 } else { step / 2 };
    start + values[start..step.min(values.len())].partition_point(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_finds_what_bisection_finds() {
        for count in 0..40 {
            let values: Vec<u32> = (0..count).collect();
            for border in 0..=count + 1 {
                let expected = values.partition_point(|value| *value < border);
                assert_eq!(gallop(&values, |value| *value < border), expected, "{count} {border}");
            }
        }
    }
}
