//! The error type of everything below the servers.
//!
//! An error's kind says what the caller can do next. Status codes and protocol texts exist in the servers alone.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Result with nyala's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong and will stay wrong.
    Invalid,
    /// The thing named does not exist.
    Missing,
    /// The request contradicts what is stored (type conflict, key exists).
    Conflict,
    /// The store cannot do this; it declares so in its capabilities.
    Unsupported,
    /// Not now (memory is at its hard limit, the disk is full, recovery is running): retry later, nothing was stored.
    Retry,
    /// A limit on size, time or count was reached; a smaller request may pass.
    Limit,
    /// This caller has asked for too much, or too often: the same request may pass after [`Error::retry_after_seconds`].
    Throttled,
    /// The caller went away or asked to stop.
    Cancelled,
    /// The outcome of a write is unknown (its sync failed); sending it again is safe.
    Unknown,
    /// The bytes on disk are not those that were written.
    Corrupt,
    /// The operating system reported an error.
    Io,
}

/// An error: its kind, a message for people, and its location on disk if it has one.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    retry_after_seconds: Option<u32>,
}

/// A location on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The byte offset in the file.
    pub offset: u64,
}

impl Error {
    /// A new error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None, retry_after_seconds: None }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The thing named does not exist.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Missing, message)
    }

    /// The request contradicts what is stored.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// A limit was reached.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// Not now; nothing was stored.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Retry, message)
    }

    /// The store cannot do this.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// The bytes on disk are not those that were written.
    pub fn corrupt(file: impl Into<PathBuf>, offset: u64, message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Corrupt,
            message: message.into(),
            place: Some(Place { file: file.into(), offset }),
            retry_after_seconds: None,
        }
    }

    /// This caller has asked for too much: the message says of what, and gets the time that it has to wait.
    pub fn throttled(message: impl fmt::Display, wait: Duration) -> Self {
        let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let seconds = u32::try_from(whole.max(1)).unwrap_or(u32::MAX);
        let message = format!("{message}: try again in {seconds} s");
        Self { retry_after_seconds: Some(seconds), ..Self::new(ErrorKind::Throttled, message) }
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message without the location.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long the caller has to wait, if that is known.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.retry_after_seconds
    }

    /// The location on disk, if any.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// The same error with a prefix to its message.
    #[must_use]
    pub fn context(mut self, words: impl fmt::Display) -> Self {
        self.message = format!("{words}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => {
                write!(f, "{} (in {} at byte {})", self.message, place.file.display(), place.offset)
            }
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    /// A full disk may become free again, so it is [`ErrorKind::Retry`]. All others are [`ErrorKind::Io`].
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Retry,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}
