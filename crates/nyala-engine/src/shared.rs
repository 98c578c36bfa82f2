//! What the parts of an engine share.

use crate::files::catalog::{Catalog, Writing};
use crate::files::fs::DirLock;
use crate::files::reserve::Reserve;
use crate::files::rowset::{Rowset, RowsetMeta, RowsetSource};
use crate::files::wal::{SyncPolicy, Wal};
use crate::maintenance::Signal;
use crate::maintenance::orphans::Orphans;
use crate::memory::version::Version;
use crate::memory::watermark::Watermark;
use crate::options::EngineOptions;
use crate::reading::snapshot::EngineSnapshot;
use crate::runtime::timer::Timer;
use crate::stats::Counters;
use crate::writing::claims::Claims;
use nyala_core::memory::MemoryBudget;
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// An open engine.
pub(crate) struct Shared {
    pub(crate) options: EngineOptions,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) source: Arc<RowsetSource>,
    /// Empty while the log is replayed.
    pub(crate) wal: OnceLock<Wal>,
    pub(crate) reserve: Reserve,
    /// Held for every change of the manifest and of the version. Order of locks: see `gate`.
    pub(crate) catalog: Mutex<Catalog>,
    /// The catalog's, for those who do not wait for it.
    pub(crate) writing_catalog: Arc<Writing>,
    pub(crate) version: RwLock<Arc<Version>>,
    /// The store's gate: see `gate`.
    pub(crate) gate: Arc<tokio::sync::RwLock<()>>,
    pub(crate) watermark: Arc<Watermark>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) next_rowset: AtomicU64,
    pub(crate) counters: Counters,
    /// Bytes of records replayed when the engine was opened.
    pub(crate) replayed_bytes: AtomicU64,
    /// Of the bytes replayed and written, how many are in rowsets.
    pub(crate) flushed_log_bytes: AtomicU64,
    /// How many doubtful records of the log are in rowsets, or never were applied.
    pub(crate) flushed_doubtful: AtomicU64,
    /// One flush at a time.
    pub(crate) flushing: Mutex<()>,
    /// Files of rowsets whose edit failed. They are removed once the manifest is known not to name them.
    pub(crate) abandoned: Mutex<Vec<String>>,
    /// Partitions being compacted.
    pub(crate) compacting: Mutex<Vec<u64>>,
    pub(crate) orphans: Orphans,
    pub(crate) signal: Arc<Signal>,
    /// Of batches that wait for memory.
    pub(crate) waiting_bytes: AtomicU64,
    pub(crate) timer: Timer,
    /// Held for the life of the engine.
    pub(crate) _lock: DirLock,
}

impl Shared {
    /// The version now.
    pub(crate) fn version(&self) -> Arc<Version> {
        self.version.read().clone()
    }

    /// The log.
    pub(crate) fn wal(&self) -> &Wal {
        self.wal.get().expect("the log is open once it is replayed")
    }

    /// Puts another version in place; the catalog is locked.
    pub(crate) fn publish(&self, version: Version) {
        *self.version.write() = Arc::new(version);
    }

    /// A view of everything acknowledged.
    pub(crate) fn snapshot(&self) -> EngineSnapshot {
        // The sequence is read while the version cannot change: rowsets hold rows up to the watermark at
        // their publication, so a version with an older watermark could show rows after it.
        let version = self.version.read();
        EngineSnapshot {
            sequence: self.watermark.get(),
            version: version.clone(),
            budget: self.budget.clone(),
        }
    }

    /// A view of everything applied, also what readers do not see yet. All of it is in the log.
    pub(crate) fn applied(&self) -> EngineSnapshot {
        EngineSnapshot { sequence: self.wal().next_sequence() - 1, ..self.snapshot() }
    }

    /// Gives up files of rowsets that were written for an edit that failed.
    pub(crate) fn abandon<'a>(&self, metas: impl Iterator<Item = &'a RowsetMeta>) {
        self.abandoned.lock().extend(metas.map(RowsetMeta::file_name));
        self.remove_abandoned();
    }

    /// Removes files given up earlier, if the manifest surely does not name them: a disk that is full gets its
    /// space back without a restart.
    pub(crate) fn remove_abandoned(&self) {
        let mut abandoned = self.abandoned.lock();
        if abandoned.is_empty() || !self.catalog.lock().settle() {
            return;
        }
        for name in abandoned.drain(..) {
            if let Err(error) = self.options.fs.remove(&self.rowset_dir().join(&name)) {
                tracing::warn!(%error, "a file that is not needed stays until the next start");
            }
        }
    }

    /// The sequence up to which every delete is applied, and survives a power cut: what it hides may be written no more.
    pub(crate) fn durable_sequence(&self) -> u64 {
        match self.options.wal_sync {
            SyncPolicy::Always => self.watermark.get(),
            SyncPolicy::Interval(_) | SyncPolicy::Never => self.catalog.lock().state.flushed_sequence,
        }
    }

    /// Takes the space again that is kept for deletions, if there is room.
    pub(crate) fn refill_reserve(&self) {
        let manifest_bytes = self.catalog.lock().manifest_bytes();
        self.reserve.refill(manifest_bytes);
    }

    pub(crate) fn rowset_dir(&self) -> PathBuf {
        self.options.data_dir.join(ROWSET_DIR)
    }

    /// Marks rowsets that the manifest does not name any more.
    pub(crate) fn set_obsolete<'a>(rowsets: impl Iterator<Item = &'a Arc<Rowset>>) {
        rowsets.for_each(|rowset| rowset.set_obsolete());
    }
}

/// Where rowset files are, in the data directory.
pub(crate) const ROWSET_DIR: &str = "rowsets";
/// Where the log is, in the data directory.
pub(crate) const WAL_DIR: &str = "wal";
