//! The server that a benchmark runs against: a new one that the caller starts, or one at a URL.

use crate::client::target::Target;
use crate::error::{BenchError, Result};
use crate::measure::server::{ServerProbe, evict_cached_files, listening_process};
use std::any::Any;
use std::path::PathBuf;

/// A server that was started for the benchmark. Dropping `guard` stops it.
pub struct ServerUnderTest {
    /// `http://127.0.0.1:port`.
    pub url: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Where it keeps its data.
    pub data_dir: Option<PathBuf>,
    /// Restarts the server on the same data and port and returns its new process. Without it, nothing is measured with
    /// cold caches.
    pub restart: Option<Restart>,
    /// Kept until the benchmark is over; its `Drop` stops the server and removes what it leaves.
    pub guard: Box<dyn Any>,
}

/// Restarts a server and returns its new process.
pub type Restart = Box<dyn FnMut() -> std::result::Result<u32, Box<dyn std::error::Error>>>;

/// Starts a new server; called once, when no `--target` was given.
pub type Launch<'a> = &'a mut dyn FnMut() -> std::result::Result<ServerUnderTest, Box<dyn std::error::Error>>;

/// The server of a run: its address, and its process.
pub struct Server {
    /// Where it is.
    pub target: Target,
    /// Measures its process.
    pub probe: ServerProbe,
    /// Whether it was started for this run, so that its data may be dropped.
    pub fresh: bool,
    restart: Option<Restart>,
    _guard: Option<Box<dyn Any>>,
}

impl Server {
    /// The server at `url` if given, else a new one.
    pub fn find(
        url: Option<&str>,
        pid: Option<u32>,
        data_dir: Option<PathBuf>,
        launch: Launch<'_>,
    ) -> Result<Server> {
        if let Some(url) = url {
            let target = Target::parse(url)?;
            let pid = pid.or_else(|| listening_process(target.local_port()?));
            return Ok(Server {
                target,
                probe: ServerProbe { pid, data_dir },
                fresh: false,
                restart: None,
                _guard: None,
            });
        }
        let started = launch().map_err(|error| BenchError::Launch(error.to_string()))?;
        Ok(Server {
            target: Target::parse(&started.url)?,
            probe: ServerProbe { pid: started.pid, data_dir: started.data_dir },
            fresh: true,
            restart: started.restart,
            _guard: Some(started.guard),
        })
    }

    /// Empties the server's caches by a restart, and the system's cache of its files. Returns false if that is not
    /// possible.
    pub fn drop_caches(&mut self) -> Result<bool> {
        let (Some(restart), Some(data_dir)) = (&mut self.restart, &self.probe.data_dir) else {
            return Ok(false);
        };
        let pid = restart().map_err(|error| BenchError::Launch(error.to_string()))?;
        self.probe.pid = Some(pid);
        evict_cached_files(data_dir);
        Ok(true)
    }
}
