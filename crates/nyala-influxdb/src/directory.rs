//! The files of shards: `data/DATABASE/POLICY/SHARD/*.tsm` and `wal/DATABASE/POLICY/SHARD/*.wal`, or archives of them.

use crate::meta::Meta;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file of the settings.
pub const META_FILE: &str = "meta/meta.db";

/// The files of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFiles {
    /// The database.
    pub database: String,
    /// The retention policy.
    pub policy: String,
    /// Its number.
    pub id: u64,
    /// TSM files, the oldest first.
    pub files: Vec<PathBuf>,
    /// Segments of the log, the oldest first.
    pub log: Vec<PathBuf>,
    /// Of a backup: where both are packed. Then there are no files yet.
    pub archive: Option<Archive>,
    /// The bytes of all of them.
    pub bytes: u64,
    /// Names, sizes and times of change of all of them, and of the tombstones: whether they are the same as before.
    pub fingerprint: u32,
}

/// An archive of the files of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The file.
    pub path: PathBuf,
    /// Its bytes without compression, as the manifest says.
    pub unpacked_bytes: u64,
}

/// What a directory has.
#[derive(Debug)]
pub struct Contents {
    /// The shards, in order of databases, policies and numbers.
    pub shards: Vec<ShardFiles>,
    /// Databases, policies and users; or why they cannot be read.
    pub settings: Result<Meta, String>,
    /// The file that has them.
    pub settings_file: PathBuf,
    /// Remarks about what is left out.
    pub notes: Vec<String>,
}

/// The shards, in order of databases, policies and numbers.
pub fn shards(directory: &Path) -> io::Result<Vec<ShardFiles>> {
    let (data, wal) = (directory.join("data"), directory.join("wal"));
    let mut shards = Vec::new();
    for database in names(&[&data, &wal])? {
        let within = [data.join(&database), wal.join(&database)];
        for policy in names(&[&within[0], &within[1]])? {
            let within = [within[0].join(&policy), within[1].join(&policy)];
            let mut ids: Vec<u64> =
                names(&[&within[0], &within[1]])?.iter().filter_map(|name| name.parse().ok()).collect();
            ids.sort_unstable();
            for id in ids {
                let place = |root: &Path| root.join(id.to_string());
                shards.push(shard(&database, &policy, id, &place(&within[0]), &place(&within[1]))?);
            }
        }
    }
    Ok(shards)
}

pub(crate) fn shard(
    database: &str,
    policy: &str,
    id: u64,
    data: &Path,
    wal: &Path,
) -> io::Result<ShardFiles> {
    let (files, log) = (with_extension(data, "tsm")?, with_extension(wal, "wal")?);
    let tombstones = with_extension(data, "tombstone")?;
    let (mut bytes, mut fingerprint) = (0, crc32fast::Hasher::new());
    for path in files.iter().chain(&log).chain(&tombstones) {
        bytes += note(path, &mut fingerprint)?;
    }
    Ok(ShardFiles {
        database: database.to_owned(),
        policy: policy.to_owned(),
        id,
        files,
        log,
        archive: None,
        bytes,
        fingerprint: fingerprint.finalize(),
    })
}

/// Adds the name, size and time of change of a file to a fingerprint; returns the size.
pub(crate) fn note(path: &Path, fingerprint: &mut crc32fast::Hasher) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    fingerprint.update(path.file_name().unwrap_or_default().as_encoded_bytes());
    fingerprint.update(&metadata.len().to_le_bytes());
    fingerprint.update(&changed.unwrap_or_default().as_nanos().to_le_bytes());
    Ok(metadata.len())
}

/// The directories within directories, sorted; those with an underscore before `series` or the like are InfluxDB's own.
fn names(within: &[&Path]) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for directory in within {
        if !directory.is_dir() {
            continue;
        }
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_dir(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
    }
    names.retain(|name| name != "_series");
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The files of a directory with an extension. Their names sort by generation and sequence, as InfluxDB sorts them.
pub(crate) fn with_extension(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|own| own == extension) && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}
