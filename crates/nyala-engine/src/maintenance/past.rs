//! Forgets the past: files and times that no snapshot can be asked for any more.

use super::Maintenance;
use crate::files::catalog::Edit;
use crate::files::rowset::Rowset;
use crate::memory::history::History;
use crate::memory::version::{PartitionPast, PartitionVersion, TableVersion, Version};
use crate::rows::tombstone::{Tombstone, durable_tombstones};
use nyala_core::{Result, TimeRange};
use std::sync::Arc;

/// Steps of time that are forgotten together, when there is nothing else to forget.
const STEPS_FORGOTTEN: usize = 1 << 12;

impl Maintenance {
    /// Whether the past is kept.
    pub(super) fn keeps_past(&self) -> bool {
        self.writer.history.is_some()
    }

    /// Lets the past begin now where it was not kept before; forgets it where it is not kept any more.
    pub(crate) fn begin_past(&self) -> Result<()> {
        let Some(history) = &self.writer.history else {
            let is_kept = !self.versions.catalog.lock().state.times.is_empty();
            return if is_kept { self.forget_before(u64::MAX) } else { Ok(()) };
        };
        let is_new = self.versions.catalog.lock().state.times.is_empty();
        if is_new { self.begin_past_now(history) } else { Ok(()) }
    }

    /// Lets the past begin now.
    fn begin_past_now(&self, history: &History) -> Result<()> {
        let first = history.begin(self.writer.log.wal().next_sequence() - 1);
        let sequence = first.sequence;
        self.versions.change_tables(|_, version| {
            // What is known of times is given up first.
            let edits = vec![Edit::ForgetPast(0), Edit::ForgetPast(sequence), Edit::AddTimes(vec![first])];
            Ok((edits, Version { past_from: sequence, ..version.clone() }, ()))
        })
    }

    /// Forgets what lies before the horizon; earlier, what takes more space than is free.
    pub(crate) fn forget_past(&self) -> Result<()> {
        let Some(history) = &self.writer.history else { return Ok(()) };
        if history.is_ahead() {
            tracing::warn!("the clock was set back: the history begins anew");
            self.begin_past_now(history)?;
        }
        let version = self.versions.current();
        let horizon = history.horizon().unwrap_or(0).max(self.crowded_out(&version)?);
        if horizon <= version.past_from {
            return Ok(());
        }
        let steps = history.between(version.past_from, horizon).len();
        let has_files = past_files(&version).any(|(_, until)| until <= horizon);
        let has_tombstones =
            || version.tables.values().any(|table| table.has_forgettable_tombstones(horizon));
        if has_files || steps >= STEPS_FORGOTTEN || has_tombstones() {
            self.forget_before(horizon)?;
            history.forget_before(horizon);
        }
        Ok(())
    }

    /// The sequence before which the past does not fit: its files take at most as much space as is free.
    fn crowded_out(&self, version: &Version) -> Result<u64> {
        let mut files: Vec<(u64, u64)> =
            past_files(version).map(|(rowset, until)| (until, rowset.meta.length_bytes)).collect();
        let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        if bytes == 0 {
            return Ok(0);
        }
        let free_bytes = self.options.fs.free_bytes(&self.options.data_dir)?;
        files.sort_unstable();
        let mut horizon = 0;
        for (until, length) in files {
            if bytes <= free_bytes {
                break;
            }
            (horizon, bytes) = (until, bytes - length);
        }
        Ok(horizon)
    }

    /// Forgets what was before a sequence; `u64::MAX`: everything, and the past is not kept any more.
    pub(crate) fn forget_before(&self, sequence: u64) -> Result<()> {
        let mut catalog = self.versions.catalog.lock();
        let (mut changed, mut edits, mut forgotten) =
            (Version::clone(&self.versions.current()), Vec::new(), Vec::new());
        let version = self.versions.current();
        for table in version.tables.values() {
            let is_past = |rowset: &&(Arc<Rowset>, u64)| rowset.1 <= sequence;
            let of_table: Vec<(Arc<Rowset>, u64)> = table
                .partitions
                .iter()
                .flat_map(|partition| partition.past.files())
                .filter(|file| is_past(&file))
                .collect();
            let has_tombstones = table.has_forgettable_tombstones(sequence);
            if of_table.is_empty() && !has_tombstones {
                continue;
            }
            let mut kept = TableVersion::clone(table);
            for partition in &mut kept.partitions {
                if partition.past.files().any(|file| file.1 <= sequence) {
                    let past = partition.past.since(sequence);
                    *partition =
                        Arc::new(partition.with_rowsets(partition.rowsets.clone(), &[]).with_past(past));
                }
            }
            let is_needed = table.needs_of_past(sequence);
            kept.past_tombstones.retain(|tombstone| is_needed(tombstone));
            let durable = durable_tombstones(&kept.all_tombstones(), catalog.state.flushed_sequence);
            edits.extend(catalog.state.tombstone_edits(table.id, &durable));
            edits.extend(
                of_table.iter().map(|(rowset, _)| Edit::ForgetRowset { table: table.id, id: rowset.meta.id }),
            );
            forgotten.extend(of_table);
            changed.put_table(kept);
        }
        let past_from = if sequence == u64::MAX { 0 } else { sequence };
        edits.push(Edit::ForgetPast(past_from));
        changed.past_from = past_from;
        self.writer.reserve.make_room(0);
        self.versions.commit(&mut catalog, edits, || self.versions.publish(changed))?;
        forgotten.iter().for_each(|(rowset, _)| rowset.set_obsolete());
        Ok(())
    }
}

/// The files that are kept for reading the past, each with the sequence from which on it is not needed.
fn past_files(version: &Version) -> impl Iterator<Item = (Arc<Rowset>, u64)> {
    let partitions = version.tables.values().flat_map(|table| &table.partitions);
    partitions.flat_map(|partition| partition.past.files())
}

/// The bytes of these files.
pub(crate) fn past_bytes(version: &Version) -> u64 {
    past_files(version).map(|(rowset, _)| rowset.meta.length_bytes).sum()
}

impl TableVersion {
    /// Whether there are tombstones of the past that are not needed to read what was at a sequence and later.
    fn has_forgettable_tombstones(&self, sequence: u64) -> bool {
        let is_old = |oldest: &Arc<Tombstone>| oldest.sequence <= sequence;
        if !self.past_tombstones.first().is_some_and(is_old) {
            return false;
        }
        let is_needed = self.needs_of_past(sequence);
        self.past_tombstones.iter().any(|tombstone| !is_needed(tombstone))
    }

    /// Says whether a tombstone is needed to read what was at a sequence and later. An old one is as long as these
    /// moments are read from a file that may have rows from before it: a flush keeps the hidden ones beside its rows,
    /// and what a compaction replaces still has them.
    fn needs_of_past(&self, sequence: u64) -> impl Fn(&Tombstone) -> bool + use<> {
        let read_later = |partition: &Arc<PartitionVersion>| {
            let files = partition.files_of_past().filter(|(_, until)| *until > sequence);
            let oldest = files.map(|(rowset, _)| rowset.meta.min_sequence).min();
            oldest.map(|oldest| (partition.range, oldest))
        };
        let partitions: Vec<(TimeRange, u64)> = self.partitions.iter().filter_map(read_later).collect();
        move |tombstone| {
            let may_hide = |(range, oldest): &(TimeRange, u64)| {
                *oldest <= tombstone.sequence && tombstone.times().is_none_or(|time| time.overlaps(*range))
            };
            tombstone.sequence > sequence || partitions.iter().any(may_hide)
        }
    }
}

impl PartitionVersion {
    /// The files that moments of the past are read from in another way than the present, each with the sequence from
    /// which on it is not.
    fn files_of_past(&self) -> impl Iterator<Item = (Arc<Rowset>, u64)> {
        let flushed = self.rowsets.iter().filter(|rowset| rowset.meta.since_sequence == 0);
        let read_back = flushed.map(|rowset| (rowset.clone(), rowset.meta.max_sequence));
        self.past.files().chain(read_back)
    }
}

impl PartitionPast {
    fn files(&self) -> impl Iterator<Item = (Arc<Rowset>, u64)> {
        let versions = self.versions.iter().map(|rowset| (rowset.clone(), rowset.meta.max_sequence));
        self.retired.iter().cloned().chain(versions)
    }

    /// What is needed to read what was at a sequence, and later.
    fn since(&self, sequence: u64) -> Self {
        let mut kept = self.clone();
        kept.retired.retain(|(_, until)| *until > sequence);
        kept.versions.retain(|rowset| rowset.meta.max_sequence > sequence);
        kept
    }
}
