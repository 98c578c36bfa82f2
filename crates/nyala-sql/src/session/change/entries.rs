//! The entries of indexes that a change writes beside its rows, and what rows may not have in common.

use super::existing::some_rows;
use super::work::Work;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::entries::RowIndex;
use arrow_array::{Array, ArrayRef};
use nyala_core::arrays::is_same_cell;
use nyala_core::store::{Operation, Snapshot, WriteBatch};
use nyala_core::{ErrorKind, Value};
use std::collections::BTreeSet;

/// A row whose values another one has that must differ.
pub(super) struct Taken {
    row: usize,
    /// The place of the index; `None`: it is the key.
    index: Option<usize>,
}

impl Taken {
    pub(super) fn is_key(&self) -> bool {
        self.index.is_none()
    }
}

impl Work<'_> {
    /// The operations that write the entries of new rows.
    pub(super) fn entries_added(&self, rows: &[ArrayRef]) -> impl Iterator<Item = Operation> {
        self.indexes.iter().filter_map(|index| index.added(rows))
    }

    /// The operations that delete the entries of rows.
    pub(super) fn entries_removed(&self, rows: &[ArrayRef]) -> impl Iterator<Item = Operation> {
        self.indexes.iter().filter_map(|index| index.removed(rows))
    }

    /// The operations that delete the entries of rows that become others under the same key, and those that write them
    /// again.
    pub(super) fn entries_changed(
        &self,
        before: &[ArrayRef],
        after: &[ArrayRef],
    ) -> (Vec<Operation>, Vec<Operation>) {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let count = before.first().map_or(0, |values| values.len());
        for index in self.indexes.iter() {
            let is_same =
                |position: &usize, row| is_same_cell((&before[*position], row), (&after[*position], row));
            let is_changed = |row: &u32| !index.columns.iter().all(|own| is_same(own, *row as usize));
            let changed: Vec<u32> = (0..count as u32).filter(is_changed).collect();
            if !changed.is_empty() {
                removed.extend(index.removed(&some_rows(before, &changed)));
                added.extend(index.added(&some_rows(after, &changed)));
            }
        }
        (removed, added)
    }

    /// Writes rows and entries that may meet others: `rows` are those that they belong to.
    pub(super) async fn write_unique(
        &mut self,
        operations: Vec<Operation>,
        rows: &[ArrayRef],
        with_key: bool,
    ) -> SqlResult<()> {
        if operations.is_empty() {
            return Ok(());
        }
        match self.sink.write(WriteBatch { operations }).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let snapshot = self.sink.snapshot().await?;
                Err(match self.first_taken(&*snapshot, rows, with_key).await? {
                    Some(taken) => self.taken(&taken, rows),
                    None => {
                        let words = "could not serialize access due to concurrent update";
                        SqlError::new(SqlState::SERIALIZATION_FAILURE, words)
                    }
                })
            }
            written => Ok(written.map(drop)?),
        }
    }

    /// The first row that has what another one has: one that is there, or one before it.
    pub(super) async fn first_taken(
        &self,
        snapshot: &dyn Snapshot,
        rows: &[ArrayRef],
        with_key: bool,
    ) -> SqlResult<Option<Taken>> {
        let primary = with_key.then(|| self.primary());
        let count = rows.first().map_or(0, |values| values.len());
        let indexes = self.indexes.iter().enumerate().map(|(place, index)| (Some(place), index));
        let all = primary.iter().map(|primary| (None, primary)).chain(indexes);
        for (index, of) in all.filter(|(_, of)| of.is_unique()) {
            let mut seen = BTreeSet::new();
            for row in 0..count {
                self.check_now_and_then(row)?;
                let Some(values) = of.values(rows, row) else { continue };
                if of.is_taken_by_another(snapshot, values.clone(), (rows, row)).await?
                    || !seen.insert(values)
                {
                    return Ok(Some(Taken { row, index }));
                }
            }
        }
        Ok(None)
    }

    /// The error of such a row.
    pub(super) fn taken(&self, taken: &Taken, rows: &[ArrayRef]) -> SqlError {
        match taken.index {
            Some(place) => self.rules.duplicate(&self.indexes[place], rows, taken.row),
            None => self.rules.duplicate(&self.primary(), rows, taken.row),
        }
    }

    /// The rows that have nothing that another one has by some keys and indexes: one that is there, or one of these before it.
    pub(super) async fn absent(&self, rows: &[ArrayRef], by: &[&RowIndex<'_>]) -> SqlResult<Vec<u32>> {
        let snapshot = self.sink.snapshot().await?;
        let count = rows.first().map_or(0, |values| values.len());
        let mut seen: Vec<BTreeSet<Vec<Value>>> = vec![BTreeSet::new(); by.len()];
        let mut absent = Vec::new();
        'rows: for row in 0..count {
            self.check_now_and_then(row)?;
            let values: Vec<Option<Vec<Value>>> = by.iter().map(|of| of.values(rows, row)).collect();
            for ((of, own), seen) in by.iter().zip(&values).zip(&seen) {
                let Some(own) = own else { continue };
                if seen.contains(own) || of.is_taken(&*snapshot, own.clone()).await? {
                    continue 'rows;
                }
            }
            seen.iter_mut().zip(values).for_each(|(seen, own)| seen.extend(own));
            absent.push(row as u32);
        }
        Ok(absent)
    }

    /// Fails if the statement was stopped, which is looked at for some of the rows.
    pub(super) fn check_now_and_then(&self, row: usize) -> SqlResult<()> {
        if row.is_multiple_of(64) { self.check_running() } else { Ok(()) }
    }
}
