//! The machine's file system.

use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala_core::Result;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, FallocateFlags};

use super::{
    Access, DirEntry, DirLock, File, FileRef, FileSystem, LOCK_FILE, check_whole, locked_error, os_error,
};

/// The most slices that one call of `pwritev` takes (`IOV_MAX` of Linux).
const SLICES_PER_WRITE: usize = 1024;

/// Syncs under way at once: those of one moment share a commit of the file system's journal.
const SYNC_THREADS: usize = 16;

/// The machine's file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealFs;

/// The mode of new files: they are their owner's alone.
const FILE_MODE: u32 = 0o600;

#[derive(Debug)]
struct RealFile {
    path: PathBuf,
    file: fs::File,
}

impl FileSystem for RealFs {
    fn open(&self, path: &Path, access: Access) -> Result<FileRef> {
        let mut options = fs::OpenOptions::new();
        // Data is nobody else's, also where the file is linked from elsewhere.
        options.read(true).mode(FILE_MODE);
        match access {
            Access::Read => &mut options,
            Access::Write => options.write(true),
            Access::Create => options.write(true).create_new(true),
        };
        let doing = if access == Access::Create { "create" } else { "open" };
        let file = options.open(path).map_err(|error| os_error(doing, path, &error))?;
        Ok(Arc::new(RealFile { path: path.to_path_buf(), file }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|error| os_error("look for", path, &error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| os_error("rename", from, &error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| os_error("remove", path, &error))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        // Data is nobody else's.
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other.map_err(|error| os_error("create directory", path, &error)),
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|error| os_error("remove directory", path, &error))
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let failed = |error: io::Error| os_error("list", dir, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(here(dir)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file_type = entry.file_type().map_err(failed)?;
            // The server's own may be here, and is nothing that could be read.
            if file_type.is_socket() {
                continue;
            }
            let is_dir = file_type.is_dir();
            entries.push(DirEntry { name: entry.file_name().to_string_lossy().into_owned(), is_dir });
        }
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        fs::File::open(here(dir))
            .and_then(|handle| handle.sync_all())
            .map_err(|error| os_error("sync directory", dir, &error))
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock> {
        let path = dir.join(LOCK_FILE);
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(|error| os_error("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The number is a courtesy; the refusal stands without it.
                let _ = (&mut file).take(20).read_to_string(&mut owner);
                let owner = owner.trim();
                let owner = if owner.is_empty() { String::new() } else { format!(" (process {owner})") };
                return Err(locked_error(dir, &owner));
            }
            Err(fs::TryLockError::Error(error)) => return Err(os_error("lock", &path, &error)),
        }
        // Not synced and not checked: only the message of a second process reads it.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(DirLock::new(file))
    }

    fn is_dir_locked(&self, dir: &Path) -> Result<bool> {
        let path = dir.join(LOCK_FILE);
        let file = match fs::File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(|error| os_error("open", &path, &error))?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(error)) => Err(os_error("look for a lock on", &path, &error)),
        }
    }

    fn open_files_max(&self) -> u64 {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
    }

    fn sync_files(&self, files: &[FileRef]) -> Result<()> {
        let sync = |files: &[FileRef]| files.iter().try_for_each(|file| file.sync_all());
        let of_thread = files.len().div_ceil(SYNC_THREADS).max(1);
        std::thread::scope(|scope| {
            let (own, others) = files.split_at(of_thread.min(files.len()));
            let threads: Vec<_> =
                others.chunks(of_thread).map(|files| (files, spawn(scope, move || sync(files)))).collect();
            let mut outcome = sync(own);
            for (files, thread) in threads {
                let synced = match thread {
                    Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    None => sync(files),
                };
                outcome = outcome.and(synced);
            }
            outcome
        })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        // Not across file systems, and not on all of them.
        if fs::hard_link(from, to).is_ok() { Ok(()) } else { self.copy(from, to) }
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let stat = rustix::fs::statvfs(here(dir))
            .map_err(|error| os_error("ask for free space of", dir, &error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// A thread for a while; nothing if the system has none left.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<std::thread::ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new().name("nyala-sync".to_owned()).spawn_scoped(scope, work).ok()
}

/// The parent of a bare name is the empty path, which system calls do not take.
fn here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

impl RealFile {
    fn check<T>(&self, doing: &str, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| os_error(doing, &self.path, &error))
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.check("read the length of", self.file.metadata())?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(os_error("read", &self.path, &error)),
            }
        }
        Ok(read)
    }

    fn read_vec_at(&self, length: usize, offset: u64) -> Result<Vec<u8>> {
        // Memory is not filled with zeros first.
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(os_error("read", &self.path, &error.into())),
            }
        }
        // There may have been room for more than was asked for.
        bytes.truncate(length);
        check_whole(&self.path, length, bytes.len(), offset)?;
        Ok(bytes)
    }

    fn write_slices_at(&self, slices: &mut [IoSlice<'_>], mut offset: u64) -> Result<()> {
        let mut rest = slices;
        // Empty slices in front would make a write of zero bytes look like a full device.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let batch = &rest[..rest.len().min(SLICES_PER_WRITE)];
            match rustix::io::pwritev(&self.file, batch, offset) {
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(os_error("write", &self.path, &error));
                }
                Ok(count) => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(os_error("write", &self.path, &error.into())),
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.check("sync", self.file.sync_data())
    }

    fn sync_all(&self) -> Result<()> {
        self.check("sync", self.file.sync_all())
    }

    fn preallocate(&self, length: u64) -> Result<()> {
        let doing = "take space for";
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, length) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                // A file system without the call: the length alone, the space is then found missing by a write.
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                    if self.length()? < length {
                        self.check(doing, self.file.set_len(length))?;
                    }
                    return Ok(());
                }
                Err(error) => return Err(os_error(doing, &self.path, &error.into())),
            }
        }
    }

    fn truncate(&self, length: u64) -> Result<()> {
        self.check("truncate", self.file.set_len(length))
    }

    fn prefetch(&self, offset: u64, length: u64) {
        // A hint: a file system that does not take it reads as well without.
        let _ = rustix::fs::fadvise(&self.file, offset, std::num::NonZeroU64::new(length), Advice::WillNeed);
    }
}
