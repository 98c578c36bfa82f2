//! Where backups are: a directory, or a place in a bucket of S3 (`layout.rs`: what both have).
//!
//! A backup becomes one last, when all its files are stored. Files that it shares are never changed and never removed
//! before it. So whatever happens to a program that writes here, the backups that are here stay whole.

use super::bucket::BackupBucket;
use super::directory::BackupDirectory;
use super::files::{self, Checksum, Durability};
use super::layout::{SharedFile, file_name, place_of};
use super::manifest::{FileEntry, Manifest};
use super::rate_limit::RateLimit;
use nyala_files::Bucket;
use std::path::{Path, PathBuf};

/// A place of backups that this process uses.
pub enum Destination {
    Directory(BackupDirectory),
    Bucket(BackupBucket),
}

impl Destination {
    /// Opens a place to add a backup, and makes it if it is missing. Refused while another process removes backups.
    pub fn open_to_add(place: &Path) -> Result<Self, String> {
        match url(place) {
            Some(url) => BackupBucket::open_to_add(url).map(Self::Bucket),
            None => BackupDirectory::open_to_add(place).map(Self::Directory),
        }
    }

    /// Opens a place to remove backups. Refused while another process changes or reads it.
    pub fn open_to_remove(place: &Path) -> Result<Self, String> {
        match url(place) {
            Some(url) => BackupBucket::open_to_remove(url).map(Self::Bucket),
            None => BackupDirectory::open_to_remove(place).map(Self::Directory),
        }
    }

    /// Opens a place to read backups, which nobody removes meanwhile. It may be one that cannot be written to.
    pub fn open_to_read(place: &Path) -> Result<Self, String> {
        match url(place) {
            Some(url) => BackupBucket::open_to_read(url).map(Self::Bucket),
            None => BackupDirectory::open_to_read(place).map(Self::Directory),
        }
    }

    /// The directory, if it is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory) => Some(directory.dir()),
            Self::Bucket(_) => None,
        }
    }

    /// Its name, for messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Directory(directory) => directory.dir().display().to_string(),
            Self::Bucket(bucket) => bucket.url().to_owned(),
        }
    }

    /// The names of all backups, in order of their moments.
    pub fn names(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Directory(directory) => directory.names(),
            Self::Bucket(bucket) => bucket.names(),
        }
    }

    /// What a backup has.
    pub fn manifest(&self, name: &str) -> Result<Manifest, String> {
        match self {
            Self::Directory(directory) => directory.manifest(name),
            Self::Bucket(bucket) => bucket.manifest(name),
        }
    }

    /// The backup with a name, or the newest one.
    pub fn find(&self, name: Option<&str>) -> Result<Manifest, String> {
        let names = self.names()?;
        let found = match name {
            Some(name) => names.iter().find(|known| *known == name),
            None => names.last(),
        };
        match (found, name) {
            (Some(found), _) => self.manifest(found),
            (None, None) => Err(format!("there is no backup in {}", self.shown())),
            (None, Some(name)) => Err(format!(
                "there is no backup {name:?} in {}: `nyala backup list` shows which there are",
                self.shown()
            )),
        }
    }

    /// The files that backups share.
    pub fn shared_files(&self) -> Result<Vec<SharedFile>, String> {
        match self {
            Self::Directory(directory) => directory.shared_files(),
            Self::Bucket(bucket) => bucket.shared_files(),
        }
    }

    /// Begins a backup.
    pub fn begin(&self, name: &str) -> Result<(), String> {
        match self {
            Self::Directory(directory) => directory.begin(name),
            // Names of objects need no folders.
            Self::Bucket(_) => Ok(()),
        }
    }

    /// Adds a file that a backup shares with no other one: `path`, in `data_dir`. `watch` is told how many bytes were stored.
    pub fn add(
        &self,
        backup: &str,
        data_dir: &Path,
        path: String,
        limit: &mut RateLimit,
        watch: &mut dyn FnMut(u64),
    ) -> Result<FileEntry, String> {
        let from = data_dir.join(&path);
        let mut watch = |bytes| {
            limit.wait(bytes);
            watch(bytes);
        };
        let (bytes, sha256) = match self {
            Self::Directory(directory) => directory.add(backup, &from, &path, &mut watch)?,
            Self::Bucket(bucket) => bucket.add(backup, &from, &path, &mut watch)?,
        };
        Ok(FileEntry { path, bytes, sha256, tail: None })
    }

    /// Adds a file that backups share, by a second name if it may have one. It is stored when this returns, but in a directory
    /// its name may not be.
    pub fn share(
        &self,
        from: &Path,
        may_link: bool,
        limit: &mut RateLimit,
        watch: &mut dyn FnMut(u64),
    ) -> Result<FileEntry, String> {
        let name = file_name(from);
        if name.split_once('.').is_none() {
            return Err(format!("{} has a strange name", from.display()));
        }
        let (_, tail) = files::tail(from)?;
        let entry =
            |(bytes, sha256)| FileEntry { path: format!("rowsets/{name}"), bytes, sha256, tail: Some(tail) };
        match self {
            Self::Directory(directory) => {
                let mut watch = |bytes| {
                    limit.wait(bytes);
                    watch(bytes);
                };
                directory.share(from, may_link, &entry, &mut watch)
            }
            Self::Bucket(bucket) => {
                // An object cannot be renamed, and its name has the checksum.
                let read = entry(files::read(from, &mut |bytes| limit.wait(bytes))?);
                let mut watch = |bytes| {
                    limit.wait(bytes);
                    watch(bytes);
                };
                bucket.share(from, &read, &mut watch)?;
                Ok(read)
            }
        }
    }

    /// Makes what was begun a backup.
    pub fn finish(&self, manifest: &Manifest) -> Result<(), String> {
        match self {
            Self::Directory(directory) => directory.finish(manifest),
            Self::Bucket(bucket) => bucket.finish(manifest),
        }
    }

    /// Removes a backup, which is none any more whatever happens to the rest of its removal. What it shares stays.
    pub fn forget(&self, name: &str) -> Result<(), String> {
        match self {
            Self::Directory(directory) => directory.forget(name),
            Self::Bucket(bucket) => bucket.forget(name),
        }
    }

    /// Removes files that backups share.
    pub fn remove_shared(&self, names: &[String]) -> Result<(), String> {
        match self {
            Self::Directory(directory) => directory.remove_shared(names),
            Self::Bucket(bucket) => bucket.remove_shared(names),
        }
    }

    /// Where a file of a backup is, for messages.
    pub fn shown_file(&self, backup: &str, entry: &FileEntry) -> String {
        match self {
            Self::Directory(directory) => directory.path(backup, entry).display().to_string(),
            Self::Bucket(bucket) => format!("{}/{}", bucket.url(), place_of(backup, entry)),
        }
    }

    /// What a file of a store that is only read can be a link to, if it can.
    pub fn link(&self, backup: &str, entry: &FileEntry) -> Option<PathBuf> {
        match self {
            Self::Directory(directory) if entry.tail.is_some() => Some(directory.path(backup, entry)),
            _ => None,
        }
    }

    /// The length and the checksum of a file; `watch` is told how many bytes were read each time.
    pub fn read(
        &self,
        backup: &str,
        entry: &FileEntry,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(u64, Checksum), String> {
        match self {
            Self::Directory(directory) => files::read(&directory.path(backup, entry), watch),
            Self::Bucket(bucket) => bucket.read(backup, entry, watch),
        }
    }

    /// Copies a file to a name of this machine that must be free, if it is what was backed up.
    pub fn fetch(
        &self,
        backup: &str,
        entry: &FileEntry,
        to: &Path,
        durability: Durability,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(), String> {
        let fetched = match self {
            Self::Directory(own) => files::copy(&own.path(backup, entry), to, durability, watch)?,
            Self::Bucket(bucket) => bucket.fetch(backup, entry, to, durability, watch)?,
        };
        if fetched == (entry.bytes, entry.sha256) {
            return Ok(());
        }
        let _ = files::remove(to);
        Err(self.damaged(backup, entry))
    }

    pub fn damaged(&self, backup: &str, entry: &FileEntry) -> String {
        format!("{} is damaged: it is not what was backed up", self.shown_file(backup, entry))
    }
}

/// The URL that stands where a path could.
fn url(place: &Path) -> Option<&str> {
    place.to_str().filter(|text| Bucket::is_url(text))
}
