//! Rows of a load wait in memory until they are in order.
//!
//! A query that runs in several threads gives its rows a little out of order, and a file may have them in any. So batches
//! wait, each of them sorted, until they take too much memory. Then those with the least keys go to the run, together with
//! the batches that have keys between theirs. What comes a little too early or too late still finds its place; rows in
//! random order become runs as large as the memory.

use crate::maintenance::loaded_run::LoadedRun;
use crate::maintenance::output::RowsetOutput;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::Kind;
use crate::rows::merge::{Deletes, Part, RowBatch, gallop, merge, merge_parts};
use nyala_core::Result;

/// A run and the rows that are to follow in it.
pub(super) struct SortedLoad {
    pub(super) run: LoadedRun,
    kinds: Vec<Kind>,
    /// In the order in which they were staged.
    waiting: Vec<RowBatch<ByteVec>>,
    waiting_bytes: u64,
    /// When a rowset of the run is followed by another one.
    bytes_max: u64,
}

impl SortedLoad {
    pub(super) fn new(run: LoadedRun, kinds: Vec<Kind>, bytes_max: u64) -> Self {
        Self { run, kinds, waiting: Vec::new(), waiting_bytes: 0, bytes_max }
    }

    /// What waits takes in memory.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Whether a key, and all behind it, can still find their places in the run.
    pub(super) fn takes(&self, key: &[u8]) -> bool {
        self.run.is_before(key)
    }

    /// The first of some ascending keys that a row that waits has.
    pub(super) fn first_waiting(&self, keys: &ByteVec) -> Option<usize> {
        self.waiting.iter().filter_map(|rows| first_common(keys, &rows.keys)).min()
    }

    /// Adds rows of a batch, sorted by distinct keys, that it takes.
    pub(super) fn push(&mut self, rows: RowBatch<ByteVec>, sequence: u64) {
        self.run.note(sequence);
        let is_short = |last: &mut RowBatch<ByteVec>| last.keys.len() + rows.keys.len() <= SHORT_ROWS;
        let rows = match self.waiting.pop_if(is_short) {
            Some(last) => {
                self.waiting_bytes -= last.memory_bytes() as u64;
                merge(vec![last, rows], &self.kinds, Deletes::Keep)
            }
            None => rows,
        };
        self.waiting_bytes += rows.memory_bytes() as u64;
        self.waiting.push(rows);
    }

    /// Writes the rows with the least keys. After an error it is of no use.
    pub(super) fn write_least(&mut self, output: &RowsetOutput) -> Result<()> {
        let least = self.waiting.iter().map(bounds).min_by_key(|(first, _)| *first);
        let Some(mut end) = least.map(|(_, last)| last.to_vec()) else { return Ok(()) };
        // Batches that begin before the end of one that is written are written with it.
        while let Some(farther) = self
            .waiting
            .iter()
            .map(bounds)
            .filter(|(first, last)| *first <= end.as_slice() && *last > end.as_slice())
            .map(|(_, last)| last)
            .max()
        {
            end = farther.to_vec();
        }
        let (least, rest) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|rows| rows.keys.get(0) <= end.as_slice());
        self.waiting = rest;
        self.waiting_bytes = self.waiting.iter().map(|rows| rows.memory_bytes() as u64).sum();
        self.write(output, least)
    }

    /// Writes everything that waits. After an error it is of no use.
    pub(super) fn write_all(&mut self, output: &RowsetOutput) -> Result<()> {
        while !self.waiting.is_empty() {
            self.write_least(output)?;
        }
        Ok(())
    }

    /// Writes batches, of which later ones are newer, piece by piece: together they may be large.
    fn write(&mut self, output: &RowsetOutput, mut batches: Vec<RowBatch<ByteVec>>) -> Result<()> {
        if let [rows] = &mut batches[..] {
            return self.run.push(output, rows, self.bytes_max);
        }
        let mut begins = vec![0; batches.len()];
        loop {
            // Every piece ends before the least of the keys that are some rows away.
            let ends = batches.iter().zip(&begins).filter_map(|(rows, begin)| {
                let end = begin + PIECE_ROWS.div_ceil(batches.len()).max(1);
                (end < rows.keys.len()).then(|| rows.keys.get(end))
            });
            let cut = ends.min().map(<[u8]>::to_vec);
            let parts: Vec<Part<'_, ByteVec>> = batches
                .iter()
                .zip(&begins)
                .map(|(batch, begin)| {
                    let end = cut.as_ref().map_or(batch.keys.len(), |cut| batch.keys.lower_bound(cut));
                    Part { batch, rows: *begin..end }
                })
                .collect();
            begins = parts.iter().map(|part| part.rows.end).collect();
            let merged = merge_parts(&parts, &self.kinds, Deletes::Keep);
            self.run.push(output, &merged, self.bytes_max)?;
            if cut.is_none() {
                return Ok(());
            }
        }
    }
}

/// Batches that have no more rows together wait as one.
const SHORT_ROWS: usize = 512;
/// Rows that are merged at once, about: few of them are in memory twice.
const PIECE_ROWS: usize = 16 << 10;

/// The first and the last key of some rows.
fn bounds(rows: &RowBatch<ByteVec>) -> (&[u8], &[u8]) {
    (rows.keys.get(0), rows.keys.get(rows.keys.len() - 1))
}

/// The first of some ascending keys that others, which ascend, too, have.
fn first_common(keys: &ByteVec, others: &ByteVec) -> Option<usize> {
    let (mut row, mut other) = (0, 0);
    while row < keys.len() && other < others.len() {
        match keys.get(row).cmp(others.get(other)) {
            std::cmp::Ordering::Equal => return Some(row),
            std::cmp::Ordering::Less => {
                let bound = others.get(other);
                row = gallop(row + 1, keys.len(), |row| keys.get(row) < bound);
            }
            std::cmp::Ordering::Greater => {
                let bound = keys.get(row);
                other = gallop(other + 1, others.len(), |other| others.get(other) < bound);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(numbers: &[u8]) -> ByteVec {
        let mut keys = ByteVec::new();
        numbers.iter().for_each(|number| keys.push(&[*number]));
        keys
    }

    #[test]
    fn the_first_common_key_is_found() {
        for bits in 0_u32..1 << 12 {
            let of = |shift: u32| (0_u8..6).filter(move |bit| bits >> (shift + u32::from(*bit)) & 1 == 1);
            let (own, others): (Vec<u8>, Vec<u8>) = (of(0).collect(), of(6).collect());
            let expected = own.iter().position(|key| others.contains(key));
            assert_eq!(first_common(&keys(&own), &keys(&others)), expected, "{own:?} {others:?}");
        }
    }
}
