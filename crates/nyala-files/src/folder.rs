//! Where files are: in a directory of this machine, or in a bucket.

use crate::bucket::Bucket;
use crate::directory::{Directory, FileKind};
use crate::error::{FileError, FileErrorKind, FileResult};
use std::fs::File;

/// A folder of files. Copies are of the same folder.
#[derive(Debug, Clone)]
pub enum Folder {
    /// One of this machine.
    Directory(Directory),
    /// One in a bucket.
    Bucket(Bucket),
}

impl Folder {
    /// Opens a file to read it.
    ///
    /// # Errors
    /// Missing, or it cannot be read; a path that leads out of the folder is forbidden.
    pub fn read(&self, path: &str) -> FileResult<File> {
        match self {
            Self::Directory(directory) => directory.read(path),
            Self::Bucket(bucket) => bucket.read(path),
        }
    }

    /// A folder in it, which is created if it is missing. Buckets have folders only by name.
    pub fn create_folder(&self, path: &str) -> FileResult<Self> {
        match self {
            Self::Directory(directory) => directory.create_folder(path).map(Self::Directory),
            Self::Bucket(bucket) => bucket.folder(path).map(Self::Bucket),
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> FileResult<bool> {
        match self {
            Self::Directory(directory) => Ok(directory.names()?.is_empty()),
            Self::Bucket(bucket) => bucket.is_empty(),
        }
    }

    /// Whether there is a file or a folder.
    pub fn kind(&self, path: &str) -> FileResult<Option<FileKind>> {
        match self {
            Self::Directory(directory) => directory.kind(path),
            Self::Bucket(bucket) => bucket.kind(path),
        }
    }
}

/// The folders that statements may name.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    /// The one that paths begin in.
    pub directory: Option<Directory>,
    /// Those that URLs begin with.
    pub buckets: Vec<Bucket>,
}

impl Folders {
    /// The folder of a name, and the path in it.
    ///
    /// # Errors
    /// Forbidden, if it is in none of them; the message names the setting that would allow it.
    pub fn locate(&self, name: &str) -> FileResult<(Folder, String)> {
        let forbidden = |words: String| Err(FileError::new(FileErrorKind::Forbidden, words));
        if Bucket::is_url(name) {
            let found = self.buckets.iter().find_map(|bucket| Some((bucket, bucket.path_of(name)?)));
            return match found {
                Some((bucket, path)) => Ok((Folder::Bucket(bucket.clone()), path.to_owned())),
                None => forbidden(format!(
                    "\"{name}\" is not allowed here: start the server with --files-s3 s3://BUCKET/PREFIX"
                )),
            };
        }
        match &self.directory {
            Some(directory) => Ok((Folder::Directory(directory.clone()), name.to_owned())),
            None => forbidden(format!(
                "\"{name}\" is not allowed here: start the server with --files-dir DIRECTORY, and name files relative to it"
            )),
        }
    }
}
