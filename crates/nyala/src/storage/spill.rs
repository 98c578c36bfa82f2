//! Disk space in the data directory for rows that statements of SQL have no memory for.

use super::disk;
use crate::config::{Config, StoreKind};
use crate::server::metric::Metric;
use nyala_sql::spill::{SpillSpace, remove_left_over};
use std::path::PathBuf;
use std::sync::Arc;

/// Files of the store are not looked for in folders whose names begin with a dot.
const DIRECTORY: &str = ".spill";

/// The space; none, with a warning, if it cannot be made.
pub fn space(config: &Config, statement_bytes: usize) -> SpillSpace {
    let directory = directory(config);
    // A store that is elsewhere does not lock the data directory: another server may use it.
    let is_locked = config.store == StoreKind::Embedded;
    let cleaned = if is_locked { remove_left_over(&directory) } else { Ok(()) };
    if let Err(error) = cleaned {
        tracing::warn!(%error, directory = %directory.display(), "files of former statements cannot be removed");
    }
    let free_bytes = {
        let directory = directory.clone();
        Box::new(move || disk::free_bytes(&directory).ok())
    };
    SpillSpace::within(&directory, config.spill_limit.0 as u64, statement_bytes, free_bytes).unwrap_or_else(|error| {
        tracing::warn!(%error, directory = %directory.display(), "statements that need more than their memory will fail");
        SpillSpace::none()
    })
}

/// Its directory.
pub fn directory(config: &Config) -> PathBuf {
    config.data_dir.join(DIRECTORY)
}

/// How much of it is used; nothing before there is one.
pub fn metric(space: Option<&Arc<SpillSpace>>) -> Option<Metric> {
    let used = "Rows on the disk that statements of SQL sort or group and have no memory for.";
    space.map(|space| Metric::gauge("nyala_sql_spilled_bytes", used, space.used_bytes()))
}
