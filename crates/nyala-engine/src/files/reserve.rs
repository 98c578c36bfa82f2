//! Disk space that is kept for what must work on a full disk: deletes and the manifest.
//!
//! An empty file occupies the space. When the disk is nearly full and something is to be deleted, the file is removed
//! first. From then on rows are refused, because they would fill the space that is meant for deletes. When there is
//! room, maintenance takes the space again, and rows are accepted again.

use crate::files::fs::{Access, FsRef};
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = "reserve";
/// A segment of the log for some thousands of deletions, and as many edits of the manifest.
const LEAST_BYTES: u64 = 1 << 20;
/// With so many bytes free, small writes still fit.
const ENOUGH_BYTES: u64 = 256 << 10;

/// The space.
pub(crate) struct Reserve {
    fs: FsRef,
    dir: PathBuf,
    /// How much is taken.
    held_bytes: Mutex<u64>,
    is_gone: AtomicBool,
}

impl Reserve {
    /// Takes over the space of an earlier process; it is given back if the disk is too full to open a store.
    pub(crate) fn open(fs: FsRef, dir: &Path) -> Self {
        let held = fs.open(&dir.join(FILE), Access::Read).and_then(|file| file.length());
        let held_bytes = Mutex::new(held.unwrap_or(0));
        let reserve = Self { fs, dir: dir.to_path_buf(), held_bytes, is_gone: AtomicBool::new(false) };
        reserve.make_room(LEAST_BYTES);
        reserve
    }

    /// An error while there is no space for rows.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_gone.load(Ordering::Relaxed) {
            true => Err(Error::retry(
                "the disk is full, nothing was stored: the space left is kept for what deletes".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Gives the space back if the disk is too full for so many bytes, which are about to be written.
    pub(crate) fn make_room(&self, bytes: u64) {
        let mut held_bytes = self.held_bytes.lock();
        let is_short = || self.free_bytes() < bytes.saturating_add(ENOUGH_BYTES);
        if *held_bytes == 0 || !is_short() {
            return;
        }
        self.is_gone.store(true, Ordering::Relaxed);
        *held_bytes = 0;
        match self.fs.remove(&self.dir.join(FILE)) {
            Ok(()) => {
                tracing::warn!("the disk is full: its reserve is given to what deletes, rows are refused")
            }
            Err(error) => tracing::error!(%error, "the disk is full, and its reserve cannot be given back"),
        }
    }

    /// Takes the space again, or more for a manifest that has grown, if there is room.
    pub(crate) fn refill(&self, manifest_bytes: u64) {
        let mut held_bytes = self.held_bytes.lock();
        // While the next manifest is written, the current one exists too.
        let wanted = LEAST_BYTES.saturating_add(manifest_bytes.saturating_mul(2));
        if *held_bytes >= wanted {
            return;
        }
        let is_room = self.free_bytes() >= (wanted - *held_bytes).saturating_mul(2);
        let mut is_full = !is_room;
        if is_room {
            let taken = self.take(wanted);
            *held_bytes = if taken.is_ok() { wanted } else { 0 };
            if let Err(error) = taken {
                // For another reason than a full disk: then deletions work as far as there is space.
                is_full = error.kind() == ErrorKind::Retry;
                tracing::warn!(%error, "no space is kept for deletions");
            }
        }
        self.is_gone.store(is_full && *held_bytes == 0, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) -> Result<()> {
        let path = self.dir.join(FILE);
        let access = if self.fs.exists(&path)? { Access::Write } else { Access::Create };
        let taken = self.fs.open(&path, access)?.preallocate(bytes);
        if taken.is_err() {
            // A part of the space is of more use to others.
            let _ = self.fs.remove(&path);
        }
        taken
    }

    /// If the free space is not known, the disk counts as not full.
    fn free_bytes(&self) -> u64 {
        self.fs.free_bytes(&self.dir).unwrap_or(u64::MAX)
    }
}
