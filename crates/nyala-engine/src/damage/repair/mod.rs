//! Repairs: writes a new data directory from a damaged one, or accepts what is lost.
//!
//! The damaged directory is never changed by a repair. What is sound is carried over as it is, files of rowsets as
//! links where the file system can; what can be read of damaged ones is rewritten; the log is replayed, and what was
//! in it is in rowsets then. So nothing in the new directory is damaged. The report says what deleted data may come
//! back and what is lost, before anything is written.

mod plan;
mod salvage;

use crate::damage::check::check_rowset;
use crate::engine::Engine;
use crate::files::catalog::{Catalog, CatalogTable};
use crate::files::directory::{ROWSET_DIR, WAL_DIR};
use crate::files::fs::{Access, COPY_BYTES, FileSystem, FsRef, Unreadable};
use crate::files::rowset::origin::Origin;
use crate::files::rowset::writer::{RowsetLayout, RowsetWriter};
use crate::files::rowset::{Rowset, RowsetMeta, RowsetSource};
use crate::files::wal::{self, Progress};
use crate::files::{catalog, directory};
use crate::options::EngineOptions;
use nyala_column::Preference;
use nyala_core::memory::MemoryBudget;
use nyala_core::{Error, ErrorKind, Result, TableId};
use plan::Plan;
use std::path::Path;
use std::sync::Arc;

/// What a repair saved, and what it could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Whether the new directory was written: not if something may come back that nobody has accepted.
    pub written: bool,
    /// Tables in the new directory.
    pub tables: u64,
    /// Rowsets carried over, those rewritten among them.
    pub rowsets: u64,
    /// Rowsets of which a part could be read and was rewritten.
    pub rewritten: u64,
    /// Rows in them.
    pub rows: u64,
    /// Records of the log that could be read.
    pub log_records: u64,
    /// Deleted or dropped data that may come back.
    pub may_return: Vec<String>,
    /// What could not be saved.
    pub lost: Vec<String>,
    /// What was left out without a known loss.
    pub notes: Vec<String>,
}

/// Writes what can be read of a data directory that no process has open to a new one, which must be empty or not there.
/// When deleted data may come back, nothing is written unless `accept` says so.
///
/// Each of the `guarded` tables, by name, that is not whole is reported with the words beside it, and must be accepted
/// too.
pub fn repair(
    fs: &FsRef,
    dir: &Path,
    new_dir: &Path,
    accept: bool,
    guarded: &[(&str, &str)],
) -> Result<RepairReport> {
    directory::check_is_ours(fs, dir)?;
    if fs.exists(new_dir)? && !fs.list(new_dir)?.is_empty() {
        return Err(Error::conflict(format!("{} is not empty", new_dir.display())));
    }
    let _lock = fs.lock_dir(dir)?;
    let mut report = RepairReport::default();
    // Without room: every block is read once.
    let source = RowsetSource::new(fs.clone(), dir.join(ROWSET_DIR), MemoryBudget::new(0));
    let plan = plan::plan(fs, dir, &source, guarded, &mut report)?;
    if !accept && !report.may_return.is_empty() {
        return Ok(report);
    }
    let mut repair = Repair { fs, dir, new_dir, source: &source, report };
    repair.write(plan)?;
    repair.report.written = true;
    Ok(repair.report)
}

/// A new directory being written.
struct Repair<'a> {
    fs: &'a FsRef,
    dir: &'a Path,
    new_dir: &'a Path,
    source: &'a Arc<RowsetSource>,
    report: RepairReport,
}

impl Repair<'_> {
    fn write(&mut self, plan: Plan) -> Result<()> {
        let Plan { mut state, revision } = plan;
        let fs = self.fs.clone();
        for part in [ROWSET_DIR, WAL_DIR] {
            fs.create_dirs(&self.new_dir.join(part))?;
        }
        let ids: Vec<TableId> = state.tables.iter().map(|(id, _)| *id).collect();
        for id in ids {
            let Some(table) = state.tables.remove(&id) else { continue };
            let mut table = CatalogTable::clone(&table);
            // The past is not saved.
            (table.retired, table.versions) = Default::default();
            let metas: Vec<RowsetMeta> = table.rowsets.values().cloned().collect();
            for meta in metas {
                table.rowsets.remove(meta.id);
                if let Some(saved) = self.rowset(&meta, &table, &mut state.next_rowset, revision)? {
                    self.report.rowsets += 1;
                    self.report.rows += saved.rows;
                    table.rowsets.insert(saved.id, saved);
                }
            }
            self.report.tables += 1;
            state.tables.insert(id, Arc::new(table));
        }
        fs.sync_dir(&self.new_dir.join(ROWSET_DIR))?;
        self.log()?;
        drop(Catalog::begin(fs.clone(), self.new_dir, state, revision, Arc::new(Progress::default()))?);
        let options = EngineOptions { fs, maintenance_threads: 0, ..EngineOptions::new(self.new_dir) };
        let engine = Engine::open(options)?;
        engine.flush()?;
        engine.renew_log()?;
        engine.close()
    }

    /// Carries a rowset over: as it is, or what can be read of it.
    fn rowset(
        &mut self,
        meta: &RowsetMeta,
        table: &CatalogTable,
        next_rowset: &mut u64,
        revision: u64,
    ) -> Result<Option<RowsetMeta>> {
        let (from, to) = (self.dir.join(ROWSET_DIR), self.new_dir.join(ROWSET_DIR));
        let damage = check_rowset(self.source, meta, table);
        if damage.is_empty() {
            self.fs.link(&from.join(meta.file_name()), &to.join(meta.file_name()))?;
            return Ok(Some(meta.clone()));
        }
        let mut saved = RowsetMeta { id: *next_rowset, ..meta.clone() };
        *next_rowset += 1;
        let origin = Origin {
            table: meta.table,
            partition: meta.partition,
            range: table.partitions.get(meta.partition).copied().unwrap_or(nyala_core::TimeRange::ALL),
            min_sequence: meta.min_sequence,
            max_sequence: meta.max_sequence,
            revision,
            schema: table.schema.clone(),
            dropped_columns: table.dropped_columns.clone(),
        };
        let path = to.join(saved.file_name());
        let file = self.fs.open(&path, Access::Create)?;
        let mut writer = RowsetWriter::new(
            file.clone(),
            &origin,
            &RowsetLayout::of_rows(&table.schema),
            Preference::Balanced,
            0,
            &self.source.budget,
        );
        let rowset = Rowset::new(meta.clone(), self.source.clone());
        let left_out = salvage::salvage(&rowset, &table.schema, &mut writer)?;
        let written = writer.finish()?;
        self.report.lost.push(format!(
            "of {} rows of table {} in {}: {} rows, {} cells of others, {} index pages ({})",
            meta.rows,
            table.schema.shown_name(),
            meta.file_name(),
            left_out.rows,
            left_out.cells,
            left_out.pages,
            damage[0]
        ));
        if written.rows == 0 {
            self.fs.remove(&path)?;
            return Ok(None);
        }
        file.sync_all()?;
        self.report.rewritten += 1;
        (saved.rows, saved.length_bytes) = (written.rows, written.length_bytes);
        (saved.min_time_ns, saved.max_time_ns) = (written.min_time_ns, written.max_time_ns);
        Ok(Some(saved))
    }

    /// Copies the log, as far as it can be read.
    fn log(&mut self) -> Result<()> {
        let (from, to) = (self.dir.join(WAL_DIR), self.new_dir.join(WAL_DIR));
        if !self.fs.exists(&from)? {
            return Ok(());
        }
        let names = self.fs.list(&from)?.into_iter().map(|entry| entry.name);
        for name in names.filter(|name| directory::is_segment(name)) {
            let unreadable = copy_readable(&**self.fs, &from.join(&name), &to.join(&name))?;
            for place in unreadable.places {
                self.report.lost.push(format!(
                    "the records in bytes {} to {} of {}, which the disk cannot read ({})",
                    place.start,
                    place.end,
                    from.join(&name).display(),
                    unreadable.error
                ));
            }
        }
        self.fs.sync_dir(&to)
    }
}

/// Copies a file, with zeros in place of what cannot be read.
fn copy_readable(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<Unreadable> {
    let (from, to) = (fs.open(from, Access::Read)?, fs.open(to, Access::Create)?);
    let (length, mut offset, mut unreadable) = (from.length()?, 0, Unreadable::default());
    while offset < length {
        let mut buffer = vec![0; COPY_BYTES.min((length - offset) as usize)];
        let read = unreadable.read_at(&from, &mut buffer, offset);
        if read == 0 {
            break;
        }
        to.write_at(&buffer[..read], offset)?;
        offset += read as u64;
    }
    to.sync_all()?;
    Ok(unreadable)
}

/// Accepts what a data directory that no process has open has lost: says what, and opens the way for the server.
/// `given_up` are tables that are dropped with it. A manifest that is damaged itself is for [`repair`].
pub fn accept(fs: &FsRef, dir: &Path, given_up: &[&str]) -> Result<Vec<String>> {
    directory::check_is_ours(fs, dir)?;
    let lock = fs.lock_dir(dir)?;
    let loaded = catalog::load(fs, dir).map_err(|error| match error.kind() {
        ErrorKind::Corrupt => {
            Error::new(ErrorKind::Corrupt, format!("{error}: `nyala check --repair` saves what there is"))
        }
        _ => error,
    });
    let Some((mut state, revision)) = loaded? else {
        return Err(Error::missing("there is no manifest: `nyala check --repair` saves what there is"));
    };
    let headers = wal::headers(fs, &dir.join(WAL_DIR))?;
    if headers.revision > revision {
        return Err(Error::conflict(
            "the end of the manifest is missing: `nyala check --repair` saves what there is",
        ));
    }
    let mut accepted = Vec::new();
    if headers.last_segment < state.log_segment {
        accepted
            .push(format!("the log ends with segment {}, not {}", headers.last_segment, state.log_segment));
        if headers.last_segment == 0 {
            state.flushed_sequence = state.last_sequence();
        }
        (state.log_segment, state.log_sequence) = (headers.last_segment, 0);
    }
    let rowset_dir = dir.join(ROWSET_DIR);
    let mut missing = Vec::new();
    for table in state.tables.values() {
        for meta in table.rowsets.values() {
            if !fs.exists(&rowset_dir.join(meta.file_name()))? {
                accepted.push(format!(
                    "{} rows of table {} in {}",
                    meta.rows,
                    table.schema.shown_name(),
                    meta.file_name()
                ));
                missing.push((meta.table, meta.id));
            }
        }
    }
    for (table, id) in missing {
        state.apply(catalog::Edit::DropRowset { table, id })?;
    }
    let mut missing = Vec::new();
    for (id, table) in state.tables.iter() {
        for meta in table.past_metas() {
            if !fs.exists(&rowset_dir.join(meta.file_name()))? {
                accepted.push(format!(
                    "the past of table {} in {}",
                    table.schema.shown_name(),
                    meta.file_name()
                ));
                missing.push((*id, meta.id));
            }
        }
    }
    for (table, id) in missing {
        state.apply(catalog::Edit::ForgetRowset { table, id })?;
    }
    let dropped: Vec<_> = state
        .tables
        .iter()
        .filter(|(_, table)| given_up.contains(&table.schema.name.as_str()))
        .map(|(id, _)| *id)
        .collect();
    for id in dropped {
        accepted.push("the damaged records of databases".to_owned());
        state.apply(catalog::Edit::DropTable(id))?;
    }
    if !accepted.is_empty() {
        drop(Catalog::begin(fs.clone(), dir, state, revision, Arc::new(Progress::default()))?);
    }
    drop(lock);
    let options = EngineOptions {
        fs: fs.clone(),
        maintenance_threads: 0,
        leaves_past: true,
        ..EngineOptions::new(dir)
    };
    let engine = Engine::open(options)?;
    accepted.extend(engine.losses());
    if !engine.losses().is_empty() {
        engine.flush()?;
        engine.renew_log()?;
    }
    engine.close()?;
    Ok(accepted)
}
