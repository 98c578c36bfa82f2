//! Verifies a data directory that no process has open, and names what is wrong with it.
//!
//! Everything is read: the manifest, the log from the first record that is still needed, every rowset with every
//! index page, directory, filter and column block, and what the index says of them is compared with what is in
//! them. Damage does not end the walk: the rest is checked as far as it can be found. Nothing is changed.
//!
//! Leftovers of a crash that the next start removes (files that no manifest names, an unfinished last write) are notes,
//! not damage.

mod last_rows;
mod rowset;

use crate::files::catalog::{self, CatalogState, CatalogTable};
use crate::files::directory;
use crate::files::directory::{ROWSET_DIR, WAL_DIR};
use crate::files::framed_log::Damage;
use crate::files::fs::FsRef;
use crate::files::log_record::{self, Logged};
use crate::files::manifest_log;
use crate::files::rowset::{Rowset, RowsetMeta, RowsetSource};
use crate::files::wal;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::Operation;
use nyala_core::{Error, ErrorKind, Result, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Damaged places and notes that a report lists; more are only counted.
const LISTED_MAX: usize = 1000;

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Bytes that are not what was written, the first thousand places.
    pub damage: Vec<Damage>,
    /// All damaged places.
    pub damage_count: u64,
    /// Unusual things that cost no data, the first thousand.
    pub notes: Vec<String>,
    /// Tables of the store.
    pub tables: u64,
    /// Edits of the manifest since its checkpoint.
    pub manifest_edits: u64,
    /// Segments of the log.
    pub log_segments: u64,
    /// Records of the log that are still needed.
    pub log_records: u64,
    /// Rowsets that the manifest names, or that are there if it cannot be read.
    pub rowsets: u64,
    /// Rows in rowsets whose key columns were read.
    pub rows: u64,
    /// Column blocks decoded.
    pub column_blocks: u64,
    /// Bytes looked at.
    pub bytes: u64,
}

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes looked at.
    pub done_bytes: u64,
    /// Bytes to look at.
    pub total_bytes: u64,
}

impl CheckReport {
    fn damaged(&mut self, file: &Path, offset: u64, message: impl Into<String>) {
        self.damage_count += 1;
        if self.damage.len() < LISTED_MAX {
            self.damage.push(Damage { file: file.to_path_buf(), offset, message: message.into() });
        }
    }

    /// An error met in a file, with what was looked at.
    fn failed(&mut self, file: &Path, what: &str, error: &Error) {
        let offset = error.place().map_or(0, |place| place.offset);
        self.damaged(file, offset, format!("{what}: {}", error.message()));
    }

    fn note(&mut self, words: String) {
        if self.notes.len() < LISTED_MAX {
            self.notes.push(words);
        }
    }
}

/// Checks a data directory; `watch` is told how far it is. An error says why nothing can be checked: there is no
/// store, or a process has it open.
pub fn check(fs: &FsRef, dir: &Path, watch: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
    let parts = [dir.join(ROWSET_DIR), dir.join(WAL_DIR)];
    directory::check_is_ours(fs, dir)?;
    let _lock = fs.lock_dir(dir)?;
    let mut check = Check { fs, dir, report: CheckReport::default(), total_bytes: 0, watch };
    for part in &parts {
        if !fs.exists(part)? {
            check.report.damaged(part, 0, "the directory is missing");
        }
    }
    let state = check.manifest()?;
    let files = check.rowset_files()?;
    check.total_bytes = check.log_bytes()?;
    for file in files.keys() {
        check.total_bytes += length(fs, &parts[0].join(file));
    }
    check.log(state.as_ref())?;
    check.rowsets(state.as_ref(), &files)?;
    check.report.bytes = check.report.bytes.max(check.total_bytes);
    Ok(check.report)
}

/// Reads all of one rowset, and says what is wrong with it.
pub(crate) fn check_rowset(
    source: &Arc<RowsetSource>,
    meta: &RowsetMeta,
    table: &CatalogTable,
) -> Vec<Damage> {
    let (report, watch) = (CheckReport::default(), &mut |_: CheckProgress| {});
    let mut check = Check { fs: &source.fs, dir: &source.dir, report, total_bytes: 0, watch };
    rowset::check(&mut check, source, meta, Some(table));
    check.report.damage
}

pub(crate) fn length(fs: &FsRef, path: &Path) -> u64 {
    // A file that cannot be opened is reported when it is checked.
    fs.open(path, crate::files::fs::Access::Read).and_then(|file| file.length()).unwrap_or(0)
}

/// A check under way.
struct Check<'a> {
    fs: &'a FsRef,
    dir: &'a Path,
    report: CheckReport,
    total_bytes: u64,
    watch: &'a mut dyn FnMut(CheckProgress),
}

impl Check<'_> {
    fn progress(&mut self) {
        (self.watch)(CheckProgress { done_bytes: self.report.bytes, total_bytes: self.total_bytes });
    }

    /// Reads the manifest: the state it tells, as far as it can be read.
    fn manifest(&mut self) -> Result<Option<CatalogState>> {
        let Some(read) = manifest_log::verify(self.fs, self.dir)? else {
            self.report.damaged(self.dir, 0, "there is no manifest: which rowsets count is not known");
            return Ok(None);
        };
        let path = manifest_log::path(self.dir, read.number);
        for damage in read.damage {
            self.report.damaged(&damage.file, damage.offset, format!("manifest: {}", damage.message));
        }
        let Some(manifest) = read.manifest else { return Ok(None) };
        if manifest.torn {
            self.report.note(format!(
                "{}: an edit follows that was not finished, and not acknowledged",
                path.display()
            ));
        }
        self.report.manifest_edits = manifest.edits.len() as u64;
        let (state, error) = catalog::decode(&manifest);
        if let Some(error) = error {
            self.report.failed(&path, "manifest", &error);
        }
        self.report.tables = state.tables.len() as u64;
        for loss in &state.losses {
            self.report.damaged(&path, 0, format!("lost at an earlier start, and not accepted: {loss}"));
        }
        if let Err(error) = directory::check_parts(self.fs, self.dir, &state, manifest.revision) {
            let place = error.place().map_or(self.dir, |place| &place.file).to_path_buf();
            self.report.failed(&place, "missing", &error);
        }
        Ok(Some(state))
    }

    fn log_bytes(&self) -> Result<u64> {
        let dir = self.dir.join(WAL_DIR);
        if !self.fs.exists(&dir)? {
            return Ok(0);
        }
        let entries = self.fs.list(&dir)?;
        let segments = entries.iter().filter(|entry| entry.name.ends_with(".wal"));
        Ok(segments.map(|entry| length(self.fs, &dir.join(&entry.name))).sum())
    }

    /// Reads every record of the log that rowsets do not have yet.
    fn log(&mut self, state: Option<&CatalogState>) -> Result<()> {
        let dir = self.dir.join(WAL_DIR);
        if !self.fs.exists(&dir)? {
            return Ok(());
        }
        let from = match state {
            Some(state) => state.flushed_sequence + 1,
            None => wal::first_sequence(self.fs, &dir)?,
        };
        let fs = self.fs.clone();
        let log = wal::replay(&fs, &dir, from, &mut |record| {
            if let Err(error) = check_record(&record.payload, state) {
                let what = format!("record {} matches its checksum and cannot be read", record.sequence);
                self.report.failed(&dir, &what, &error);
            }
            self.report.bytes += record.payload.len() as u64;
            self.progress();
            Ok(())
        })?;
        let cut_off = state.and_then(|state| directory::missing_end(self.dir, state, log.last_sequence));
        if let Some(damage) = cut_off {
            self.report.damaged(&damage.file, 0, damage.message);
        }
        self.report.log_segments = log.segments;
        self.report.log_records = log.records;
        for damage in &log.damage {
            self.report.damaged(&damage.file, damage.offset, format!("log: {}", damage.message));
        }
        self.report.damage_count += log.damage_count - log.damage.len() as u64;
        if let Some((file, offset)) = log.torn {
            let file = file.display();
            self.report.note(format!("{file}: an unfinished write, not acknowledged, follows byte {offset}"));
        }
        self.report.bytes = self.log_bytes()?;
        Ok(())
    }

    /// The files of rowsets, with the id in their names.
    fn rowset_files(&mut self) -> Result<BTreeMap<String, u64>> {
        let dir = self.dir.join(ROWSET_DIR);
        let mut files = BTreeMap::new();
        if !self.fs.exists(&dir)? {
            return Ok(files);
        }
        for entry in self.fs.list(&dir)?.into_iter().filter(|entry| !RowsetMeta::is_staged(&entry.name)) {
            match RowsetMeta::id_of_any(&entry.name) {
                Some(id) => drop(files.insert(entry.name, id)),
                None => self.report.note(format!("{}: not a file of nyala", dir.join(entry.name).display())),
            }
        }
        Ok(files)
    }

    fn rowsets(&mut self, state: Option<&CatalogState>, files: &BTreeMap<String, u64>) -> Result<()> {
        let budget = MemoryBudget::new(0);
        // Without room: every block is read once.
        let source = RowsetSource::new(self.fs.clone(), self.dir.join(ROWSET_DIR), budget);
        let Some(state) = state else {
            for (name, id) in files {
                let length_bytes = length(self.fs, &source.dir.join(name));
                let meta = RowsetMeta::unknown(*id, length_bytes);
                self.rowset(&source, &meta, None);
            }
            return Ok(());
        };
        let mut named = BTreeSet::new();
        for table in state.tables.values() {
            self.sequences(&source, table);
            for meta in table.rowsets.values() {
                named.insert(meta.file_name());
                self.rowset(&source, meta, Some(&**table));
            }
            for meta in table.past_metas() {
                named.insert(meta.file_name());
                self.rowset(&source, meta, Some(&**table));
            }
        }
        for name in files.keys().filter(|name| !named.contains(*name)) {
            let path = source.dir.join(name);
            self.report.note(format!(
                "{}: no manifest names it; a crash left it, and the next start sets it aside for a day",
                path.display()
            ));
        }
        Ok(())
    }

    /// Rowsets of a partition with keys in common must have disjoint sequences: else it is not known which is newer.
    fn sequences(&mut self, source: &Arc<RowsetSource>, table: &CatalogTable) {
        let rowset = |meta: &RowsetMeta| Rowset::new(meta.clone(), source.clone());
        let mut rowsets: Vec<_> = table.rowsets.values().map(rowset).collect();
        rowsets.sort_by_key(|rowset| (rowset.meta.partition, rowset.meta.min_sequence));
        for (number, older) in rowsets.iter().enumerate() {
            let at_once = |newer: &&Arc<Rowset>| {
                older.meta.partition == newer.meta.partition
                    && newer.meta.min_sequence <= older.meta.max_sequence
            };
            for newer in rowsets[number + 1..].iter().take_while(at_once) {
                // A rowset that cannot be read is reported when it is checked.
                if older.has_keys_among(newer).unwrap_or(false) {
                    let (of_table, name) = (of_table(Some(table)), newer.meta.file_name());
                    let message =
                        format!("{of_table}some of its keys and sequences are also those of {name}");
                    self.report.damaged(&older.path(), 0, message);
                }
            }
        }
    }

    fn rowset(&mut self, source: &Arc<RowsetSource>, meta: &RowsetMeta, table: Option<&CatalogTable>) {
        self.report.rowsets += 1;
        let path: PathBuf = source.dir.join(meta.file_name());
        match self.fs.exists(&path) {
            Ok(true) => rowset::check(self, source, meta, table),
            Ok(false) => {
                let message = format!("{}the file is missing, with {} rows", of_table(table), meta.rows);
                self.report.damaged(&path, 0, message);
            }
            Err(error) => self.report.failed(&path, "rowset", &error),
        }
    }
}

/// The table in front of a message.
fn of_table(table: Option<&CatalogTable>) -> String {
    table.map_or_else(
        || "rowset: ".to_owned(),
        |table| format!("rowset of table {}: ", table.schema.shown_name()),
    )
}

/// Whether replay can apply a record.
pub(super) fn check_record(payload: &[u8], state: Option<&CatalogState>) -> Result<()> {
    let schema = |table: &TableId| state?.tables.get(table).map(|table| &table.schema);
    for logged in log_record::decode(payload)? {
        // Records of tables that were dropped are of no use any more.
        if let Logged::Operation(Operation::Upsert(upsert)) = logged
            && let Some(schema) = schema(&upsert.table)
            && let Some(upsert) = log_record::known_columns(upsert, schema)
        {
            upsert.validate_shape(schema).map_err(|error| Error::new(ErrorKind::Corrupt, error.message()))?;
        }
    }
    Ok(())
}
