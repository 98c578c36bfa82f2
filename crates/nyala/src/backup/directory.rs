//! A directory of backups. Beside what every place has:
//!
//! | name | what it is |
//! |---|---|
//! | `.unfinished-…` | a backup that is being written, or was when its program was killed |
//! | `LOCK`, `READERS` | locked by those who change it, and by those who read it |
//!
//! A backup gets its name last, when all its files are on disk.

use super::files::{self, Checksum, Durability};
use super::layout::{FILES, MARKER, MARKER_TEXT, SharedFile, place_of};
use super::manifest::{self, FileEntry, Manifest};
use super::{copies, failed, make_dir, names_in, remove_dir, sync_dir};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const UNFINISHED: &str = ".unfinished-";
/// A file that is being written.
const PART: &str = ".part";
const LOCK: &str = "LOCK";
const READERS: &str = "READERS";

/// A directory of backups that this process uses.
pub struct BackupDirectory {
    dir: PathBuf,
    /// Held for their drop.
    _locks: Vec<File>,
}

impl BackupDirectory {
    /// Opens a directory to add a backup, and makes it if it is missing. Refused while another process changes it.
    pub fn open_to_add(dir: &Path) -> Result<Self, String> {
        make_dir(dir)?;
        let marker = dir.join(MARKER);
        if !fs::exists(&marker).map_err(|error| failed("look for", &marker, error))? {
            if let Some(name) = names_in(dir)?.into_iter().find(|name| name != "lost+found") {
                return Err(format!(
                    "{} is not a directory of backups: it has {name:?} in it. Choose an empty or a new one",
                    dir.display()
                ));
            }
            files::write(&marker, MARKER_TEXT.as_bytes())?;
        }
        let destination = Self::open(dir, vec![exclusively(dir, LOCK, "changes")?])?;
        let folder = dir.join(FILES);
        make_dir(&folder)?;
        for name in names_in(&folder)?.iter().filter(|name| name.ends_with(PART)) {
            files::remove(&folder.join(name))?;
        }
        destination.remove_unfinished()?;
        Ok(destination)
    }

    /// Opens a directory to remove backups. Refused while another process changes or reads it.
    pub fn open_to_remove(dir: &Path) -> Result<Self, String> {
        Self::open(dir, Vec::new())?;
        let locks = vec![exclusively(dir, LOCK, "changes")?, exclusively(dir, READERS, "reads")?];
        let destination = Self::open(dir, locks)?;
        destination.remove_unfinished()?;
        Ok(destination)
    }

    /// Opens a directory to read backups, which nobody removes meanwhile. It may be on a read-only disk.
    pub fn open_to_read(dir: &Path) -> Result<Self, String> {
        Self::open(dir, Vec::new())?;
        let path = dir.join(READERS);
        let opened = File::open(&path).or_else(|_| lock_file(&path));
        let locks = match opened {
            // Who may not write here cannot remove either, unless it is somebody else. That is documented.
            Err(_) => Vec::new(),
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => vec![file],
                Err(TryLockError::WouldBlock) => {
                    return Err(format!("backups are removed from {} now", dir.display()));
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path, error)),
            },
        };
        Self::open(dir, locks)
    }

    fn open(dir: &Path, locks: Vec<File>) -> Result<Self, String> {
        let marker = dir.join(MARKER);
        let mut text = String::new();
        files::open(&marker)
            .and_then(|file| {
                file.take(1024).read_to_string(&mut text).map_err(|error| failed("read", &marker, error))
            })
            .map_err(|words| format!("{} is not a directory of backups: {words}", dir.display()))?;
        match text == MARKER_TEXT {
            true => Ok(Self { dir: dir.to_owned(), _locks: locks }),
            false => {
                Err(format!("{} says that these backups are of another version of nyala", marker.display()))
            }
        }
    }

    /// The names of all backups, in order of their moments.
    pub fn names(&self) -> Result<Vec<String>, String> {
        Ok(names_in(&self.dir)?.into_iter().filter(|name| copies::is_name(name)).collect())
    }

    /// What a backup has.
    pub fn manifest(&self, name: &str) -> Result<Manifest, String> {
        let dir = self.dir.join(name);
        match fs::symlink_metadata(&dir) {
            Ok(metadata) if metadata.is_dir() => {
                let path = dir.join(manifest::FILE);
                Manifest::read(files::open(&path)?, name, &path.display())
            }
            Ok(_) => Err(format!("{} is not a directory", dir.display())),
            Err(error) => Err(failed("look at", &dir, error)),
        }
    }

    /// Where a file of a backup is.
    pub fn path(&self, backup: &str, entry: &FileEntry) -> PathBuf {
        self.dir.join(place_of(backup, entry))
    }

    fn shared_path(&self, name: &str) -> PathBuf {
        self.dir.join(FILES).join(name)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files that backups share. What is no file has no length.
    pub fn shared_files(&self) -> Result<Vec<SharedFile>, String> {
        let folder = self.dir.join(FILES);
        let length = |name: &str| match fs::symlink_metadata(folder.join(name)) {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            _ => 0,
        };
        let files = names_in(&folder)?.into_iter();
        Ok(files.map(|name| SharedFile { bytes: length(&name), name }).collect())
    }

    pub fn remove_shared(&self, names: &[String]) -> Result<(), String> {
        names.iter().try_for_each(|name| files::remove(&self.shared_path(name)))
    }

    /// Adds a file that backups share, by a second name if it may have one. It is on disk when this returns, but for its
    /// name.
    pub fn share(
        &self,
        from: &Path,
        may_link: bool,
        entry: &dyn Fn((u64, Checksum)) -> FileEntry,
        watch: &mut dyn FnMut(u64),
    ) -> Result<FileEntry, String> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let part = self.shared_path(&format!("{name}{PART}"));
        files::remove(&part)?;
        let entry = entry(match may_link && fs::hard_link(from, &part).is_ok() {
            // The engine had it on disk before anybody could read it, and to sync each link again takes ten times as long.
            true => files::read(&part, watch)?,
            false => files::copy(from, &part, Durability::OnReturn, watch)?,
        });
        fs::rename(&part, self.path("", &entry)).map_err(|error| failed("rename", &part, error))?;
        Ok(entry)
    }

    /// A folder for what a backup shares with no other one.
    pub fn begin(&self, name: &str) -> Result<(), String> {
        make_dir(&self.unfinished(name))
    }

    /// Adds a file that a backup shares with no other one.
    pub fn add(
        &self,
        backup: &str,
        from: &Path,
        path: &str,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(u64, Checksum), String> {
        let to = self.unfinished(backup).join(path);
        to.parent().map_or(Ok(()), make_dir)?;
        files::copy(from, &to, Durability::OnReturn, watch)
    }

    /// Makes what was begun a backup: all its files are on disk, and their names will be.
    pub fn finish(&self, manifest: &Manifest) -> Result<(), String> {
        let (unfinished, dir) = (self.unfinished(&manifest.name), self.dir.join(&manifest.name));
        sync_dir(&self.dir.join(FILES))?;
        for folder in
            names_in(&unfinished)?.iter().map(|name| unfinished.join(name)).filter(|path| path.is_dir())
        {
            sync_dir(&folder)?;
        }
        files::write(&unfinished.join(manifest::FILE), &manifest.encode()?)?;
        if fs::exists(&dir).map_err(|error| failed("look for", &dir, error))? {
            return Err(format!("there is a backup {} already", dir.display()));
        }
        fs::rename(&unfinished, &dir).map_err(|error| failed("rename", &unfinished, error))?;
        sync_dir(&self.dir)
    }

    /// Takes a backup its name, so that it is none any more whatever happens to the rest of its removal.
    pub fn forget(&self, name: &str) -> Result<(), String> {
        let (dir, unfinished) = (self.dir.join(name), self.unfinished(name));
        remove_dir(&unfinished)?;
        fs::rename(&dir, &unfinished).map_err(|error| failed("rename", &dir, error))?;
        sync_dir(&self.dir)?;
        remove_dir(&unfinished)
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{UNFINISHED}{name}"))
    }

    fn remove_unfinished(&self) -> Result<(), String> {
        let names = names_in(&self.dir)?;
        let unfinished =
            names.iter().filter(|name| name.strip_prefix(UNFINISHED).is_some_and(copies::is_name));
        unfinished.map(|name| self.dir.join(name)).try_for_each(|dir| remove_dir(&dir))
    }
}

fn lock_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Locks a file of the directory for this process alone.
fn exclusively(dir: &Path, name: &str, verb: &str) -> Result<File, String> {
    let path = dir.join(name);
    let mut file = lock_file(&path).map_err(|error| failed("open", &path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // The number is a courtesy; the refusal stands without it.
            let _ = (&mut file).take(20).read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "another process".to_owned(),
                number => format!("process {number}"),
            };
            return Err(format!(
                "{owner} {verb} the backups in {} now: try again when it is done",
                dir.display()
            ));
        }
        Err(TryLockError::Error(error)) => return Err(failed("lock", &path, error)),
    }
    // Not checked: only the message of a second process reads it.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}
