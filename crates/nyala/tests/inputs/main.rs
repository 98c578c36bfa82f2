//! Inputs beside HTTP: what other programs send by their own protocols is stored as InfluxDB stores it, or counted.
//!
//! `compared` sends the same packets to nyala and, with `NYALA_RECORD=1`, to a real InfluxDB, whose rows it records in
//! `crates/nyala/testdata/inputs`.

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

mod collectd;
mod compared;
mod graphite;
mod opentsdb;
mod otlp;
mod udp;

use process::Process;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long points may take: a batch waits for a second.
const WAIT: Duration = Duration::from_secs(120);

/// A port that nobody uses now, on this machine.
fn free() -> String {
    client::free_address().to_string()
}

/// Sends datagrams, slowly enough for the buffer of their receiver.
fn send_datagrams<D: AsRef<[u8]>>(to: &str, datagrams: impl IntoIterator<Item = D>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to: SocketAddr = to.parse().expect("an address");
    for datagram in datagrams {
        socket.send_to(datagram.as_ref(), to).expect("sent");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until something holds.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WAIT, "after {WAIT:?} not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A metric of an input.
fn input_metric(server: &Process, name: &str, labels: &str) -> u64 {
    server.metric(&format!("nyala_input_{name}_total{{{labels}}}"))
}

/// A query of any database, the first result.
fn rows(server: &Process, database: &str, query: &str) -> serde_json::Value {
    let target = format!("/query?db={database}&epoch=ns&q={}", client::percent_encode(query));
    let response = server.send("POST", &target, b"").expect("an answer");
    let answer: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    answer["results"][0].clone()
}
