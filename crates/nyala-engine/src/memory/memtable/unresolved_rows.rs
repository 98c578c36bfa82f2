//! Rows of a series with addresses instead of strings: the strings are copied later. So many rows of long strings can
//! be cut into parts that a reader can hold, and strings of replaced versions are never copied.

use super::Visibility;
use super::arena::ByteArena;
use super::row_collector::push_cell;
use super::series::SeriesMemtable;
use crate::rows::column_buffer::{Kind, VALUE, Values};
use crate::rows::merge::{Keys, RowBatch};
use crate::rows::projection::Projection;
use nyala_core::{SeriesId, TimeRange};
use std::ops::Range;

/// Rows of a series, with addresses instead of strings and decimals.
#[derive(Debug, Clone)]
pub(crate) struct UnresolvedRows(RowBatch<Vec<i64>>);

impl UnresolvedRows {
    /// The times, rising.
    pub(crate) fn times(&self) -> &[i64] {
        &self.0.keys
    }

    /// Some of the rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        let mut part = RowBatch {
            keys: Vec::empty(),
            markers: None,
            columns: self.0.columns.iter().map(|column| column.same_kind()).collect(),
        };
        part.append(&self.0, rows);
        Self(part)
    }

    /// Cuts the rows where their strings come to more than `bytes_max`: ranges, and the bytes of each.
    pub(crate) fn cut(&self, kinds: &[Kind], bytes_max: u64) -> Vec<(Range<usize>, u64)> {
        let mut cuts = Vec::new();
        let (mut begin, mut bytes) = (0, 0);
        for row in 0..self.0.keys.len() {
            let more = self.string_bytes(kinds, row);
            if row > begin && bytes + more > bytes_max {
                cuts.push((begin..row, bytes));
                (begin, bytes) = (row, 0);
            }
            bytes += more;
        }
        cuts.push((begin..self.0.keys.len(), bytes));
        cuts
    }

    fn string_bytes(&self, kinds: &[Kind], row: usize) -> u64 {
        let strings = self.0.columns.iter().zip(kinds).filter(|(_, kind)| **kind == Kind::Bytes);
        let bytes = strings.map(|(column, _)| match &column.values {
            Values::Word(addresses) if column.state(row) == VALUE => ByteArena::length(addresses[row]) as u64,
            _ => 0,
        });
        bytes.sum()
    }
}

impl SeriesMemtable {
    /// The rows of a series in a range of times, one per time.
    pub(crate) fn read(
        &self,
        series: SeriesId,
        time: TimeRange,
        projection: &Projection,
        visibility: &Visibility<'_>,
    ) -> RowBatch<Vec<i64>> {
        match &projection.addresses {
            None => self.read_words(series, time, projection, visibility),
            Some(addresses) => {
                let unresolved = UnresolvedRows(self.read_words(series, time, addresses, visibility));
                self.resolve(series, &unresolved, &projection.kinds)
            }
        }
    }

    /// The same with addresses instead of strings; `addresses` are those of what is wanted.
    pub(crate) fn read_unresolved(
        &self,
        series: SeriesId,
        time: TimeRange,
        addresses: &Projection,
        visibility: &Visibility<'_>,
    ) -> UnresolvedRows {
        UnresolvedRows(self.read_words(series, time, addresses, visibility))
    }

    /// Copies the strings of rows that were read before.
    pub(crate) fn resolve(
        &self,
        series: SeriesId,
        unresolved: &UnresolvedRows,
        kinds: &[Kind],
    ) -> RowBatch<Vec<i64>> {
        let UnresolvedRows(batch) = unresolved;
        let mut resolved: RowBatch<Vec<i64>> = RowBatch::empty(kinds);
        resolved.keys.clone_from(&batch.keys);
        resolved.markers.clone_from(&batch.markers);
        let Some(shard) = self.shard(series.0) else { return resolved };
        for ((column, addresses), kind) in resolved.columns.iter_mut().zip(&batch.columns).zip(kinds) {
            let Values::Word(words) = &addresses.values else { unreachable!("addresses are words") };
            if *kind == Kind::Word {
                column.extend(addresses, 0..words.len());
                continue;
            }
            for (row, word) in words.iter().enumerate() {
                match addresses.state(row) {
                    VALUE => push_cell(column, *kind, *word, &shard.bytes),
                    state => column.push_state(state, 1),
                }
            }
        }
        resolved
    }
}
