//! The server that uses the data directory now, as the system sees its process.

use nyala_engine::fs::LOCK_FILE;
use std::path::Path;

/// A running server.
pub(super) struct ServerProcess {
    pub(super) id: u32,
    /// `/proc/ID/status`.
    status: String,
}

impl ServerProcess {
    /// The process that holds the directory, if there is one and it may be seen.
    pub(super) fn of(data_dir: &Path) -> Option<Self> {
        // The file stays when its process has ended, and the number may be another's by now.
        let id = std::fs::read_to_string(data_dir.join(LOCK_FILE)).ok()?.trim().parse().ok()?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let own = std::fs::read_to_string("/proc/self/comm").ok()?;
        let process = Self { id, status };
        (process.field("Name:") == Some(own.trim())).then_some(process)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }

    /// The user whose rights it has.
    pub(super) fn user(&self) -> Option<u32> {
        self.field("Uid:")?.split_whitespace().nth(1)?.parse().ok()
    }

    /// How much of it is swapped out.
    pub(super) fn swapped_bytes(&self) -> u64 {
        let kibibytes = self.field("VmSwap:").and_then(|value| value.strip_suffix(" kB"));
        kibibytes.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0) << 10
    }
}

/// The folder in `/proc` of the server, or of this process, which would start one with the same limits.
pub(super) fn folder(process: Option<&ServerProcess>) -> String {
    process.map_or_else(|| "/proc/self".to_owned(), |process| format!("/proc/{}", process.id))
}
