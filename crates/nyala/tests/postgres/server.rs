//! A server that listens for clients of PostgreSQL, with a few points.

use super::client::{self, percent_encode};
use super::process::Process;
use std::net::SocketAddr;

/// Points of every type, with tags and fields that some lack.
const POINTS: &str = "cpu,host=a usage=1.5,n=3i,s=\"x y\",up=true 1000000000\n\
                      cpu,host=b usage=2.5 2000000000\n\
                      cpu usage=-0.1,n=-5i 3000000001";

/// A server and its directory.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts a server and writes points to its database `d`. If it asks for log-ins, `ann` is its administrator, and her
    /// password `pencil`.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        Self::start_in(directory, arguments)
    }

    pub(crate) fn of(process: Process, address: SocketAddr, directory: tempfile::TempDir) -> Server {
        Server { process, address, _directory: directory }
    }

    fn start_in(directory: tempfile::TempDir, arguments: &[&str]) -> Server {
        let address = client::free_address();
        let bind = address.to_string();
        let arguments = [&["--postgres-bind", &bind], arguments].concat();
        let process = Process::start(&directory.path().join("data"), &arguments);
        let server = Server { process, address, _directory: directory };
        if arguments.contains(&"--auth-enabled") {
            server.ask("CREATE USER ann WITH PASSWORD 'pencil' WITH ALL PRIVILEGES");
        }
        server.ask("CREATE DATABASE d");
        let written = server.process.send("POST", "/write?db=d&u=ann&p=pencil", POINTS.as_bytes());
        assert_eq!(written.expect("an answer").status, 204);
        server
    }

    /// Executes InfluxQL as the administrator.
    pub(crate) fn ask(&self, text: &str) -> String {
        let target = format!("/query?u=ann&p=pencil&q={}", percent_encode(text));
        let answer = self.process.send("POST", &target, b"").expect("an answer");
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && !body.contains("error"), "{text}: {body}");
        body
    }
}
