//! Which shards were imported, and what came of them: a file in the data directory, a JSON object a line. A line is
//! written when everything that it tells is durable. A last line that is cut off is ignored.

use super::source::{Selection, full_path};
use nyala_influxdb::directory::ShardFiles;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const NAME: &str = "influxdb-import.journal";

/// What came of a shard.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// Stored values by measurement.
    pub(super) values: BTreeMap<String, u64>,
    /// Stored points.
    pub(super) points: u64,
    /// Points that are older than their retention policy allows.
    pub(super) expired: u64,
    /// Points that were not stored for another reason, …
    pub(super) dropped: u64,
    /// … and the first such reason.
    pub(super) dropped_reason: Option<String>,
    /// Whether points were left out because a field had two types.
    pub(super) conflict: bool,
    /// Rows that cannot be stored anywhere.
    pub(super) bad_rows: u64,
    /// Places that were damaged.
    pub(super) damage: u64,
}

/// Which import a line belongs to: the same shard with other times is another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Key {
    source: PathBuf,
    from: Option<i64>,
    to: Option<i64>,
    database: String,
    policy: String,
    shard: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    fingerprint: u32,
    done: Done,
}

/// The shards that are done.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    source: PathBuf,
    selection: Selection,
    lines: HashMap<Key, (u32, Done)>,
}

impl Journal {
    pub(super) fn open(data_dir: &Path, source: &Path, selection: &Selection) -> Result<Self, String> {
        let path = data_dir.join(NAME);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut lines = HashMap::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            if let Ok(Line { key, fingerprint, done }) = serde_json::from_slice(line) {
                lines.insert(key, (fingerprint, done));
            }
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        if text.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { path: path.clone(), file, source: full_path(source), selection: selection.clone(), lines })
    }

    fn key(&self, shard: &ShardFiles) -> Key {
        Key {
            source: self.source.clone(),
            from: self.selection.from,
            to: self.selection.to,
            database: shard.database.clone(),
            policy: shard.policy.clone(),
            shard: shard.id,
        }
    }

    /// What came of a shard, if it was imported as it is now.
    pub(super) fn done(&self, shard: &ShardFiles) -> Option<&Done> {
        let (fingerprint, done) = self.lines.get(&self.key(shard))?;
        (*fingerprint == shard.fingerprint).then_some(done)
    }

    /// Notes that a shard is done.
    pub(super) fn add(&mut self, shard: &ShardFiles, done: Done) -> Result<(), String> {
        let line = Line { key: self.key(shard), fingerprint: shard.fingerprint, done };
        let mut text = serde_json::to_vec(&line).map_err(|error| error.to_string())?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_all());
        written.map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.lines.insert(line.key, (line.fingerprint, line.done));
        Ok(())
    }
}
