//! Where things lie in a checkout.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The workspace this program was built from.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("xtask lies in the workspace").to_owned()
}

/// Name and folder of every crate in the workspace at `root`.
pub(crate) fn crates(root: &Path) -> Vec<(String, PathBuf)> {
    let folders = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let folders = folders.map(|entry| entry.path()).chain([root.join("xtask")]);
    let named = |folder: PathBuf| Some((folder.file_name()?.to_str()?.to_owned(), folder));
    let mut crates: Vec<_> = folders.filter_map(named).collect();
    crates.sort();
    crates
}

/// All source files of Rust below `folder`.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    files_below(folder, &["rs"])
}

/// All files below `folder` whose names end so.
pub(crate) fn files_below(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().and_then(OsStr::to_str).is_some_and(|own| extensions.contains(&own)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
