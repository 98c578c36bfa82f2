//! A file system in memory for tests, which knows what a power cut leaves and fails on request.
//!
//! It keeps two states: what a running process sees, and what is on disk. A sync moves the first into the second;
//! [`SimulatedFs::crash`] draws from a seed one of the many disks that a power cut may leave: unsynced bytes are
//! lost, torn at any byte or there in part, sector by sector; unsynced names are missing, old or new.
//! [`SimulatedFs::snapshot`] is the death of the process alone: everything written is there.
//!
//! A test sets a hook that is called before every change of the disk, and can take a crash of every such moment
//! (all of them are worth it: the syncs are a subset). Faults are injected by [`Fault`].

mod contents;
mod file;
mod names;
mod random;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nyala_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use self::contents::{Change, Contents};
use self::file::SimulatedFile;
use self::names::{NameChange, Names, Node, is_root, parent};
use self::random::Random;
use super::{Access, DirEntry, DirLock, FileRef, FileSystem, locked_error, os_error};

/// A disk in memory. Clones are handles of the same disk.
#[derive(Clone)]
pub struct SimulatedFs {
    shared: Arc<Shared>,
}

/// A change of the disk that is about to happen.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Counts the changes from 0.
    pub index: u64,
    /// What kind.
    pub kind: OperationKind,
    /// The file or directory; of a rename the new name.
    pub path: PathBuf,
}

/// Kinds of changes of a disk.
#[expect(missing_docs, reason = "named as the methods of the traits")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    Create,
    Rename,
    Remove,
    CreateDir,
    RemoveDir,
    Write,
    Truncate,
    Preallocate,
    Sync,
    SyncDir,
}

/// Something that goes wrong. Faults that count pass `skip` operations and hit once.
#[derive(Debug, Clone)]
pub enum Fault {
    /// A sync of a file fails; what was not synced is on disk in part and never will be by a later sync.
    Sync {
        /// Syncs that pass before.
        skip: u64,
    },
    /// A sync of a directory fails; its names stay unsynced.
    SyncDir {
        /// Syncs that pass before.
        skip: u64,
    },
    /// A write stops in the middle.
    Write {
        /// Writes that pass before.
        skip: u64,
        /// Bytes that are written.
        written: usize,
    },
    /// Reading any byte of a range fails, as long as the fault is not cleared.
    Read {
        /// The file.
        path: PathBuf,
        /// Its bad bytes.
        range: Range<u64>,
    },
}

type Hook = dyn Fn(&SimulatedFs, &Operation) + Send + Sync;

struct Shared {
    disk: Mutex<Disk>,
    hook: Mutex<Option<Arc<Hook>>>,
    reads: AtomicU64,
}

#[derive(Clone, Default)]
struct Disk {
    inodes: BTreeMap<u64, Inode>,
    names: Names,
    next_inode: u64,
    operations: u64,
    faults: Vec<Fault>,
    space_bytes: Option<u64>,
    open_files_max: Option<usize>,
    locks: HashSet<PathBuf>,
}

#[derive(Clone, Default)]
struct Inode {
    seen: Contents,
    durable: Contents,
    pending: Vec<Change>,
    handles: usize,
}

impl Default for SimulatedFs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimulatedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shared.disk.lock().names.seen.keys()).finish()
    }
}

impl SimulatedFs {
    /// An empty disk without a limit.
    pub fn new() -> Self {
        Self::from_disk(Disk::default())
    }

    fn from_disk(disk: Disk) -> Self {
        Self {
            shared: Arc::new(Shared {
                disk: Mutex::new(disk),
                hook: Mutex::new(None),
                reads: AtomicU64::new(0),
            }),
        }
    }

    /// The disk after a power cut now: one of the possible ones, drawn from the seed. This disk goes on unharmed.
    pub fn crash(&self, seed: u64) -> Self {
        let before = self.shared.disk.lock().clone();
        let mut random = Random::new(seed);
        let tree = before.names.torn(&mut random);
        let mut disk = Disk {
            next_inode: before.next_inode,
            space_bytes: before.space_bytes,
            open_files_max: before.open_files_max,
            ..Disk::default()
        };
        for (&id, inode) in &before.inodes {
            let contents = inode.durable.torn(&inode.pending, &mut random);
            let inode = Inode { seen: contents.clone(), durable: contents, ..Inode::default() };
            disk.inodes.insert(id, inode);
        }
        disk.names.seen.clone_from(&tree);
        disk.names.durable = tree;
        disk.forget_unnamed();
        Self::from_disk(disk)
    }

    /// A copy of the disk as the next process finds it when this one is killed now: nothing written is lost, but
    /// what was not synced still is not. Locks, faults and the hook are gone.
    pub fn snapshot(&self) -> Self {
        let mut disk = self.shared.disk.lock().clone();
        disk.locks.clear();
        disk.faults.clear();
        disk.inodes.values_mut().for_each(|inode| inode.handles = 0);
        Self::from_disk(disk)
    }

    /// Calls `hook` before every change of the disk, in the thread that makes it. The hook may take snapshots and
    /// crashes; it must not change this disk.
    pub fn on_operation(&self, hook: impl Fn(&SimulatedFs, &Operation) + Send + Sync + 'static) {
        *self.shared.hook.lock() = Some(Arc::new(hook));
    }

    /// Reads of files so far.
    pub fn reads(&self) -> u64 {
        self.shared.reads.load(Ordering::Relaxed)
    }

    /// Changes of the disk so far.
    pub fn operations(&self) -> u64 {
        self.shared.disk.lock().operations
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.disk.lock().faults.push(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.disk.lock().faults.clear();
    }

    /// Limits the disk to this many bytes, or lifts the limit.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.shared.disk.lock().space_bytes = bytes;
    }

    /// Limits how many files are open at once, or lifts the limit.
    pub fn set_open_files_max(&self, files: Option<usize>) {
        self.shared.disk.lock().open_files_max = files;
    }

    /// Bytes taken by files.
    pub fn used_bytes(&self) -> u64 {
        self.shared.disk.lock().used_bytes()
    }

    /// Flips one bit of a file, on disk and as seen.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> Result<()> {
        let mut disk = self.shared.disk.lock();
        let inode = disk.file(path)?;
        let inode = disk.inode(inode);
        assert!(bit / 8 < inode.seen.length, "bit {bit} is past the end of {}", path.display());
        inode.seen.flip_bit(bit);
        if bit / 8 < inode.durable.length {
            inode.durable.flip_bit(bit);
        }
        Ok(())
    }

    fn announce(&self, kind: OperationKind, path: &Path) {
        let hook = self.shared.hook.lock().clone();
        let index = {
            let mut disk = self.shared.disk.lock();
            disk.operations += 1;
            disk.operations - 1
        };
        if let Some(hook) = hook {
            hook(self, &Operation { index, kind, path: path.to_path_buf() });
        }
    }
}

impl Disk {
    fn used_bytes(&self) -> u64 {
        let named: HashSet<u64> = self.names.seen.values().filter_map(Node::file).collect();
        let taken = self.inodes.iter().filter(|(id, inode)| inode.handles > 0 || named.contains(id));
        taken.map(|(_, inode)| inode.seen.allocated()).sum()
    }

    fn free_bytes(&self) -> u64 {
        self.space_bytes.map_or(u64::MAX, |space| space.saturating_sub(self.used_bytes()))
    }

    fn open_files(&self) -> usize {
        self.inodes.values().map(|inode| inode.handles).sum()
    }

    fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect("an open or named file has its contents")
    }

    fn file(&self, path: &Path) -> Result<u64> {
        match self.names.seen.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Dir) => Err(fault("open", path, io::ErrorKind::IsADirectory)),
            None => Err(fault("open", path, io::ErrorKind::NotFound)),
        }
    }

    fn expect_dir(&self, path: &Path, doing: &str) -> Result<()> {
        if is_root(path) || self.names.seen.get(path) == Some(&Node::Dir) {
            return Ok(());
        }
        Err(fault(doing, path, io::ErrorKind::NotFound))
    }

    /// Drops the contents that no name and no handle reaches, now or after a crash.
    fn forget_unnamed(&mut self) {
        let reachable: HashSet<u64> = self.names.reachable().filter_map(|node| node.file()).collect();
        self.inodes.retain(|id, inode| inode.handles > 0 || reachable.contains(id));
    }

    /// Counts down the faults of a kind; true when one hits.
    fn hits(&mut self, count: impl Fn(&mut Fault) -> Option<&mut u64>) -> Option<Fault> {
        let mut hit = None;
        for (index, fault) in self.faults.iter_mut().enumerate() {
            if let Some(skip) = count(fault) {
                match skip.checked_sub(1) {
                    Some(left) => *skip = left,
                    None => hit = Some(index),
                }
            }
        }
        hit.map(|index| self.faults.remove(index))
    }
}

fn fault(doing: &str, path: &Path, kind: io::ErrorKind) -> Error {
    os_error(doing, path, &io::Error::from(kind))
}

fn injected(doing: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing} {}: injected fault", path.display()))
}

impl FileSystem for SimulatedFs {
    fn open(&self, path: &Path, access: Access) -> Result<FileRef> {
        if access == Access::Create {
            self.announce(OperationKind::Create, path);
        }
        let mut disk = self.shared.disk.lock();
        if disk.open_files_max.is_some_and(|most| disk.open_files() >= most) {
            return Err(os_error("open", path, &rustix::io::Errno::MFILE.into()));
        }
        let inode = if access == Access::Create {
            disk.expect_dir(parent(path), "create a file in")?;
            if disk.names.seen.contains_key(path) {
                return Err(fault("create", path, io::ErrorKind::AlreadyExists));
            }
            if disk.free_bytes() == 0 {
                return Err(fault("create", path, io::ErrorKind::StorageFull));
            }
            let inode = disk.next_inode;
            disk.next_inode += 1;
            disk.inodes.insert(inode, Inode::default());
            disk.names.change(NameChange::Link(path.to_path_buf(), Node::File(inode)));
            inode
        } else {
            disk.file(path)?
        };
        disk.inode(inode).handles += 1;
        let writable = access != Access::Read;
        Ok(Arc::new(SimulatedFile::new(self.clone(), inode, path.to_path_buf(), writable)))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(is_root(path) || self.shared.disk.lock().names.seen.contains_key(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.announce(OperationKind::Rename, to);
        let mut disk = self.shared.disk.lock();
        disk.file(from)?;
        disk.expect_dir(parent(to), "rename into")?;
        disk.names.change(NameChange::Rename(from.to_path_buf(), to.to_path_buf()));
        disk.forget_unnamed();
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.announce(OperationKind::Remove, path);
        let mut disk = self.shared.disk.lock();
        disk.file(path)?;
        disk.names.change(NameChange::Unlink(path.to_path_buf()));
        disk.forget_unnamed();
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.announce(OperationKind::CreateDir, path);
        let mut disk = self.shared.disk.lock();
        disk.expect_dir(parent(path), "create a directory in")?;
        match disk.names.seen.get(path) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(fault("create directory", path, io::ErrorKind::AlreadyExists)),
            None => {
                disk.names.change(NameChange::Link(path.to_path_buf(), Node::Dir));
                Ok(())
            }
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.announce(OperationKind::RemoveDir, path);
        let mut disk = self.shared.disk.lock();
        if disk.names.seen.get(path) != Some(&Node::Dir) {
            return Err(fault("remove directory", path, io::ErrorKind::NotFound));
        }
        if disk.names.seen.keys().any(|other| parent(other) == path) {
            return Err(fault("remove directory", path, io::ErrorKind::DirectoryNotEmpty));
        }
        disk.names.change(NameChange::Unlink(path.to_path_buf()));
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let disk = self.shared.disk.lock();
        disk.expect_dir(dir, "list")?;
        let mut entries: Vec<DirEntry> = disk
            .names
            .seen
            .iter()
            .filter(|(path, _)| parent(path) == dir)
            .filter_map(|(path, node)| {
                let name = path.file_name()?.to_string_lossy().into_owned();
                Some(DirEntry { name, is_dir: *node == Node::Dir })
            })
            .collect();
        entries.sort();
        Ok(entries)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.announce(OperationKind::SyncDir, dir);
        let mut disk = self.shared.disk.lock();
        disk.expect_dir(dir, "sync directory")?;
        let hit = disk.hits(|fault| match fault {
            Fault::SyncDir { skip } => Some(skip),
            _ => None,
        });
        if hit.is_some() {
            return Err(injected("sync directory", dir));
        }
        disk.names.sync(dir);
        disk.forget_unnamed();
        Ok(())
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock> {
        let mut disk = self.shared.disk.lock();
        disk.expect_dir(dir, "lock")?;
        if !disk.locks.insert(dir.to_path_buf()) {
            return Err(locked_error(dir, ""));
        }
        Ok(DirLock::new(SimulatedLock { fs: self.clone(), dir: dir.to_path_buf() }))
    }

    fn is_dir_locked(&self, dir: &Path) -> Result<bool> {
        Ok(self.shared.disk.lock().locks.contains(dir))
    }

    fn open_files_max(&self) -> u64 {
        self.shared.disk.lock().open_files_max.map_or(u64::MAX, |most| most as u64)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let disk = self.shared.disk.lock();
        disk.expect_dir(dir, "ask for free space of")?;
        Ok(disk.free_bytes())
    }
}

struct SimulatedLock {
    fs: SimulatedFs,
    dir: PathBuf,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.fs.shared.disk.lock().locks.remove(&self.dir);
    }
}
