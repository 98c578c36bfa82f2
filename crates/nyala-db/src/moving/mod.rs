//! Moving everything from one store to another: from a data directory to a cluster, and back.
//!
//! Rows go from table to table as the store contract has them, so every type, NULL and nanosecond is what it was, series keep
//! their numbers, and nothing is parsed or printed on the way. A [`Move`] makes the target equal to a snapshot of the source,
//! measurement by measurement and shard by shard (`level`), then the records of databases, users and series (`settings`). It
//! notes in the target what is done (`journal`). [`compare`] reads both sides again.
//!
//! Next: `plan`, what is moved.

mod columns;
mod cursor;
mod journal;
mod level;
mod plan;
mod position;
mod settings;
mod tables;
mod tally;
mod writer;

pub use level::Levelled;
pub use plan::MovedTable;
pub use position::Position;

use crate::catalog::{Catalog, UNFINISHED_MOVE_TABLE};
use crate::records::table_named;
use columns::Columns;
use journal::{Journal, SERIES};
use level::level;
use nyala_core::store::{Freshness, SnapshotRef, Store, StoreRef};
use nyala_core::{Error, Result, TableId, TimeRange};
use plan::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;
use tally::Tallies;

/// The most differences that are described of a table.
const DIFFERENCES_MAX: usize = 10;

/// A move that has begun.
pub struct Move {
    source: Arc<Catalog>,
    target: StoreRef,
    plan: Plan,
    journal: Journal,
    /// The state of the source when it was opened.
    position: Position,
    is_resumed: bool,
    /// The tables of the target, by those of the source.
    ids: settings::Ids,
    /// What was not known to be equal before, by places of tables.
    doubted: BTreeMap<usize, Vec<TimeRange>>,
    read_rows: u64,
}

/// Rows of a table that were compared.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Rows of the source.
    pub rows: u64,
    /// The days from which they are.
    pub days: u64,
    /// Days on which the sides differ, …
    pub differing_days: u64,
    /// … and what the first of them are.
    pub differences: Vec<String>,
}

impl Move {
    /// Begins a move of everything but what `skip` names, or goes on with one. `from`: the source, by a name that it has
    /// everywhere, and its position before the catalog was opened, which may have changed records.
    ///
    /// # Errors
    /// If the target is not empty and has no such move, or cannot hold something.
    pub async fn begin(
        source: Arc<Catalog>,
        target: StoreRef,
        (from, position): (&str, Position),
        skip: &[String],
    ) -> Result<Self> {
        let plan = Plan::of(&source, target.capabilities(), skip)?;
        let (journal, is_resumed) = Journal::open(&target, from).await?;
        let (ids, doubted, read_rows) = Default::default();
        let mut begun = Self { source, target, plan, journal, position, is_resumed, ids, doubted, read_rows };
        begun.drop_surplus().await?;
        Ok(begun)
    }

    /// Drops what was moved before and is not to be moved any more.
    async fn drop_surplus(&mut self) -> Result<()> {
        for (table, schema) in self.target.tables() {
            let is_moved = self.plan.tables.iter().any(|moved| moved.schema.name == schema.name);
            if plan::has_rows(&schema) && !is_moved {
                self.journal.forget(&schema.name).await?;
                tables::drop(&self.target, table).await?;
            }
        }
        Ok(())
    }

    /// Whether it had been begun before.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Remarks about what is left out.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    /// The tables that are moved, in order of their names.
    pub fn tables(&self) -> &[MovedTable] {
        &self.plan.tables
    }

    /// About how many rows there are.
    pub async fn estimate_rows(&self) -> Result<u64> {
        let snapshot = self.snapshot().await?;
        let mut rows = 0;
        for table in &self.plan.tables {
            rows += snapshot.estimate_rows(table.source, TimeRange::ALL).await?;
        }
        Ok(rows)
    }

    /// A snapshot of the source; not one for the whole move, because a cluster forgets the past after a while. Nobody else
    /// writes to the source.
    async fn snapshot(&self) -> Result<SnapshotRef> {
        self.source.store().snapshot(Freshness::Latest).await
    }

    /// Moves the rows of a table, by its place in [`Self::tables`]. `watch` is told how many rows were passed.
    pub async fn move_rows(&mut self, place: usize, watch: &mut (dyn FnMut(u64) + Send)) -> Result<Levelled> {
        let moved = self.move_table(place, watch).await;
        moved.map_err(|error| error.context(&self.plan.tables[place].shown))
    }

    async fn move_table(&mut self, place: usize, watch: &mut (dyn FnMut(u64) + Send)) -> Result<Levelled> {
        let table = &self.plan.tables[place];
        let (id, is_new) = tables::open(&self.target, &table.schema).await?;
        self.ids.insert(table.source, id);
        let name = &table.schema.name;
        if is_new {
            self.journal.forget(name).await?;
        }
        let columns = Columns::of(&table.schema);
        let mut levelled = Levelled::default();
        for range in ranges(table, (&**self.source.store(), table.source), (&*self.target, id)).await? {
            let done = self.journal.done(name, range);
            let parts = match &done {
                Some(done) => self.position.changed_since(done, table.source, range),
                None => vec![range],
            };
            let known_rows = done.filter(|_| parts != [range]).map_or(0, |done| done.rows);
            watch(known_rows);
            let mut part_rows = Levelled::default();
            for part in &parts {
                let (from, to) = (self.snapshot().await?, self.target.snapshot(Freshness::Latest).await?);
                let new = from.scan(columns.request(table.source, *part)).await?;
                let old = to.scan(columns.request(id, *part)).await?;
                part_rows.add(level(&columns, new, old, (&self.target, id), watch).await?);
            }
            let Levelled { inserted, deleted, .. } = part_rows;
            let rows = match parts == [range] {
                true => part_rows.rows,
                false => (known_rows + inserted).saturating_sub(deleted),
            };
            levelled.add(Levelled { rows, ..part_rows });
            self.read_rows += part_rows.rows;
            if !parts.is_empty() {
                self.journal.add(name, range, self.position.done(table.source, rows)).await?;
                self.doubted.entry(place).or_default().extend(parts);
            }
        }
        Ok(levelled)
    }

    /// How many rows of the source were read, because they were not known to be equal.
    pub fn read_rows(&self) -> u64 {
        self.read_rows
    }

    /// Compares what was not known to be equal before this was begun, by places of tables.
    pub async fn compare_doubted(&self) -> Result<Vec<(usize, Comparison)>> {
        let mut all = Vec::new();
        for (place, ranges) in &self.doubted {
            let table = &self.plan.tables[*place];
            let stores = (self.source.store(), &self.target);
            let compared = compare_within(stores, table, Some(ranges), &mut |_| ()).await;
            all.push((*place, compared.map_err(|error| error.context(&table.shown))?));
        }
        Ok(all)
    }

    /// Moves everything but rows, after the rows of all tables. Returns the number of records of series.
    pub async fn move_settings(&mut self) -> Result<u64> {
        let snapshot = self.snapshot().await?;
        let mut series = 0;
        for table in &self.plan.tables {
            let id = self.ids.get(&table.source).copied();
            let id = id.ok_or_else(|| Error::invalid("the rows of a table were not moved yet"))?;
            let name = &table.schema.name;
            let done = self.journal.done(name, SERIES);
            series += match done.filter(|done| !self.position.is_series_changed(done, table.source)) {
                Some(done) => done.rows,
                None => {
                    let moved =
                        settings::move_series(&self.source, &snapshot, &self.target, table, id).await?;
                    self.journal.add(name, SERIES, self.position.done(table.source, moved)).await?;
                    moved
                }
            };
        }
        let Plan { skipped, .. } = &self.plan;
        settings::move_records(&self.source, &snapshot, &self.target, &self.ids, skipped).await?;
        Ok(series)
    }

    /// Forgets that the rows of a table are done: both sides differ. They are made equal when the move goes on.
    pub async fn doubt(&mut self, place: usize) -> Result<()> {
        self.journal.forget(&self.plan.tables[place].schema.name).await
    }

    /// Ends the move: from now on servers open the target.
    pub async fn finish(self) -> Result<()> {
        self.journal.remove().await
    }
}

/// What there is to compare: everything but what `skip` names.
///
/// # Errors
/// As when a move begins.
pub fn tables_of(source: &Catalog, target: &StoreRef, skip: &[String]) -> Result<Vec<MovedTable>> {
    Ok(Plan::of(source, target.capabilities(), skip)?.tables)
}

/// Whether a store has everything that was moved to it: servers open it.
pub fn is_finished(target: &StoreRef) -> bool {
    table_named(target, UNFINISHED_MOVE_TABLE).is_none() && !target.tables().is_empty()
}

/// Compares the rows of a table on both sides, by count and checksum of each day.
pub async fn compare(
    source: &StoreRef,
    target: &StoreRef,
    table: &MovedTable,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Comparison> {
    compare_within((source, target), table, None, watch).await
}

/// The same of some ranges of times that do not overlap, or of all.
async fn compare_within(
    (source, target): (&StoreRef, &StoreRef),
    table: &MovedTable,
    within: Option<&[TimeRange]>,
    watch: &mut (dyn FnMut(u64) + Send),
) -> Result<Comparison> {
    let Some((id, schema)) = table_named(target, &table.schema.name) else {
        let differences = vec![format!("{}: it is missing in the target", table.shown)];
        return Ok(Comparison { differing_days: 1, differences, ..Comparison::default() });
    };
    let lacking = table.schema.columns.iter().find(|own| {
        schema
            .column(own.id)
            .is_none_or(|other| (&other.name, other.column_type) != (&own.name, own.column_type))
    });
    if let Some(column) = lacking {
        let differences = vec![format!("{}: the target lacks column {:?}", table.shown, column.name)];
        return Ok(Comparison { differing_days: 1, differences, ..Comparison::default() });
    }
    let columns = Columns::of(&table.schema);
    let (mut own, mut others) = (Tallies::new(), Tallies::new());
    let all = match within {
        Some(ranges) => ranges.to_vec(),
        None => ranges(table, (&**source, table.source), (&**target, id)).await?,
    };
    for range in all {
        let (from, to) =
            (source.snapshot(Freshness::Latest).await?, target.snapshot(Freshness::Latest).await?);
        let new = from.scan(columns.request(table.source, range)).await?;
        let old = to.scan(columns.request(id, range)).await?;
        let read_source = tally::add(&mut own, &columns, new, watch);
        let mut unwatched = |_| ();
        let read_target = tally::add(&mut others, &columns, old, &mut unwatched);
        futures::try_join!(read_source, read_target)?;
    }
    Ok(compared(&table.shown, &own, &others))
}

fn compared(name: &str, own: &Tallies, others: &Tallies) -> Comparison {
    let mut comparison = Comparison {
        rows: own.values().map(|tally| tally.rows).sum(),
        days: own.len() as u64,
        ..Comparison::default()
    };
    let mut days: Vec<_> = own.keys().chain(others.keys()).collect();
    days.sort_unstable();
    days.dedup();
    for day in days {
        let (one, other) = (own.get(day).copied(), others.get(day).copied());
        if one == other {
            continue;
        }
        comparison.differing_days += 1;
        if comparison.differences.len() == DIFFERENCES_MAX {
            continue;
        }
        let rows = |tally: Option<tally::Tally>| tally.unwrap_or_default().rows;
        let (one, other, day) = (rows(one), rows(other), tally::shown(*day));
        comparison.differences.push(match one == other {
            true => format!("{name}, {day}: {one} rows on both sides, and their checksums differ"),
            false => format!("{name}, {day}: the source has {one} rows, the target {other}"),
        });
    }
    comparison
}

/// The ranges of times in which a table is read.
async fn ranges(
    table: &MovedTable,
    (source, id): (&dyn Store, TableId),
    (target, target_id): (&dyn Store, TableId),
) -> Result<Vec<TimeRange>> {
    let (own, others) = (source.partitions(id).await?, target.partitions(target_id).await?);
    let times = |all: Vec<nyala_core::store::PartitionInfo>| -> Vec<TimeRange> {
        all.into_iter().map(|partition| partition.range).collect()
    };
    Ok(plan::ranges(&table.schema, &times(own), &times(others)))
}
