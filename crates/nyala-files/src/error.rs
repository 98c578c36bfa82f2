//! What went wrong with a file.

use std::fmt;
use std::io;

/// Result with a [`FileError`].
pub type FileResult<T> = Result<T, FileError>;

/// Why a file was not written or read. The message names the file and the place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// What the caller can do about it.
    pub kind: FileErrorKind,
    /// What is wrong.
    pub message: String,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileErrorKind {
    /// The path leads out of the directory, or to something that is no file.
    Forbidden,
    /// There is no such file.
    Missing,
    /// There is something already.
    Exists,
    /// The file is damaged, or no file of its form.
    Corrupt,
    /// It declares more than is accepted.
    TooLarge,
    /// It has something that is not supported.
    Unsupported,
    /// The disk is full.
    DiskFull,
    /// The system says no.
    Io,
}

impl FileError {
    /// An error of a kind.
    pub fn new(kind: FileErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error of the system, about a file.
    pub fn io(path: &str) -> impl Fn(io::Error) -> Self {
        move |error| Self::of_io(path, &error)
    }

    /// The same of an error that somebody else keeps. One of ours that went through [`io::Write`] is itself again.
    pub(crate) fn of_io(path: &str, error: &io::Error) -> Self {
        if let Some(own) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return own.clone();
        }
        let kind = match error.kind() {
            io::ErrorKind::NotFound => FileErrorKind::Missing,
            io::ErrorKind::AlreadyExists => FileErrorKind::Exists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileErrorKind::DiskFull,
            _ => FileErrorKind::Io,
        };
        Self::new(kind, format!("\"{path}\": {error}"))
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for FileError {}
