//! An open file of the simulated disk.

use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nyala_core::Result;

use super::contents::Change;
use super::random::Random;
use super::{Disk, Fault, OperationKind, SimulatedFs, fault, injected};
use crate::files::fs::File;

/// An open file; counted, so that a removed file keeps its contents while it is open.
pub(super) struct SimulatedFile {
    fs: SimulatedFs,
    inode: u64,
    path: PathBuf,
    writable: bool,
}

impl SimulatedFile {
    pub(super) fn new(fs: SimulatedFs, inode: u64, path: PathBuf, writable: bool) -> Self {
        Self { fs, inode, path, writable }
    }

    fn expect_writable(&self, doing: &str) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(fault(doing, &self.path, io::ErrorKind::PermissionDenied))
    }

    /// Makes a change, now seen and some day synced.
    fn change(&self, disk: &mut Disk, change: Change) {
        let inode = disk.inode(self.inode);
        inode.seen.apply(&change);
        inode.pending.push(change);
    }

    fn write(&self, disk: &mut Disk, bytes: &[u8], offset: u64) {
        if !bytes.is_empty() {
            self.change(disk, Change::Write { offset, bytes: Arc::from(bytes) });
        }
    }

    /// Bytes from `offset` on that fit on the disk.
    fn room(&self, disk: &mut Disk, offset: u64) -> u64 {
        let free = disk.free_bytes();
        disk.inode(self.inode).seen.allocated().saturating_add(free).saturating_sub(offset)
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut disk = self.fs.shared.disk.lock();
        let inode = disk.inode(self.inode);
        inode.handles -= 1;
        if inode.handles == 0 {
            disk.forget_unnamed();
        }
    }
}

impl fmt::Debug for SimulatedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedFile({})", self.path.display())
    }
}

impl File for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.fs.shared.disk.lock().inode(self.inode).seen.length)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.fs.shared.reads.fetch_add(1, Ordering::Relaxed);
        let mut disk = self.fs.shared.disk.lock();
        let end = offset + buffer.len() as u64;
        let bad = disk.faults.iter().any(|fault| match fault {
            Fault::Read { path, range } => *path == self.path && range.start < end && offset < range.end,
            _ => false,
        });
        if bad {
            return Err(injected("read", &self.path));
        }
        Ok(disk.inode(self.inode).seen.read(buffer, offset))
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> Result<()> {
        self.expect_writable("write")?;
        self.fs.announce(OperationKind::Write, &self.path);
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>();
        let mut disk = self.fs.shared.disk.lock();
        let hit = disk.hits(|fault| match fault {
            Fault::Write { skip, .. } => Some(skip),
            _ => None,
        });
        if let Some(Fault::Write { written, .. }) = hit {
            self.write(&mut disk, &bytes[..written.min(bytes.len())], offset);
            return Err(injected("write", &self.path));
        }
        let room = self.room(&mut disk, offset);
        if room < bytes.len() as u64 {
            self.write(&mut disk, &bytes[..room as usize], offset);
            return Err(fault("write", &self.path, io::ErrorKind::StorageFull));
        }
        self.write(&mut disk, &bytes, offset);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.fs.announce(OperationKind::Sync, &self.path);
        let mut disk = self.fs.shared.disk.lock();
        let hit = disk.hits(|fault| match fault {
            Fault::Sync { skip } => Some(skip),
            _ => None,
        });
        let mut random = Random::new(disk.operations);
        let inode = disk.inode(self.inode);
        let pending = std::mem::take(&mut inode.pending);
        if hit.is_some() {
            // As Linux does: the pages count as clean from now on whether they arrived or not, and may be dropped
            // from memory.
            inode.durable = inode.durable.torn(&pending, &mut random);
            if random.up_to(1) == 0 {
                inode.seen = inode.durable.clone();
            }
            return Err(injected("sync", &self.path));
        }
        pending.iter().for_each(|change| inode.durable.apply(change));
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        self.sync_data()
    }

    fn preallocate(&self, length: u64) -> Result<()> {
        self.expect_writable("take space for")?;
        self.fs.announce(OperationKind::Preallocate, &self.path);
        let mut disk = self.fs.shared.disk.lock();
        if self.room(&mut disk, 0) < length {
            return Err(fault("take space for", &self.path, io::ErrorKind::StorageFull));
        }
        if disk.inode(self.inode).seen.length < length {
            self.change(&mut disk, Change::SetLength(length));
        }
        Ok(())
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.expect_writable("truncate")?;
        self.fs.announce(OperationKind::Truncate, &self.path);
        let mut disk = self.fs.shared.disk.lock();
        if self.room(&mut disk, 0) < length {
            return Err(fault("truncate", &self.path, io::ErrorKind::StorageFull));
        }
        self.change(&mut disk, Change::SetLength(length));
        Ok(())
    }

    fn prefetch(&self, _offset: u64, _length: u64) {}
}
