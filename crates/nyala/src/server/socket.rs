//! A socket in the file system, for clients of the same machine.

use std::fs::Permissions;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Owner and group may connect.
const MODE: u32 = 0o660;

/// Listens at a path. What a server left behind that was killed gives way; nothing else does.
pub(super) fn listen(path: &Path) -> Result<UnixListener> {
    let wrong = |error: Error| Error::new(error.kind(), format!("bind-socket {}: {error}", path.display()));
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        if UnixStream::connect(path).is_ok() {
            return Err(wrong(ErrorKind::AddrInUse.into()));
        }
        std::fs::remove_file(path).map_err(wrong)?;
    }
    let listener = UnixListener::bind(path).map_err(wrong)?;
    std::fs::set_permissions(path, Permissions::from_mode(MODE)).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    Ok(listener)
}
