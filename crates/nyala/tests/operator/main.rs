//! What an operator does and sees: signals, logs, settings, web pages that may use the server. All through the real
//! program.

#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "../support/small_disk.rs"]
mod small_disk;

mod browsers;
mod health;
mod hints;
mod log;
mod log_lines;
mod log_settings;
mod overload;
mod settings;
mod signals;
mod small;
mod storage;
mod traces;

use client::{Request, Response};
use process::Process;

/// Sends a request with these headers.
fn send_with(server: &Process, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let request = Request {
        method: method.into(),
        target: target.into(),
        headers: headers.iter().map(owned).collect(),
        body: Vec::new(),
    };
    client::send(server.address, &request).expect("an answer")
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}
