//! Another engine that is asked the same queries on Parquet files of the same rows: DuckDB or DataFusion, by a program in Python.

use crate::error::{BenchError, Result};
use crate::measure::server::ServerProbe;
use crate::verify::tables::TableAnswer;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PROGRAM: &str = include_str!("peer.py");

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// DuckDB.
    DuckDb,
    /// DataFusion.
    DataFusion,
}

/// A running peer. Dropping it ends its process.
pub struct Peer {
    /// Its name and version.
    pub version: String,
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

/// What a peer answered.
#[derive(Debug, Deserialize)]
pub struct PeerAnswer {
    /// The median of how long it took.
    pub seconds: f64,
    /// The rows.
    #[serde(flatten)]
    pub answer: TableAnswer,
}

#[derive(Serialize)]
struct Request<'a> {
    query: &'a str,
    cold: bool,
    times: u32,
}

#[derive(Deserialize)]
struct Greeting {
    version: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Failed { error: String },
    Answered(PeerAnswer),
}

impl Peer {
    /// Starts an engine on the Parquet files of a directory.
    pub fn start(python: &Path, engine: Engine, directory: &Path) -> Result<Peer> {
        let name = match engine {
            Engine::DuckDb => "duckdb",
            Engine::DataFusion => "datafusion",
        };
        let context = || format!("starting {} with {name}", python.display());
        let mut child = Command::new(python)
            .args(["-c", PROGRAM, name])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io(context()))?;
        let requests = child.stdin.take().expect("it is piped");
        let replies = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut peer = Peer { version: String::new(), child, requests, replies };
        peer.version = peer.receive::<Greeting>(name)?.version;
        Ok(peer)
    }

    /// Asks a query `times` times in a row; if `cold`, with nothing kept from before.
    pub fn ask(
        &mut self,
        query: &str,
        cold: bool,
        times: u32,
    ) -> Result<std::result::Result<PeerAnswer, String>> {
        let mut line = serde_json::to_vec(&Request { query, cold, times }).expect("texts and numbers");
        line.push(b'\n');
        let name = self.version.clone();
        self.requests.write_all(&line).map_err(BenchError::io(format!("asking {name}")))?;
        Ok(match self.receive(&name)? {
            Reply::Failed { error } => Err(error),
            Reply::Answered(answer) => Ok(answer),
        })
    }

    /// Measures its process.
    pub fn probe(&self) -> ServerProbe {
        ServerProbe { pid: Some(self.child.id()), data_dir: None }
    }

    fn receive<T: for<'de> Deserialize<'de>>(&mut self, name: &str) -> Result<T> {
        let mut line = String::new();
        let read =
            self.replies.read_line(&mut line).map_err(BenchError::io(format!("reading from {name}")))?;
        if read == 0 {
            return Err(BenchError::Invalid(format!("the Python with {name} ended; it says why above")));
        }
        serde_json::from_str(&line).map_err(|error| BenchError::Protocol(format!("{name}: {error}")))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has ended already, or does not matter any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
