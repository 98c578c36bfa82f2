//! Checks what must be in a data directory before it is opened.
//!
//! Missing files are never taken for files that were never written. A directory without its manifest, its log or its
//! rowsets is damaged, not new, and a server that went on would make the loss final. A directory is new only when
//! nothing is in it that could belong to somebody.

use crate::files::catalog::CatalogState;
use crate::files::framed_log::Damage;
use crate::files::fs::{FsRef, LOCK_FILE};
use crate::files::manifest_log;
use crate::files::rowset::RowsetMeta;
use crate::files::wal;
use nyala_core::{Error, Result};
use std::path::Path;

/// Where rowset files are, in the data directory.
pub(crate) const ROWSET_DIR: &str = "rowsets";
/// Where the log is.
pub(crate) const WAL_DIR: &str = "wal";
/// Where orphans are: see `maintenance/orphans.rs`.
pub(crate) const ORPHAN_DIR: &str = "orphans";

/// Names that an interrupted start leaves, and `lost+found` of a file system of its own.
const EXPECTED: [&str; 6] = [LOCK_FILE, ROWSET_DIR, WAL_DIR, ORPHAN_DIR, manifest_log::UNNAMED, "lost+found"];

/// Refuses a directory that has no manifest and anything else in it.
pub(crate) fn check_manifest(fs: &FsRef, dir: &Path) -> Result<()> {
    if !fs.exists(dir)? || manifest_log::exists(fs, dir)? {
        return Ok(());
    }
    let (rowsets, segments) =
        (count(fs, &dir.join(ROWSET_DIR), is_rowset)?, count(fs, &dir.join(WAL_DIR), is_segment)?);
    if rowsets + segments > 0 {
        return Err(damaged(
            dir,
            &format!("there is no manifest, but rowsets ({rowsets}) and segments of a log ({segments})"),
        ));
    }
    let foreign = |name: &String| !name.starts_with('.') && !EXPECTED.contains(&name.as_str());
    match fs.list(dir)?.into_iter().map(|entry| entry.name).find(foreign) {
        Some(name) => Err(Error::conflict(format!(
            "{} is not a data directory of nyala: it has {name:?} in it. Choose an empty or a new directory",
            dir.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses a directory that has no part of a data directory. This is checked before the directory is locked, so that no
/// lock file is left in a foreign one.
pub(crate) fn check_is_ours(fs: &FsRef, dir: &Path) -> Result<()> {
    let is_ours = fs.exists(dir)?
        && (manifest_log::exists(fs, dir)?
            || fs.exists(&dir.join(ROWSET_DIR))?
            || fs.exists(&dir.join(WAL_DIR))?);
    match is_ours {
        true => Ok(()),
        false => Err(Error::missing(format!("{} is not a data directory of nyala", dir.display()))),
    }
}

/// Refuses a directory that lacks what its manifest (of this revision) says must be there.
pub(crate) fn check_parts(fs: &FsRef, dir: &Path, state: &CatalogState, revision: u64) -> Result<()> {
    let rowsets: usize = state.tables.values().map(|table| table.rowsets.len()).sum();
    let rowset_dir = dir.join(ROWSET_DIR);
    if rowsets > 0 && !fs.exists(&rowset_dir)? {
        return Err(damaged(&rowset_dir, &format!("the directory is missing, with {rowsets} rowsets")));
    }
    let log_dir = dir.join(WAL_DIR);
    let headers = wal::headers(fs, &log_dir)?;
    if headers.revision > revision {
        return Err(damaged(
            dir,
            &format!(
                "the log knows revision {} of the manifest, which has {revision}: its end is missing",
                headers.revision
            ),
        ));
    }
    if headers.last_segment < state.log_segment {
        return Err(damaged(
            &log_dir,
            &format!(
                "the log ends with segment {}, and the manifest knows segment {}: what was written last is missing",
                headers.last_segment, state.log_segment
            ),
        ));
    }
    Ok(())
}

/// The records missing at the end of the log that were synced when the manifest was written.
pub(crate) fn missing_end(dir: &Path, state: &CatalogState, last_sequence: u64) -> Option<Damage> {
    let known = last_sequence.max(state.flushed_sequence);
    let message = || {
        format!("the records from {} to {} are missing at the end of the log", known + 1, state.log_sequence)
    };
    (state.log_sequence > known).then(|| Damage { file: dir.join(WAL_DIR), offset: 0, message: message() })
}

/// The error for a directory that lacks something.
fn damaged(place: &Path, words: &str) -> Error {
    Error::corrupt(
        place,
        0,
        format!(
            "the data directory is damaged, and nothing in it is touched: {words}. Put back what is missing; or \
             `nyala check` says what there is, `nyala check --repair NEW_DIRECTORY` saves it to a new directory, and \
             `nyala check --accept` accepts that a log is lost"
        ),
    )
}

pub(crate) fn is_rowset(name: &str) -> bool {
    RowsetMeta::id_of(name).is_some()
}

pub(crate) fn is_segment(name: &str) -> bool {
    name.ends_with(".wal")
}

fn count(fs: &FsRef, dir: &Path, wanted: fn(&str) -> bool) -> Result<usize> {
    if !fs.exists(dir)? {
        return Ok(0);
    }
    Ok(fs.list(dir)?.iter().filter(|entry| wanted(&entry.name)).count())
}
