//! The file of earlier statements. Nobody else can read it, and statements with passwords are not in it.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Statements that are remembered.
pub(crate) const STATEMENTS_MAX: usize = 10_000;

/// The path of the file, which exists then; `None` if there is no place for it.
pub(crate) fn file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let folder = state.join("nyala");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let path = folder.join("shell_history");
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).ok()?;
    file.set_permissions(Permissions::from_mode(0o600)).ok()?;
    Some(path)
}

/// Whether a statement may be remembered.
pub(crate) fn is_remembered(text: &str) -> bool {
    !text.trim().is_empty() && !text.to_ascii_uppercase().contains("PASSWORD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_remembered() {
        assert!(is_remembered("SELECT 1;"));
        assert!(!is_remembered("CREATE USER a WITH password 'b'") && !is_remembered("  "));
    }
}
