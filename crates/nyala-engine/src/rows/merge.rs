//! Merges rows of several sources: the newest wins, cell by cell.
//!
//! A [`RowBatch`] holds rows of one source, sorted by distinct keys. Sources are ordered from oldest to newest, which
//! is possible because their sequence ranges are disjoint. Runs of keys that only one source has are copied whole, so
//! data in order costs a copy, not a comparison per row.
//!
//! A row carries a marker. A delete stays in partial merges, because older sources that are not merged here may have
//! the key; [`finish`] drops it when nothing older is left.

use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{ABSENT, Column, Kind, NULL, VALUE, Values};
use std::cmp::Ordering;
use std::ops::Range;

/// The row adds to what older sources hold.
pub(crate) const UPSERTED: u8 = 0;
/// The row hides what older sources hold, and stands on its own.
pub(crate) const REPLACED: u8 = 1;
/// The row hides what older sources hold.
pub(crate) const DELETED: u8 = 2;

/// Keys of a batch: times of one series, or encoded keys.
pub(crate) trait Keys: Sized {
    fn empty() -> Self;
    fn count(&self) -> usize;
    fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering;
    fn append(&mut self, other: &Self, rows: Range<usize>);
    /// Makes room for so many more, as far as their size is known.
    fn reserve(&mut self, rows: usize);
    fn memory_bytes(&self) -> usize;
}

impl Keys for Vec<i64> {
    fn empty() -> Self {
        Vec::new()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        self[row].cmp(&other[other_row])
    }

    fn append(&mut self, other: &Self, rows: Range<usize>) {
        self.extend_from_slice(&other[rows]);
    }

    fn reserve(&mut self, rows: usize) {
        Vec::reserve(self, rows);
    }

    fn memory_bytes(&self) -> usize {
        self.capacity() * size_of::<i64>()
    }
}

impl Keys for ByteVec {
    fn empty() -> Self {
        ByteVec::new()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        self.get(row).cmp(other.get(other_row))
    }

    fn append(&mut self, other: &Self, rows: Range<usize>) {
        self.extend(other, rows);
    }

    fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
    }

    fn memory_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<u32>() + self.data.capacity()
    }
}

/// Rows of one source, sorted by key.
#[derive(Debug, Clone)]
pub(crate) struct RowBatch<K> {
    pub(crate) keys: K,
    /// A marker per row; `None` when all are [`UPSERTED`].
    pub(crate) markers: Option<Vec<u8>>,
    pub(crate) columns: Vec<Column>,
}

impl<K: Keys> RowBatch<K> {
    pub(crate) fn empty(kinds: &[Kind]) -> Self {
        Self {
            keys: K::empty(),
            markers: None,
            columns: kinds.iter().map(|kind| Column::new(*kind)).collect(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.keys.count()
    }

    pub(crate) fn marker(&self, row: usize) -> u8 {
        self.markers.as_ref().map_or(UPSERTED, |markers| markers[row])
    }

    /// The bytes of all strings.
    pub(crate) fn string_bytes(&self) -> usize {
        let bytes = |column: &Column| match &column.values {
            Values::Bytes(strings) => strings.data.len(),
            _ => 0,
        };
        self.columns.iter().map(bytes).sum()
    }

    /// Bytes held, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let markers = self.markers.as_ref().map_or(0, Vec::capacity);
        self.keys.memory_bytes() + markers + self.columns.iter().map(column_bytes).sum::<usize>()
    }

    /// Makes room for so many more rows, as far as their size is known.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.keys.reserve(rows);
        self.columns.iter_mut().for_each(|column| column.reserve(rows));
    }

    /// Appends rows of another batch with the same columns.
    pub(crate) fn append(&mut self, other: &Self, rows: Range<usize>) {
        if other.markers.is_some() && self.markers.is_none() {
            self.markers = Some(vec![UPSERTED; self.rows()]);
        }
        if let Some(markers) = &mut self.markers {
            match &other.markers {
                Some(theirs) => markers.extend_from_slice(&theirs[rows.clone()]),
                None => markers.resize(markers.len() + rows.len(), UPSERTED),
            }
        }
        self.keys.append(&other.keys, rows.clone());
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            mine.extend(theirs, rows.clone());
        }
    }
}

impl RowBatch<Vec<i64>> {
    /// Drops all rows and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
        self.markers = None;
        self.columns.iter_mut().for_each(|column| column.validity = None);
    }

    /// Drops all rows but the first ones.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.keys.truncate(rows);
        self.markers.iter_mut().for_each(|markers| markers.truncate(rows));
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
    }
}

/// Bytes that a column holds, about.
pub(crate) fn column_bytes(column: &Column) -> usize {
    let values = match &column.values {
        Values::Word(words) => words.capacity() * size_of::<u64>(),
        Values::Wide(wides) => wides.capacity() * size_of::<i128>(),
        Values::Bytes(bytes) => bytes.memory_bytes(),
    };
    values + column.validity.as_ref().map_or(0, Vec::capacity)
}

enum Step {
    /// Rows that only this source has.
    Copy { source: usize, rows: Range<usize> },
    /// Rows of one key, newest first: a range of the plan's entries.
    Cells(Range<usize>),
}

/// Some rows of a batch.
pub(crate) struct Part<'a, K> {
    pub(crate) batch: &'a RowBatch<K>,
    pub(crate) rows: Range<usize>,
}

/// What a merge does with rows that were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletes {
    /// They stay, as older sources that are not merged here may have their keys.
    Keep,
    /// They are left out, as nothing older is left.
    Drop,
}

/// Merges batches. Those that have keys in common are ordered from oldest to newest.
pub(crate) fn merge<K: Keys>(mut batches: Vec<RowBatch<K>>, kinds: &[Kind], deletes: Deletes) -> RowBatch<K> {
    batches.retain(|batch| batch.rows() > 0);
    if batches.len() <= 1 {
        let batch = batches.pop().unwrap_or_else(|| RowBatch::empty(kinds));
        return if deletes == Deletes::Drop { finish(batch, kinds) } else { batch };
    }
    let parts: Vec<_> = batches.iter().map(|batch| Part { batch, rows: 0..batch.rows() }).collect();
    merge_parts(&parts, kinds, deletes)
}

/// Merges parts of batches, ordered as for [`merge`].
pub(crate) fn merge_parts<K: Keys>(parts: &[Part<'_, K>], kinds: &[Kind], deletes: Deletes) -> RowBatch<K> {
    let batches: Vec<&RowBatch<K>> = parts.iter().map(|part| part.batch).collect();
    let mut positions: Vec<usize> = parts.iter().map(|part| part.rows.start).collect();
    let is_live = |positions: &[usize], source: usize| positions[source] < parts[source].rows.end;
    let compare_keys = |positions: &[usize], a: usize, b: usize| {
        batches[a].keys.compare(positions[a], &batches[b].keys, positions[b])
    };
    let mut steps = Vec::new();
    let mut entries: Vec<(usize, usize)> = Vec::new();
    // Sources with rows left by their next keys, the least key last, and of one key the newest last.
    let mut waiting: Vec<usize> = (0..parts.len()).filter(|source| is_live(&positions, *source)).collect();
    waiting.sort_by(|a, b| compare_keys(&positions, *b, *a).then(a.cmp(b)));
    let put_back = |waiting: &mut Vec<usize>, positions: &[usize], source: usize| {
        if is_live(positions, source) {
            let place = waiting.partition_point(|other| {
                compare_keys(positions, *other, source).then(source.cmp(other)).is_gt()
            });
            waiting.insert(place, source);
        }
    };
    while let Some(least) = waiting.pop() {
        let begin = entries.len();
        entries.push((least, positions[least]));
        while let Some(next) = waiting.last().copied()
            && compare_keys(&positions, next, least).is_eq()
        {
            entries.push((next, positions[next]));
            waiting.pop();
        }
        if entries.len() == begin + 1 {
            entries.pop();
            let (begin, all) = (positions[least], parts[least].rows.end);
            let end = match waiting.last() {
                None => all,
                Some(next) => gallop(begin + 1, all, |row| {
                    batches[least].keys.compare(row, &batches[*next].keys, positions[*next]).is_lt()
                }),
            };
            positions[least] = end;
            match deletes {
                Deletes::Drop if batches[least].markers.is_some() => {
                    let runs = runs_of(begin..end, |row| batches[least].marker(row) != DELETED);
                    steps.extend(runs.map(|rows| Step::Copy { source: least, rows }));
                }
                _ => steps.push(Step::Copy { source: least, rows: begin..end }),
            }
            put_back(&mut waiting, &positions, least);
            continue;
        }
        entries[begin..].iter().for_each(|(source, _)| positions[*source] += 1);
        entries[begin..].iter().for_each(|(source, _)| put_back(&mut waiting, &positions, *source));
        if deletes == Deletes::Drop && group_marker(&batches, &entries[begin..]) == DELETED {
            entries.truncate(begin);
            continue;
        }
        steps.push(Step::Cells(begin..entries.len()));
    }
    assemble(&batches, &steps, &entries, kinds, deletes)
}

/// The first row in `begin..end` that does not satisfy `inside`, looked for near `begin` first.
pub(crate) fn gallop(begin: usize, end: usize, inside: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (begin, 1);
    while low + step <= end && inside(low + step - 1) {
        low += step;
        step *= 2;
    }
    let (mut low, mut high) = (low, end.min(low + step - 1));
    while low < high {
        let middle = low + (high - low) / 2;
        if inside(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Merges every run of equal keys to one row; later rows are newer.
pub(crate) fn collapse<K: Keys>(batch: RowBatch<K>, kinds: &[Kind]) -> RowBatch<K> {
    let rows = batch.rows();
    let same = |row: usize| batch.keys.compare(row - 1, &batch.keys, row).is_eq();
    if !(1..rows).any(same) {
        return batch;
    }
    let mut steps = Vec::new();
    let mut entries = Vec::new();
    let mut begin = 0;
    while begin < rows {
        let mut end = begin + 1;
        if end < rows && same(end) {
            while end < rows && same(end) {
                end += 1;
            }
            let first = entries.len();
            entries.extend((begin..end).rev().map(|row| (0, row)));
            steps.push(Step::Cells(first..entries.len()));
        } else {
            while end < rows && !same(end) {
                end += 1;
            }
            // The last one begins the next run of equals.
            if end < rows {
                end -= 1;
            }
            steps.push(Step::Copy { source: 0, rows: begin..end });
        }
        begin = end;
    }
    assemble(&[&batch], &steps, &entries, kinds, Deletes::Keep)
}

fn assemble<K: Keys>(
    batches: &[&RowBatch<K>],
    steps: &[Step],
    entries: &[(usize, usize)],
    kinds: &[Kind],
    deletes: Deletes,
) -> RowBatch<K> {
    let mut merged: RowBatch<K> = RowBatch::empty(kinds);
    let any_marker = deletes == Deletes::Keep && batches.iter().any(|batch| batch.markers.is_some());
    let mut markers = Vec::new();
    let rows = |step: &Step| match step {
        Step::Copy { rows, .. } => rows.len(),
        Step::Cells(_) => 1,
    };
    merged.reserve(steps.iter().map(rows).sum());
    for step in steps {
        match step {
            Step::Copy { source, rows } => {
                merged.keys.append(&batches[*source].keys, rows.clone());
                if any_marker {
                    markers.extend(rows.clone().map(|row| batches[*source].marker(row)));
                }
            }
            Step::Cells(range) => {
                let group = &entries[range.clone()];
                let (source, row) = group[0];
                merged.keys.append(&batches[source].keys, row..row + 1);
                if any_marker {
                    markers.push(group_marker(batches, group));
                }
            }
        }
    }
    merged.markers = any_marker.then_some(markers);
    for (index, column) in merged.columns.iter_mut().enumerate() {
        let copied = steps.iter().filter_map(|step| match step {
            Step::Copy { source, rows } => Some(batches[*source].columns[index].string_bytes(rows.clone())),
            Step::Cells(_) => None,
        });
        column.reserve_string_bytes(copied.sum());
        for step in steps {
            match step {
                Step::Copy { source, rows } => column.extend(&batches[*source].columns[index], rows.clone()),
                Step::Cells(range) => push_newest(column, batches, &entries[range.clone()], index),
            }
        }
    }
    merged
}

fn group_marker<K: Keys>(batches: &[&RowBatch<K>], group: &[(usize, usize)]) -> u8 {
    let marker = |(source, row): &(usize, usize)| batches[*source].marker(*row);
    if marker(&group[0]) == DELETED {
        DELETED
    } else if group.iter().any(|entry| marker(entry) != UPSERTED) {
        REPLACED
    } else {
        UPSERTED
    }
}

fn push_newest<K: Keys>(
    column: &mut Column,
    batches: &[&RowBatch<K>],
    group: &[(usize, usize)],
    index: usize,
) {
    for (source, row) in group {
        let batch = &batches[*source];
        let cells = &batch.columns[index];
        match cells.state(*row) {
            // A deleted row has none but its sequence.
            VALUE => return column.push_from(cells, *row),
            NULL => return column.push_state(NULL, 1),
            _ if batch.marker(*row) != UPSERTED => break,
            _ => {}
        }
    }
    column.push_state(ABSENT, 1);
}

/// Drops deleted rows: for batches under which nothing older is left.
pub(crate) fn finish<K: Keys>(mut batch: RowBatch<K>, kinds: &[Kind]) -> RowBatch<K> {
    let Some(markers) = batch.markers.take() else { return batch };
    if !markers.contains(&DELETED) {
        return batch;
    }
    keep_rows(&batch, |row| markers[row] != DELETED, kinds)
}

/// The rows of a batch that satisfy a condition.
pub(crate) fn keep_rows<K: Keys>(
    batch: &RowBatch<K>,
    keep: impl Fn(usize) -> bool,
    kinds: &[Kind],
) -> RowBatch<K> {
    let runs: Vec<Range<usize>> = runs_of(0..batch.rows(), keep).collect();
    let mut kept = RowBatch::empty(kinds);
    kept.reserve(runs.iter().map(Range::len).sum());
    runs.into_iter().for_each(|rows| kept.append(batch, rows));
    kept
}

/// The runs of rows that satisfy a condition.
fn runs_of(rows: Range<usize>, keep: impl Fn(usize) -> bool) -> impl Iterator<Item = Range<usize>> {
    let Range { start: mut next, end: all } = rows;
    std::iter::from_fn(move || {
        let begin = (next..all).find(|row| keep(*row))?;
        let end = (begin + 1..all).find(|row| !keep(*row)).unwrap_or(all);
        next = end;
        Some(begin..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: &[(i64, u8, Option<u64>)]) -> RowBatch<Vec<i64>> {
        let mut column = Column::new(Kind::Word);
        for (_, _, cell) in rows {
            match cell {
                Some(word) => column.push_word(*word),
                None => column.push_state(ABSENT, 1),
            }
        }
        RowBatch {
            keys: rows.iter().map(|row| row.0).collect(),
            markers: Some(rows.iter().map(|row| row.1).collect()),
            columns: vec![column],
        }
    }

    fn rows(batch: &RowBatch<Vec<i64>>) -> Vec<(i64, u8, Option<u64>)> {
        (0..batch.rows())
            .map(|row| {
                let cell = batch.columns[0].value(row, nyala_core::ColumnType::UInt64);
                let cell = cell.map(|value| match value {
                    nyala_core::Value::UInt(word) => word,
                    _ => unreachable!(),
                });
                (batch.keys[row], batch.marker(row), cell)
            })
            .collect()
    }

    #[test]
    fn newest_wins_and_deletes_hide() {
        let old = batch(&[(1, UPSERTED, Some(10)), (2, UPSERTED, Some(20)), (3, UPSERTED, Some(30))]);
        let new = batch(&[(2, UPSERTED, None), (3, DELETED, None), (4, UPSERTED, Some(40))]);
        let newest = batch(&[(3, UPSERTED, None), (4, REPLACED, None)]);
        let sources = vec![old, new, newest];
        let finished = merge(sources.clone(), &[Kind::Word], Deletes::Drop);
        let merged = merge(sources, &[Kind::Word], Deletes::Keep);
        let expected =
            [(1, UPSERTED, Some(10)), (2, UPSERTED, Some(20)), (3, REPLACED, None), (4, REPLACED, None)];
        assert_eq!(rows(&merged), expected);
        assert_eq!(rows(&finished), expected.map(|(key, _, cell)| (key, UPSERTED, cell)));
    }

    #[test]
    fn deleted_rows_stay_or_go() {
        let old = batch(&[(1, UPSERTED, Some(10)), (2, UPSERTED, Some(20)), (3, UPSERTED, Some(30))]);
        let new =
            batch(&[(0, DELETED, None), (2, DELETED, None), (5, DELETED, None), (6, UPSERTED, Some(60))]);
        let kept = merge(vec![old.clone(), new.clone()], &[Kind::Word], Deletes::Keep);
        assert_eq!(rows(&kept).len(), 6);
        let finished = merge(vec![old, new], &[Kind::Word], Deletes::Drop);
        let expected = [(1, UPSERTED, Some(10)), (3, UPSERTED, Some(30)), (6, UPSERTED, Some(60))];
        assert_eq!(rows(&finished), expected);
        assert!(finished.columns[0].all_values(), "what was deleted leaves no trace");
    }

    #[test]
    fn later_rows_of_one_piece_win() {
        let one = batch(&[
            (1, UPSERTED, Some(1)),
            (2, UPSERTED, Some(2)),
            (2, UPSERTED, None),
            (2, UPSERTED, Some(3)),
            (5, UPSERTED, Some(5)),
            (6, UPSERTED, Some(6)),
            (6, DELETED, None),
        ]);
        let collapsed = collapse(one, &[Kind::Word]);
        let expected =
            [(1, UPSERTED, Some(1)), (2, UPSERTED, Some(3)), (5, UPSERTED, Some(5)), (6, DELETED, None)];
        assert_eq!(rows(&collapsed), expected);
        assert_eq!(rows(&finish(collapsed, &[Kind::Word])).len(), 3);
    }

    #[test]
    fn gallop_finds_the_boundary() {
        for end in 0..20 {
            for boundary in 0..=end {
                assert_eq!(gallop(0, end, |row| row < boundary), boundary);
            }
        }
    }
}
