//! Whether a program has files of a directory open. InfluxDB locks nothing, so the system is asked.

use std::fs;
use std::path::Path;

/// Refuses a directory of which another process has files open. Processes of other users are seen by root only.
pub(super) fn check(directory: &Path) -> Result<(), String> {
    let directory = directory.canonicalize().map_err(|error| format!("{}: {error}", directory.display()))?;
    let Ok(processes) = fs::read_dir("/proc") else { return Ok(()) };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if id == std::process::id() {
            continue;
        }
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        let open = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        // A shell that stands in the directory is no harm: files count.
        if let Some(file) = open.filter(|file| file.starts_with(&directory)).find(|file| file.is_file()) {
            let program = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Err(format!(
                "{} is in use: process {id} ({}) has {} open. Stop it first, or import a copy (a snapshot) of the directory",
                directory.display(),
                program.trim(),
                file.display()
            ));
        }
    }
    Ok(())
}
