//! A Unix socket, for clients on the same machine.

use std::fs::Permissions;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Owner and group may connect.
const MODE: u32 = 0o660;

/// Listens on a path. A socket that a killed server left behind is replaced; any other file is an error. The socket is
/// created in a private directory and moved from there, so that nobody can connect before its permissions are set.
pub(super) fn listen(path: &Path) -> Result<UnixListener> {
    let wrong = |error: Error| Error::new(error.kind(), format!("bind-socket {}: {error}", path.display()));
    if let Ok(found) = std::fs::symlink_metadata(path)
        && (!found.file_type().is_socket() || UnixStream::connect(path).is_ok())
    {
        return Err(wrong(ErrorKind::AddrInUse.into()));
    }
    bind(path).map_err(wrong)
}

fn bind(path: &Path) -> Result<UnixListener> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name is short because the system limits the path of a socket to about a hundred bytes.
    let private = tempfile::Builder::new().prefix(".").tempdir_in(parent)?;
    let own = private.path().join("s");
    let listener = UnixListener::bind(&own)?;
    std::fs::set_permissions(&own, Permissions::from_mode(MODE))?;
    listener.set_nonblocking(true)?;
    std::fs::rename(&own, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn nobody_else_can_ever_connect() {
        let directory = tempfile::tempdir().unwrap();
        let (path, file) = (directory.path().join("socket"), directory.path().join("file"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Ok(found) = std::fs::symlink_metadata(&path) {
                        assert_eq!(found.permissions().mode() & 0o777, MODE);
                    }
                }
            });
            for _ in 0..500 {
                drop(listen(&path).unwrap());
                std::fs::remove_file(&path).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        std::fs::write(&file, "precious").unwrap();
        assert_eq!(listen(&file).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        let listening = listen(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listening);
        listen(&path).expect("a socket that was left behind is replaced");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "no other file is left");
    }
}
