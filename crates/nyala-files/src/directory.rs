//! A folder that files stay in, whatever path somebody names.
//!
//! A path is walked component by component from an open folder. `..` is refused, and no link is followed: each step is
//! opened relative to the one before with `O_NOFOLLOW`, so nobody can put a link there between a check and its use.

use crate::error::{FileError, FileErrorKind, FileResult};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Folders in folders, at most.
const DEPTH_MAX: usize = 32;

/// An open folder. Copies are of the same folder.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    folder: Arc<OwnedFd>,
}

/// A place for a file: the folder that it is in, and its name there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: OwnedFd,
    pub(crate) name: String,
}

impl Directory {
    /// Opens a folder. Its own path is the operator's: it may have links in it.
    pub fn open(path: &Path) -> FileResult<Self> {
        let shown = path.display().to_string();
        let failed = |error: Errno| FileError::io(&shown)(error.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        Ok(Self { path: path.to_owned(), folder: Arc::new(folder) })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file to read it.
    pub fn read(&self, path: &str) -> FileResult<File> {
        let Place { folder, name } = self.place(path, false)?;
        // A pipe would make us wait; it is refused below.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&folder, &name, flags, Mode::empty()).map_err(failed(path))?;
        let kind = FileType::from_raw_mode(fstat(&file).map_err(failed(path))?.st_mode);
        match kind {
            FileType::RegularFile => Ok(File::from(file)),
            FileType::Directory => Err(forbidden(path, "is a directory")),
            _ => Err(forbidden(path, "is not a file")),
        }
    }

    /// Opens a folder in it, and creates it if it is missing.
    pub fn create_folder(&self, path: &str) -> FileResult<Self> {
        let folder = self.walk(&components(path)?, true, path)?;
        Ok(Self { path: self.path.join(path), folder: Arc::new(folder) })
    }

    /// The names of what is in it, in order.
    pub fn names(&self) -> FileResult<Vec<String>> {
        let shown = self.path.display().to_string();
        let entries = Dir::read_from(&*self.folder).map_err(failed(&shown))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed(&shown))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether there is a file or a folder.
    pub fn kind(&self, path: &str) -> FileResult<Option<FileKind>> {
        let place = match self.place(path, false) {
            Ok(place) => place,
            Err(error) if error.kind == FileErrorKind::Missing => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW);
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile) => Ok(Some(FileKind::File)),
            Ok(FileType::Directory) => Ok(Some(FileKind::Folder)),
            Ok(_) => Err(forbidden(path, "is neither a file nor a directory")),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(path)(error)),
        }
    }

    /// The place of a path; `create`: with the folders before it.
    pub(crate) fn place(&self, path: &str, create: bool) -> FileResult<Place> {
        let mut all = components(path)?;
        let name = all.pop().ok_or_else(|| forbidden(path, "names no file"))?;
        Ok(Place { folder: self.walk(&all, create, path)?, name })
    }

    fn walk(&self, components: &[String], create: bool, shown: &str) -> FileResult<OwnedFd> {
        let mut folder = self.folder.try_clone().map_err(FileError::io(shown))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for name in components {
            if create {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o750)) {
                    Ok(()) => rustix::fs::fsync(&folder).map_err(failed(shown))?,
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(shown)(error)),
                }
            }
            folder = match openat(&folder, name, flags, Mode::empty()) {
                Ok(folder) => folder,
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    return Err(forbidden(
                        shown,
                        &format!("leads through \"{name}\", which is no directory"),
                    ));
                }
                Err(error) => return Err(failed(shown)(error)),
            };
        }
        Ok(folder)
    }
}

/// What there is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// The parts of a path. It has no `..`, and begins in the folder.
pub(crate) fn components(path: &str) -> FileResult<Vec<String>> {
    if path.contains('\0') {
        return Err(forbidden(&path.replace('\0', "\\0"), "has a zero byte in it"));
    }
    let mut parts = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::ParentDir => return Err(forbidden(path, "must not have \"..\" in it")),
            Component::RootDir | Component::Prefix(_) => {
                return Err(forbidden(path, "is absolute: paths begin in the directory of files"));
            }
        }
    }
    if parts.len() > DEPTH_MAX {
        return Err(forbidden(path, &format!("has more than {DEPTH_MAX} parts")));
    }
    Ok(parts)
}

impl Place {
    /// Creates a new file with another name, which [`Place::publish`] gives its own.
    pub(crate) fn create(&self, temporary: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, temporary, flags, Mode::from_raw_mode(0o640))?))
    }

    /// Gives a file its name, durably.
    pub(crate) fn publish(&self, temporary: &str) -> io::Result<()> {
        renameat(&self.folder, temporary, &self.folder, &self.name)?;
        Ok(rustix::fs::fsync(self.folder.as_fd())?)
    }

    /// Removes a file that was not published.
    pub(crate) fn remove(&self, temporary: &str) -> io::Result<()> {
        Ok(unlinkat(&self.folder, temporary, AtFlags::empty())?)
    }
}

fn forbidden(path: &str, why: &str) -> FileError {
    FileError::new(FileErrorKind::Forbidden, format!("\"{path}\" {why}"))
}

fn failed(path: &str) -> impl Fn(Errno) -> FileError {
    move |error| match error {
        Errno::LOOP => forbidden(path, "is a symbolic link, and none is followed"),
        error => FileError::io(path)(error.into()),
    }
}
