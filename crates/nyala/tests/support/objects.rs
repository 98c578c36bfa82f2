//! A server of S3's protocol (moto), which can be slow, refuse and be cut off. `NYALA_PYTHON` names a Python that has it.

use super::client::{self, Request};
use super::peers;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server of objects with a bucket `archive`; stopped when dropped.
pub(crate) struct Objects {
    child: Child,
    address: SocketAddr,
}

impl Objects {
    pub(crate) fn start() -> Option<Self> {
        let python = std::env::var("NYALA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let found = peers::works(&python, &["-c", "import moto.server"]).then_some(python);
        let remedy = "pip install 'moto[s3,server]', and set NYALA_PYTHON";
        let python = peers::require("server of S3", remedy, found)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/s3_server.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut port).expect("a port");
        let port: u16 = port.trim().parse().expect("a port");
        let objects = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        objects.send("PUT", "/archive");
        Some(objects)
    }

    fn send(&self, method: &str, target: &str) -> String {
        self.send_with(method, target, b"")
    }

    fn send_with(&self, method: &str, target: &str, body: &[u8]) -> String {
        let request = Request {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: body.to_vec(),
        };
        let response = client::send(self.address, &request).expect("an answer");
        assert_eq!(response.status, 200, "{target}");
        String::from_utf8(response.body).expect("UTF-8")
    }

    /// The next requests fail.
    pub(crate) fn fail(&self, kind: &str, count: usize) {
        self.fail_after(0, kind, count);
    }

    /// So do those after some others.
    pub(crate) fn fail_after(&self, others: usize, kind: &str, count: usize) {
        self.send("GET", &format!("/__faults/{kind}/{count}/{others}"));
    }

    /// Requests that change something wait after so many others.
    pub(crate) fn hold_after(&self, others: usize) {
        self.send("GET", &format!("/__hold/{others}"));
    }

    /// Whether a request waits.
    pub(crate) fn holds(&self) -> bool {
        self.send("GET", "/__held") != "0"
    }

    /// Those that wait are cut off and change nothing; new ones pass.
    pub(crate) fn drop_held(&self) {
        self.send("GET", "/__drop");
    }

    /// Uploads that were begun and not ended.
    pub(crate) fn uploads(&self) -> String {
        self.send("GET", "/__uploads")
    }

    /// Stores an object, as another program does.
    pub(crate) fn store(&self, name: &str, bytes: &[u8]) {
        self.send_with("PUT", &format!("/archive/{name}"), bytes);
    }

    /// The names of all objects of the bucket, with their lengths, in order.
    pub(crate) fn listed(&self) -> Vec<(String, u64)> {
        let text = self.send("GET", "/__objects");
        let lines = text.lines().map(|line| line.split_once(' ').expect("a length and a name"));
        lines.map(|(bytes, name)| (name.to_owned(), bytes.parse().expect("a length"))).collect()
    }

    /// The objects that requests have changed since the last time.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.send("GET", "/__changes").lines().map(str::to_owned).collect()
    }

    /// Does something to an object: `age` makes it an hour older, `damage` changes a byte in its middle, `remove` removes it.
    pub(crate) fn harm(&self, how: &str, name: &str) {
        self.send("GET", &format!("/__{how}/{name}"));
    }

    /// Which environment finds it.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            own("AWS_ENDPOINT_URL", &format!("http://{}", self.address)),
            own("AWS_REGION", "us-east-1"),
            own("AWS_ACCESS_KEY_ID", "somebody"),
            own("AWS_SECRET_ACCESS_KEY", "a secret that no message has"),
        ]
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
