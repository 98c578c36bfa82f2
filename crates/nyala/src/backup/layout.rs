//! What every place of backups has: a directory and a bucket have the same files with the same names, so one can be copied to
//! the other by any tool.
//!
//! | name | what it is |
//! |---|---|
//! | `nyala-backups` | says that backups are here |
//! | `files/` | files of rowsets, which backups share; their names say what is in them |
//! | `20251126T105019.000000042Z/` | a backup: `backup.json`, and what it shares with no other one |

use super::files::{self, Checksum};
use super::manifest::FileEntry;
use std::collections::HashMap;
use std::path::Path;

/// Says that backups are here.
pub const MARKER: &str = "nyala-backups";
pub const MARKER_TEXT: &str = "This directory has backups of nyala, format 1.\n";
/// The folder of files that backups share.
pub const FILES: &str = "files";

/// A file that backups share.
pub struct SharedFile {
    pub name: String,
    pub bytes: u64,
}

/// Finds files that backups share by what is known of them before they are read.
pub struct SharedFiles(HashMap<(String, u32), (Checksum, u64)>);

impl SharedFiles {
    pub fn of(files: Vec<SharedFile>) -> Self {
        let known = files.into_iter().filter_map(|file| {
            let (stem, tail, checksum, extension) = split(&file.name)?;
            Some(((format!("{stem}.{extension}"), tail), (checksum, file.bytes)))
        });
        Self(known.collect())
    }

    /// The entry of a file of a store that is there already.
    pub fn find(&self, from: &Path) -> Result<Option<FileEntry>, String> {
        let name = file_name(from);
        let (bytes, tail) = files::tail(from)?;
        let known = self.0.get(&(name.to_owned(), tail)).filter(|(_, known_bytes)| *known_bytes == bytes);
        Ok(known.map(|(sha256, _)| FileEntry {
            path: format!("rowsets/{name}"),
            bytes,
            sha256: *sha256,
            tail: Some(tail),
        }))
    }
}

/// Where a file of a backup is, in any place of backups.
pub fn place_of(backup: &str, entry: &FileEntry) -> String {
    match entry.shared_name() {
        Some(name) => format!("{FILES}/{name}"),
        None => format!("{backup}/{}", entry.path),
    }
}

pub fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The parts of the name of a shared file.
fn split(name: &str) -> Option<(&str, u32, Checksum, &str)> {
    let (stem, rest) = name.split_once('-')?;
    let (tail, rest) = rest.split_once('-')?;
    let (checksum, extension) = rest.split_once('.')?;
    let (tail, checksum) = (u32::from_str_radix(tail, 16).ok()?, Checksum::parse(checksum)?);
    (files::shared_name(stem, tail, &checksum, extension) == name)
        .then_some((stem, tail, checksum, extension))
}
