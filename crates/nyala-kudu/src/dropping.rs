//! Dropping ranges of time that other daemons may be making.
//!
//! A range is marked in the log, then dropped from the cluster, then removed from the log. Whoever makes a range in the
//! cluster, or finds tablets that it has not seen before, looks at the log afterwards, before it writes to them (`write`).
//! So rows are only written to tablets of a range that was in the log without a mark when they were there: if somebody
//! drops it all the same, the mark came later, and the rows go with it. A range that was made again beside a drop is not
//! written to. Its maker waits until it is removed from the log, and puts a new one in.
//!
//! Only one daemon at a time drops a range: it was not marked when that daemon marked it. A daemon that dies in between
//! leaves its mark. Others take the mark away, but not before nothing can arrive any more that the dead one sent.

use crate::cluster::Cluster;
use crate::entry::{Change, Progress};
use crate::kudu_tables::{ranges_in_cluster, time_column};
use crate::options::CHANGED_PAUSE;
use crate::sheets::Sheet;
use crate::state::{RangeState, State, TableState};
use nyala_core::{Error, Result, TableId, TimeRange};
use std::time::Duration;
use tokio::time::Instant;

/// The cluster is told to drop a range at most this long after it was marked. The call itself takes up to 30 s.
const DROPPED_WITHIN: Duration = Duration::from_secs(15);
/// So many ranges are marked at once.
const MARKED_AT_ONCE: usize = 16;

impl Cluster {
    /// Drops the ranges of a table that lie wholly within a range of times, and returns them. `None`: none was dropped, since
    /// the table was altered after the entry at which it was judged that they go.
    pub(crate) async fn drop_within(
        &self,
        table: TableId,
        within: TimeRange,
        judged_at: i64,
    ) -> Result<Option<Vec<RangeState>>> {
        let deadline = Instant::now() + self.options.write_timeout;
        // Writers may make new ones as fast as these are dropped.
        let first_new = self.log.refresh().await?.next_range;
        let mut dropped = Vec::new();
        loop {
            // Others count from when they see the mark, which is later.
            let until = Instant::now() + DROPPED_WITHIN;
            let mark = |state: &State| {
                let known = state.table(table)?;
                if known.altered > judged_at {
                    return Ok((Vec::new(), None));
                }
                let is_meant = |range: &&RangeState| range.number < first_new && within.covers(range.time);
                let covered = || known.ranges.iter().filter(is_meant).copied();
                let free = covered().filter(|range| range.leaving.is_none());
                let marked: Vec<RangeState> = free.take(MARKED_AT_ONCE).collect();
                let of_other = covered().find(|range| range.leaving.is_some());
                let leaving = marked.iter().map(|range| range.number).collect();
                let change =
                    Change::Ranges { table: table.0, ranges: known.bounds(), unmade: Vec::new(), leaving };
                Ok(((!marked.is_empty()).then_some(change).into_iter().collect(), Some((marked, of_other))))
            };
            let (state, decided) = self.log.change(mark).await?;
            let Some((marked, of_other)) = decided else {
                return Ok((!dropped.is_empty()).then_some(dropped));
            };
            match of_other.filter(|_| marked.is_empty()) {
                Some(range) => {
                    self.wait_for_drop(table, range, deadline).await?;
                    continue;
                }
                None if marked.is_empty() => return Ok(Some(dropped)),
                None => {}
            }
            self.tables.drop_ranges(table, state.table(table)?, &marked, until).await?;
            let remove = |state: &State| {
                let before = state.table(table)?.bounds();
                let mut ranges = before.clone();
                ranges.retain(|(number, ..)| !marked.iter().any(|marked| marked.number == *number));
                let is_other = ranges.len() < before.len();
                let change =
                    Change::Ranges { table: table.0, ranges, unmade: Vec::new(), leaving: Vec::new() };
                Ok((is_other.then_some(change).into_iter().collect(), ()))
            };
            self.log.change(remove).await?;
            dropped.extend(marked);
        }
    }

    /// Returns when no range of some tables is being dropped any more that is so in a state.
    pub(crate) async fn wait_for_drops(&self, tables: &[TableId], state: &State) -> Result<()> {
        let deadline = Instant::now() + self.options.write_timeout;
        for table in tables {
            let Ok(known) = state.table(*table) else { continue };
            for range in known.ranges.iter().filter(|range| range.leaving.is_some()) {
                while self
                    .log
                    .state()
                    .table(*table)
                    .is_ok_and(|known| known.ranges.iter().any(|it| it.is_marked_as(*range)))
                {
                    self.wait_for_drop(*table, *range, deadline).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits a moment for a range that somebody is dropping.
    pub(crate) async fn wait_for_drop(
        &self,
        table: TableId,
        range: RangeState,
        deadline: Instant,
    ) -> Result<()> {
        let now = Instant::now();
        if self.marks.is_abandoned(range, now) {
            tracing::warn!(%table, "a daemon that dropped a range of time has died: the range is kept");
            return self.keep(table, range).await;
        }
        if now >= deadline {
            let words = format!("a range of time of table {table} is being dropped: send it again later");
            return Err(Error::retry(words));
        }
        tokio::time::sleep(CHANGED_PAUSE).await;
        self.log.refresh().await.map(drop)
    }

    /// Drops what the cluster has of a sheet across some ranges, and is in no log; whether there was something. A daemon has
    /// made it again after others had dropped it, and died before it looked at the log. Since then the width has changed.
    ///
    /// Nobody puts a range into the log across one that is there. So what lies across it is in no log as long as it is marked,
    /// and has no rows that were acknowledged.
    pub(crate) async fn clear_leftovers(&self, sheet: Sheet, ranges: &[RangeState]) -> Result<bool> {
        let state = self.log.state();
        let known = state.table(sheet.table)?;
        if time_column(&known.schema).is_none() {
            return Ok(false);
        }
        let Some(physical) = self.tables.to_read(sheet, known).await? else { return Ok(false) };
        let found = ranges_in_cluster(&physical.table).await?;
        let mut has_found = false;
        for range in ranges {
            let is_across = |time: &&TimeRange| time.overlaps(range.time) && **time != range.time;
            let across = found.iter().filter(is_across);
            let across: Vec<RangeState> = across.map(|time| RangeState::new(range.number, *time)).collect();
            if across.is_empty() {
                continue;
            }
            has_found = true;
            let until = Instant::now() + DROPPED_WITHIN;
            let mark = |state: &State| {
                let known = state.table(sheet.table)?;
                let is_it = |known: &RangeState| known.number == range.number && known.leaving.is_none();
                let is_free = known.ranges.iter().any(is_it);
                let (table, ranges, leaving) = (sheet.table.0, known.bounds(), vec![range.number]);
                let change = Change::Ranges { table, ranges, unmade: Vec::new(), leaving };
                Ok((is_free.then_some(change).into_iter().collect(), is_free))
            };
            let (state, is_marked) = self.log.change(mark).await?;
            let known = state.table(sheet.table)?;
            let marked = known.ranges.iter().find(|known| known.number == range.number);
            let Some(marked) = marked.filter(|_| is_marked) else { continue };
            tracing::warn!(table = %sheet.table, "a range of time that is in no log is dropped");
            self.tables.drop_ranges_of(sheet, known, &across, until).await?;
            self.keep(sheet.table, *marked).await?;
        }
        Ok(has_found)
    }

    /// Gives a marked range another number, without a mark.
    async fn keep(&self, table: TableId, range: RangeState) -> Result<()> {
        let keep = |state: &State| {
            let known = state.table(table)?;
            let kept = known.ranges.iter().copied().find(|known| known.is_marked_as(range));
            Ok((kept.map(|kept| renumbered(table, known, kept, state.next_range)).unwrap_or_default(), ()))
        };
        self.log.change(keep).await.map(drop)
    }
}

/// The changes that give a range of a table another number, without a mark. What it has of sheets stays.
fn renumbered(table: TableId, known: &TableState, range: RangeState, number: u32) -> Vec<Change> {
    let mut ranges = known.bounds();
    let its = ranges.iter_mut().filter(|(other, ..)| *other == range.number);
    its.for_each(|bounds| bounds.0 = number);
    let unmade = range.is_unmade(0).then_some(number).into_iter().collect();
    let mut changes = vec![Change::Ranges { table: table.0, ranges, unmade, leaving: Vec::new() }];
    for (progress, is_unmade) in [(Progress::Unknown, false), (Progress::Wanted, true)] {
        let its = range.sheets().filter(|sheet| range.is_unmade(*sheet) == is_unmade);
        let sheets: Vec<(u32, u32)> = its.map(|sheet| (number, sheet)).collect();
        if !sheets.is_empty() {
            changes.push(Change::Sheets { table: table.0, sheets, progress });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use nyala_core::schema::TableSchema;

    #[test]
    fn a_range_with_another_number_has_the_same_sheets_and_no_mark() {
        let table = TableId(0);
        let after = |state: &State, changes| state.after(state.version + 1, &Entry { changes }).unwrap();
        let schema = (&TableSchema::measurement("m", 100)).into();
        let sheets = |sheets: &[u32], progress| Change::Sheets {
            table: 0,
            sheets: sheets.iter().map(|sheet| (1, *sheet)).collect(),
            progress,
        };
        let ranges = Change::Ranges {
            table: 0,
            ranges: vec![(0, 0, 10), (1, 10, 20)],
            unmade: vec![1],
            leaving: vec![1],
        };
        let created = vec![Change::Create { table: 0, schema }, ranges];
        let state = after(&State::default(), created);
        let state = after(&state, vec![sheets(&[2, 3], Progress::Wanted)]);
        let state = after(&state, vec![sheets(&[2], Progress::Made)]);
        let before = state.table(table).unwrap().ranges[1];
        assert!(before.leaving.is_some());
        let changes = renumbered(table, state.table(table).unwrap(), before, state.next_range);
        let state = after(&state, changes);
        let [first, kept] = state.table(table).unwrap().ranges[..] else { panic!("there are two") };
        assert_eq!((first.number, kept.number, kept.time, kept.leaving), (0, 2, before.time, None));
        assert_eq!(kept.sheets().collect::<Vec<_>>(), [2, 3]);
        assert_eq!([0, 2, 3].map(|sheet| kept.is_unmade(sheet)), [true, false, true]);
    }
}
