//! Tells systemd how the server is, as `sd_notify(3)` does for units of `Type=notify`: a datagram to the socket that the
//! variable `NOTIFY_SOCKET` names. Without it nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Queries and writes are answered.
pub(super) fn ready() {
    tell("READY=1\nSTATUS=ready for queries and writes");
}

/// A shutdown has begun.
pub(super) fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "cannot tell the service manager how the server is (NOTIFY_SOCKET)");
    }
}

/// A name that begins with @ is no path, but one in Linux' abstract name space.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reaches_a_socket_with_a_path_and_one_without() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("nyala-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (receiver, name) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{abstract_name}").into()),
        ] {
            send(&name, "READY=1").unwrap();
            let mut state = [0; 16];
            let length = receiver.recv(&mut state).unwrap();
            assert_eq!(&state[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/at/all"), "READY=1").is_err());
    }
}
