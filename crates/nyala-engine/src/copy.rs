//! Copies of a store at a moment, which cost hardly anything: what backups are made of.
//!
//! A copy is a data directory. Rowsets never change, so their files get second names there (links). The manifest is written
//! anew, with the state of the moment, and the log has the records that were in memory only. A copy is what a power cut at
//! that moment would have left, less what nobody had been told was written: it is opened, checked and repaired as any other
//! directory.
//!
//! The moment is the watermark while the catalog is locked: every batch that was acknowledged is up to it, and every table
//! that they name is in the catalog. Flushes stand still until the log is copied. That is short, because a flush comes
//! first.

use crate::engine::Engine;
use crate::files::catalog::{self, Catalog, CatalogState};
use crate::files::directory::{self, ROWSET_DIR, WAL_DIR};
use crate::files::fs::{Access, FsRef};
use crate::files::wal::Progress;
use nyala_core::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// What a copy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCopy {
    /// When the copy was made, by the clock of the store: everything acknowledged before is in it.
    pub time_ns: i64,
    /// The last batch in it.
    pub sequence: u64,
    /// Files of rowsets.
    pub rowsets: u64,
    /// Their bytes.
    pub rowset_bytes: u64,
    /// Bytes of records of the log.
    pub log_bytes: u64,
}

impl Engine {
    /// Makes a copy of the store as it is now in a directory that must be empty or not there, on the file system of the data.
    /// Readers and writers go on meanwhile. Blocks.
    pub fn copy_to(&self, new_dir: &Path) -> Result<StoreCopy> {
        let options = &self.maintenance.options;
        let (fs, dir) = (&options.fs, &options.data_dir);
        check_empty(fs, new_dir)?;
        self.check_writable()?;
        self.flush()?;
        let flushes = self.maintenance.hold_flushes();
        let (mut state, revision, sequence, version) = {
            let catalog = self.versions.catalog.lock();
            let (version, sequence) = self.versions.visible();
            (catalog.state.clone(), catalog.log.revision, sequence, version)
        };
        let time_ns = options.clock.now_ns();
        make_parts(fs, new_dir)?;
        let sequences = state.flushed_sequence + 1..=sequence;
        let log = self.writer.log.wal().copy(&new_dir.join(WAL_DIR), sequences, revision)?;
        drop(flushes);
        (state.log_segment, state.log_sequence) = (log.segment, log.last_sequence);
        let (rowsets, rowset_bytes) = link_rowsets(fs, dir, new_dir, &state)?;
        // Until here no file was removed that the state names.
        drop(version);
        write_manifest(fs, new_dir, state, revision)?;
        Ok(StoreCopy { time_ns, sequence, rowsets, rowset_bytes, log_bytes: log.bytes })
    }
}

/// Makes a copy of a store that no process has open. Nothing in its directory is changed.
pub fn copy_closed(fs: &FsRef, dir: &Path, new_dir: &Path, time_ns: i64) -> Result<StoreCopy> {
    directory::check_is_ours(fs, dir)?;
    check_empty(fs, new_dir)?;
    let _lock = fs.lock_dir(dir)?;
    let Some((state, revision)) = catalog::load(fs, dir)? else {
        return Err(Error::missing(format!("{} has no manifest", dir.display())));
    };
    directory::check_parts(fs, dir, &state, revision)?;
    make_parts(fs, new_dir)?;
    let (from, to) = (dir.join(WAL_DIR), new_dir.join(WAL_DIR));
    let mut log_bytes = 0;
    for name in fs.list(&from)?.into_iter().map(|entry| entry.name).filter(|name| directory::is_segment(name))
    {
        fs.copy(&from.join(&name), &to.join(&name))?;
        log_bytes += fs.open(&to.join(&name), Access::Read)?.length()?;
    }
    fs.sync_dir(&to)?;
    let sequence = state.last_sequence();
    let (rowsets, rowset_bytes) = link_rowsets(fs, dir, new_dir, &state)?;
    write_manifest(fs, new_dir, state, revision)?;
    Ok(StoreCopy { time_ns, sequence, rowsets, rowset_bytes, log_bytes })
}

fn check_empty(fs: &FsRef, new_dir: &Path) -> Result<()> {
    match fs.exists(new_dir)? && !fs.list(new_dir)?.is_empty() {
        true => Err(Error::conflict(format!("{} is not empty", new_dir.display()))),
        false => Ok(()),
    }
}

fn make_parts(fs: &FsRef, new_dir: &Path) -> Result<()> {
    [ROWSET_DIR, WAL_DIR].iter().try_for_each(|part| fs.create_dirs(&new_dir.join(part)))
}

/// Links the files that a state names; returns their number and bytes.
fn link_rowsets(fs: &FsRef, dir: &Path, new_dir: &Path, state: &CatalogState) -> Result<(u64, u64)> {
    let (from, to) = (dir.join(ROWSET_DIR), new_dir.join(ROWSET_DIR));
    let (mut rowsets, mut bytes) = (0, 0);
    for table in state.tables.values() {
        for meta in table.rowsets.values().chain(table.past_metas()) {
            let name = meta.file_name();
            fs.link(&from.join(&name), &to.join(&name))?;
            (rowsets, bytes) = (rowsets + 1, bytes + meta.length_bytes);
        }
    }
    fs.sync_dir(&to)?;
    Ok((rowsets, bytes))
}

/// Makes a directory with all its files one of nyala.
fn write_manifest(fs: &FsRef, new_dir: &Path, state: CatalogState, revision: u64) -> Result<()> {
    fs.sync_dir(&new_dir.join(WAL_DIR))?;
    drop(Catalog::begin(fs.clone(), new_dir, state, revision, Arc::new(Progress::default()))?);
    fs.sync_dir(new_dir)
}
