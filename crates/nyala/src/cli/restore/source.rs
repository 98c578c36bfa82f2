//! A backup as a store that is read.
//!
//! It is opened in a scratch directory. Rowsets, which never change, are there as symbolic links; manifest and log are
//! copied. So nothing is written to the backup, which may be on a read-only disk, and nothing of it is copied that is not
//! asked for. What is read of rowsets is compared with the checksums that they have themselves.

use crate::backup::destination::Destination;
use crate::backup::files::{self, Durability};
use crate::backup::manifest::Manifest;
use crate::backup::{failed, make_dir};
use crate::cli::backup::shown;
use crate::storage::{self, Storage};
use nyala_bench::time::rfc3339;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Freshness, SnapshotRef, emulate};
use nyala_core::{Error, ErrorKind};
use nyala_db::catalog::Catalog;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A backup that is open.
pub(super) struct Source {
    work: tokio::runtime::Runtime,
    /// What it had, at the moment that was asked for.
    pub(super) catalog: Arc<Catalog>,
    pub(super) snapshot: SnapshotRef,
    _storage: Arc<dyn Storage>,
    _scratch: TempDir,
}

impl Source {
    /// Opens a backup, as it was at a moment before it was made if `at` says so.
    pub(super) fn open(
        destination: &Destination,
        manifest: &Manifest,
        at: Option<i64>,
        memory_bytes: u64,
    ) -> Result<Self, String> {
        let history = match at {
            None => Duration::ZERO,
            Some(at) if at > manifest.time_ns => {
                return Err(format!(
                    "backup {} was made before that moment: choose a later one",
                    manifest.name
                ));
            }
            Some(at) => Duration::from_nanos(manifest.time_ns.abs_diff(at)) + Duration::from_secs(60),
        };
        let scratch = tempfile::Builder::new().prefix("nyala-restore-").tempdir();
        let scratch = scratch.map_err(|error| format!("cannot create a scratch directory: {error}"))?;
        lay_out(destination, manifest, scratch.path())?;
        let work = tokio::runtime::Builder::new_multi_thread()
            .thread_name("source")
            .enable_all()
            .build()
            .map_err(|error| format!("starting threads: {error}"))?;
        let opening = |error: nyala_core::Error| format!("opening backup {}: {error}", manifest.name);
        let memory = MemoryBudget::new(memory_bytes);
        let storage =
            storage::open_copy(scratch.path(), &memory, manifest.time_ns, history).map_err(opening)?;
        let opened = work.block_on(async {
            let catalog = Catalog::open(emulate::complete(storage.store())).await?;
            let catalog = match at {
                None => catalog,
                Some(at) => catalog.at(at).await.map_err(|error| forgotten(error, at))?,
            };
            let snapshot = catalog.store().snapshot(Freshness::Latest).await?;
            Ok::<_, nyala_core::Error>((Arc::new(catalog), snapshot))
        });
        let (catalog, snapshot) = opened.map_err(opening)?;
        Ok(Self { work, catalog, snapshot, _storage: storage, _scratch: scratch })
    }

    /// Waits for work with it.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.work.block_on(work)
    }
}

/// The error that a moment is older than the history in a backup.
fn forgotten(error: Error, at_ns: i64) -> Error {
    match error.kind() {
        ErrorKind::Missing => Error::missing(format!(
            "what was at {} is not known any more: the server has kept a shorter history, or none (--history)",
            rfc3339(at_ns.div_euclid(1_000_000_000))
        )),
        _ => error,
    }
}

/// Fetches what must be copied, and makes links to the rest. Rowsets in a bucket must be here to be read.
fn lay_out(destination: &Destination, manifest: &Manifest, dir: &Path) -> Result<(), String> {
    ["rowsets", "wal"].iter().try_for_each(|folder| make_dir(&dir.join(folder)))?;
    if destination.directory().is_none() {
        let free = files::free_bytes(dir)?;
        if free < manifest.bytes {
            return Err(format!(
                "there is no space: {} has {} left, and the backup, {}, is fetched there: set TMPDIR to another directory",
                std::env::temp_dir().display(),
                shown(free),
                shown(manifest.bytes)
            ));
        }
    }
    for entry in &manifest.files {
        let to = dir.join(&entry.path);
        match destination.link(&manifest.name, entry) {
            Some(from) => {
                if files::tail(&from).map(|(bytes, tail)| (bytes, Some(tail)))? != (entry.bytes, entry.tail) {
                    return Err(destination.damaged(&manifest.name, entry));
                }
                let from = from.canonicalize().map_err(|error| failed("find", &from, error))?;
                std::os::unix::fs::symlink(&from, &to).map_err(|error| failed("link", &to, error))?;
            }
            None => destination.fetch(&manifest.name, entry, &to, Durability::OnSync, &mut |_| {})?,
        }
    }
    Ok(())
}
