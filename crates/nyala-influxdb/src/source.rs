//! What there is to read: the directory of a server of InfluxDB 1.x or 2.x, or one with backups.

use crate::backup;
use crate::damage::DamageList;
use crate::directory::{self, Contents, META_FILE};
use crate::meta;
use crate::version2;
use std::fs;
use std::path::Path;

/// What a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// That of a server of InfluxDB 1.x.
    Version1,
    /// That of a server of InfluxDB 2.x.
    Version2,
    /// A portable backup.
    Backup,
}

/// Reads what a directory has. Of InfluxDB 2.x that is what one organization has, which must be named if there are several.
pub fn contents(
    path: &Path,
    organization: Option<&str>,
    damage: &mut DamageList,
) -> Result<Contents, String> {
    match (layout(path)?, organization) {
        (Layout::Version2, organization) => version2::contents(path, organization, damage),
        (_, Some(_)) => Err(format!("{} is not of InfluxDB 2.x: it has no organizations", path.display())),
        (Layout::Backup, None) => backup::contents(path, damage),
        (Layout::Version1, None) => {
            let settings_file = path.join(META_FILE);
            let read = fs::read(&settings_file).map_err(|error| format!("cannot be read: {error}"));
            let settings = read.and_then(|bytes| meta::decode(&bytes));
            let shards =
                directory::shards(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
            Ok(Contents { shards, settings, settings_file, notes: Vec::new() })
        }
    }
}

/// What a directory looks like. If that cannot be read: why.
pub fn layout(path: &Path) -> Result<Layout, String> {
    let shown = path.display();
    if !path.is_dir() {
        let is_file = path.is_file();
        let hint = if is_file { ": exported line protocol is read by `nyala import lines`" } else { "" };
        return Err(format!("{shown} is not a directory{hint}"));
    }
    if path.join(META_FILE).is_file() && path.join("data").is_dir() {
        return Ok(Layout::Version1);
    }
    if backup::is_portable(path) {
        return Ok(Layout::Backup);
    }
    if path.join("meta.00").is_file() {
        return Err(format!(
            "{shown} is a backup of the old form, which cannot be read: make one by `influxd backup -portable`"
        ));
    }
    let has = |name: &str| path.join(name).exists();
    if has(version2::BOLT_FILE) && path.join(version2::ENGINE).join("data").is_dir() {
        return Ok(Layout::Version2);
    }
    if has(version2::BOLT_FILE) || has(version2::ENGINE) {
        return Err(format!(
            "{shown} is only a part of a directory of InfluxDB 2.x, which has influxd.bolt and engine/data in it"
        ));
    }
    if has("_series") || has("autogen") {
        return Err(format!(
            "{shown} looks like a part of InfluxDB's directory: name the one above, with meta and data in it"
        ));
    }
    let missing = if has("data") { META_FILE } else { "data" };
    Err(format!(
        "{shown} is not a directory of InfluxDB: there is no {missing} in it (it is the directory with data, meta and \
         wal in it, /var/lib/influxdb by default)"
    ))
}
