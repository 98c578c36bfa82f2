//! The list of a backup: what is in it, and the checksum of each file.
//!
//! It is a file of two lines: a JSON document, and the checksum of that line. It is written last, so a backup that has one
//! is complete. What it says is not trusted: names of files are checked before anything is opened.

use super::copies::{is_name, name_of};
use super::files::{self, Checksum};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::Read;

/// The name of the file.
pub const FILE: &str = "backup.json";
/// The version of the form, which changes when programs that know this one would misread it.
const FORMAT: u32 = 1;
/// A rowset takes 200 bytes here: a store of 100 TB has fewer.
const BYTES_MAX: u64 = 256 << 20;

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    /// The program that made it.
    pub version: String,
    /// The moment, as a name; a later one if the newest backup there had a later one already.
    pub name: String,
    /// The moment: what was acknowledged before is in the backup.
    pub time_ns: i64,
    /// The last batch in it.
    pub sequence: u64,
    /// The backup that it shares files with.
    pub parent: Option<String>,
    /// Bytes of all files, …
    pub bytes: u64,
    /// … and of those that its parent did not have.
    pub new_bytes: u64,
    pub files: Vec<FileEntry>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its place in a data directory.
    pub path: String,
    pub bytes: u64,
    pub sha256: Checksum,
    /// What tells its contents from those of other files with this name without reading all of it; only files that
    /// backups share have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
}

impl FileEntry {
    /// Its name among the files that backups share; nothing if it is the backup's own.
    pub fn shared_name(&self) -> Option<String> {
        let (stem, extension) = self.path.strip_prefix("rowsets/")?.split_once('.')?;
        Some(files::shared_name(stem, self.tail?, &self.sha256, extension))
    }

    fn check(&self) -> Result<(), String> {
        let (folder, name) = self.path.split_once('/').unwrap_or(("", &self.path));
        let digits = |text: Option<&str>, count: usize, hexadecimal: bool| {
            text.is_some_and(|text| {
                let is_digit = |byte: u8| match hexadecimal {
                    true => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
                    false => byte.is_ascii_digit(),
                };
                text.len() == count && text.bytes().all(is_digit)
            })
        };
        let is_known = match folder {
            "" => digits(name.strip_prefix("manifest-"), 20, false),
            "wal" => digits(name.strip_suffix(".wal"), 20, false),
            "rowsets" => {
                let stem = name.strip_suffix(".rowset").or_else(|| name.strip_suffix(".versions"));
                digits(stem, 16, true)
            }
            _ => false,
        };
        match is_known && (folder == "rowsets") == self.tail.is_some() {
            true => Ok(()),
            false => Err(format!("it names a file that no backup has: {:?}", self.path)),
        }
    }
}

impl Manifest {
    /// The list of a backup that is made now.
    pub fn new(name: &str, time_ns: i64, sequence: u64, parent: Option<String>) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            time_ns,
            sequence,
            parent,
            bytes: 0,
            new_bytes: 0,
            files: Vec::new(),
        }
    }

    /// Whether its name says its moment.
    pub fn is_named_by_its_moment(&self) -> bool {
        self.name == name_of(self.time_ns)
    }

    /// Adds a file, which is new or not.
    pub fn add(&mut self, entry: FileEntry, is_new: bool) {
        self.bytes += entry.bytes;
        self.new_bytes += if is_new { entry.bytes } else { 0 };
        self.files.push(entry);
    }

    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let checksum = Checksum::of(&bytes);
        bytes.extend_from_slice(format!("\nsha256 {checksum}\n").as_bytes());
        Ok(bytes)
    }

    /// Reads arbitrary bytes as the list of a backup with this name. An error says what is wrong with it.
    pub fn decode(bytes: &[u8], name: &str) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
        let (line, rest) = text.split_once('\n').ok_or("its end is missing")?;
        let sum = rest.strip_prefix("sha256 ").and_then(|rest| rest.strip_suffix('\n'));
        let sum = sum.ok_or("its end is missing")?;
        if sum != Checksum::of(line.as_bytes()).to_string() {
            return Err("its checksum does not match".to_owned());
        }
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let Head { format } = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if format != FORMAT {
            return Err(format!(
                "it has format {format}, and this program knows {FORMAT}: use the program that made it, or a newer one"
            ));
        }
        let manifest: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if manifest.name != name || !is_name(name) {
            return Err(format!("it is that of backup {:?}", manifest.name));
        }
        manifest.files.iter().try_for_each(FileEntry::check)?;
        let mut paths: Vec<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
        paths.sort_unstable();
        if let Some(twice) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("it names {:?} twice", twice[0]));
        }
        let bytes = manifest.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.bytes));
        if bytes != Some(manifest.bytes) {
            return Err(format!("its files do not have {} bytes together", manifest.bytes));
        }
        match paths.iter().filter(|path| path.starts_with("manifest-")).count() {
            1 => Ok(manifest),
            count => Err(format!("it names {count} manifests of the store, not one")),
        }
    }

    /// Reads the list of a backup, `shown` in messages.
    pub fn read(from: impl Read, name: &str, shown: &dyn Display) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let read = from.take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot read {shown}: {error}"))?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(format!("{shown} has more than {BYTES_MAX} bytes"));
        }
        Self::decode(&bytes, name).map_err(|words| format!("{shown} cannot be used: {words}"))
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/src/backup_manifest.rs"]
mod backup_manifest;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    const NAME: &str = "20251126T105019.000000042Z";

    fn manifest(paths: &[&str]) -> Manifest {
        let mut manifest = Manifest::new(NAME, 42, 7, None);
        for path in paths {
            let tail = path.contains("rowset").then_some(5);
            manifest.add(
                FileEntry { path: (*path).to_owned(), bytes: 3, sha256: Checksum::of(b"abc"), tail },
                true,
            );
        }
        manifest
    }

    const SOUND: [&str; 3] =
        ["manifest-00000000000000000004", "wal/00000000000000000001.wal", "rowsets/000000000000000a.rowset"];

    #[test]
    fn what_is_written_is_read() -> Result<(), String> {
        let written = manifest(&SOUND);
        let bytes = written.encode()?;
        assert_eq!(Manifest::decode(&bytes, NAME)?, written);
        assert!(Manifest::decode(&bytes, "20251126T105019.000000043Z").is_err());
        for end in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..end], NAME).is_err(), "cut at {end}");
            let mut changed = bytes.clone();
            changed[end] ^= 1;
            assert!(Manifest::decode(&changed, NAME).is_err(), "changed at {end}");
        }
        Ok(())
    }

    /// The body of the fuzz target, upon lists that are changed in a few places, `NYALA_FUZZ_ROUNDS` times.
    #[test]
    fn lists_that_are_changed_at_random_name_no_file_elsewhere() -> Result<(), String> {
        let rounds = std::env::var("NYALA_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok());
        let line = manifest(&SOUND).encode()?;
        let line = &line[..line.iter().position(|byte| *byte == b'\n').expect("a line")];
        assert!(backup_manifest::NAME == NAME && !line.is_empty());
        backup_manifest::run(line);
        let pieces: [&[u8]; 8] =
            [b"..", b"/", b"\\u0000", b"rowsets/", b"wal/", b"manifest-", b"\"", b"00000000000000000001"];
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..rounds.unwrap_or(20_000) {
            let mut changed = line.to_vec();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..changed.len());
                let end = (at + random.random_range(0..24)).min(changed.len());
                let piece = pieces[random.random_range(0..pieces.len())];
                match random.random_range(0..4) {
                    0 => changed[at] = random.random(),
                    1 => drop(changed.splice(at..at, piece.iter().copied())),
                    2 => drop(changed.splice(at..end, piece.iter().copied())),
                    _ => {
                        let copied = changed[at..end].to_vec();
                        let to = random.random_range(0..changed.len());
                        drop(changed.splice(to..to, copied));
                    }
                }
            }
            backup_manifest::run(&changed);
        }
        Ok(())
    }

    #[test]
    fn sums_that_are_wrong_or_overflow_are_refused() -> Result<(), String> {
        let sound = manifest(&SOUND);
        let mut overflowing = sound.clone();
        (overflowing.files[1].bytes, overflowing.bytes) = (u64::MAX, 5);
        for wrong in [Manifest { bytes: u64::MAX, ..sound }, overflowing] {
            let error = Manifest::decode(&wrong.encode()?, NAME).expect_err("is refused");
            assert!(error.contains("its files do not have"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() -> Result<(), String> {
        for path in [
            "../manifest-00000000000000000004",
            "/etc/passwd",
            "rowsets/../../000000000000000a.rowset",
            "rowsets/000000000000000A.rowset",
            "rowsets/000000000000000a.staged",
            "wal/1.wal",
            "wal/00000000000000000001.spare",
            "LOCK",
            "",
        ] {
            let bytes = manifest(&[SOUND[0], path]).encode()?;
            let error = Manifest::decode(&bytes, NAME).expect_err("is refused");
            assert!(error.contains("that no backup has"), "{path}: {error}");
        }
        for paths in [&SOUND[1..], &[SOUND[0], SOUND[2], SOUND[2]]] {
            assert!(Manifest::decode(&manifest(paths).encode()?, NAME).is_err(), "{paths:?}");
        }
        let newer = Manifest { format: 2, ..manifest(&SOUND) }.encode()?;
        assert!(Manifest::decode(&newer, NAME).expect_err("is refused").contains("format 2"));
        Ok(())
    }
}
