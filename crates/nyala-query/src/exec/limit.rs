//! OFFSET and LIMIT.

use super::reduce::TagSets;
use super::row_batch::RowBatch;
use nyala_core::Result;
use nyala_exec::{Column, QueryMemory, Scalar};

/// Cuts rows to offset and limit. If tags distinguish the rows of an inner query, each run of rows with the same tags is
/// counted separately, as in InfluxDB, whose limits expect the rows of a series to be together. Where InfluxDB reads them
/// together, all rows with the same tags are counted, wherever they stand.
pub struct Limit {
    offset: usize,
    take: usize,
    /// The columns of the tags whose change begins a new run.
    tags: std::ops::Range<usize>,
    run: Vec<Option<Scalar>>,
    /// Rows of the run so far.
    seen: usize,
    /// If runs do not matter: the tag sets, and the rows of each so far.
    by_tags: Option<(TagSets, Vec<usize>)>,
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
        Self { offset, take, tags: columns - row_tags..columns, run: Vec::new(), seen: 0, by_tags: None }
    }

    /// Counts all rows with the same tags together.
    #[must_use]
    pub fn by_tags(self, memory: &QueryMemory) -> Self {
        Self { by_tags: Some((TagSets::new(memory), Vec::new())), ..self }
    }

    /// Whether no later row can pass.
    pub fn is_reached(&self) -> bool {
        self.tags.is_empty() && self.seen >= self.offset.saturating_add(self.take)
    }

    /// The rows that pass, if any.
    pub fn cut(&mut self, rows: RowBatch) -> Result<Option<RowBatch>> {
        let count = rows.times_ns.len();
        if self.take == usize::MAX && self.offset == 0 {
            return Ok((count > 0).then_some(rows));
        }
        if self.tags.is_empty() {
            let start = self.offset.saturating_sub(self.seen).min(count);
            let end = self.offset.saturating_add(self.take).saturating_sub(self.seen).min(count);
            self.seen += count;
            return Ok((start < end).then(|| rows.slice(start, end - start)));
        }
        let kept: Vec<u32> = match &mut self.by_tags {
            Some((tag_sets, rows_of)) => {
                let passing = self.offset..self.offset.saturating_add(self.take);
                let tags: Vec<&Column> = rows.columns[self.tags.clone()].iter().collect();
                let passes = |number: u32| {
                    let number = number as usize;
                    rows_of.resize(rows_of.len().max(number + 1), 0);
                    rows_of[number] += 1;
                    passing.contains(&(rows_of[number] - 1))
                };
                let passes = tag_sets.of_rows(&tags, count)?.into_iter().map(passes);
                (0..).zip(passes).filter_map(|(row, passes)| passes.then_some(row)).collect()
            }
            None => (0..count as u32).filter(|row| self.passes(&rows.columns, *row as usize)).collect(),
        };
        Ok((!kept.is_empty()).then(|| rows.take(&kept)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::memory::MemoryBudget;

    /// The times of the rows that pass, of batches of rows with a tag.
    fn passing(mut limit: Limit, batches: &[&[&str]]) -> Vec<i64> {
        let (mut passing, mut time_ns) = (Vec::new(), 0);
        for texts in batches {
            let times_ns: Vec<i64> = (time_ns..).take(texts.len()).collect();
            time_ns += texts.len() as i64;
            let columns = vec![Column::String(texts.to_vec().into())];
            let rows = limit.cut(RowBatch { times_ns: times_ns.into(), columns }).expect("has memory");
            passing.extend(rows.iter().flat_map(|rows| rows.times_ns.iter().copied()));
        }
        passing
    }

    #[test]
    fn rows_are_counted_by_runs_or_by_tags() {
        let memory = QueryMemory::new(1 << 20, &MemoryBudget::new(1 << 30));
        let batches: &[&[&str]] = &[&["a", "a", "a", "b"], &["b", "a", "a"], &["b", "b", "c"]];
        assert_eq!(passing(Limit::new(0, 2, 1, 1), batches), [0, 1, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(passing(Limit::new(0, 2, 1, 1).by_tags(&memory), batches), [0, 1, 3, 4, 9]);
        assert_eq!(passing(Limit::new(1, 2, 1, 1).by_tags(&memory), batches), [1, 2, 4, 7]);
        assert_eq!(passing(Limit::new(1, 2, 1, 0).by_tags(&memory), batches), [1, 2]);
    }
}
