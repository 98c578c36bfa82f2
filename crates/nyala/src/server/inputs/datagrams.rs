//! Receives datagrams until the server stops, and then those that have come already.

use crate::server::audit::LogLimit;
use crate::server::connection_threads::until_true;
use crate::server::received::InputCounts;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// A datagram over IP is not longer.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// How long to wait after nothing could be received.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// At the stop, at most so many datagrams are taken from the system's buffer: more than fit there.
const LAST_DATAGRAMS_MAX: usize = 100_000;

/// Hands each datagram to `handle`.
pub(super) async fn receive(
    socket: std::net::UdpSocket,
    counts: &InputCounts,
    mut stopped: watch::Receiver<bool>,
    mut handle: impl FnMut(&[u8]),
) {
    let socket = match UdpSocket::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, input = counts.input, "cannot receive datagrams"),
    };
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut take = |datagram: &[u8]| {
        counts.receive(datagram.len());
        handle(datagram);
    };
    let warnings = LogLimit::default();
    loop {
        let received = tokio::select! {
            received = socket.recv(&mut buffer) => received,
            () = until_true(&mut stopped) => break,
        };
        match received {
            Ok(length) => take(&buffer[..length]),
            Err(error) => {
                if let Some(left_out) = warnings.next() {
                    tracing::warn!(%error, input = counts.input, left_out, "cannot receive a datagram");
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
    for _ in 0..LAST_DATAGRAMS_MAX {
        match socket.try_recv(&mut buffer) {
            Ok(length) => take(&buffer[..length]),
            Err(_) => break,
        }
    }
}
