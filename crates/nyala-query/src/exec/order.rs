//! The order of rows of several series: by time, and among rows at one time.
//!
//! InfluxDB merges series with a binary heap that is ordered by time, then by the columns in order of their names as
//! far as these are text. Rows that are still equal leave the heap in an order that depends on the heap's history. To give
//! the same answers, [`merge`] simulates that heap with all series of a shard, and with a new heap for each shard. Rows
//! arrive from the store in order of time, so the simulation works on row numbers of a block, and only if some rows of the
//! block are at the same time.
//!
//! A block ends with its shard, or at the end of a time after [`BLOCK_ROWS`]. So in longer answers the heap starts again
//! where InfluxDB's would continue.

use super::reader::MeasurementReader;
use super::row_batch::RowBatch;
use crate::plan::{Reference, ReferenceKind};
use arrow_array::Array;
use hashbrown::HashMap;
use nyala_core::schema::TableSchema;
use nyala_core::store::SeriesRun;
use nyala_core::{Result, SeriesId, TimeRange};
use nyala_db::catalog::Measurement;
use nyala_db::ingest::push_tag;
use nyala_exec::{Column, QueryMemory, SeriesNumbers};
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows of a block.
const BLOCK_ROWS: usize = 1 << 16;
/// The least rows of a block if a limit may need only a few.
const LIMITED_BLOCK_ROWS: usize = 1 << 12;

/// How rows of some series are ordered.
pub struct SeriesOrder {
    /// The rank of each series: its position in the initial heap, or, if the order is total, its order at one time.
    ranks: SeriesNumbers,
    /// The series by rank.
    series: Vec<SeriesId>,
    /// Whether the columns distinguish all series, so that rows at one time are in the order of the ranks.
    is_total: bool,
    /// The columns that decide the order of rows at one time, the first one first.
    columns: Vec<usize>,
    ascending: bool,
    schema: Arc<TableSchema>,
}

impl SeriesOrder {
    /// The order of the rows of some series whose columns are `references`.
    pub fn new(
        measurement: &Measurement,
        series: &[SeriesId],
        references: &[Reference],
        ascending: bool,
        schema: Arc<TableSchema>,
    ) -> Self {
        let is_shown = |column: &usize| references[*column].kind != ReferenceKind::GroupTag;
        let mut columns: Vec<usize> = (0..references.len()).filter(is_shown).collect();
        columns.sort_by(|a, b| references[*a].name.cmp(&references[*b].name));
        let total = total_order(measurement, series, columns.iter().map(|column| &references[*column]));
        let is_total = total.is_some();
        let mut order = total.unwrap_or_else(|| heap_order(measurement, series));
        if !ascending {
            order.reverse();
        }
        let ranks = SeriesNumbers::numbered(order.iter().copied());
        Self { ranks, series: order, is_total, columns, ascending, schema }
    }

    /// The order of series at one time, if there is one that does not depend on a heap's history.
    pub fn total(&self) -> Option<&[SeriesId]> {
        self.is_total.then_some(&*self.series)
    }

    /// The rank of the series of each row of some runs.
    fn ranks_of(&self, runs: &[SeriesRun]) -> Vec<u32> {
        runs.iter()
            .flat_map(|run| std::iter::repeat_n(self.ranks.number(run.series), run.rows as usize))
            .collect()
    }
}

/// The order of series at one time, if the tags at the beginning of the deciding columns distinguish all of them.
fn total_order<'a>(
    measurement: &Measurement,
    series: &[SeriesId],
    columns: impl Iterator<Item = &'a Reference>,
) -> Option<Vec<SeriesId>> {
    let index = measurement.series();
    let tags = columns.take_while(|reference| reference.kind == ReferenceKind::Tag);
    let values: Vec<_> = tags.map(|tag| index.values_by_series(&tag.name)).collect();
    let texts_of = |id: SeriesId| values.iter().map(move |value_of| value_of(id));
    // A tag that is absent is equal to any other.
    if !series.iter().all(|id| texts_of(*id).all(|text| !text.is_empty())) {
        return None;
    }
    let mut keys: Vec<(Vec<&str>, SeriesId)> =
        series.iter().map(|id| (texts_of(*id).collect(), *id)).collect();
    keys.sort_unstable();
    let differ = keys.windows(2).all(|pair| pair[0].0 != pair[1].0);
    differ.then(|| keys.into_iter().map(|(_, id)| id).collect())
}

/// The order of the series in the initial heap.
fn heap_order(measurement: &Measurement, series: &[SeriesId]) -> Vec<SeriesId> {
    let index = measurement.series();
    let mut keys: Vec<(Vec<u8>, SeriesId)> =
        series.iter().map(|id| (series_key(&index.tags_of(*id)), *id)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, id)| id).collect()
}

/// The bytes that InfluxDB orders series by: keys and values, with separators escaped in both.
fn series_key(tags: &[(String, String)]) -> Vec<u8> {
    let length_bytes = tags.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let mut key = String::with_capacity(length_bytes);
    for (name, value) in tags {
        if !key.is_empty() {
            key.push(',');
        }
        push_tag(&mut key, name, value);
    }
    key.into_bytes()
}

/// The rows of a group in the order of the answer.
pub struct TimeOrder {
    reader: MeasurementReader,
    order: Option<SeriesOrder>,
    block_rows: usize,
    /// Rows that were read beyond the previous block, with the ranks of their series.
    rest: Option<(RowBatch, Vec<u32>)>,
    /// The most rows of each series.
    rows_per_series: usize,
    /// The number of rows so far by rank of series, if there is a limit.
    rows_of: Vec<usize>,
    memory: QueryMemory,
}

impl TimeOrder {
    /// Orders rows that a reader gives in order of time. If the order is total, the reader also gives rows at one time in
    /// that order. Without an order, rows stay as they are.
    pub fn new(
        reader: MeasurementReader,
        order: Option<SeriesOrder>,
        rows_needed: usize,
        memory: QueryMemory,
    ) -> Self {
        let series = order.as_ref().map_or(0, |order| order.series.len());
        // A heap's order depends on what comes next of each series.
        let needed = rows_needed.saturating_mul(4).max(series.saturating_mul(4)).max(LIMITED_BLOCK_ROWS);
        let block_rows = needed.min(BLOCK_ROWS);
        let (rows_per_series, rows_of) = (usize::MAX, vec![0; series]);
        Self { reader, order, block_rows, rest: None, rows_per_series, rows_of, memory }
    }

    /// Keeps only the first rows of each series, if there are several series.
    #[must_use]
    pub fn limit_series(mut self, rows: usize) -> Self {
        self.rows_per_series = rows;
        self
    }

    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RowBatch>> {
        let Some(order) = &self.order else { return self.reader.next().await };
        if order.is_total && self.rows_per_series == usize::MAX {
            return self.reader.next().await;
        }
        let mut parts: Vec<RowBatch> = Vec::new();
        let mut ranks: Vec<u32> = Vec::new();
        let mut shard: Option<TimeRange> = None;
        // Rows are held three times: as parts, together, and in order.
        let mut held = self.memory.hold();
        loop {
            let (rows, of_rows) = match self.rest.take() {
                Some(rest) => rest,
                None if self.rows_of.iter().all(|rows| *rows >= self.rows_per_series) => break,
                None => match self.reader.next_runs().await? {
                    Some((rows, runs)) => {
                        let ranks = order.ranks_of(&runs);
                        first_of_series(rows, ranks, &mut self.rows_of, self.rows_per_series)
                    }
                    None => break,
                },
            };
            let Some(first_ns) = rows.times_ns.first() else { continue };
            let range = *shard.get_or_insert_with(|| order.schema.partition_of(*first_ns));
            let mut end = rows.times_ns.partition_point(|time_ns| range.contains(*time_ns));
            let missing = self.block_rows.saturating_sub(ranks.len());
            if end > missing {
                // Rows at one time stay together.
                let last_ns = match (missing, parts.last()) {
                    (0, Some(part)) => part.times_ns[part.times_ns.len() - 1],
                    _ => rows.times_ns[missing.max(1) - 1],
                };
                end = rows.times_ns[..end].partition_point(|time_ns| match order.ascending {
                    true => *time_ns <= last_ns,
                    false => *time_ns >= last_ns,
                });
            }
            let length = rows.times_ns.len();
            if end > 0 {
                held.charge(3 * end * (8 + 24 * rows.columns.len()))?;
                parts.push(rows.slice(0, end));
                ranks.extend(&of_rows[..end]);
            }
            if end < length {
                self.rest = Some((rows.slice(end, length - end), of_rows[end..].to_vec()));
                break;
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let rows = if parts.len() == 1 { parts.remove(0) } else { RowBatch::concatenate(&parts) };
        if rows.times_ns.windows(2).all(|pair| pair[0] != pair[1]) {
            return Ok(Some(rows));
        }
        let columns: Vec<&Column> = order.columns.iter().map(|column| &rows.columns[*column]).collect();
        Ok(Some(rows.take(&merge(&rows.times_ns, &ranks, &columns, order.ascending))))
    }
}

/// The rows that are among the first of their series.
fn first_of_series(
    rows: RowBatch,
    ranks: Vec<u32>,
    rows_of: &mut [usize],
    most: usize,
) -> (RowBatch, Vec<u32>) {
    if most == usize::MAX {
        return (rows, ranks);
    }
    let passes = |rank: &u32| {
        rows_of[*rank as usize] += 1;
        rows_of[*rank as usize] <= most
    };
    let passing: Vec<bool> = ranks.iter().map(passes).collect();
    let kept: Vec<u32> = (0..).zip(&passing).filter_map(|(row, passes)| passes.then_some(row)).collect();
    let ranks = kept.iter().map(|row| ranks[*row as usize]).collect();
    (rows.take(&kept), ranks)
}

/// The order in which InfluxDB's heap gives rows that are in order of time; `ranks` holds the rank of each row's series.
fn merge(times_ns: &[i64], ranks: &[u32], columns: &[&Column], ascending: bool) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let mut next = vec![NONE; times_ns.len()];
    let mut latest: HashMap<u32, u32> = HashMap::new();
    let mut first_rows: Vec<u32> = Vec::new();
    for (row, rank) in (0..).zip(ranks) {
        match latest.insert(*rank, row) {
            Some(before) => next[before as usize] = row,
            None => first_rows.push(row),
        }
    }
    first_rows.sort_unstable_by_key(|row| ranks[*row as usize]);
    let less = |a: u32, b: u32| {
        let (a, b) = (a as usize, b as usize);
        match times_ns[a].cmp(&times_ns[b]) {
            Ordering::Equal => less_at_one_time(columns, a, b, ascending),
            Ordering::Less => ascending,
            Ordering::Greater => !ascending,
        }
    };
    let mut heap = Heap::new(first_rows, less);
    let mut order = Vec::with_capacity(times_ns.len());
    while let Some(row) = heap.pop() {
        order.push(row);
        if next[row as usize] != NONE {
            heap.push(next[row as usize]);
        }
    }
    order
}

/// Compares texts column by column. At the first column that is not text, or NULL, the rows count as equal.
fn less_at_one_time(columns: &[&Column], a: usize, b: usize, ascending: bool) -> bool {
    for column in columns {
        let (Some(text), Some(other)) = (text(column, a), text(column, b)) else { return false };
        match text.cmp(other) {
            Ordering::Equal => {}
            Ordering::Less => return ascending,
            Ordering::Greater => return !ascending,
        }
    }
    false
}

fn text(column: &Column, row: usize) -> Option<&str> {
    match column {
        Column::String(texts) => texts.is_valid(row).then(|| texts.value(row)),
        Column::Tag(tags) => tags.text(row),
        _ => None,
    }
}

/// The heap of Go's library. Every step must be the same, because the order of equal items depends on all of them.
struct Heap<F: Fn(u32, u32) -> bool> {
    items: Vec<u32>,
    less: F,
}

impl<F: Fn(u32, u32) -> bool> Heap<F> {
    fn new(items: Vec<u32>, less: F) -> Self {
        let mut heap = Self { items, less };
        let count = heap.items.len();
        (0..count / 2).rev().for_each(|item| heap.sift_down(item, count));
        heap
    }

    fn push(&mut self, item: u32) {
        self.items.push(item);
        let mut at = self.items.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !(self.less)(self.items[at], self.items[parent]) {
                break;
            }
            self.items.swap(at, parent);
            at = parent;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let last = self.items.len().checked_sub(1)?;
        self.items.swap(0, last);
        self.sift_down(0, last);
        self.items.pop()
    }

    fn sift_down(&mut self, mut at: usize, count: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= count {
                break;
            }
            let right = left + 1;
            let smaller =
                if right < count && (self.less)(self.items[right], self.items[left]) { right } else { left };
            if !(self.less)(self.items[smaller], self.items[at]) {
                break;
            }
            self.items.swap(at, smaller);
            at = smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_leave_the_heap_as_they_leave_influxdb() {
        // Four series at 10 and at 20; a real InfluxDB 1.8.10 answered so (`row_order.script`).
        let times_ns = [10, 10, 10, 10, 20, 20, 20, 20];
        let ranks = [0, 1, 2, 3, 0, 1, 2, 3];
        assert_eq!(merge(&times_ns, &ranks, &[], true), [0, 3, 1, 2, 5, 6, 7, 4]);
    }

    #[test]
    fn columns_decide_until_the_first_that_is_not_text() {
        let times_ns = [1, 1, 1];
        let text = Column::String(vec!["c", "a", "b"].into());
        let number = Column::Integer(vec![3, 2, 1].into());
        assert_eq!(merge(&times_ns, &[0, 1, 2], &[&text, &number], true), [1, 2, 0]);
        assert_eq!(merge(&times_ns, &[0, 1, 2], &[&text], false), [0, 2, 1]);
        assert_eq!(merge(&times_ns, &[0, 1, 2], &[&number, &text], true), [0, 2, 1]);
    }

    #[test]
    fn series_are_in_order_of_their_escaped_keys() {
        let tag = |value: &str| vec![("h".to_owned(), value.to_owned())];
        assert_eq!(series_key(&tag("a b")), b"h=a\\ b");
        let two = vec![("h".to_owned(), "a".to_owned()), ("r".to_owned(), "x".to_owned())];
        assert_eq!(series_key(&two), b"h=a,r=x");
        assert!(series_key(&tag("a!")) < series_key(&two));
    }
}
