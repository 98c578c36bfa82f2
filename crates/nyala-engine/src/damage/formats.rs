//! Says of which versions the files of a data directory are, and whether this program reads all of it. Nothing is changed.
//!
//! A directory is looked at before another version of the program is started on it. So versions are taken from the headers
//! of files, which are readable even if the rest is of a newer program; only if all are known, the rest is read as a start
//! would read it. A server may have the directory open: then headers are all that is looked at, because they never change,
//! and manifest and log do.

use super::check::check_record;
use crate::files::catalog::{self, CatalogState, CatalogTable};
use crate::files::directory::{self, ROWSET_DIR, WAL_DIR};
use crate::files::framed_log::{self, FILE_HEADER_BYTES, FileHeader};
use crate::files::fs::{Access, FileRef, FsRef};
use crate::files::rowset::RowsetMeta;
use crate::files::rowset::format::{self, HEADER_BYTES};
use crate::files::rowset::reader::read_footer;
use crate::files::{manifest_log, wal};
use nyala_core::{Error, ErrorKind, Result, TableSchema};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Obstacles that a report lists; more are only counted.
const LISTED_MAX: usize = 20;
/// What a start takes beside the state, the log and what it flushes: the least room of a manifest, of the reserve, and of a
/// segment of the log, 1 MiB each at most.
const START_BYTES: u64 = 3 << 20;
/// The state is written to a new manifest, which has as much room for edits, while the reserve is twice as large.
const STATES: u64 = 4;

/// A kind of file, each with versions of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The list of tables and rowsets.
    Manifest,
    /// Segments of the write-ahead log.
    Log,
    /// Rows.
    Rowset,
}

impl FileKind {
    /// The version that this program writes. It reads those before, too.
    pub fn written_version(self) -> u32 {
        match self {
            FileKind::Manifest | FileKind::Log => framed_log::VERSION,
            FileKind::Rowset => format::VERSION,
        }
    }

    fn is_read(self, version: u32) -> bool {
        (1..=self.written_version()).contains(&version)
    }
}

/// Files of one kind and version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Files {
    /// How many.
    pub count: u64,
    /// Their length.
    pub bytes: u64,
}

/// What a data directory consists of.
#[derive(Debug, Clone, Default)]
pub struct FormatReport {
    /// A process has it open, so only headers of files were looked at.
    pub is_in_use: bool,
    /// Files by kind and version.
    pub files: BTreeMap<(FileKind, u32), Files>,
    /// Tables of the store; none if the manifest was not or cannot be read.
    pub schemas: Vec<Arc<TableSchema>>,
    /// Why this program cannot use all of the directory, besides versions: the first twenty.
    pub obstacles: Vec<String>,
    /// All of them.
    pub obstacle_count: u64,
    /// Free space that the first start needs at most, until it has flushed the log.
    pub start_bytes: u64,
    /// Free space that the largest merge with a rowset of an earlier version needs for a while.
    pub merge_bytes: u64,
}

impl FormatReport {
    /// Whether a file is of a version that this program does not know.
    pub fn has_unknown_version(&self) -> bool {
        self.files.keys().any(|(kind, version)| !kind.is_read(*version))
    }

    fn obstacle(&mut self, words: String) {
        self.obstacle_count += 1;
        if self.obstacles.len() < LISTED_MAX {
            self.obstacles.push(words);
        }
    }

    fn add(&mut self, kind: FileKind, version: u32, bytes: u64) {
        let files = self.files.entry((kind, version)).or_default();
        files.count += 1;
        files.bytes += bytes;
    }
}

/// Looks at a directory; nothing if there is no store in it yet. An error says why nothing can be looked at: it is of another
/// program, or its manifest is missing.
pub fn formats(fs: &FsRef, dir: &Path) -> Result<Option<FormatReport>> {
    if !fs.exists(dir)? {
        return Ok(None);
    }
    directory::check_manifest(fs, dir)?;
    let Some(generation) = manifest_log::generations(fs, dir)?.pop() else { return Ok(None) };
    let report = FormatReport { is_in_use: fs.is_dir_locked(dir)?, ..FormatReport::default() };
    let mut look = Look { fs, dir, report };
    let manifest = manifest_log::path(dir, generation);
    look.header_of_log(&manifest, FileKind::Manifest, manifest_log::MAGIC)?;
    let log_dir = dir.join(WAL_DIR);
    for name in look.names(&log_dir, directory::is_segment)? {
        look.header_of_log(&log_dir.join(name), FileKind::Log, wal::MAGIC)?;
    }
    let state = match look.report.is_in_use || look.report.has_unknown_version() {
        true => None,
        false => look.state(&manifest)?,
    };
    let old = look.rowsets(state.as_ref())?;
    if let Some(state) = state {
        look.report.merge_bytes = merge_bytes(&state, &old);
        if !look.report.has_unknown_version() {
            look.log(&state)?;
        }
        look.report.schemas = state.tables.values().map(|table| table.schema.clone()).collect();
    }
    Ok(Some(look.report))
}

/// The rowsets of the largest partition that has one of an earlier version: a merge writes them again before they go.
fn merge_bytes(state: &CatalogState, old: &BTreeSet<u64>) -> u64 {
    let partitions = state.tables.values().map(|table| {
        let mut partitions: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        for meta in table.rowsets.values() {
            let (bytes, is_old) = partitions.entry(meta.partition).or_default();
            *bytes += meta.length_bytes;
            *is_old |= old.contains(&meta.id);
        }
        partitions.into_values().filter(|(_, is_old)| *is_old).map(|(bytes, _)| bytes).max()
    });
    partitions.flatten().max().unwrap_or(0)
}

/// A look at a directory under way.
struct Look<'a> {
    fs: &'a FsRef,
    dir: &'a Path,
    report: FormatReport,
}

impl Look<'_> {
    fn names(&self, dir: &Path, wanted: fn(&str) -> bool) -> Result<Vec<String>> {
        if !self.fs.exists(dir)? {
            return Ok(Vec::new());
        }
        Ok(self.fs.list(dir)?.into_iter().map(|entry| entry.name).filter(|name| wanted(name)).collect())
    }

    /// A file; nothing if a server has removed it since it was listed.
    fn open(&self, path: &Path) -> Result<Option<FileRef>> {
        match self.fs.open(path, Access::Read) {
            Err(_) if self.report.is_in_use && !self.fs.exists(path)? => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Notes the version of a manifest or of a segment of the log.
    fn header_of_log(&mut self, path: &Path, kind: FileKind, magic: [u8; 8]) -> Result<()> {
        let Some(file) = self.open(path)? else { return Ok(()) };
        let mut header = [0; FILE_HEADER_BYTES as usize];
        match file.read_exact_at(&mut header, 0).ok().and_then(|()| FileHeader::version(&header, magic)) {
            Some(version) => self.report.add(kind, version, file.length()?),
            None => self.report.obstacle(format!("{}: its header is damaged", path.display())),
        }
        Ok(())
    }

    /// Reads what the manifest tells, and compares it with the files that are there.
    fn state(&mut self, path: &Path) -> Result<Option<CatalogState>> {
        let loaded = match manifest_log::load(self.fs, self.dir) {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.report.obstacle(error.to_string());
                return Ok(None);
            }
        };
        let (state, error) = catalog::decode(&loaded);
        if let Some(error) = error {
            let words = "it matches its checksums and has what this program does not know";
            self.report.obstacle(format!("{}: {words}: {}", path.display(), error.message()));
            return Ok(None);
        }
        if let Err(error) = directory::check_parts(self.fs, self.dir, &state, loaded.revision) {
            self.report.obstacle(error.to_string());
        }
        for loss in &state.losses {
            self.report.obstacle(format!("lost at an earlier start, and not accepted: {loss}"));
        }
        Ok(Some(state))
    }

    /// Notes the versions of rowsets, those that the manifest names if it is known, and reads their footers. Returns the ids
    /// of those of earlier versions.
    fn rowsets(&mut self, state: Option<&CatalogState>) -> Result<BTreeSet<u64>> {
        let dir = self.dir.join(ROWSET_DIR);
        let mut old = BTreeSet::new();
        let Some(state) = state else {
            let is_row_file =
                |name: &str| RowsetMeta::id_of_any(name).is_some() && !RowsetMeta::is_staged(name);
            for name in self.names(&dir, is_row_file)? {
                self.rowset(&dir.join(name), None)?;
            }
            return Ok(old);
        };
        let metas = |table: &CatalogTable| -> Vec<RowsetMeta> {
            table.rowsets.values().chain(table.past_metas()).cloned().collect()
        };
        for meta in state.tables.values().flat_map(|table| metas(table)) {
            let path: PathBuf = dir.join(meta.file_name());
            if !self.fs.exists(&path)? {
                self.report.obstacle(format!("{}: the file is missing", path.display()));
                continue;
            }
            let version = self.rowset(&path, Some(meta.length_bytes))?;
            if version.is_some_and(|version| version < FileKind::Rowset.written_version()) {
                old.insert(meta.id);
            }
        }
        Ok(old)
    }

    /// Notes the version of a rowset, and reads its footer if its length is known from the manifest.
    fn rowset(&mut self, path: &Path, length_bytes: Option<u64>) -> Result<Option<u32>> {
        let Some(file) = self.open(path)? else { return Ok(None) };
        let mut header = [0; HEADER_BYTES as usize];
        let version = file.read_exact_at(&mut header, 0).ok().and_then(|()| format::version_of(&header));
        let Some(version) = version else {
            self.report.obstacle(format!("{}: its header is damaged", path.display()));
            return Ok(None);
        };
        self.report.add(FileKind::Rowset, version, file.length()?);
        if let Some(length_bytes) = length_bytes
            && FileKind::Rowset.is_read(version)
            && let Err(error) = read_footer(&file, length_bytes)
        {
            self.report.obstacle(error.to_string());
        }
        Ok(Some(version))
    }

    /// Reads the records that a start would apply.
    fn log(&mut self, state: &CatalogState) -> Result<()> {
        let dir = self.dir.join(WAL_DIR);
        if !self.fs.exists(&dir)? {
            return Ok(());
        }
        let mut unknown = None;
        let replayed = wal::replay(self.fs, &dir, state.flushed_sequence + 1, &mut |record| {
            check_record(&record.payload, Some(state)).map_err(|error| {
                unknown = Some(record.sequence);
                Error::new(ErrorKind::Unsupported, error.message())
            })
        });
        let log = match (replayed, unknown) {
            (Ok(log), _) => log,
            (Err(error), Some(sequence)) => {
                let words = "matches its checksum and has what this program does not know";
                self.report.obstacle(format!("record {sequence} of the log {words}: {}", error.message()));
                return Ok(());
            }
            (Err(error), None) => return Err(error),
        };
        let cut_off = directory::missing_end(self.dir, state, log.last_sequence);
        for damage in log.damage.iter().chain(&cut_off) {
            self.report.obstacle(format!("log: {damage}"));
        }
        self.report.obstacle_count += log.damage_count - log.damage.len() as u64;
        let manifest = self.report.files.iter().filter(|((kind, _), _)| *kind == FileKind::Manifest);
        let state_bytes: u64 = manifest.map(|(_, files)| files.bytes).sum();
        self.report.start_bytes = START_BYTES + STATES * state_bytes + log.payload_bytes;
        Ok(())
    }
}
