//! Restores everything: the files of a backup become a data directory.
//!
//! The manifest of the store comes last. A directory without it is refused by a server, so a restore that was interrupted is
//! never taken for a store.

use crate::backup::destination::Destination;
use crate::backup::files::{self, Durability, FileSystem};
use crate::backup::manifest::{FileEntry, Manifest};
use crate::backup::{failed, make_dir, names_in, sync_dir};
use crate::cli::backup::shown;
use nyala_bench::report::progress::Progress;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// What a file system needs beside the files themselves.
const SPARE_BYTES: u64 = 64 << 20;

pub(super) fn restore(destination: &Destination, manifest: &Manifest, data_dir: &Path) -> Result<(), String> {
    let begun = Instant::now();
    check_empty(data_dir)?;
    make_dir(data_dir)?;
    let (free, needed) = (files::free_bytes(data_dir)?, manifest.bytes.saturating_add(SPARE_BYTES));
    if free < needed {
        return Err(format!(
            "there is no space: {} has {} left, and the restore needs {}",
            data_dir.display(),
            shown(free),
            shown(needed)
        ));
    }
    let mut progress = Progress::start("restoring");
    let mut done = 0;
    put(destination, manifest, data_dir, &mut |bytes| {
        done += bytes;
        progress.update(done as f64 / manifest.bytes.max(1) as f64, || {
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            format!("{} of {}, {}/s", shown(done), shown(manifest.bytes), shown(rate as u64))
        });
    })
    .map_err(|words| {
        format!("{words}. What was restored so far is no store: remove {}", data_dir.display())
    })?;
    progress.clear();
    let text = format!(
        "{} was restored to {}: {} in {} files, in {:.1} s\n",
        manifest.name,
        data_dir.display(),
        shown(manifest.bytes),
        manifest.files.len(),
        begun.elapsed().as_secs_f64()
    );
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("writing the answer: {error}"))
}

/// Copies the files of a backup to a directory, and compares them with their checksums meanwhile.
pub(super) fn put(
    destination: &Destination,
    manifest: &Manifest,
    data_dir: &Path,
    watch: &mut dyn FnMut(u64),
) -> Result<(), String> {
    let folders = ["rowsets", "wal"].map(|folder| data_dir.join(folder));
    folders.iter().try_for_each(|folder| make_dir(folder))?;
    let file_system = FileSystem::of(data_dir)?;
    let is_last = |entry: &&FileEntry| !entry.path.contains('/');
    let (last, first): (Vec<_>, Vec<_>) = manifest.files.iter().partition(is_last);
    for entry in first.into_iter().chain(last) {
        if is_last(&entry) {
            file_system.sync()?;
            folders.iter().try_for_each(|folder| sync_dir(folder))?;
        }
        let to = data_dir.join(&entry.path);
        // The name of a manifest is given to what was compared.
        let part = to.with_extension("part");
        let durability = if is_last(&entry) { Durability::OnReturn } else { Durability::OnSync };
        destination.fetch(&manifest.name, entry, &part, durability, watch)?;
        fs::rename(&part, &to).map_err(|error| failed("rename", &part, error))?;
    }
    sync_dir(data_dir)
}

fn check_empty(dir: &Path) -> Result<(), String> {
    if !fs::exists(dir).map_err(|error| failed("look for", dir, error))? {
        return Ok(());
    }
    match names_in(dir)?.into_iter().find(|name| name != "lost+found") {
        None => Ok(()),
        Some(name) => Err(format!("{} is not empty: it has {name:?} in it", dir.display())),
    }
}
