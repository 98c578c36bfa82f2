//! Where rows go that a statement sorts or groups and has no memory for: files that are gone when the statement ends.

use datafusion::error::Result;
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

/// Files stand in folders whose names begin so.
const FOLDER_PREFIX: &str = "datafusion-";
/// All statements together leave this part (1/2) of what is free on the disk to the data.
const FREE_SHARE: u64 = 2;

/// For each so many bytes of the memory of a statement, one more file is merged at once. Two batches of each file are in memory,
/// and several merges go on side by side: whichever takes too much leaves the others too little to begin.
const MERGED_FILE_BYTES: usize = 6 << 20;
/// The fewest and the most files that are merged at once.
const MERGED_FILES_MIN: usize = 2;
const MERGED_FILES_MAX: usize = 16;

/// Says how many bytes are free on the disk, if that is known.
pub type FreeBytes = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Disk space for rows of statements.
pub struct SpillSpace {
    disk: Arc<DiskManager>,
    /// The most bytes of all statements together; 0: there is no space.
    limit_bytes: u64,
    free_bytes: FreeBytes,
}

impl SpillSpace {
    /// No space: a statement that needs more than its memory fails.
    pub fn none() -> Self {
        let builder = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let disk = Arc::new(builder.build().expect("nothing is opened"));
        Self { disk, limit_bytes: 0, free_bytes: Box::new(|| None) }
    }

    /// Space in a directory, which is made if there is none. `statement_bytes` is the memory of a statement.
    ///
    /// # Errors
    /// If nothing can be made there.
    pub fn within(
        directory: &Path,
        limit_bytes: u64,
        statement_bytes: usize,
        free_bytes: FreeBytes,
    ) -> io::Result<Self> {
        if limit_bytes == 0 {
            return Ok(Self::none());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mode = DiskManagerMode::Directories(vec![directory.to_owned()]);
        let merged = (statement_bytes / MERGED_FILE_BYTES).clamp(MERGED_FILES_MIN, MERGED_FILES_MAX);
        let builder = DiskManagerBuilder::default().with_mode(mode).with_max_spill_merge_fan_in(merged);
        let disk = builder.build().map_err(io::Error::other)?;
        Ok(Self { disk: Arc::new(disk), limit_bytes, free_bytes })
    }

    /// How many bytes statements have there now.
    pub fn used_bytes(&self) -> u64 {
        self.disk.used_disk_space()
    }

    /// The disk for a statement that begins now.
    pub(crate) fn disk(&self) -> Result<Arc<DiskManager>> {
        if self.limit_bytes > 0
            && let Some(free_bytes) = (self.free_bytes)()
        {
            let most = self.used_bytes().saturating_add(free_bytes / FREE_SHARE);
            self.disk.set_max_temp_directory_size(most.min(self.limit_bytes))?;
        }
        Ok(self.disk.clone())
    }
}

/// Removes what a server that was killed has left in a directory. No other server may use it.
///
/// # Errors
/// If something cannot be removed.
pub fn remove_left_over(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX) && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
