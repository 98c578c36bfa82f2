//! Reads backups, and compares what is in their files with their checksums.

use super::destination::Destination;
use super::manifest::{FileEntry, Manifest};
use std::collections::BTreeMap;

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
    let mut expected: BTreeMap<String, (FileEntry, Vec<String>)> = BTreeMap::new();
    for name in names {
        match destination.manifest(name) {
            Ok(Manifest { files, .. }) => {
                for entry in files {
                    let shown = destination.shown_file(name, &entry);
                    expected.entry(shown).or_insert((entry, Vec::new())).1.push(name.clone());
                }
            }
            Err(words) => found.damage.entry(name.clone()).or_default().push(words),
        }
    }
    // Of forged backups it may be any number.
    let total = expected.values().fold(0, |sum: u64, (entry, _)| sum.saturating_add(entry.bytes));
    for (shown, (entry, backups)) in expected {
        let read = destination.read(&backups[0], &entry, &mut |read| {
            found.bytes += read;
            watch(found.bytes, total);
        });
        found.files += 1;
        let words = match read {
            Ok((bytes, _)) if bytes != entry.bytes => {
                format!("{shown} has {bytes} bytes, not {}", entry.bytes)
            }
            Ok((_, checksum)) if checksum != entry.sha256 => {
                format!("the checksum of {shown} does not match")
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
