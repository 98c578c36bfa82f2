//! Backups in a bucket of S3. Beside what every place has there are `locks/` (`bucket_lock.rs`).
//!
//! A folder without `backup.json`, which is written last and removed first, is no backup: it is being written, or was when its
//! program was killed. Files that backups share and that were stored before that are found by the next command, and not sent again.

use super::bucket_lock::{BucketLock, Purpose};
use super::copies::is_name;
use super::files::{self, Checksum, Durability};
use super::layout::{FILES, MARKER, MARKER_TEXT, SharedFile, place_of};
use super::manifest::{self, FileEntry, Manifest};
use nyala_files::{Bucket, FileErrorKind, Folder, WholeFile};
use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::path::Path;

/// So many objects are removed between two looks at whether that is still allowed.
const REMOVED_AT_ONCE: usize = 1000;

/// A place in a bucket that this process uses.
pub struct BackupBucket {
    bucket: Bucket,
    lock: Option<BucketLock>,
}

impl BackupBucket {
    /// Opens a place to add a backup. Several may be added at once: they store the same files by the same names, or others.
    pub fn open_to_add(url: &str) -> Result<Self, String> {
        let opened = Self::open(url)?;
        if !opened.is_marked()? {
            if let Some((name, _)) = opened.bucket.any_object().map_err(words)? {
                return Err(format!(
                    "{} is no place of backups: it has {name:?} in it. Choose an empty or a new one",
                    opened.url()
                ));
            }
            opened.bucket.put(MARKER, MARKER_TEXT.into()).map_err(words)?;
        }
        opened.locked(Purpose::Add)
    }

    pub fn open_to_remove(url: &str) -> Result<Self, String> {
        let opened = Self::open(url)?.that_is_marked()?.locked(Purpose::Remove)?;
        let (finished, all) = opened.folders()?;
        for name in all.difference(&finished) {
            opened.remove_folder(name)?;
        }
        Ok(opened)
    }

    pub fn open_to_read(url: &str) -> Result<Self, String> {
        Self::open(url)?.that_is_marked()?.locked(Purpose::Read)
    }

    fn open(url: &str) -> Result<Self, String> {
        let bucket = Bucket::open(url.trim_end_matches('/'), &std::env::temp_dir()).map_err(words)?;
        Ok(Self { bucket, lock: None })
    }

    fn locked(mut self, purpose: Purpose) -> Result<Self, String> {
        self.lock = BucketLock::take(&self.bucket, purpose)?;
        Ok(self)
    }

    fn that_is_marked(self) -> Result<Self, String> {
        match self.is_marked()? {
            true => Ok(self),
            false => Err(format!("{} is no place of backups: it has no {MARKER}", self.url())),
        }
    }

    fn is_marked(&self) -> Result<bool, String> {
        let mut text = String::new();
        match self.bucket.reader(MARKER) {
            Ok(object) => {
                let read = object.take(1024).read_to_string(&mut text);
                read.map_err(|error| format!("cannot read {}/{MARKER}: {error}", self.url()))?;
            }
            Err(error) if error.kind == FileErrorKind::Missing => return Ok(false),
            Err(error) => return Err(error.message),
        }
        match text == MARKER_TEXT {
            true => Ok(true),
            false => Err(format!(
                "{}/{MARKER} says that these backups are of another version of nyala",
                self.url()
            )),
        }
    }

    pub fn url(&self) -> &str {
        self.bucket.url()
    }

    pub fn names(&self) -> Result<Vec<String>, String> {
        Ok(self.folders()?.0.into_iter().collect())
    }

    /// The names of backups, and those of all folders that could be some.
    fn folders(&self) -> Result<(BTreeSet<String>, BTreeSet<String>), String> {
        let (mut finished, mut all) = (BTreeSet::new(), BTreeSet::new());
        for (path, _) in self.bucket.objects().map_err(words)? {
            let Some((name, rest)) = path.split_once('/').filter(|(name, _)| is_name(name)) else { continue };
            if rest == manifest::FILE {
                finished.insert(name.to_owned());
            }
            all.insert(name.to_owned());
        }
        Ok((finished, all))
    }

    pub fn manifest(&self, name: &str) -> Result<Manifest, String> {
        let path = format!("{name}/{}", manifest::FILE);
        let object = self.bucket.reader(&path).map_err(words)?;
        Manifest::read(object, name, &format_args!("{}/{path}", self.url()))
    }

    pub fn shared_files(&self) -> Result<Vec<SharedFile>, String> {
        let objects = self.bucket.folder(FILES).and_then(|folder| folder.objects()).map_err(words)?;
        Ok(objects.into_iter().map(|(name, object)| SharedFile { name, bytes: object.bytes }).collect())
    }

    /// Stores a file that a backup shares with no other one.
    pub fn add(
        &self,
        backup: &str,
        from: &Path,
        path: &str,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(u64, Checksum), String> {
        let (object, stored) = self.send(from, &format!("{backup}/{path}"), watch)?;
        object.publish().map_err(words)?;
        Ok(stored)
    }

    /// Stores a file that backups share. Its name says what is in it, so it gets the name only if that is true.
    pub fn share(&self, from: &Path, entry: &FileEntry, watch: &mut dyn FnMut(u64)) -> Result<(), String> {
        let (object, sent) = self.send(from, &place_of("", entry), watch)?;
        if sent != (entry.bytes, entry.sha256) {
            return Err(format!("{} has changed while it was read: its disk may be damaged", from.display()));
        }
        object.publish().map(drop).map_err(words)
    }

    /// Sends a file to an object, which is not there yet.
    fn send(
        &self,
        from: &Path,
        path: &str,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(WholeFile, (u64, Checksum)), String> {
        let mut object = WholeFile::create(&Folder::Bucket(self.bucket.clone()), path).map_err(words)?;
        let mut write = |bytes: &[u8]| object.write_all(bytes).map_err(|error| error.to_string());
        let sent = files::pump(&mut files::open(from)?, &from.display(), &mut write, watch)?;
        Ok((object, sent))
    }

    /// Makes what was stored a backup, unless something of it was removed meanwhile, by whomever.
    pub fn finish(&self, manifest: &Manifest) -> Result<(), String> {
        self.check_lock()?;
        let stored: HashMap<String, u64> = self
            .bucket
            .objects()
            .map_err(words)?
            .into_iter()
            .map(|(path, object)| (path, object.bytes))
            .collect();
        for entry in &manifest.files {
            let path = place_of(&manifest.name, entry);
            if stored.get(&path) != Some(&entry.bytes) {
                return Err(format!("{}/{path} was removed or changed meanwhile: try again", self.url()));
            }
        }
        let path = format!("{}/{}", manifest.name, manifest::FILE);
        if stored.contains_key(&path) {
            return Err(format!("there is a backup {}/{} already", self.url(), manifest.name));
        }
        let mut object = WholeFile::create(&Folder::Bucket(self.bucket.clone()), &path).map_err(words)?;
        object.write_all(&manifest.encode()?).map_err(|error| error.to_string())?;
        object.publish().map(drop).map_err(words)
    }

    pub fn forget(&self, name: &str) -> Result<(), String> {
        self.remove(&[format!("{name}/{}", manifest::FILE)])?;
        self.remove_folder(name)
    }

    fn remove_folder(&self, name: &str) -> Result<(), String> {
        let objects = self.bucket.folder(name).and_then(|folder| folder.objects()).map_err(words)?;
        let paths: Vec<String> = objects.into_iter().map(|(path, _)| format!("{name}/{path}")).collect();
        self.remove(&paths)
    }

    pub fn remove_shared(&self, names: &[String]) -> Result<(), String> {
        let paths: Vec<String> = names.iter().map(|name| format!("{FILES}/{name}")).collect();
        self.remove(&paths)
    }

    fn remove(&self, paths: &[String]) -> Result<(), String> {
        paths.chunks(REMOVED_AT_ONCE).try_for_each(|paths| {
            self.check_lock()?;
            self.bucket.remove(paths).map_err(words)
        })
    }

    fn check_lock(&self) -> Result<(), String> {
        self.lock.as_ref().map_or(Ok(()), BucketLock::check)
    }

    pub fn read(
        &self,
        backup: &str,
        entry: &FileEntry,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(u64, Checksum), String> {
        let path = place_of(backup, entry);
        let mut object = self.bucket.reader(&path).map_err(words)?;
        files::pump(&mut object, &format_args!("{}/{path}", self.url()), &mut |_| Ok(()), watch)
    }

    pub fn fetch(
        &self,
        backup: &str,
        entry: &FileEntry,
        to: &Path,
        durability: Durability,
        watch: &mut dyn FnMut(u64),
    ) -> Result<(u64, Checksum), String> {
        let path = place_of(backup, entry);
        let mut object = self.bucket.reader(&path).map_err(words)?;
        files::store(&mut object, &format_args!("{}/{path}", self.url()), to, durability, watch)
    }
}

/// The words of an error, which name the object.
fn words(error: nyala_files::FileError) -> String {
    error.message
}
