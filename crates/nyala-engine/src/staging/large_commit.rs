//! The commit of a stage whose rows are on the disk: they become rowsets of the store.
//!
//! While they are written, others write. At the end the tables are held exclusively, for as long as it takes to look at
//! what was written meanwhile and to write one edit of the manifest.
//!
//! The rows are adopted under a sequence that was reserved before they were written. So from then on nobody may have
//! touched a key of the stage: not even by creating a row and deleting it again, because that deletion would hide what is
//! adopted.

use super::conflict::ConflictCheck;
use super::dropped;
use super::own_rows::own_rowsets;
use super::staged_rows::StagedRows;
use crate::files::rowset::Rowset;
use crate::files::wal::SyncPolicy;
use crate::maintenance::Maintenance;
use crate::maintenance::stages::AdoptedRowsets;
use crate::memory::version::TableVersion;
use crate::runtime::block_on::block_on;
use crate::writing::change_journal::JournalPlace;
use crate::writing::table_locks::LockMode;
use nyala_core::{Error, ErrorKind, Result, Sequence, TableId, TimeRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of a stage in a partition, and where they go.
struct Target {
    table: Arc<TableVersion>,
    rowsets: Vec<Arc<Rowset>>,
    partition: u64,
    range: TimeRange,
}

/// Commits a stage. Blocks: not for a thread that runs futures of writers.
pub(super) fn commit(
    mut rows: StagedRows,
    place: &JournalPlace,
    maintenance: &Arc<Maintenance>,
) -> Result<Sequence> {
    maintenance.output.remove_abandoned();
    rows.spill(maintenance)?;
    let mut check = ConflictCheck::new(&rows, place);
    // Most of the work is done before others have to wait.
    check.run(&maintenance.writer.applied(), None)?;
    let targets = targets(&rows, maintenance)?;
    let _held = maintenance.hold(targets.iter().map(|target| target.partition).collect());
    let Some(reserved) = maintenance.flush_before(1)? else {
        return Err(maintenance.writer.versions.watermark.check().err().unwrap_or_else(|| {
            Error::retry("the flush before the commit was not possible, nothing was changed")
        }));
    };
    let mut adopted = Vec::new();
    let outcome = write(&targets, reserved, maintenance, &mut adopted)
        .and_then(|()| publish(&rows, &mut check, reserved, &adopted, maintenance));
    if outcome.is_err() {
        let written = adopted.iter().flat_map(|each| &each.written);
        maintenance.output.abandon(written.map(|written| &written.meta));
    }
    outcome
}

/// The partitions that get the rows. Those that are missing are made.
fn targets(rows: &StagedRows, maintenance: &Maintenance) -> Result<Vec<Target>> {
    let (mut found, mut missing) = (Vec::new(), BTreeMap::<TableId, Vec<i64>>::new());
    let version = maintenance.writer.versions.current();
    for id in rows.written.iter().copied() {
        let now = version.table(id).map_err(dropped)?;
        for partition in &rows.version.table(id)?.partitions {
            if own_rowsets(partition, rows.opened.sequence).is_empty() {
                continue;
            }
            if now.partition_at(time_in(partition.range)).is_none() {
                missing.entry(id).or_default().push(time_in(partition.range));
            }
            found.push((id, partition.clone()));
        }
    }
    maintenance.writer.versions.make_partitions(missing)?;
    let version = maintenance.writer.versions.current();
    let target = |(id, staged): (TableId, Arc<crate::memory::version::PartitionVersion>)| {
        let now = version.table(id).map_err(dropped)?;
        let partition = now.partition_at(time_in(staged.range)).map(|position| &now.partitions[position]);
        // Partitions that were dropped and made again may have other ranges only if their neighbours have.
        let partition = partition.filter(|partition| partition.range == staged.range).ok_or_else(|| {
            Error::conflict(format!("table {}: its partitions were changed since", now.schema.shown_name()))
        })?;
        let rowsets = own_rowsets(&staged, rows.opened.sequence).to_vec();
        let table = rows.version.table(id)?.clone();
        Ok(Target { table, rowsets, partition: partition.id, range: partition.range })
    };
    found.into_iter().map(target).collect()
}

/// A time in the range of a partition; of a table that has only one the one by which it is found.
fn time_in(range: TimeRange) -> i64 {
    if range.contains(0) { 0 } else { range.start_ns }
}

fn write(
    targets: &[Target],
    sequence: u64,
    maintenance: &Maintenance,
    adopted: &mut Vec<AdoptedRowsets>,
) -> Result<()> {
    for Target { table, rowsets, partition, range } in targets {
        adopted.push(AdoptedRowsets { table: table.id, partition: *partition, written: Vec::new() });
        let written = &mut adopted.last_mut().expect("was just put in").written;
        maintenance.write_adopted(table, (*partition, *range), rowsets, sequence, written)?;
    }
    maintenance.output.sync_names()
}

fn publish(
    rows: &StagedRows,
    check: &mut ConflictCheck<'_>,
    reserved: u64,
    adopted: &[AdoptedRowsets],
    maintenance: &Maintenance,
) -> Result<Sequence> {
    let writer = &maintenance.writer;
    let tables = rows.written.iter().map(|table| (*table, LockMode::Exclusive)).collect();
    let tables = block_on(writer.lock_tables(tables)).map_err(dropped)?;
    let now = writer.applied();
    let outcome = check.run(&now, Some(reserved)).and_then(|()| {
        if maintenance.options.wal_sync != SyncPolicy::Always {
            // What was acknowledged before is not lost when the stage is not.
            writer.log.wal().sync()?;
        }
        let sequence = {
            let _under_way = block_on(writer.store_lock.clone().read_owned());
            writer.take_sequences(1)?
        };
        maintenance.adopt(adopted, sequence)?;
        Ok(sequence)
    });
    drop(tables);
    match outcome {
        Ok(sequence) => {
            block_on(writer.versions.watermark.reached(sequence))?;
            Ok(Sequence(sequence))
        }
        Err(error) => {
            if error.kind() == ErrorKind::Conflict {
                // A client that is told of a conflict can then read the rows that caused it.
                block_on(writer.wait_for_others(now.sequence))?;
            }
            Err(error)
        }
    }
}
