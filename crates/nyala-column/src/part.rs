//! Walks over the vectors of a block that some rows, or some windows of rows, touch.

use std::ops::Range;

use crate::directory::Directory;
use crate::error::Result;

/// The part of one vector that a call touches.
#[derive(Debug, Clone)]
pub struct Part {
    pub(crate) vector: u32,
    /// Rows of the vector wanted; not empty.
    pub(crate) rows: Range<usize>,
    /// Rows of the block that the whole vector holds.
    pub(crate) all_rows: Range<u32>,
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.rows.len() == self.all_rows.len()
    }

    /// Rows of the block wanted.
    pub(crate) fn block_rows(&self) -> Range<u32> {
        self.all_rows.start + self.rows.start as u32..self.all_rows.start + self.rows.end as u32
    }
}

impl<'a> Directory<'a> {
    /// Panics on rows outside the block.
    pub(crate) fn check_rows(&self, rows: &Range<u32>) {
        assert!(rows.start <= rows.end && rows.end <= self.count(), "rows {rows:?} of {}", self.count());
    }

    /// The part of `vector` that `rows` touch. They must touch it.
    pub(crate) fn part(&self, vector: u32, rows: &Range<u32>) -> Part {
        let all_rows = self.rows(vector);
        let start = rows.start.max(all_rows.start) - all_rows.start;
        let end = rows.end.min(all_rows.end) - all_rows.start;
        debug_assert!(start < end);
        Part { vector, rows: start as usize..end as usize, all_rows }
    }

    /// The parts that `rows` touch, in order.
    pub(crate) fn parts(&self, rows: Range<u32>) -> impl Iterator<Item = Part> + use<'_, 'a> {
        self.check_rows(&rows);
        let directory = self;
        let mut vector = if rows.is_empty() { 0 } else { self.vector_of(rows.start) };
        let mut start = rows.start;
        std::iter::from_fn(move || {
            if start >= rows.end {
                return None;
            }
            let part = directory.part(vector, &(start..rows.end));
            start = part.all_rows.end;
            vector += 1;
            Some(part)
        })
    }

    /// Calls `visit` for each part that windows between `bounds` touch, with these windows and their results.
    ///
    /// Panics if bounds fall, leave the block, or are not one more than the results.
    pub(crate) fn for_each_part_of_windows<R>(
        &self,
        bounds: &[u32],
        out: &mut [R],
        mut visit: impl FnMut(Part, &[u32], &mut [R]) -> Result<()>,
    ) -> Result<()> {
        assert!(out.len() + 1 == bounds.len() || bounds.is_empty() && out.is_empty(), "a result per window");
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return Ok(()) };
        assert!(bounds.is_sorted(), "bounds must not fall");
        let mut window = 0;
        for part in self.parts(*first..*last) {
            let rows = part.block_rows();
            while bounds[window + 1] <= rows.start {
                window += 1;
            }
            let mut end = window + 1;
            while bounds[end] < rows.end {
                end += 1;
            }
            visit(part, &bounds[window..=end], &mut out[window..end])?;
        }
        Ok(())
    }
}
