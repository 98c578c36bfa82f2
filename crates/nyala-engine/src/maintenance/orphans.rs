//! Orphans: files of rowsets that the manifest does not name.
//!
//! A crash leaves them: files of an unfinished flush or compaction, whose rows are still where they came from, or files
//! that were replaced while they were read. So none of them is needed, as far as is known. They are looked for only
//! when the manifest was read whole. Even then they are first moved to a folder of their own, under a name that says
//! when. After a day they are removed; earlier if they take more than an eighth of the free space.

use crate::files::directory::ORPHAN_DIR;
use crate::files::fs::{Access, FsRef};
use crate::files::rowset::RowsetMeta;
use nyala_core::Result;
use nyala_core::env::ClockRef;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

const KEPT_SECONDS: i64 = 24 * 3600;
const KEPT_FILES: usize = 1000;
/// They take at most this part of the room that is left.
const KEPT_SHARE: u64 = 8;
const SWEEP_SECONDS: i64 = 600;

/// The folder.
pub(crate) struct Orphans {
    fs: FsRef,
    dir: PathBuf,
    clock: ClockRef,
    /// When the folder is looked at again; `i64::MAX` while it is empty.
    next_sweep: AtomicI64,
}

/// A file that was set aside.
struct Orphan {
    since: i64,
    path: PathBuf,
    bytes: u64,
}

impl Orphans {
    pub(crate) fn new(fs: FsRef, data_dir: &Path, clock: ClockRef) -> Self {
        Self { fs, dir: data_dir.join(ORPHAN_DIR), clock, next_sweep: AtomicI64::new(0) }
    }

    fn now(&self) -> i64 {
        self.clock.now_ns() / 1_000_000_000
    }

    /// Sets aside the files of a directory that are not `named`, and returns the least number for the next rowset.
    pub(crate) fn set_aside(&self, rowset_dir: &Path, named: &HashSet<String>) -> Result<u64> {
        let (now, mut next, mut count) = (self.now(), 0, 0);
        for entry in self.fs.list(rowset_dir)? {
            let Some(id) = RowsetMeta::id_of_any(&entry.name) else { continue };
            // So that no two files get one number.
            next = next.max(id + 1);
            if RowsetMeta::is_staged(&entry.name) {
                // Its stage ended with the process.
                self.fs.remove(&rowset_dir.join(&entry.name))?;
                continue;
            }
            if named.contains(&entry.name) {
                continue;
            }
            self.fs.create_dir(&self.dir)?;
            self.fs.rename(&rowset_dir.join(&entry.name), &self.dir.join(format!("{now}-{}", entry.name)))?;
            count += 1;
        }
        if count > 0 {
            tracing::info!(count, "rowsets that no manifest names are set aside for a day, in {ORPHAN_DIR}/");
        }
        self.sweep()?;
        Ok(next)
    }

    /// Removes what was kept long enough, if it is time to look.
    pub(crate) fn sweep_if_due(&self) {
        if self.now() >= self.next_sweep.load(Ordering::Relaxed)
            && let Err(error) = self.sweep()
        {
            tracing::warn!(%error, "files that were set aside stay");
        }
    }

    fn sweep(&self) -> Result<()> {
        let now = self.now();
        self.next_sweep.store(now + SWEEP_SECONDS, Ordering::Relaxed);
        let mut kept = self.list()?;
        kept.sort_by_key(|orphan| orphan.since);
        let mut bytes: u64 = kept.iter().map(|orphan| orphan.bytes).sum();
        let mut count = kept.len();
        for orphan in kept {
            let is_due = now - orphan.since >= KEPT_SECONDS || count > KEPT_FILES;
            if !is_due && bytes <= self.fs.free_bytes(&self.dir)? / KEPT_SHARE {
                break;
            }
            self.fs.remove(&orphan.path)?;
            (bytes, count) = (bytes - orphan.bytes, count - 1);
        }
        if count == 0 {
            self.next_sweep.store(i64::MAX, Ordering::Relaxed);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<Orphan>> {
        if !self.fs.exists(&self.dir)? {
            return Ok(Vec::new());
        }
        let orphan = |name: &str| {
            let (since, file) = name.split_once('-')?;
            RowsetMeta::id_of_any(file)?;
            let path = self.dir.join(name);
            let bytes = self.fs.open(&path, Access::Read).and_then(|file| file.length()).unwrap_or(0);
            Some(Orphan { since: since.parse().ok()?, path, bytes })
        };
        Ok(self.fs.list(&self.dir)?.iter().filter_map(|entry| orphan(&entry.name)).collect())
    }
}
