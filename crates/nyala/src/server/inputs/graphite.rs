//! Lines of Graphite, by TCP and by UDP on the same port.

use super::Input;
use super::batch::{Batcher, Room};
use super::{connections, datagrams, lines_of};
use crate::server::received::{PointLines, Reason};
use nyala_core::env::ClockRef;
use nyala_inputs::graphite::Parser;
use std::sync::Arc;
use tokio::sync::watch;

/// The points of a batch, as in InfluxDB.
pub(super) const BATCH_POINTS: u64 = 5_000;

/// What connections and datagrams share.
pub(super) struct Graphite {
    pub(super) parser: Parser,
    pub(super) input: Input,
    pub(super) batcher: Arc<Batcher>,
    pub(super) clock: ClockRef,
}

impl Graphite {
    /// Receives datagrams of lines until the server stops.
    pub(super) async fn datagrams(
        self: Arc<Self>,
        socket: std::net::UdpSocket,
        stopped: watch::Receiver<bool>,
    ) {
        datagrams::receive(socket, &self.input.counts, stopped, |datagram| self.take(datagram, None)).await;
    }

    /// Serves connections until the server stops.
    pub(super) async fn connections(
        self: Arc<Self>,
        listener: std::net::TcpListener,
        connections_max: usize,
        stopped: watch::Receiver<bool>,
    ) {
        let (input, batcher) = (self.input.clone(), self.batcher.clone());
        connections::serve(listener, connections_max, &input, stopped, move |mut connection| {
            let (graphite, batcher) = (self.clone(), batcher.clone());
            async move {
                while let Some(received) = connection.lines().await? {
                    if received.is_http {
                        // A page told a browser on this machine to send this.
                        graphite.input.counts.reject(Reason::Unreadable, 1);
                        return Ok(());
                    }
                    // A sender waits while too many batches do.
                    let room = batcher.room().await;
                    graphite.take(received.text, room);
                }
                Ok(())
            }
        })
        .await;
    }

    /// Takes whole lines.
    fn take(&self, text: &[u8], room: Option<Room<'_>>) {
        let mut lines = PointLines::default();
        for line in lines_of(text) {
            let point = line.and_then(|line| self.parser.parse(line));
            lines.add(point, self.clock.now_ns(), &self.input.counts);
        }
        self.batcher.add(lines.text.as_bytes(), lines.points, room);
    }
}
