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
mod settings;
mod tables;
mod tally;
mod writer;

pub use level::Levelled;
pub use plan::MovedTable;

use crate::catalog::Catalog;
use crate::records::table_named;
use columns::Columns;
use journal::Journal;
use level::level;
use nyala_core::store::{Freshness, SnapshotRef, Store, StoreRef};
use nyala_core::{Error, Result, Sequence, TableId, TimeRange};
use plan::Plan;
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
    /// What the source had when it was opened.
    sequence: Sequence,
    is_resumed: bool,
    /// The tables of the target, by those of the source.
    ids: settings::Ids,
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
    /// everywhere, and its sequence before the catalog was opened, which may have changed records.
    ///
    /// # Errors
    /// If the target is not empty and has no such move, or cannot hold something.
    pub async fn begin(
        source: Arc<Catalog>,
        target: StoreRef,
        (from, sequence): (&str, Sequence),
        skip: &[String],
    ) -> Result<Self> {
        let plan = Plan::of(&source, target.capabilities(), skip)?;
        let (journal, is_resumed) = Journal::open(&target, from).await?;
        let begun = Self { source, target, plan, journal, sequence, is_resumed, ids: settings::Ids::new() };
        begun.drop_surplus().await?;
        Ok(begun)
    }

    /// Drops what was moved before and is not to be moved any more.
    async fn drop_surplus(&self) -> Result<()> {
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
        let table = &self.plan.tables[place];
        let moved = self.move_table(table, watch).await;
        let (id, levelled) = moved.map_err(|error| error.context(&table.shown))?;
        self.ids.insert(table.source, id);
        Ok(levelled)
    }

    async fn move_table(
        &self,
        table: &MovedTable,
        watch: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(TableId, Levelled)> {
        let (id, is_new) = tables::open(&self.target, &table.schema).await?;
        let name = &table.schema.name;
        if is_new {
            self.journal.forget(name).await?;
        }
        let columns = Columns::of(&table.schema);
        let mut levelled = Levelled::default();
        for range in ranges(table, (&**self.source.store(), table.source), (&*self.target, id)).await? {
            if let Some(rows) = self.journal.done(name, range, self.sequence).await? {
                levelled.rows += rows;
                watch(rows);
                continue;
            }
            let (from, to) = (self.snapshot().await?, self.target.snapshot(Freshness::Latest).await?);
            let new = from.scan(columns.request(table.source, range)).await?;
            let old = to.scan(columns.request(id, range)).await?;
            let part = level(&columns, new, old, (&self.target, id), watch).await?;
            self.journal.add(name, range, self.sequence, part.rows).await?;
            levelled.add(part);
        }
        Ok((id, levelled))
    }

    /// Moves everything but rows, after the rows of all tables. Returns the number of records of series.
    pub async fn move_settings(&self) -> Result<u64> {
        let snapshot = self.snapshot().await?;
        let mut series = 0;
        for table in &self.plan.tables {
            let id = self.ids.get(&table.source).copied();
            let id = id.ok_or_else(|| Error::invalid("the rows of a table were not moved yet"))?;
            series += settings::move_series(&self.source, &snapshot, &self.target, table, id).await?;
        }
        let Plan { skipped, .. } = &self.plan;
        settings::move_records(&self.source, &snapshot, &self.target, &self.ids, skipped).await?;
        Ok(series)
    }

    /// Forgets that the rows of a table are done: both sides differ. They are made equal when the move goes on.
    pub async fn doubt(&self, place: usize) -> Result<()> {
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

/// Compares the rows of a table on both sides, by count and checksum of each day.
pub async fn compare(
    source: &StoreRef,
    target: &StoreRef,
    table: &MovedTable,
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
    for range in ranges(table, (&**source, table.source), (&**target, id)).await? {
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
