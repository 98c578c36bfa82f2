//! A small file system in memory, for tests of a disk that is full.

use crate::peers;
use std::path::{Path, PathBuf};
use std::process::Command;

/// It is mounted as long as this lives.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// One of so many mebibytes. `None` when this process may not mount: then the test is skipped.
    pub(crate) fn mount(path: &Path, size_mib: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(path).expect("a directory");
        let size = format!("size={size_mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(path.to_owned()));
        }
        peers::skip("right to mount a tmpfs", "run as root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
