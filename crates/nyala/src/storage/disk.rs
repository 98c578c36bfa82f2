//! How much room the disk of the data has left.

use std::fmt;
use std::io::Result;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Below this part of the disk it is nearly full.
const NEARLY_FULL_SHARE: u64 = 20;

/// What was found when it was looked at last.
#[derive(Debug, Default)]
pub struct Disk {
    size_bytes: AtomicU64,
    free_bytes: AtomicU64,
}

impl Disk {
    /// Asks the system about the disk of a directory.
    pub fn look(&self, directory: &Path) -> Result<()> {
        let found = rustix::fs::statvfs(directory)?;
        self.set(
            found.f_blocks.saturating_mul(found.f_frsize),
            found.f_bavail.saturating_mul(found.f_frsize),
        );
        Ok(())
    }

    fn set(&self, size_bytes: u64, free_bytes: u64) {
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
    }

    /// Its size; 0 as long as nobody has looked.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// What this process may still write.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Whether less is free than a twentieth of it, or than what the log may take until it is flushed: such a disk fills
    /// up before anybody looks.
    pub fn is_nearly_full(&self, log_limit_bytes: u64) -> bool {
        let size_bytes = self.size_bytes();
        size_bytes > 0 && self.free_bytes() < log_limit_bytes.max(size_bytes / NEARLY_FULL_SHARE)
    }
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
    fn nearly_full_is_less_than_a_twentieth_or_than_a_log() {
        let disk = Disk::default();
        assert!(!disk.is_nearly_full(1), "nobody has looked");
        disk.set(1000, 50);
        assert!(!disk.is_nearly_full(50) && disk.is_nearly_full(51));
        disk.set(1000, 49);
        assert!(disk.is_nearly_full(0));
        disk.look(Path::new("/")).expect("a root");
        assert!(disk.size_bytes() > disk.free_bytes());
    }
}
