//! Packets of collectd's network plugin, by UDP.

use super::Input;
use super::batch::Batcher;
use super::datagrams;
use crate::server::audit::LogLimit;
use crate::server::received::PointLines;
use nyala_core::env::ClockRef;
use nyala_core::{Error, Result};
use nyala_inputs::collectd::{Reader, Types, passwords};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The points of a batch, as in InfluxDB.
pub(super) const BATCH_POINTS: u64 = 5_000;

/// What is needed to read packets.
pub(super) struct Collectd {
    pub(super) reader: Reader,
    pub(super) passwords: Option<PasswordFile>,
    pub(super) input: Input,
    pub(super) batcher: Arc<Batcher>,
    pub(super) clock: ClockRef,
}

impl Collectd {
    /// Receives packets until the server stops.
    pub(super) async fn datagrams(self, socket: std::net::UdpSocket, stopped: watch::Receiver<bool>) {
        let Self { reader, mut passwords, input, batcher, clock } = self;
        let counts = &input.counts;
        datagrams::receive(socket, counts, stopped, |packet| {
            let (mut lines, now_ns) = (PointLines::default(), clock.now_ns());
            let mut password = |user: &str| passwords.as_mut()?.password(user);
            let read = reader.read(packet, &mut password, &mut |point| {
                lines.add(point, now_ns, counts);
            });
            // What was read before is stored. InfluxDB drops the whole packet.
            if let Err(refused) = read {
                counts.reject(refused.into(), 1);
            }
            batcher.add(lines.text.as_bytes(), lines.points, None);
        })
        .await;
    }
}

/// The types of a file, or of all files in a folder.
pub(super) fn types(path: &Path) -> Result<Types> {
    let mut types = Types::default();
    let failed =
        |error| Error::from(error).context(format!("reading {} (collectd-types-db)", path.display()));
    add_types(path, &mut types).map_err(failed)?;
    if types.count() == 0 {
        return Err(Error::invalid(format!("collectd-types-db: {} has no types", path.display())));
    }
    Ok(types)
}

fn add_types(path: &Path, types: &mut Types) -> std::io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        if let Some(line) = types.add(&String::from_utf8_lossy(&fs::read(path)?)) {
            tracing::warn!(file = %path.display(), line, "a line of collectd-types-db is wrong, and left out");
        }
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // A link to a folder may lead back.
        let is_link_to_folder = entry.file_type()?.is_symlink() && entry.path().is_dir();
        if !is_link_to_folder {
            add_types(&entry.path(), types)?;
        }
    }
    Ok(())
}

/// The file with users and passwords, which is read again when it has changed, as by collectd.
pub(super) struct PasswordFile {
    path: PathBuf,
    modified: SystemTime,
    passwords: HashMap<String, String>,
    warnings: LogLimit,
}

impl PasswordFile {
    /// Reads the file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed =
            |error| Error::from(error).context(format!("reading {} (collectd-auth-file)", path.display()));
        let (modified, passwords) = read(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), modified, passwords, warnings: LogLimit::default() })
    }

    fn password(&mut self, user: &str) -> Option<String> {
        let changed = fs::metadata(&self.path).and_then(|metadata| metadata.modified());
        if changed.as_ref().ok() != Some(&self.modified) {
            match changed.and_then(|_| read(&self.path)) {
                Ok(read) => (self.modified, self.passwords) = read,
                // The old ones stay valid: an editor may be replacing the file.
                Err(error) => {
                    if let Some(left_out) = self.warnings.next() {
                        tracing::warn!(%error, left_out, "cannot read collectd-auth-file again");
                    }
                }
            }
        }
        self.passwords.get(user).cloned()
    }
}

fn read(path: &Path) -> std::io::Result<(SystemTime, HashMap<String, String>)> {
    let modified = fs::metadata(path)?.modified()?;
    Ok((modified, passwords(&fs::read_to_string(path)?)))
}
