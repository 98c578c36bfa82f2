//! The directory in which statements may write and read files (`--files-dir`).

use crate::config::Config;
use nyala_core::{Error, Result};
use nyala_files::Directory;

/// Opens it, if there is one.
///
/// # Errors
/// Invalid, if it cannot be opened, or is where the store has its own files.
pub fn directory(config: &Config) -> Result<Option<Directory>> {
    let Some(path) = &config.files_dir else { return Ok(None) };
    let directory = Directory::open(path).map_err(|error| Error::invalid(format!("files-dir: {error}")))?;
    // The data directory may be missing so far; then nothing can be in it.
    let full = (std::fs::canonicalize(path), std::fs::canonicalize(&config.data_dir));
    match full {
        (Ok(files), Ok(data)) if files.starts_with(&data) || data.starts_with(&files) => {
            let message = format!(
                "files-dir {} and data-dir {} are in one another: COPY could read and replace files of the store",
                path.display(),
                config.data_dir.display()
            );
            Err(Error::invalid(message))
        }
        _ => Ok(Some(directory)),
    }
}
