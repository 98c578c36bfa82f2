//! OFFSET and LIMIT.

use super::row_batch::RowBatch;
use nyala_exec::{Column, Scalar};

/// Cuts rows to offset and limit. If tags distinguish the rows of an inner query, each run of rows with the same tags is
/// counted separately, as in InfluxDB, whose limits expect the rows of a series to be together.
pub struct Limit {
    offset: usize,
    take: usize,
    /// The columns of the tags whose change begins a new run.
    tags: std::ops::Range<usize>,
    run: Vec<Option<Scalar>>,
    /// Rows of the run so far.
    seen: usize,
}

impl Limit {
    /// No more than `limit` rows (0: all) after the first `offset`; the last `row_tags` of `columns` are tags.
    pub fn new(offset: usize, limit: usize, columns: usize, row_tags: usize) -> Self {
        let take = match (offset, limit) {
            (0, 0) => usize::MAX,
            // With an offset and no limit InfluxDB shows one row.
            (_, 0) => 1,
            (_, limit) => limit,
        };
        Self { offset, take, tags: columns - row_tags..columns, run: Vec::new(), seen: 0 }
    }

    /// Whether no later row can pass.
    pub fn is_reached(&self) -> bool {
        self.tags.is_empty() && self.seen >= self.offset.saturating_add(self.take)
    }

    /// The rows that pass, if any.
    pub fn cut(&mut self, rows: RowBatch) -> Option<RowBatch> {
        let count = rows.times_ns.len();
        if self.take == usize::MAX && self.offset == 0 {
            return (count > 0).then_some(rows);
        }
        if self.tags.is_empty() {
            let start = self.offset.saturating_sub(self.seen).min(count);
            let end = self.offset.saturating_add(self.take).saturating_sub(self.seen).min(count);
            self.seen += count;
            return (start < end).then(|| rows.slice(start, end - start));
        }
        let kept: Vec<u32> =
            (0..count as u32).filter(|row| self.passes(&rows.columns, *row as usize)).collect();
        (!kept.is_empty()).then(|| rows.take(&kept))
    }

    fn passes(&mut self, columns: &[Column], row: usize) -> bool {
        let tags: Vec<Option<Scalar>> =
            columns[self.tags.clone()].iter().map(|tag| tag.scalar(row)).collect();
        if tags != self.run {
            self.run = tags;
            self.seen = 0;
        }
        self.seen += 1;
        self.seen > self.offset && self.seen <= self.offset.saturating_add(self.take)
    }
}
