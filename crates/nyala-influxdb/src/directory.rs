//! The directories of InfluxDB 1.x: `meta/meta.db`, `data/DATABASE/POLICY/SHARD/*.tsm` and `wal/DATABASE/POLICY/SHARD/*.wal`.

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
    /// The bytes of all of them.
    pub bytes: u64,
    /// Names, sizes and times of change of all of them, and of the tombstones: whether they are the same as before.
    pub fingerprint: u32,
}

/// Whether a directory looks like InfluxDB 1.x's. If not: why.
pub fn check(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(format!("{shown} is not a directory"));
    }
    if directory.join(META_FILE).is_file() && directory.join("data").is_dir() {
        return Ok(());
    }
    let has = |name: &str| directory.join(name).exists();
    if has("influxd.bolt") || has("engine") {
        return Err(format!(
            "{shown} is a directory of InfluxDB 2.x, which cannot be read: export it with `influxd inspect export-lp` \
             and write the lines to nyala"
        ));
    }
    if has("_series") || has("autogen") {
        return Err(format!(
            "{shown} looks like a part of InfluxDB's directory: name the one above, with meta and data in it"
        ));
    }
    let missing = if has("data") { META_FILE } else { "data" };
    Err(format!(
        "{shown} is not a directory of InfluxDB 1.x: there is no {missing} in it (it is the directory with data, meta and \
         wal in it, /var/lib/influxdb by default)"
    ))
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

fn shard(database: &str, policy: &str, id: u64, data: &Path, wal: &Path) -> io::Result<ShardFiles> {
    let (files, log) = (with_extension(data, "tsm")?, with_extension(wal, "wal")?);
    let tombstones = with_extension(data, "tombstone")?;
    let (mut bytes, mut fingerprint) = (0, crc32fast::Hasher::new());
    for path in files.iter().chain(&log).chain(&tombstones) {
        let metadata = fs::metadata(path)?;
        bytes += metadata.len();
        let changed =
            metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        fingerprint.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        fingerprint.update(&metadata.len().to_le_bytes());
        fingerprint.update(&changed.unwrap_or_default().as_nanos().to_le_bytes());
    }
    Ok(ShardFiles {
        database: database.to_owned(),
        policy: policy.to_owned(),
        id,
        files,
        log,
        bytes,
        fingerprint: fingerprint.finalize(),
    })
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
fn with_extension(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
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
