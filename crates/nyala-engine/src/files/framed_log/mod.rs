//! Framed records in append-only files: what the write-ahead log and the manifest have in common.
//!
//! A file is a [`FileHeader`] and a chain of frames. A frame says in its header how far the file was synced when
//! it was written. That is what tells damage from a torn tail: bytes that cannot be read are the unfinished end of
//! the file *unless* a later frame says that they had been synced. After a sync, when nothing more waits, an end
//! mark (a frame without payload) is written to say so; the next frame overwrites it.
//!
//! A frame carries the number of its file, so what a reused file held before is never taken for a record, and
//! sequences rise along the chain. The bytes are drawn in `docs/format/wal.md`.

mod frame;
mod scan;

pub(crate) use frame::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, MAX_FILE_BYTES, VERSION,
    frame_bytes, padding,
};
pub(crate) use scan::{Authority, Scanned, Scanner};

use std::fmt;
use std::path::PathBuf;

use nyala_core::Error;

/// Bytes that are not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (in {} at byte {})", self.message, self.file.display(), self.offset)
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::corrupt(damage.file, damage.offset, damage.message)
    }
}
