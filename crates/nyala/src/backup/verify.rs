//! Reads backups, and compares what is in their files with their checksums.

use super::destination::Destination;
use super::files;
use super::manifest::Manifest;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What was found.
#[derive(Debug, Default)]
pub struct Verified {
    /// What is wrong with a backup, by its name.
    pub damage: BTreeMap<String, Vec<String>>,
    /// Files that were read, and their bytes.
    pub files: u64,
    pub bytes: u64,
}

/// Reads backups. `watch` is told how many bytes were read, of how many. Files that they share are read once.
pub fn verify(destination: &Destination, names: &[String], watch: &mut dyn FnMut(u64, u64)) -> Verified {
    let mut found = Verified::default();
    // Each file with what it must be, and the backups that have it.
    let mut expected: BTreeMap<PathBuf, (u64, String, Vec<String>)> = BTreeMap::new();
    for name in names {
        match destination.manifest(name) {
            Ok(Manifest { files, .. }) => {
                for entry in files {
                    let path = destination.path(name, &entry);
                    let known =
                        expected.entry(path).or_insert((entry.bytes, entry.sha256.to_string(), Vec::new()));
                    known.2.push(name.clone());
                }
            }
            Err(words) => found.damage.entry(name.clone()).or_default().push(words),
        }
    }
    let total: u64 = expected.values().map(|(bytes, ..)| bytes).sum();
    for (path, (bytes, checksum, backups)) in expected {
        let read = files::read(&path, &mut |read| {
            found.bytes += read;
            watch(found.bytes, total);
        });
        found.files += 1;
        let words = match read {
            Ok((length, _)) if length != bytes => {
                format!("{} has {length} bytes, not {bytes}", path.display())
            }
            Ok((_, read)) if read.to_string() != checksum => {
                format!("the checksum of {} does not match", path.display())
            }
            Ok(_) => continue,
            Err(words) => words,
        };
        for backup in backups {
            found.damage.entry(backup).or_default().push(words.clone());
        }
    }
    found
}
