//! Removes old backups, and the files that none of the others needs.

use super::destination::Destination;
use std::collections::HashSet;

/// What was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The names of backups.
    pub backups: Vec<String>,
    /// Files that backups had shared, and their bytes.
    pub files: u64,
    pub bytes: u64,
}

/// Keeps the newest backups. Nothing is removed unless it is known what all of those need.
pub fn keep_newest(destination: &Destination, keep: usize, is_dry: bool) -> Result<Removed, String> {
    let names = destination.names()?;
    let (old, kept) = names.split_at(names.len().saturating_sub(keep));
    let mut needed = HashSet::new();
    for name in kept {
        let manifest = destination.manifest(name).map_err(|words| {
            format!("nothing was removed, because it is not known which files backup {name} needs: {words}")
        })?;
        needed.extend(manifest.files.iter().filter_map(|entry| entry.shared_name()));
    }
    let mut removed = Removed { backups: old.to_vec(), ..Removed::default() };
    if !is_dry {
        old.iter().try_for_each(|name| destination.forget(name))?;
    }
    let mut unneeded = Vec::new();
    for file in destination.shared_files()?.into_iter().filter(|file| !needed.contains(&file.name)) {
        removed.bytes += file.bytes;
        removed.files += 1;
        unneeded.push(file.name);
    }
    if !is_dry {
        destination.remove_shared(&unneeded)?;
    }
    Ok(removed)
}
