//! How much space is left on the disk of the data.

use std::fmt;
use std::io::Result;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk is nearly full when less than this fraction of it (1/20) is free,
const NEARLY_FULL_SHARE: u64 = 20;

/// if that is less than this: a twentieth of a large disk lasts for weeks.
const NEARLY_FULL_BYTES: u64 = 8 << 30;

/// Size and free space as they were measured last.
#[derive(Debug, Default)]
pub struct Disk {
    size_bytes: AtomicU64,
    free_bytes: AtomicU64,
}

impl Disk {
    /// Measures the disk of a directory.
    pub fn measure(&self, directory: &Path) -> Result<()> {
        let (size_bytes, free_bytes) = measured(directory)?;
        self.set(size_bytes, free_bytes);
        Ok(())
    }

    fn set(&self, size_bytes: u64, free_bytes: u64) {
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
    }

    /// Its size; 0 before it was measured.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// How much this process may still write.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Whether less than a twentieth of the disk and less than 8 GiB are free, or less than the log may hold before it is
    /// flushed. Such a disk may be full before an operator notices.
    pub fn is_nearly_full(&self, log_limit_bytes: u64) -> bool {
        self.size_bytes() > 0 && self.free_bytes() < kept_free_bytes(self.size_bytes(), log_limit_bytes)
    }
}

/// With less free space a disk of this size is nearly full.
pub fn kept_free_bytes(size_bytes: u64, log_limit_bytes: u64) -> u64 {
    log_limit_bytes.max(NEARLY_FULL_BYTES.min(size_bytes / NEARLY_FULL_SHARE))
}

/// How much this process may still write to the disk of a directory.
#[cfg(feature = "sql")]
pub fn free_bytes(directory: &Path) -> Result<u64> {
    measured(directory).map(|(_, free_bytes)| free_bytes)
}

/// Size and free space.
fn measured(directory: &Path) -> Result<(u64, u64)> {
    let statistics = rustix::fs::statvfs(directory)?;
    let bytes = |blocks: u64| blocks.saturating_mul(statistics.f_frsize);
    Ok((bytes(statistics.f_blocks), bytes(statistics.f_bavail)))
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} MiB are free", self.free_bytes() >> 20, self.size_bytes() >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_full_is_less_than_a_twentieth_and_8_gib_or_than_a_log() {
        let disk = Disk::default();
        assert!(!disk.is_nearly_full(1), "not measured yet");
        disk.set(1000, 50);
        assert!(!disk.is_nearly_full(50) && disk.is_nearly_full(51));
        disk.set(1000, 49);
        assert!(disk.is_nearly_full(0));
        disk.set(1 << 40, NEARLY_FULL_BYTES);
        assert!(!disk.is_nearly_full(0) && disk.is_nearly_full(NEARLY_FULL_BYTES + 1));
        disk.set(1 << 40, NEARLY_FULL_BYTES - 1);
        assert!(disk.is_nearly_full(0));
        disk.measure(Path::new("/")).expect("a root");
        assert!(disk.size_bytes() > disk.free_bytes());
    }
}
