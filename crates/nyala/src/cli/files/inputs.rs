//! The files that an import reads: those that the user named, and those in folders, on this machine or in buckets.

use nyala_files::{Bucket, FileKind};
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A file that is to be imported.
pub(super) struct Input {
    /// Its path or URL, for people.
    pub(super) shown: String,
    /// Its path below the folder that was named.
    pub(super) below: String,
    pub(super) bytes: u64,
    /// Changes with the file.
    fingerprint: String,
    place: Place,
}

enum Place {
    Disk(PathBuf),
    Object(Bucket, String),
}

impl Input {
    /// Opens it, to read it.
    pub(super) fn open(&self) -> Result<File, String> {
        match &self.place {
            Place::Disk(path) => File::open(path).map_err(|error| format!("{}: {error}", self.shown)),
            Place::Object(bucket, path) => bucket.read(path).map_err(|error| error.to_string()),
        }
    }

    /// Which file it is, and whether it is still the same.
    pub(super) fn key(&self) -> (String, String) {
        let whole = match &self.place {
            Place::Disk(path) => {
                std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()).display().to_string()
            }
            Place::Object(..) => self.shown.clone(),
        };
        (whole, self.fingerprint.clone())
    }

    fn on_disk(path: PathBuf, below: String, metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let fingerprint = format!("{} {}", metadata.len(), modified.map_or(0, |age| age.as_nanos()));
        let shown = path.display().to_string();
        Self { shown, below, bytes: metadata.len(), fingerprint, place: Place::Disk(path) }
    }

    fn object(bucket: &Bucket, path: String, is_below: bool, object: &nyala_files::Object) -> Self {
        let fingerprint = format!("{} {}", object.bytes, object.version);
        let shown = format!("{}/{path}", bucket.url());
        let below = if is_below { path.clone() } else { String::new() };
        Self { shown, below, bytes: object.bytes, fingerprint, place: Place::Object(bucket.clone(), path) }
    }
}

/// The files that the user named, and those in folders that end in one of the extensions.
pub(super) fn inputs_of(named: &[PathBuf], extensions: &[&str]) -> Result<Vec<Input>, String> {
    let mut inputs = Vec::new();
    for path in named {
        let before = inputs.len();
        let is_folder = match path.to_str().filter(|text| Bucket::is_url(text)) {
            Some(url) => collect_objects(url, extensions, &mut inputs)?,
            None => {
                let metadata = metadata_of(path)?;
                match metadata.is_dir() {
                    true => collect(path, "", extensions, &mut inputs)?,
                    false => inputs.push(Input::on_disk(path.clone(), String::new(), &metadata)),
                }
                metadata.is_dir()
            }
        };
        if is_folder && inputs.len() == before {
            return Err(format!("{} has no file that ends in .{}", path.display(), extensions.join(" or .")));
        }
    }
    Ok(inputs)
}

fn metadata_of(path: &Path) -> Result<Metadata, String> {
    std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn collect(folder: &Path, below: &str, extensions: &[&str], inputs: &mut Vec<Input>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_hidden(&name) {
            continue;
        }
        let inner = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            collect(&entry.path(), &inner, extensions, inputs)?;
        } else if has_extension(&name, extensions) {
            let metadata = metadata_of(&entry.path())?;
            inputs.push(Input::on_disk(entry.path(), inner, &metadata));
        }
    }
    Ok(())
}

/// Collects an object, or those below a name. Returns whether it is a name that others begin with.
fn collect_objects(url: &str, extensions: &[&str], inputs: &mut Vec<Input>) -> Result<bool, String> {
    let (folder, name) = super::bucket_and_name(url)?;
    let failed = |error: nyala_files::FileError| error.to_string();
    if !name.is_empty() && folder.kind(&name).map_err(failed)? == Some(FileKind::File) {
        let object = folder.object(&name).map_err(failed)?;
        inputs.push(Input::object(&folder, name, false, &object));
        return Ok(false);
    }
    let folder = folder.folder(&name).map_err(failed)?;
    for (path, object) in folder.objects().map_err(failed)? {
        if has_extension(&path, extensions) && !path.split('/').any(is_hidden) {
            inputs.push(Input::object(&folder, path, true, &object));
        }
    }
    Ok(true)
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    extensions.iter().any(|own| name.strip_suffix(own).is_some_and(|before| before.ends_with('.')))
}

/// Hidden ones are not finished, those with a line before them say something about the others.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}
