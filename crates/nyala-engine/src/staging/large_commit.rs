//! The commit of a stage whose rows are on the disk: they become rowsets of the store.
//!
//! While they are written, others write. At the end the tables are held exclusively, for as long as it takes to look at
//! what was written meanwhile and to write one edit of the manifest.
//!
//! The rows are adopted under sequences that were reserved before they were written, or before their files were sealed. So
//! from then on nobody may have touched a key of the stage: not even by creating a row and deleting it again, because that
//! deletion would hide what is adopted.

use super::conflict::{ConflictCheck, Looked};
use super::dropped;
use super::own_rows::own_rowsets;
use super::staged_rows::StagedRows;
use crate::files::rowset::Rowset;
use crate::files::wal::SyncPolicy;
use crate::maintenance::Maintenance;
use crate::maintenance::loaded_run::LoadedRun;
use crate::maintenance::stages::AdoptedRowsets;
use crate::memory::version::{PartitionVersion, TableVersion};
use crate::reading::snapshot::EngineSnapshot;
use crate::rows::tombstone::{DeletedRange, Tombstone};
use crate::runtime::block_on::block_on;
use crate::write_hook::WriteStep;
use crate::writing::Writer;
use crate::writing::change_journal::JournalPlace;
use crate::writing::table_locks::{LockMode, TableLocks};
use nyala_core::{Error, ErrorKind, Result, Sequence, TableId, TimeRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sequences that a commit reserves: one for rows that are merged, and the next one for runs, which are newer.
const RESERVED: u64 = 2;

/// So often a commit gives its tables free again to look at what came while it waited for them. Then it looks while it
/// holds them, so that others who go on deleting do not keep it waiting for ever.
const RELEASES_MAX: usize = 8;

/// The rows of a stage in a partition, and where they go.
struct Target {
    table: Arc<TableVersion>,
    /// As the stage sees it.
    staged: Arc<PartitionVersion>,
    /// What has to be merged.
    rowsets: Vec<Arc<Rowset>>,
    /// What is adopted as it is.
    run: Option<LoadedRun>,
    partition: u64,
    range: TimeRange,
    /// Times whose rows go elsewhere.
    outside: Vec<TimeRange>,
}

/// Commits a stage. Blocks: not for a thread that runs futures of writers.
pub(super) fn commit(
    mut rows: StagedRows,
    place: &JournalPlace,
    maintenance: &Arc<Maintenance>,
) -> Result<Sequence> {
    maintenance.output.remove_abandoned();
    rows.spill(maintenance)?;
    let mut looked = Looked::default();
    // Rows of runs are not found before their files are sealed, which needs the sequence.
    if rows.loads.is_empty() {
        looked = early_check(&rows, place, maintenance, looked, None)?;
    }
    rows.loads.iter_mut().try_for_each(|load| load.write_all(&maintenance.output))?;
    let targets = targets(&mut rows, maintenance)?;
    let _held = maintenance.hold(targets.iter().map(|target| target.partition).collect());
    let Some(reserved) = maintenance.flush_before(RESERVED)? else {
        return Err(maintenance.writer.versions.watermark.check().err().unwrap_or_else(|| {
            Error::retry("the flush before the commit was not possible, nothing was changed")
        }));
    };
    let mut adopted = Vec::new();
    let outcome = write(targets, reserved, maintenance, &mut adopted, &mut rows)
        .and_then(|()| early_check(&rows, place, maintenance, looked, Some(reserved)))
        .and_then(|looked| {
            let mut check = ConflictCheck::from(&rows, place, looked);
            publish(&rows, &mut check, reserved, &adopted, maintenance)
        });
    if outcome.is_err() {
        let written = adopted.iter().flat_map(|each| &each.written);
        maintenance.output.abandon(written.map(|written| &written.meta));
    }
    outcome
}

/// Most of the work is done before others have to wait. Returns what was looked at.
fn early_check(
    rows: &StagedRows,
    place: &JournalPlace,
    maintenance: &Maintenance,
    looked: Looked,
    untouched_since: Option<u64>,
) -> Result<Looked> {
    let mut check = ConflictCheck::from(rows, place, looked);
    check.run_early(&maintenance.writer, untouched_since)?;
    Ok(check.looked)
}

/// The partitions that get the rows. Those that are missing are made.
fn targets(rows: &mut StagedRows, maintenance: &Maintenance) -> Result<Vec<Target>> {
    let (mut found, mut missing) = (Vec::new(), BTreeMap::<TableId, Vec<i64>>::new());
    let mut targets = Vec::new();
    let version = maintenance.writer.versions.current();
    let mut runs: Vec<LoadedRun> = std::mem::take(&mut rows.loads).into_iter().map(|load| load.run).collect();
    for id in rows.written.iter().copied() {
        let now = version.table(id).map_err(dropped)?;
        for partition in &rows.version.table(id)?.partitions {
            let place = runs.iter().position(|run| run.table().id == id && run.partition() == partition.id);
            let run = place.map(|place| runs.swap_remove(place));
            if run.is_none() && own_rowsets(partition, rows.opened.sequence).is_empty() {
                continue;
            }
            if now.partition_at(time_in(partition.range)).is_none() {
                missing.entry(id).or_default().push(time_in(partition.range));
            }
            found.push((id, partition.clone(), run));
        }
    }
    maintenance.writer.versions.make_partitions(missing)?;
    for (id, staged, mut run) in found {
        let (table, rowsets) =
            (rows.version.table(id)?.clone(), own_rowsets(&staged, rows.opened.sequence).to_vec());
        let places = places_of(id, staged.range, maintenance)?;
        // What is being loaded is in one file, and a range of times hides no keys.
        let is_whole = run.is_some() || !table.schema.is_series_keyed();
        if is_whole && places.len() > 1 {
            let name = table.schema.shown_name();
            return Err(Error::conflict(format!("table {name}: its partitions were changed since")));
        }
        for (partition, range) in places {
            let outside = outside(staged.range, range);
            let (table, staged, rowsets) = (table.clone(), staged.clone(), rowsets.clone());
            targets.push(Target { table, staged, rowsets, run: run.take(), partition, range, outside });
        }
    }
    Ok(targets)
}

/// The partitions for the times of one that the stage has. It is one with this range, unless it was dropped and others came for
/// some of its times.
fn places_of(table: TableId, times: TimeRange, maintenance: &Maintenance) -> Result<Vec<(u64, TimeRange)>> {
    let versions = &maintenance.writer.versions;
    let (mut places, mut time_ns) = (Vec::new(), times.start_ns);
    loop {
        let version = versions.current();
        let now = version.table(table).map_err(dropped)?;
        let Some(position) = now.partition_at(time_ns) else {
            versions.make_partitions(BTreeMap::from([(table, vec![time_ns])]))?;
            continue;
        };
        let PartitionVersion { id, range, .. } = &*now.partitions[position];
        places.push((*id, *range));
        if range.end_ns >= times.end_ns {
            return Ok(places);
        }
        time_ns = range.end_ns;
    }
}

/// The times that are not in a part.
fn outside(times: TimeRange, part: TimeRange) -> Vec<TimeRange> {
    let around = [TimeRange::new(times.start_ns, part.start_ns), TimeRange::new(part.end_ns, times.end_ns)];
    around.into_iter().filter(|range| !range.is_empty()).collect()
}

/// A time in the range of a partition; of a table that has only one the one by which it is found.
fn time_in(range: TimeRange) -> i64 {
    if range.contains(0) { 0 } else { range.start_ns }
}

fn write(
    targets: Vec<Target>,
    last_reserved: u64,
    maintenance: &Maintenance,
    adopted: &mut Vec<AdoptedRowsets>,
    rows: &mut StagedRows,
) -> Result<()> {
    for Target { table, staged, rowsets, run, partition, range, outside } in targets {
        adopted.push(AdoptedRowsets { table: table.id, partition, written: Vec::new() });
        let written = &mut adopted.last_mut().expect("was just put in").written;
        let place = (partition, range);
        if !rowsets.is_empty() {
            let hidden = outside.into_iter().map(DeletedRange::Times);
            let hidden = hidden.map(|range| Arc::new(Tombstone::new(u64::MAX, range)));
            let hidden: Vec<_> = hidden.collect();
            maintenance.write_adopted(&table, place, (&rowsets, &hidden), last_reserved - 1, written)?;
        }
        if let Some(run) = run {
            let merged = written.len();
            run.seal_for_store(&maintenance.output, place, last_reserved, written)?;
            rows.find_in(&table, &staged, maintenance, &written[merged..]);
        }
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
    let (tables, now) = lock(rows, check, reserved, writer)?;
    let outcome = check.run(&now, Some(reserved)).and_then(|()| {
        if maintenance.options.wal_sync != SyncPolicy::Always {
            // What was acknowledged before is not lost when the stage is not.
            writer.log.wal().sync()?;
        }
        let _under_way = block_on(writer.store_lock.clone().read_owned());
        let taken = writer.take_sequences(1)?;
        let sequence = taken.last;
        maintenance.adopt(adopted, taken)?;
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

/// Locks the tables at a moment when little was changed that the check has not looked at; returns what is applied then.
fn lock(
    rows: &StagedRows,
    check: &mut ConflictCheck<'_>,
    reserved: u64,
    writer: &Writer,
) -> Result<(TableLocks, EngineSnapshot)> {
    let mut releases = 0;
    loop {
        writer.hook.call(WriteStep::Adopting);
        let tables = rows.locked_with(LockMode::Exclusive);
        let tables = block_on(writer.lock_tables(tables)).map_err(dropped)?;
        let now = writer.applied();
        if releases == RELEASES_MAX || !check.is_long(&now)? {
            return Ok((tables, now));
        }
        releases += 1;
        drop(tables);
        block_on(writer.wait_for_others(now.sequence))?;
        writer.journal.seen_up_to(writer.versions.watermark.get());
        check.run_early(writer, Some(reserved))?;
    }
}
