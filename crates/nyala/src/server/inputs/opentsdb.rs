//! OpenTSDB: lines and HTTP on one port, as InfluxDB has it. The first line of a connection says which it is.

use super::Input;
use super::batch::{Batcher, Room};
use super::connections::{self, LineConnection};
use super::lines_of;
use crate::server::http::{Context, opentsdb};
use crate::server::received::{PointLines, Reason, Writer};
use crate::server::serve_requests;
use nyala_inputs::opentsdb::{Line, parse_line};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The points of a batch, as in InfluxDB.
pub(super) const BATCH_POINTS: u64 = 1_000;
/// The answer to `version`, which clients ask to see that somebody listens.
const VERSION: &[u8] = b"nyala TSDB proxy\n";

/// What connections share.
pub(super) struct Opentsdb {
    pub(super) context: Arc<Context>,
    pub(super) input: Input,
    pub(super) batcher: Arc<Batcher>,
    /// What HTTP requests write with.
    pub(super) writer: Writer,
    pub(super) keep_alive_timeout: Duration,
}

impl Opentsdb {
    /// Serves connections until the server stops.
    pub(super) async fn connections(
        self: Arc<Self>,
        listener: std::net::TcpListener,
        connections_max: usize,
        stopped: watch::Receiver<bool>,
    ) {
        let (input, until) = (self.input.clone(), stopped.clone());
        let serve = move |connection| self.clone().serve(connection, stopped.clone());
        connections::serve(listener, connections_max, &input, until, serve).await;
    }

    async fn serve(
        self: Arc<Self>,
        mut connection: LineConnection,
        stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        while let Some(received) = connection.lines().await? {
            if received.is_http {
                return self.serve_http(connection, stopped).await;
            }
            // A sender waits while too many batches do.
            let room = self.batcher.room().await;
            for _ in 0..self.take(received.text, room) {
                connection.reply(VERSION).await?;
            }
        }
        Ok(())
    }

    /// Takes whole lines, and returns how many ask for the version.
    fn take(&self, text: &[u8], room: Option<Room<'_>>) -> u64 {
        let (mut lines, mut versions) = (PointLines::default(), 0);
        let (counts, clock) = (&self.input.counts, &self.context.clock);
        for line in lines_of(text) {
            match line.and_then(parse_line) {
                Ok(Line::Version) => versions += 1,
                Ok(Line::Put { point, wrong_tags }) => {
                    counts.reject(Reason::WrongTag, wrong_tags);
                    lines.add(Ok(point), clock.now_ns(), counts);
                }
                Err(refused) => counts.reject(refused.into(), 1),
            }
        }
        self.batcher.add(lines.text.as_bytes(), lines.points, room);
        versions
    }

    async fn serve_http(
        self: Arc<Self>,
        connection: LineConnection,
        stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let client = connection.client;
        let (stream, permit) = connection.into_stream();
        let keep_alive_timeout = self.keep_alive_timeout;
        let answer = move |request| {
            opentsdb::answer(self.context.clone(), self.writer.clone(), request, client, permit.clone())
        };
        serve_requests(stream, keep_alive_timeout, stopped, answer).await.map_err(io::Error::other)
    }
}
