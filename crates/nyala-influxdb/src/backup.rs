//! Portable backups of InfluxDB 1.x (`influxd backup -portable`): a directory with three kinds of files, whose names begin
//! with the time of the backup.
//!
//! ```text
//! TIME.manifest    JSON: the name of the settings, and of each shard its database, policy, number and archive
//! TIME.meta        Protocol Buffers: field 1 is what `meta/meta.db` has
//! TIME.s3.tar.gz   DATABASE/POLICY/3/*.tsm, and their tombstones. There is no log: it was written to TSM files before
//! ```
//!
//! A directory may have several backups. As for `influxd restore`, the newest settings count, and of each shard the newest
//! archive; a shard that only an older backup has is there, too. Nothing says that a backup is of one database: its settings
//! are those of all.

use crate::damage::{Damage, DamageList};
use crate::directory::{self, Archive, Contents, ShardFiles};
use crate::meta::{self, Meta};
use flate2::bufread::MultiGzDecoder;
use prost::Message;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MANIFEST: &str = "manifest";
/// A manifest has some 200 bytes for each shard.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
const COPY_BYTES: usize = 256 << 10;
/// What describes a file in an archive: some blocks of 512 bytes, and a path.
const HEADER_BYTES_MAX: u64 = 1 << 20;

#[derive(Deserialize)]
struct Manifest {
    meta: Option<MetaEntry>,
    /// Go writes none as `null`.
    files: Option<Vec<Entry>>,
    /// What backups of InfluxDB 2.x have.
    kv: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct MetaEntry {
    #[serde(rename = "fileName")]
    file_name: String,
}

#[derive(Deserialize)]
struct Entry {
    database: String,
    policy: String,
    #[serde(rename = "shardID")]
    shard_id: u64,
    #[serde(rename = "fileName")]
    file_name: String,
    /// Of the archive before it was compressed.
    size: u64,
    #[serde(rename = "lastModified")]
    last_modified: i64,
}

/// What wraps the settings.
#[derive(Clone, PartialEq, Message)]
struct PortableData {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
}

/// Whether a directory has portable backups.
pub(crate) fn is_portable(directory: &Path) -> bool {
    manifests(directory).is_ok_and(|found| !found.is_empty())
}

/// Reads what a directory of backups has. An archive that is missing is damage, and lost.
pub(crate) fn contents(directory: &Path, damage: &mut DamageList) -> Result<Contents, String> {
    let failed = |error: io::Error| format!("reading {}: {error}", directory.display());
    let mut settings_name = None;
    let mut newest: BTreeMap<u64, Entry> = BTreeMap::new();
    let mut missing: BTreeMap<u64, Entry> = BTreeMap::new();
    // The newest first.
    for path in manifests(directory).map_err(failed)?.iter().rev() {
        let manifest = read_manifest(path)?;
        if manifest.kv.is_some() {
            return Err(format!(
                "{} is a backup of InfluxDB 2.x, which cannot be read: restore it, and import the server's directory",
                path.display()
            ));
        }
        let name = manifest.meta.map(|meta| meta.file_name).filter(|name| !name.is_empty());
        settings_name = settings_name.or(name);
        for entry in manifest.files.unwrap_or_default() {
            check_name(&entry.file_name).map_err(|reason| format!("{}: {reason}", path.display()))?;
            let kept = if directory.join(&entry.file_name).is_file() { &mut newest } else { &mut missing };
            match kept.entry(entry.shard_id) {
                Place::Vacant(place) => drop(place.insert(entry)),
                Place::Occupied(mut place) if entry.last_modified > place.get().last_modified => {
                    place.insert(entry);
                }
                Place::Occupied(_) => {}
            }
        }
    }
    for (id, entry) in missing.into_iter().filter(|(id, _)| !newest.contains_key(id)) {
        let message = format!("is missing: shard {id} of {}.{} is lost", entry.database, entry.policy);
        damage.add(Damage::new(&directory.join(&entry.file_name), 0, message));
    }
    let mut shards = newest
        .into_values()
        .map(|entry| packed(directory, entry))
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;
    shards.sort_by(|left, right| {
        (&left.database, &left.policy, left.id).cmp(&(&right.database, &right.policy, right.id))
    });
    let name =
        settings_name.ok_or_else(|| format!("no manifest in {} names settings", directory.display()))?;
    check_name(&name).map_err(|reason| format!("{}: {reason}", directory.display()))?;
    let settings_file = directory.join(name);
    let settings = read_settings(&settings_file);
    Ok(Contents { shards, settings, settings_file, notes: Vec::new() })
}

/// From the oldest to the newest: names begin with a time.
fn manifests(directory: &Path) -> io::Result<Vec<PathBuf>> {
    directory::with_extension(directory, MANIFEST)
}

fn read_manifest(path: &Path) -> Result<Manifest, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{} is no manifest: {error}", path.display());
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}

/// Names lead nowhere else.
fn check_name(name: &str) -> Result<(), String> {
    match Path::new(name).file_name().is_some_and(|own| own == name) {
        true => Ok(()),
        false => Err(format!("{name:?} is not the name of a file beside the manifest")),
    }
}

fn read_settings(path: &Path) -> Result<Meta, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let wrapped = PortableData::decode(&*bytes)
        .map_err(|error| format!("it is no message with the settings of a backup: {error}"))?;
    meta::decode(&wrapped.data)
}

fn packed(directory: &Path, entry: Entry) -> io::Result<ShardFiles> {
    let archive = directory.join(&entry.file_name);
    let mut fingerprint = crc32fast::Hasher::new();
    let bytes = directory::note(&archive, &mut fingerprint)?;
    Ok(ShardFiles {
        database: entry.database,
        policy: entry.policy,
        id: entry.shard_id,
        files: Vec::new(),
        log: Vec::new(),
        archive: Some(Archive { path: archive, unpacked_bytes: entry.size }),
        bytes,
        fingerprint: fingerprint.finalize(),
    })
}

/// The files of an archive, in a directory that is removed with this.
pub(crate) struct Unpacked {
    pub(crate) files: ShardFiles,
    archive: PathBuf,
    directory: TempDir,
}

/// Unpacks the files of a shard below a directory. If the archive ends early, the files before that are there.
pub(crate) fn unpack(
    shard: &ShardFiles,
    archive: &Archive,
    into: &Path,
    damage: &mut DamageList,
) -> Result<Unpacked, Damage> {
    let path = &archive.path;
    let lost = |what: &str, error: io::Error| {
        Damage::new(path, 0, format!("{what}: {error}; shard {} is lost", shard.id))
    };
    let unpacking = format!("unpacking it to {}", into.display());
    let directory = tempfile::Builder::new().prefix("influxdb-shard-").tempdir_in(into);
    let directory = directory.map_err(|error| lost(&unpacking, error))?;
    let input = File::open(path).map_err(|error| lost("it cannot be opened", error))?;
    match unpack_files(input, archive.unpacked_bytes, directory.path()) {
        Ok(()) => {}
        Err(Failure::Writing(error)) => return Err(lost(&unpacking, error)),
        Err(Failure::Reading(error)) => {
            let message = format!("its end cannot be read: {error}; files of shard {} are lost", shard.id);
            damage.add(Damage::new(path, 0, message));
        }
    }
    let at = directory.path();
    let files = directory::shard(&shard.database, &shard.policy, shard.id, at, &at.join("wal"));
    let files = files.map_err(|error| lost(&unpacking, error))?;
    Ok(Unpacked { files, archive: path.clone(), directory })
}

fn unpack_files(input: File, unpacked_bytes: u64, directory: &Path) -> Result<(), Failure> {
    let bounds = Bounds { read_bytes: Cell::new(0), end: Cell::new(unpacked_bytes), unpacked_bytes };
    let decoder = MultiGzDecoder::new(BufReader::new(input));
    let mut archived = tar::Archive::new(Bounded { inner: decoder, bounds: &bounds });
    let mut entries = archived.entries().map_err(Failure::Reading)?;
    loop {
        bounds.end.set(unpacked_bytes.min(bounds.read_bytes.get().saturating_add(HEADER_BYTES_MAX)));
        let Some(entry) = entries.next() else { break };
        bounds.end.set(unpacked_bytes);
        copy(&mut entry.map_err(Failure::Reading)?, directory)?;
    }
    bounds.end.set(unpacked_bytes);
    // A format that ends with zeros does not notice that it is cut off between two files, and checksums come last.
    io::copy(&mut archived.into_inner(), &mut io::sink()).map_err(Failure::Reading)?;
    match bounds.read_bytes.get() {
        read_bytes if read_bytes == unpacked_bytes => Ok(()),
        read_bytes => {
            let message = format!("it has {read_bytes} bytes, and the manifest says {unpacked_bytes}");
            Err(Failure::Reading(io::Error::other(message)))
        }
    }
}

/// How far an archive may be read: a small one may be unpacked to any number of bytes, and a name of one of its files, which is
/// read into memory, may be as long.
struct Bounds {
    read_bytes: Cell<u64>,
    /// Where reading ends now.
    end: Cell<u64>,
    /// What the manifest says.
    unpacked_bytes: u64,
}

struct Bounded<'a, R> {
    inner: R,
    bounds: &'a Bounds,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Bounds { read_bytes, end, unpacked_bytes } = self.bounds;
        let room_bytes = usize::try_from(end.get() - read_bytes.get()).unwrap_or(usize::MAX);
        if room_bytes == 0 && !buffer.is_empty() {
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ if end.get() == *unpacked_bytes => Err(io::Error::other(format!(
                    "it has more than the {unpacked_bytes} bytes of the manifest"
                ))),
                _ => Err(io::Error::other(format!(
                    "the name of a file takes more than {HEADER_BYTES_MAX} bytes"
                ))),
            };
        }
        let length = buffer.len().min(room_bytes);
        let count = self.inner.read(&mut buffer[..length])?;
        read_bytes.set(read_bytes.get() + count as u64);
        Ok(count)
    }
}

impl Unpacked {
    /// Damage by the name of the archive, not by that of a directory that is gone soon.
    pub(crate) fn named(&self, mut damage: DamageList) -> DamageList {
        for found in &mut damage.listed {
            if let Ok(inner) = found.file.strip_prefix(self.directory.path()) {
                found.file = self.archive.join(inner);
            }
        }
        damage
    }
}

/// Where copying failed.
enum Failure {
    Reading(io::Error),
    Writing(io::Error),
}

/// Copies a file with points or deletions. Only the last part of its name counts, so that it cannot lead elsewhere.
fn copy<R: Read>(entry: &mut tar::Entry<'_, R>, directory: &Path) -> Result<(), Failure> {
    let path = entry.path().map_err(Failure::Reading)?.into_owned();
    let is_wanted = path.extension().is_some_and(|extension| extension == "tsm" || extension == "tombstone");
    let kind = entry.header().entry_type();
    let (true, true, Some(name)) = (kind.is_file(), is_wanted, path.file_name()) else {
        if kind.is_gnu_sparse() {
            // It may have any number of zeros that are not in the archive.
            return Err(Failure::Reading(io::Error::other("it has a sparse file")));
        }
        // So that only what describes the next file is read before it.
        return io::copy(entry, &mut io::sink()).map(drop).map_err(Failure::Reading);
    };
    let place = directory.join(name);
    let mut file = File::create(&place).map_err(Failure::Writing)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut left_bytes = entry.size();
    let copied = loop {
        match entry.read(&mut buffer) {
            Ok(0) if left_bytes > 0 => break Err(Failure::Reading(io::ErrorKind::UnexpectedEof.into())),
            Ok(0) => break Ok(()),
            Ok(count) => {
                left_bytes = left_bytes.saturating_sub(count as u64);
                if let Err(error) = file.write_all(&buffer[..count]) {
                    break Err(Failure::Writing(error));
                }
            }
            Err(error) => break Err(Failure::Reading(error)),
        }
    };
    if copied.is_err() {
        // A file that is cut off has no index, so nothing of it can be read.
        drop(fs::remove_file(&place));
    }
    copied
}
