//! Whether somebody else was first to change a row of a stage.
//!
//! A row was changed if it was there at the opening and anybody wrote or deleted its key since, or if it was not there
//! and is there now. Whose keys were written is in the journal (`writing/change_journal.rs`). Dropped partitions are
//! found by their numbers, which are never given again.

use super::own_rows::{OwnRows, for_each_key};
use super::staged_rows::StagedRows;
use crate::files::rowset::Rowset;
use crate::memory::memtable::PreparedKeys;
use crate::memory::version::TableVersion;
use crate::reading::snapshot::EngineSnapshot;
use crate::rows::tombstone::Tombstone;
use crate::writing::Writer;
use crate::writing::change_journal::{Change, ChangedRows, JournalPlace, Settled};
use crate::writing::conditional_write::{Lookup, RowKey};
use arrow_array::ArrayRef;
use nyala_core::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// A check that can be repeated, and looks only at what was written since the last time.
pub(super) struct ConflictCheck<'a> {
    rows: &'a StagedRows,
    place: &'a JournalPlace,
    /// The number of the next change to look at.
    pub(super) next_change: u64,
}

impl<'a> ConflictCheck<'a> {
    pub(super) fn new(rows: &'a StagedRows, place: &'a JournalPlace) -> Self {
        Self::from(rows, place, 0)
    }

    /// One that goes on where another one ended.
    pub(super) fn from(rows: &'a StagedRows, place: &'a JournalPlace, next_change: u64) -> Self {
        Self { rows, place, next_change }
    }

    /// The same as `run` while others write, so that less is left for it. Changes that are noted and not applied yet are
    /// left to it, and those after them: whether their keys have rows cannot be said.
    pub(super) fn run_early(&mut self, writer: &Writer, untouched_since: Option<u64>) -> Result<()> {
        let settled = self.place.settled();
        self.look(&writer.applied(), untouched_since, Some(&settled))
    }

    /// Fails with a conflict if somebody else was first, by what is applied `now`: the caller's locks and its look at the
    /// claims see to it that nothing of others is on its way. After the sequence `untouched_since` nobody may have written or
    /// deleted a key of the stage at all.
    pub(super) fn run(&mut self, now: &EngineSnapshot, untouched_since: Option<u64>) -> Result<()> {
        self.look(now, untouched_since, None)
    }

    fn look(
        &mut self,
        now: &EngineSnapshot,
        untouched_since: Option<u64>,
        settled: Option<&Settled>,
    ) -> Result<()> {
        let (changes, next_change) = self.place.changes_from(self.next_change, settled)?;
        self.look_at_claimed(now, &changes)?;
        for id in self.rows.written.difference(&self.rows.claimed).copied() {
            let opened = self.rows.opened.version.table(id)?;
            let name = opened.schema.shown_name();
            let Ok(table) = now.version.table(id) else {
                return Err(Error::conflict(format!("table {name} was dropped since")));
            };
            if table.alterations != opened.alterations {
                return Err(Error::conflict(format!("table {name} was altered since")));
            }
            let mut check = TableCheck {
                opened,
                own: self.rows.own_rows(id)?,
                then: Lookup::new(&self.rows.opened, opened),
                now: Lookup::new(now, table),
                any_touch: false,
            };
            check.partitions(table)?;
            for change in changes.iter().filter(|change| change.table == id) {
                check.any_touch = untouched_since.is_some_and(|sequence| change.sequence > sequence);
                match &change.rows {
                    ChangedRows::Keys(keys) => check.keys(keys)?,
                    ChangedRows::Points(points) => {
                        points.for_each(|series, time_ns| check.key(&RowKey::Point { series, time_ns }))?;
                    }
                    ChangedRows::Rowsets(rowsets) => check.rowsets(rowsets)?,
                    ChangedRows::Range(range) => {
                        check.range(&Tombstone { sequence: change.sequence, range: range.clone() })?;
                    }
                }
            }
        }
        self.next_change = next_change;
        Ok(())
    }
}

impl ConflictCheck<'_> {
    /// Fails if a table that is being replaced was changed in any way.
    fn look_at_claimed(&self, now: &EngineSnapshot, changes: &[Arc<Change>]) -> Result<()> {
        for id in &self.rows.claimed {
            let opened = self.rows.opened.version.table(*id)?;
            let is_changed = changes.iter().any(|change| change.table == *id);
            if is_changed || now.version.table(*id).is_err() {
                let name = opened.schema.shown_name();
                return Err(Error::conflict(format!(
                    "table {name}: somebody else has changed its rows since"
                )));
            }
        }
        Ok(())
    }
}

/// The check of one table.
struct TableCheck<'a> {
    opened: &'a TableVersion,
    own: OwnRows<'a>,
    /// Which rows there were at the opening.
    then: Lookup<'a>,
    now: Lookup<'a>,
    /// Whether it is a conflict even if there was no row and is none.
    any_touch: bool,
}

impl TableCheck<'_> {
    /// Rows of partitions that were dropped.
    fn partitions(&mut self, now: &TableVersion) -> Result<()> {
        let known: HashSet<u64> = self.opened.partitions.iter().map(|partition| partition.id).collect();
        let kept: HashSet<u64> = now.partitions.iter().map(|partition| partition.id).collect();
        for (position, partition) in self.own.partitions() {
            if known.contains(&partition.id) && !kept.contains(&partition.id) {
                self.covered(position, |_| true)?;
            }
        }
        Ok(())
    }

    /// Keys that somebody wrote or deleted.
    fn keys(&mut self, keys: &[ArrayRef]) -> Result<()> {
        let prepared = PreparedKeys::of_delete(keys, &self.opened.schema);
        let mut encoded = Vec::new();
        for row in 0..prepared.rows {
            if !self.opened.schema.is_series_keyed() {
                prepared.encode(row, &mut encoded);
            }
            let key = RowKey::of(self.opened, &prepared, row, &encoded);
            self.key(&key)?;
        }
        Ok(())
    }

    /// Rows of another stage that were adopted.
    fn rowsets(&mut self, rowsets: &[Arc<Rowset>]) -> Result<()> {
        let table = self.opened;
        for_each_key(table, rowsets, None, &mut |key| self.key(key))
    }

    fn key(&mut self, key: &RowKey<'_>) -> Result<()> {
        let is_changed =
            self.own.has(key)? && (self.any_touch || self.then.exists(key)? || self.now.exists(key)?);
        if is_changed { Err(self.conflict()) } else { Ok(()) }
    }

    /// A range that somebody deleted.
    fn range(&mut self, tombstone: &Tombstone) -> Result<()> {
        for (position, _) in self.own.partitions() {
            self.covered(position, |key| match key {
                RowKey::Point { series, time_ns } => {
                    tombstone.times_of(*series).is_some_and(|times| times.contains(*time_ns))
                }
                RowKey::Encoded { key, .. } => tombstone.hides_key(key),
            })?;
        }
        Ok(())
    }

    /// Fails if a row of the stage was there at the opening and was deleted with others.
    fn covered(&mut self, position: usize, is_deleted: impl Fn(&RowKey<'_>) -> bool) -> Result<()> {
        let (then, any_touch, mut was_there) = (&mut self.then, self.any_touch, false);
        self.own.for_each(position, |key| {
            was_there = was_there || (is_deleted(key) && (any_touch || then.exists(key)?));
            Ok(())
        })?;
        if was_there { Err(self.conflict()) } else { Ok(()) }
    }

    fn conflict(&self) -> Error {
        let name = self.opened.schema.shown_name();
        Error::conflict(format!("table {name}: a row of the stage was changed by somebody else since"))
    }
}
