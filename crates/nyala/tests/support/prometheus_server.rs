//! A real Prometheus, started with any settings and asked over HTTP.

use crate::client::{self, Request};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};

/// It ends when it is dropped.
pub(crate) struct PrometheusServer {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl PrometheusServer {
    /// Starts it with its own data. `settings` makes its file of settings from its own address.
    pub(crate) fn start(
        program: &str,
        directory: &Path,
        settings: impl FnOnce(SocketAddr) -> String,
    ) -> Self {
        let address = client::free_address();
        std::fs::create_dir(directory).expect("a directory");
        let file = directory.join("prometheus.yml");
        std::fs::write(&file, settings(address)).expect("writable");
        let child = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(File::create(directory.join("log")).expect("a log"))
            .spawn()
            .expect("it starts");
        Self { child, address }
    }

    /// The answer to a GET, or the error.
    pub(crate) fn get(&self, target: &str) -> String {
        let request = Request {
            method: "GET".to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        let answer = client::send(self.address, &request);
        answer.map_or_else(|error| error, |answer| String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// The current value of an expression.
    pub(crate) fn ask(&self, expression: &str) -> String {
        self.get(&format!("/api/v1/query?query={}", client::percent_encode(expression)))
    }
}

impl Drop for PrometheusServer {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
