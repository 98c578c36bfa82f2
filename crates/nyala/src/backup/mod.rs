//! Backups: what a directory of them looks like, and the copies of a store that they are made of.
//!
//! A backup begins as a copy of the store in its own data directory (`copies.rs`), which costs a moment because its files
//! are links. `nyala backup` moves what is new of it to where backups are (`destination.rs`: `directory.rs` or `bucket.rs`), where
//! each backup has a list of its files with their checksums (`manifest.rs`). So the server writes nowhere but in its data
//! directory, and its load does not depend on how slow the other disk or the network is. Directories are locked by the
//! system, buckets by objects (`bucket_lock.rs`).

mod bucket;
mod bucket_lock;
pub mod copies;
pub mod destination;
mod directory;
pub mod files;
pub mod layout;
pub mod manifest;
pub mod rate_limit;
pub mod remove;
pub mod verify;

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;

/// An error with what was tried and where.
pub fn failed(doing: &str, path: &Path, error: impl Display) -> String {
    format!("cannot {doing} {}: {error}", path.display())
}

/// Puts the names in a directory on disk.
pub fn sync_dir(dir: &Path) -> Result<(), String> {
    fs::File::open(dir)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| failed("sync directory", dir, error))
}

/// Makes a directory that only its owner can enter, with the parents that are missing. It may be there already.
pub fn make_dir(dir: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(dir);
    made.map_err(|error| failed("create directory", dir, error))?;
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_dir(Path::new(".")),
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

/// Removes a directory with all that is in it, if it is there. Symbolic links are removed, not followed.
pub fn remove_dir(dir: &Path) -> Result<(), String> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", dir, error)),
        _ => Ok(()),
    }
}

/// The names in a directory, sorted.
pub fn names_in(dir: &Path) -> Result<Vec<String>, String> {
    let listed = fs::read_dir(dir).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()
    });
    let mut names = listed.map_err(|error| failed("list", dir, error))?;
    names.sort();
    Ok(names)
}
