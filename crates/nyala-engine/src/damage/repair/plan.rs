//! Plans what of a damaged directory is saved, from the manifest as far as it can be read and from the origins of the
//! files. Nothing is written here.
//!
//! Without a whole manifest it is not known which files count: of those whose sequences another one of the same
//! partition covers the other is taken, for it was made of them. What the manifest knew to be dropped stays so; what
//! was dropped after, or deleted, may come back.

use super::RepairReport;
use crate::collections::id_map::IdMap;
use crate::collections::table_map::TableMap;
use crate::damage::check::{check_rowset, length};
use crate::files::catalog::{self, CatalogState, CatalogTable};
use crate::files::directory::{ORPHAN_DIR, ROWSET_DIR, WAL_DIR, check_parts, is_rowset};
use crate::files::fs::FsRef;
use crate::files::log_record::{self, Logged};
use crate::files::manifest_log;
use crate::files::rowset::origin::Origin;
use crate::files::rowset::reader::LoadedFooter;
use crate::files::rowset::{Rowset, RowsetMeta, RowsetSource};
use crate::files::wal;
use nyala_core::store::Operation;
use nyala_core::{ColumnId, Result, TableId, TableSchema};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What the repair writes.
pub(super) struct Plan {
    pub(super) state: CatalogState,
    /// The least revision of the new manifest.
    pub(super) revision: u64,
}

/// A directory being looked at.
struct Planner<'a> {
    fs: &'a FsRef,
    dir: &'a Path,
    source: &'a Arc<RowsetSource>,
    report: &'a mut RepairReport,
    state: CatalogState,
    revision: u64,
    /// The manifest was read whole, and nothing is newer.
    is_whole: bool,
}

pub(super) fn plan(
    fs: &FsRef,
    dir: &Path,
    source: &Arc<RowsetSource>,
    guarded: &[(&str, &str)],
    report: &mut RepairReport,
) -> Result<Plan> {
    let mut planner =
        Planner { fs, dir, source, report, state: CatalogState::default(), revision: 0, is_whole: false };
    planner.manifest()?;
    if planner.is_whole {
        planner.drop_missing();
    } else {
        planner.files()?;
    }
    planner.log()?;
    planner.guard(guarded);
    let Planner { state, revision, .. } = planner;
    Ok(Plan { state, revision })
}

impl Planner<'_> {
    fn manifest(&mut self) -> Result<()> {
        let headers = wal::headers(self.fs, &self.dir.join(WAL_DIR))?;
        self.revision = headers.revision;
        let Some(read) = manifest_log::verify(self.fs, self.dir)? else {
            self.report.lost.push("the manifest is missing".to_owned());
            return Ok(());
        };
        let damage = read.damage.first().map(|damage| format!("manifest: {damage}"));
        let Some(manifest) = read.manifest else {
            self.report.lost.extend(damage);
            return Ok(());
        };
        self.revision = self.revision.max(manifest.revision);
        let (state, error) = catalog::decode(&manifest);
        let error = error.map(|error| format!("manifest: {error}"));
        let older = check_parts(self.fs, self.dir, &state, manifest.revision).err();
        let is_older = headers.revision > manifest.revision;
        self.is_whole = damage.is_none() && error.is_none() && !is_older;
        self.report.lost.extend(damage.into_iter().chain(error).chain(older.map(|error| error.to_string())));
        self.state = state;
        Ok(())
    }

    /// Leaves out rowsets of a whole manifest whose files are not there, or have no footer.
    fn drop_missing(&mut self) {
        let mut tables = owned(&std::mem::take(&mut self.state.tables));
        for table in tables.values_mut() {
            let metas: Vec<RowsetMeta> = table.rowsets.values().cloned().collect();
            for meta in metas {
                let rowset = Rowset::new(meta.clone(), self.source.clone());
                let Err(error) = rowset.footer() else { continue };
                table.rowsets.remove(meta.id);
                let name = table.schema.shown_name();
                self.report.lost.push(format!("{} rows of table {name}: {error}", meta.rows));
                let is_over = |other: &RowsetMeta| {
                    other.partition == meta.partition && other.max_sequence < meta.min_sequence
                };
                if table.rowsets.values().any(is_over) {
                    self.report.may_return.push(format!(
                        "of table {name} older rows that {} had replaced or deleted",
                        meta.file_name()
                    ));
                }
            }
        }
        self.put_tables(tables);
    }

    fn put_tables(&mut self, tables: BTreeMap<TableId, CatalogTable>) {
        for (id, table) in tables {
            self.state.tables.insert(id, Arc::new(table));
        }
    }

    /// Takes what the files say of themselves.
    fn files(&mut self) -> Result<()> {
        let known = owned(&std::mem::take(&mut self.state.tables));
        let mut found: Vec<(RowsetMeta, Origin)> = Vec::new();
        let rowset_dir = self.dir.join(ROWSET_DIR);
        let entries = if self.fs.exists(&rowset_dir)? { self.fs.list(&rowset_dir)? } else { Vec::new() };
        for name in entries.into_iter().map(|entry| entry.name).filter(|name| is_rowset(name)) {
            let Some(id) = RowsetMeta::id_of(&name) else { continue };
            let unknown = RowsetMeta::unknown(id, length(self.fs, &rowset_dir.join(&name)));
            let rowset = Rowset::new(unknown, self.source.clone());
            let named = known.values().find_map(|table| Some((table, table.rowsets.get(id)?)));
            match (rowset.footer().and_then(|footer| Ok((footer, rowset.origin()?))), named) {
                (Err(error), _) => self.report.lost.push(format!("a rowset: {error}")),
                (Ok((footer, Some(origin))), _) => {
                    found.push((meta_of(&rowset.meta, &origin, &footer), origin));
                }
                // Written by an earlier version, which the manifest knows still.
                (Ok(_), Some((table, meta))) => found.push((meta.clone(), origin_of(table, meta))),
                (Ok((footer, None)), None) => self.report.lost.push(format!(
                    "{} rows: {name} was written by an earlier version and does not say of which table",
                    footer.rows
                )),
            }
        }
        let (next_table, next_partition) = (self.state.next_table, self.state.next_partition);
        found.retain(|(meta, origin)| {
            let table = known.get(&origin.table);
            let is_dropped = match table {
                Some(table) => {
                    origin.partition < next_partition && !table.partitions.contains(origin.partition)
                }
                None => origin.table.0 < next_table,
            };
            if is_dropped {
                self.report
                    .notes
                    .push(format!("{}: of a table or partition that was dropped", meta.file_name()));
            }
            !is_dropped
        });
        self.tables(known, found);
        Ok(())
    }

    fn tables(&mut self, known: BTreeMap<TableId, CatalogTable>, mut found: Vec<(RowsetMeta, Origin)>) {
        // The newest first, whose schema and whose partitions count.
        found.sort_by_key(|(meta, origin)| std::cmp::Reverse((origin.revision, meta.id)));
        let mut tables: BTreeMap<TableId, CatalogTable> = BTreeMap::new();
        for (id, mut table) in known {
            table.rowsets = IdMap::default();
            tables.insert(id, table);
        }
        let mut newest: BTreeSet<TableId> = BTreeSet::new();
        for (meta, origin) in found {
            self.revision = self.revision.max(origin.revision);
            let table = tables.entry(origin.table).or_insert_with(|| CatalogTable {
                schema: origin.schema.clone(),
                dropped_columns: origin.dropped_columns.clone(),
                partitions: IdMap::default(),
                rowsets: IdMap::default(),
                tombstones: Vec::new(),
                retired: IdMap::default(),
                versions: IdMap::default(),
            });
            // Columns are only ever added and dropped: who has seen more of that is newer.
            let age = |schema: &TableSchema, dropped: &[ColumnId]| (schema.next_column, dropped.len());
            let is_newer =
                age(&origin.schema, &origin.dropped_columns) > age(&table.schema, &table.dropped_columns);
            if newest.insert(origin.table) && is_newer {
                table.schema = origin.schema.clone();
                table.dropped_columns.clone_from(&origin.dropped_columns);
            }
            // A large partition has several rowsets of the same sequences, one behind the other by key.
            let rowset = Rowset::new(meta.clone(), self.source.clone());
            let has_keys_among = |other: &RowsetMeta| {
                rowset.has_keys_among(&Rowset::new(other.clone(), self.source.clone())).unwrap_or(true)
            };
            let is_covered = |other: &RowsetMeta| {
                other.partition == meta.partition
                    && other.min_sequence <= meta.max_sequence
                    && meta.min_sequence <= other.max_sequence
                    && has_keys_among(other)
            };
            let others: Vec<RowsetMeta> =
                table.rowsets.values().filter(|other| is_covered(other)).cloned().collect();
            if others.iter().any(|other| {
                other.min_sequence <= meta.min_sequence && meta.max_sequence <= other.max_sequence
            }) {
                self.report.notes.push(format!("{}: others were made of it", meta.file_name()));
                continue;
            }
            let overlaps = |(id, range): (u64, &nyala_core::TimeRange)| {
                id != meta.partition && range.overlaps(origin.range)
            };
            if table.partitions.iter().any(overlaps) {
                self.report
                    .notes
                    .push(format!("{}: of a partition that another one replaced", meta.file_name()));
                continue;
            }
            for other in &others {
                table.rowsets.remove(other.id);
            }
            table.partitions.insert(meta.partition, origin.range);
            self.state.next_partition = self.state.next_partition.max(meta.partition + 1);
            self.state.next_rowset = self.state.next_rowset.max(meta.id + 1);
            table.rowsets.insert(meta.id, meta);
        }
        let mut names: BTreeMap<String, TableId> = BTreeMap::new();
        for (id, table) in tables.iter().rev() {
            self.state.next_table = self.state.next_table.max(id.0 + 1);
            names.entry(table.schema.name.clone()).or_insert(*id);
        }
        tables.retain(|id, table| {
            let is_newest = names.get(&table.schema.name) == Some(id);
            if !is_newest {
                self.report
                    .notes
                    .push(format!("table {id} {}: a newer one has its name", table.schema.shown_name()));
            }
            is_newest
        });
        for table in tables.values().filter(|table| table.rowsets.len() > 0) {
            let rows: u64 = table.rowsets.values().map(|meta| meta.rows).sum();
            self.report.may_return.push(format!(
                "of table {} (with {rows} rows) what was deleted or dropped, and the table if it was",
                table.schema.shown_name()
            ));
        }
        self.put_tables(tables);
    }

    /// Reports guarded tables that are not whole.
    fn guard(&mut self, guarded: &[(&str, &str)]) {
        for (name, words) in guarded {
            let table = self.state.tables.values().find(|table| table.schema.name == *name);
            let is_sound = table.is_some_and(|table| {
                table.rowsets.values().all(|meta| check_rowset(self.source, meta, table).is_empty())
            });
            let is_lost = self.report.lost.iter().any(|lost| lost.contains(*name));
            if !is_sound || is_lost {
                self.report.may_return.push(format!("table {name:?} is not whole: {words}"));
            }
        }
    }

    /// From where on the log is needed, and what in it cannot be saved.
    fn log(&mut self) -> Result<()> {
        let orphans = self.dir.join(ORPHAN_DIR);
        if self.fs.exists(&orphans)? {
            let count = self.fs.list(&orphans)?.len();
            self.report
                .notes
                .push(format!("{count} files that were set aside in {} are left there", orphans.display()));
        }
        let dir = self.dir.join(WAL_DIR);
        let newest = self.state.last_sequence();
        if wal::headers(self.fs, &dir)?.last_segment == 0 {
            self.state.flushed_sequence = newest;
            self.state.log_segment = 0;
            return Ok(());
        }
        if !self.is_whole {
            self.state.flushed_sequence = wal::first_sequence(self.fs, &dir)?.saturating_sub(1);
        }
        // The files that are copied are all there is.
        (self.state.log_segment, self.state.log_sequence) = (0, 0);
        let mut unknown: BTreeMap<TableId, u64> = BTreeMap::new();
        let from = self.state.flushed_sequence + 1;
        let replayed = wal::replay(self.fs, &dir, from, &mut |record| {
            for logged in log_record::decode(&record.payload).unwrap_or_default() {
                if let Logged::Operation(Operation::Upsert(upsert)) = logged
                    && self.state.tables.get(&upsert.table).is_none()
                    && (!self.is_whole && upsert.table.0 >= self.state.next_table)
                {
                    *unknown.entry(upsert.table).or_default() += upsert.rows() as u64;
                }
            }
            Ok(())
        })?;
        self.report.log_records = replayed.records;
        if replayed.damage_count > 0 {
            self.report
                .may_return
                .push("what was deleted by records of the log that cannot be read".to_owned());
        }
        self.report.lost.extend(replayed.damage.iter().map(|damage| format!("log: {damage}")));
        for (table, rows) in unknown {
            self.report
                .lost
                .push(format!("{rows} rows of table {table} in the log: nothing says what it is"));
        }
        Ok(())
    }
}

fn owned(tables: &TableMap<CatalogTable>) -> BTreeMap<TableId, CatalogTable> {
    tables.iter().map(|(id, table)| (*id, CatalogTable::clone(table))).collect()
}

fn meta_of(file: &RowsetMeta, origin: &Origin, footer: &LoadedFooter) -> RowsetMeta {
    let (min, max) = (
        footer.pages.iter().map(|page| page.min_time_ns).min(),
        footer.pages.iter().map(|page| page.max_time_ns).max(),
    );
    let times = match footer.series_keyed {
        true => (min.unwrap_or(i64::MAX), max.unwrap_or(i64::MIN)),
        false => (i64::MAX, i64::MIN),
    };
    RowsetMeta {
        table: origin.table,
        partition: origin.partition,
        min_sequence: origin.min_sequence,
        max_sequence: origin.max_sequence,
        rows: footer.rows,
        min_time_ns: times.0,
        max_time_ns: times.1,
        ..file.clone()
    }
}

fn origin_of(table: &CatalogTable, meta: &RowsetMeta) -> Origin {
    Origin {
        table: meta.table,
        partition: meta.partition,
        range: table.partitions.get(meta.partition).copied().unwrap_or(nyala_core::TimeRange::ALL),
        min_sequence: meta.min_sequence,
        max_sequence: meta.max_sequence,
        revision: 0,
        schema: table.schema.clone(),
        dropped_columns: table.dropped_columns.clone(),
    }
}
