//! Whether somebody else was first to change a row of a stage.
//!
//! A row was changed if it was there at the opening and anybody wrote or deleted its key since, or if it was not there
//! and is there now. Whose keys were written is in the journal (`writing/change_journal.rs`). Dropped partitions are
//! found by their numbers, which are never given again.

use super::deleted_ranges::DeletedRanges;
use super::own_rows::{OwnRows, for_each_key};
use super::staged_rows::StagedRows;
use crate::files::rowset::Rowset;
use crate::memory::memtable::PreparedKeys;
use crate::memory::version::TableVersion;
use crate::reading::snapshot::EngineSnapshot;
use crate::writing::Writer;
use crate::writing::change_journal::{Change, ChangedRows, JournalPlace, Settled};
use crate::writing::conditional_write::{Lookup, RowKey};
use arrow_array::ArrayRef;
use nyala_core::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// A check that can be repeated, and looks only at what was changed since the last time.
pub(super) struct ConflictCheck<'a> {
    rows: &'a StagedRows,
    place: &'a JournalPlace,
    pub(super) looked: Looked,
}

/// What checks have looked at.
#[derive(Default)]
pub(super) struct Looked {
    /// The number of the next change to look at.
    next_change: u64,
    /// Partitions that were dropped, by number.
    dropped: HashSet<u64>,
}

impl<'a> ConflictCheck<'a> {
    pub(super) fn new(rows: &'a StagedRows, place: &'a JournalPlace) -> Self {
        Self::from(rows, place, Looked::default())
    }

    /// One that goes on where another one ended.
    pub(super) fn from(rows: &'a StagedRows, place: &'a JournalPlace, looked: Looked) -> Self {
        Self { rows, place, looked }
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

    /// Whether `run` would read many keys: where the stage has rows on the disk a range or a partition is gone, or another
    /// stage was adopted.
    pub(super) fn is_long(&self, now: &EngineSnapshot) -> Result<bool> {
        let (changes, _) = self.place.changes_from(self.looked.next_change, None)?;
        for id in self.rows.written.difference(&self.rows.claimed).copied() {
            let (opened, own) = (self.rows.opened.version.table(id)?, self.rows.own_rows(id)?);
            let Ok(table) = now.version.table(id) else { continue };
            let of_table = || changes.iter().filter(move |change| change.table == id);
            if of_table().any(|change| matches!(change.rows, ChangedRows::Rowsets(_)))
                || dropped_of(&own, opened, table)
                    .any(|(_, partition)| !self.looked.dropped.contains(&partition))
                || own.has_files_around(&ranges_of(opened, of_table()))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn look(
        &mut self,
        now: &EngineSnapshot,
        untouched_since: Option<u64>,
        settled: Option<&Settled>,
    ) -> Result<()> {
        let (changes, next_change) = self.place.changes_from(self.looked.next_change, settled)?;
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
            check.partitions(table, &mut self.looked.dropped)?;
            let is_touch =
                |change: &Change| untouched_since.is_some_and(|sequence| change.sequence > sequence);
            for change in changes.iter().filter(|change| change.table == id) {
                check.any_touch = is_touch(change);
                match &change.rows {
                    ChangedRows::Keys(keys) => check.keys(keys)?,
                    ChangedRows::Points(points) => {
                        points.for_each(|series, time_ns| check.key(&RowKey::Point { series, time_ns }))?;
                    }
                    ChangedRows::Rowsets(rowsets) => check.rowsets(rowsets)?,
                    // All of them are looked at together.
                    ChangedRows::Range(_) => {}
                }
            }
            for any_touch in [true, false] {
                let of_table = changes.iter().filter(|change| change.table == id);
                check.any_touch = any_touch;
                check.ranges(&ranges_of(opened, of_table.filter(|change| is_touch(change) == any_touch)))?;
            }
        }
        self.looked.next_change = next_change;
        Ok(())
    }
}

/// The partitions with rows of the stage that were dropped, by position and number.
fn dropped_of<'a>(
    own: &OwnRows<'a>,
    opened: &TableVersion,
    now: &TableVersion,
) -> impl Iterator<Item = (usize, u64)> + use<'a> {
    let known: HashSet<u64> = opened.partitions.iter().map(|partition| partition.id).collect();
    let kept: HashSet<u64> = now.partitions.iter().map(|partition| partition.id).collect();
    let own = own.partitions().map(|(position, partition)| (position, partition.id));
    own.filter(move |(_, partition)| known.contains(partition) && !kept.contains(partition))
}

/// The ranges among some changes of a table.
fn ranges_of<'a>(table: &TableVersion, changes: impl Iterator<Item = &'a Arc<Change>>) -> DeletedRanges {
    let ranges = changes.filter_map(|change| match &change.rows {
        ChangedRows::Range(range) => Some(range),
        ChangedRows::Keys(_) | ChangedRows::Points(_) | ChangedRows::Rowsets(_) => None,
    });
    DeletedRanges::of(table, ranges)
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
    /// Rows of partitions that were dropped, and not looked at yet.
    fn partitions(&mut self, now: &TableVersion, looked: &mut HashSet<u64>) -> Result<()> {
        for (position, partition) in dropped_of(&self.own, self.opened, now) {
            if !looked.contains(&partition) {
                let Self { opened, own, then, .. } = self;
                own.for_each(position, &mut |key| match then.exists(key)? {
                    true => Err(conflict(opened)),
                    false => Ok(()),
                })?;
                looked.insert(partition);
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
        if is_changed { Err(conflict(self.opened)) } else { Ok(()) }
    }

    /// Ranges that somebody deleted.
    fn ranges(&mut self, ranges: &DeletedRanges) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let Self { opened, own, then, any_touch, .. } = self;
        for (position, _) in own.partitions() {
            own.for_each_in(position, ranges, &mut |key| match *any_touch || then.exists(key)? {
                true => Err(conflict(opened)),
                false => Ok(()),
            })?;
        }
        Ok(())
    }
}

/// The error of a stage whose row was changed.
fn conflict(table: &TableVersion) -> Error {
    let name = table.schema.shown_name();
    Error::conflict(format!("table {name}: a row of the stage was changed by somebody else since"))
}
