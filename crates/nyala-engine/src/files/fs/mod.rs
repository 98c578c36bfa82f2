//! Every access of the engine to files goes through these two traits.
//!
//! [`RealFs`] is the machine's file system; [`SimulatedFs`] keeps everything in memory, knows what would survive
//! a power cut, and fails on request. The promises are those of POSIX and no more: what was written to a file is
//! on disk after `sync_data`, and that a file has its name (was created, renamed or removed) is on disk after
//! `sync_dir` of its directory. Files are read and written at offsets; no method has a file position.
//!
//! Errors name the path. A full disk and too many open files are [`ErrorKind::Retry`], a missing file
//! [`ErrorKind::Missing`], an existing one [`ErrorKind::Conflict`], a file that ends before what should be in it
//! [`ErrorKind::Corrupt`].

mod real;
mod simulated;
mod unreadable;

use std::fmt;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use nyala_core::{Error, ErrorKind, Result};

pub use real::RealFs;
pub use simulated::{Fault, Operation, OperationKind, SimulatedFs};
pub(crate) use unreadable::Unreadable;

/// A shared file system.
pub type FsRef = Arc<dyn FileSystem>;

/// A shared open file.
pub type FileRef = Arc<dyn File>;

/// Bytes copied at once.
pub(crate) const COPY_BYTES: usize = 1 << 20;

/// The name of the file in a data directory that its one process holds locked.
pub const LOCK_FILE: &str = "LOCK";

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The file exists and is only read.
    Read,
    /// The file exists and is read and written.
    Write,
    /// The file is created, must not exist, and is read and written.
    Create,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name without the directory.
    pub name: String,
    /// True for a directory, false for a file.
    pub is_dir: bool,
}

/// Held while a process owns a data directory; dropping it gives the directory up.
pub struct DirLock(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

impl DirLock {
    pub(crate) fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for DirLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirLock")
    }
}

/// Names: opening, creating, renaming, removing, listing.
pub trait FileSystem: fmt::Debug + Send + Sync + 'static {
    /// Opens or creates a file.
    fn open(&self, path: &Path, access: Access) -> Result<FileRef>;

    /// Whether a file or directory has this name.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Renames a file, replacing the one that has the name `to`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file; who has it open keeps reading it.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Creates a directory; its parent must exist, and that it exists already is no error.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;

    /// The files and directories in a directory, sorted by name.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>>;

    /// Puts the names in a directory (created, renamed, removed) on disk.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Locks a data directory for this process, or refuses ([`ErrorKind::Conflict`]) naming the directory.
    fn lock_dir(&self, dir: &Path) -> Result<DirLock>;

    /// Whether a process has locked a data directory, in which this changes nothing.
    fn is_dir_locked(&self, dir: &Path) -> Result<bool>;

    /// How many files the process may have open at once, sockets and all.
    fn open_files_max(&self) -> u64;

    /// Puts files on disk that were just written, all of them or an error: [`File::sync_all`] of each.
    fn sync_files(&self, files: &[FileRef]) -> Result<()> {
        files.iter().try_for_each(|file| file.sync_all())
    }

    /// Gives a file that nobody changes any more a second name, or copies it where that cannot be. On disk when this
    /// returns, but for the name.
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.copy(from, to)
    }

    /// Copies a file. On disk when this returns, but for the name.
    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (self.open(from, Access::Read)?, self.open(to, Access::Create)?);
        let (length, mut offset, mut buffer) = (from.length()?, 0, vec![0; COPY_BYTES]);
        while offset < length {
            let read = from.read_at(&mut buffer, offset)?;
            if read == 0 {
                break;
            }
            to.write_at(&buffer[..read], offset)?;
            offset += read as u64;
        }
        to.sync_all()
    }

    /// Bytes that can still be written in this directory.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;

    /// Creates a directory and its missing parents, and puts their names on disk, also those that an earlier process
    /// made and was killed before it did so.
    fn create_dirs(&self, path: &Path) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        self.create_dirs(parent)?;
        if self.exists(path)? {
            // A directory that this process may not read is one in which it made nothing.
            let _ = self.sync_dir(parent);
            return Ok(());
        }
        self.create_dir(path)?;
        self.sync_dir(parent)
    }
}

/// One open file.
pub trait File: fmt::Debug + Send + Sync + 'static {
    /// The path it was opened with.
    fn path(&self) -> &Path;

    /// Its length in bytes.
    fn length(&self) -> Result<u64>;

    /// Reads up to `buffer.len()` bytes; fewer only where the file ends.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of the slices one after the other. On an error any part of them may have been written. The
    /// slices are consumed: what they are afterwards has no meaning.
    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], offset: u64) -> Result<()>;

    /// Puts the contents, and the length needed to read them, on disk. After an error the contents written since
    /// the last sync are in an unknown state for good: a later sync that succeeds says nothing about them.
    fn sync_data(&self) -> Result<()>;

    /// [`File::sync_data`] and the remaining attributes of the file.
    fn sync_all(&self) -> Result<()>;

    /// Makes the file at least this long and takes the space for it, so that writing below this length does not
    /// run out of space. New bytes read as zeros.
    fn preallocate(&self, length: u64) -> Result<()>;

    /// Cuts the file to this length, or extends it with zeros.
    fn truncate(&self, length: u64) -> Result<()>;

    /// Says that this range will be read soon. Only a hint.
    fn prefetch(&self, offset: u64, length: u64);

    /// Writes all of `bytes`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_slices_at(&mut [IoSlice::new(bytes)], offset)
    }

    /// Reads exactly `buffer.len()` bytes; a file that ends before is corrupt.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buffer, offset)?;
        check_whole(self.path(), buffer.len(), read, offset)
    }

    /// Reads exactly so many bytes; a file that ends before is corrupt.
    fn read_vec_at(&self, length: usize, offset: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// Fails if fewer bytes were read than were wanted.
fn check_whole(path: &Path, wanted: usize, read: usize, offset: u64) -> Result<()> {
    match wanted - read {
        0 => Ok(()),
        missing => {
            let words = format!("the file ends where {missing} more bytes should be");
            Err(Error::corrupt(path, offset + read as u64, words))
        }
    }
}

/// An error of the operating system with what was tried and where.
pub(crate) fn os_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    let kind = match error.kind() {
        _ if is_out_of_descriptors(error) => ErrorKind::Retry,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Retry,
        io::ErrorKind::NotFound => ErrorKind::Missing,
        io::ErrorKind::AlreadyExists => ErrorKind::Conflict,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("cannot {doing} {}: {error}", path.display()))
}

/// Whether the process, or the system, has as many files open as it may.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].iter().any(|full| errno == Some(full.raw_os_error()))
}

/// The refusal of [`FileSystem::lock_dir`].
pub(crate) fn locked_error(dir: &Path, owner: &str) -> Error {
    Error::conflict(format!("the data directory {} is in use by another process{owner}", dir.display()))
}
