//! Line protocol by UDP.
//!
//! Lines without a time get the time of their arrival here, not that of the batch: otherwise those of a second would
//! replace each other. Each datagram is read on its own, so that a string without an end in one takes nothing from the next.

use super::Input;
use super::batch::Batcher;
use super::datagrams;
use crate::server::received::Reason;
use nyala_core::env::ClockRef;
use nyala_db::ingest::{Lines, ParseOptions, Precision};
use std::sync::Arc;
use tokio::sync::watch;

/// The points of a batch, as in InfluxDB.
pub(super) const BATCH_POINTS: u64 = 5_000;

/// Receives lines until the server stops.
pub(super) async fn serve(
    socket: std::net::UdpSocket,
    precision: Precision,
    input: Input,
    batcher: Arc<Batcher>,
    clock: ClockRef,
    stopped: watch::Receiver<bool>,
) {
    let counts = &input.counts;
    datagrams::receive(socket, counts, stopped, |datagram| {
        let options = ParseOptions { precision, now_ns: clock.now_ns(), ..ParseOptions::default() };
        let mut lines = Lines::default();
        lines.add(datagram, 0, &options, usize::MAX);
        counts.reject(Reason::Unreadable, lines.invalid);
        batcher.add(&lines.text, lines.ends.len() as u64, None);
    })
    .await;
}
