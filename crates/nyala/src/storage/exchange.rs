//! The directory and the buckets in which statements may write and read files (`--files-dir`, `--files-s3`).

use super::spill;
use crate::config::Config;
use nyala_core::{Error, Result};
use nyala_files::{Bucket, Directory, Folders};
use std::io;
use std::path::{Path, PathBuf};

/// Opens them. Nothing is asked of a server of objects yet.
///
/// # Errors
/// Invalid, if one cannot be opened, or the directory is where the store has its own files.
pub fn folders(config: &Config) -> Result<Folders> {
    let scratch = spill::directory(config);
    let bucket = |url: &String| {
        Bucket::open(url, &scratch).map_err(|error| Error::invalid(format!("files-s3: {error}")))
    };
    let buckets = config.files_s3.iter().flatten().map(bucket).collect::<Result<_>>()?;
    Ok(Folders { directory: directory(config)?, buckets })
}

fn directory(config: &Config) -> Result<Option<Directory>> {
    let Some(path) = &config.files_dir else { return Ok(None) };
    let failed = |error: &dyn std::fmt::Display| Error::invalid(format!("files-dir: {error}"));
    let directory = Directory::open(path).map_err(|error| failed(&error))?;
    let (files, data) = (canonical(path), canonical(&config.data_dir));
    let (files, data) = (files.map_err(|error| failed(&error))?, data.map_err(|error| failed(&error))?);
    if files.starts_with(&data) || data.starts_with(&files) {
        return Err(Error::invalid(format!(
            "files-dir {} and data-dir {} are in one another: COPY could read and replace files of the store",
            path.display(),
            config.data_dir.display()
        )));
    }
    Ok(Some(directory))
}

/// A path without links. Its last folders may be missing: the data directory is created later.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for there in path.ancestors() {
        match std::fs::canonicalize(there) {
            Ok(own) => return Ok(own.join(path.strip_prefix(there).unwrap_or(Path::new("")))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(path)
}
